"""Sums over runs of trees whose backward pass computes each run again.

Nothing of a run is kept between the passes, not even a node of the graph: what is kept of thousands
of runs, small as it is, lies between their large temporaries and keeps the memory of those from
being used again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bitvec.runtime.train.relax.dense_rows import RowParameters
from bitvec.runtime.train.relax.node_margins import BlockParameters
from bitvec.runtime.train.relax.soft_rows import Rows
from bitvec.runtime.train.relax.tracing import once_differentiable
from bitvec.runtime.train.relax.tree_blocks import TreeBlock

Part = tuple[TreeBlock, BlockParameters]
Scores = Callable[[TreeBlock, BlockParameters, Rows], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Terms of a sum that is computed again for its gradient.

    Parameters
    ----------
    scores : callable
        A block, its parameters and some rows to (n_outputs, rows).
    blocks : list of TreeBlock
    pieces : list of list of Rows
        For each block all rows of the batch, those that are computed together in one piece.
    """

    scores: Scores
    blocks: list[TreeBlock]
    pieces: list[list[Rows]]


def _flat(parameters: BlockParameters) -> tuple[Tensor | None, ...]:
    rows = (None, None, None) if parameters.rows is None else parameters.rows
    return (parameters.b, parameters.vectors, *rows)


def _restored(flat: tuple[Tensor | None, ...]) -> BlockParameters:
    b, vectors, S, offset, r = flat
    assert b is not None
    assert vectors is not None
    if S is None or offset is None or r is None:
        return BlockParameters(b, None, vectors)
    return BlockParameters(b, RowParameters(S, offset, r), vectors)


_WIDTH = len(_flat(BlockParameters(torch.empty(0), None, torch.empty(0))))


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Work, *flat: Tensor | None) -> Tensor:
        ctx.save_for_backward(*flat)
        ctx.work = work
        total: Tensor | None = None
        for number, (block, pieces) in enumerate(zip(work.blocks, work.pieces, strict=True)):
            parameters = _restored(flat[number * _WIDTH : (number + 1) * _WIDTH])
            found = torch.cat([work.scores(block, parameters, piece) for piece in pieces], dim=1)
            total = found if total is None else total.add_(found)
        assert total is not None
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        flat, work = ctx.saved_tensors, ctx.work
        result: list[Tensor | None] = [None] * len(flat)
        for number, (block, pieces) in enumerate(zip(work.blocks, work.pieces, strict=True)):
            place = range(number * _WIDTH, (number + 1) * _WIDTH)
            own: list[Any] = [None if flat[at] is None else flat[at].detach() for at in place]
            wanted = [at for at in place if ctx.needs_input_grad[1 + at]]
            moving = [own[at - place.start].requires_grad_() for at in wanted]
            first = 0
            for piece in pieces:
                grad = grads[0][:, first : first + len(piece)]
                first += len(piece)
                with torch.enable_grad():
                    scores = work.scores(block, _restored(tuple(own)), piece)
                if not scores.requires_grad:
                    continue
                found = torch.autograd.grad(scores, moving, grad, allow_unused=True)
                for at, value in zip(wanted, found, strict=True):
                    held = result[at]
                    result[at] = value if held is None or value is None else held.add_(value)
        return (None, *result)


def recomputed(scores: Scores, parts: list[Part], pieces: list[list[Rows]]) -> Tensor:
    """Return the sum over blocks of `scores`, (n_outputs, batch).

    Parameters
    ----------
    scores : callable
        See `Work`.
    parts : blocks and their parameters
    pieces : list of list of Rows
        See `Work`.
    """
    work = Work(scores, [block for block, _ in parts], pieces)
    flat = [value for _, parameters in parts for value in _flat(parameters)]
    result: Tensor = _Recomputed.apply(work, *flat)  # type: ignore[no-untyped-call]
    return result
