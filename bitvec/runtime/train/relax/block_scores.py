"""Contributions of runs of trees to the raw scores, run by run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.train.relax import node_margins, soft_leaves, sparse_routing
from bitvec.runtime.train.relax.leaf_functions import LeafFunctions
from bitvec.runtime.train.relax.leaf_sums import sum_of_leaves, sum_of_reached
from bitvec.runtime.train.relax.node_margins import BlockParameters
from bitvec.runtime.train.relax.recomputation import Part, recomputed
from bitvec.runtime.train.relax.relaxations import PRODUCT, Relaxation
from bitvec.runtime.train.relax.soft_leaves import Margins, Setting
from bitvec.runtime.train.relax.soft_rows import Rows
from bitvec.runtime.train.relax.tracing import is_traced
from bitvec.runtime.train.relax.tree_blocks import TreeBlock

RECOMPUTE_BEYOND = 1 << 25
"""Pairs of a node and a row from which on the backward pass computes blocks again."""
CACHED_PAIRS = 1 << 20
"""Pairs of a node and a row that a CPU computes together; fewer rows of a large tree at a time."""
PAIRS = 1 << 27
"""The same on any other device."""
FEWEST_ROWS = 64

Routing = Literal["auto", "dense", "sparse"]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Choices in the computation of blocks.

    Parameters
    ----------
    relaxation : Relaxation
    gamma : float
    dtype : torch.dtype
        In which gates and recursions run.
    routing : "auto", "dense" or "sparse"
    shift : float, (n_columns,)
        Center over spread of the columns that dense rows read.
    leaf_output : int64, (n_leaves,), optional
    n_outputs : int
    infinite : int64, optional
        The forest's leaves whose vectors are not finite.
    functions : LeafFunctions, optional
        Where leaves are linear: what they add, in the place of vectors.
    leaf_weight : float, (n_leaves,)
        The weight of each leaf's tree, which vectors hold already.
    """

    relaxation: Relaxation
    gamma: float
    dtype: torch.dtype
    routing: Routing
    shift: Tensor
    leaf_output: Tensor | None
    n_outputs: int
    infinite: Tensor | None
    functions: LeafFunctions | None
    leaf_weight: Tensor


def require_sparse(forest: Forest, relaxation: Relaxation, trainable: tuple[str, ...]) -> None:
    """Raise InputError where pairs of a node and a row cannot be visited alone."""
    reason = None
    if relaxation != Relaxation("smooth_step"):
        reason = f'have a gate with exact zeros, got {relaxation}: take relaxation="smooth_step"'
    elif forest.leaves.linear is not None:
        reason = 'have constant leaves, got linear ones: take routing="auto"'
    elif "phi" in trainable:
        reason = "have a feature map that stays, got 'phi' in `trainable`: take routing=\"auto\""
    if reason is not None:
        raise InputError(f"sparse routing must {reason}.")


def total(plan: Plan, parts: list[Part], rows: Rows, *, always_again: bool) -> Tensor:
    """Return the sum over all leaves of u · v, (n_outputs, batch).

    Parameters
    ----------
    parts : blocks and their parameters
    always_again : bool
        Whether the backward pass computes blocks again even where they are small.
    """
    if is_traced():
        if plan.functions is not None:
            return sum_of_functions(
                plan, of_leaves(soft_leaves.memberships, plan, parts, rows), rows
            )
        found = [block_scores(plan, block, parameters, rows) for block, parameters in parts]
        return sum(found[1:], start=found[0])
    if plan.functions is not None:
        return _total_of_functions(plan, parts, rows, always_again=always_again)
    pieces = [rows.pieces(_rows_at_once(block, rows.raw.device)) for block, _ in parts]
    pairs = sum(block.layout.n_nodes for block, _ in parts) * len(rows)
    again = pairs > RECOMPUTE_BEYOND or (always_again and len(parts) > 1)
    scores: Callable[..., Tensor] = partial(block_scores, plan)
    if again and torch.is_grad_enabled():
        if not rows.raw.requires_grad:
            return recomputed(scores, parts, pieces)
        scores = _again(scores)  # `recomputed` has a gradient for parameters only
    found = [
        torch.cat([scores(block, parameters, piece) for piece in own], dim=1)
        for (block, parameters), own in zip(parts, pieces, strict=True)
    ]
    return sum(found[1:], start=found[0])


def _total_of_functions(plan: Plan, parts: list[Part], rows: Rows, *, always_again: bool) -> Tensor:
    """Return the sum over all leaves of u · F(x), (n_outputs, batch).

    All leaves of some rows at a time. Where those are not all rows, the backward pass computes each
    run of rows again, so that what is kept does not grow with the forest either.
    """
    assert plan.functions is not None
    held = len(plan.functions.term_leaf) + len(plan.leaf_weight)
    held += sum(block.layout.n_nodes for block, _ in parts)
    pieces = rows.pieces(max(FEWEST_ROWS, RECOMPUTE_BEYOND // held))
    again = len(pieces) > 1 or (always_again and len(parts) > 1)

    def scores(piece: Rows) -> Tensor:
        u = of_leaves(soft_leaves.memberships, plan, parts, piece)
        return sum_of_functions(plan, u, piece)

    if again and torch.is_grad_enabled():
        scores = _again(scores)
    return torch.cat([scores(piece) for piece in pieces], dim=1)


def sum_of_functions(plan: Plan, u: Tensor, rows: Rows) -> Tensor:
    """Return the sum over all leaves of u · F(x), (n_outputs, batch)."""
    assert plan.functions is not None
    assert rows.leaves is not None
    return plan.functions.combine(u * plan.leaf_weight[:, None], rows.leaves).T


def _again(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return what computes the same, and once more in the backward pass."""
    return partial(checkpoint, compute, use_reentrant=False, preserve_rng_state=False)


def _rows_at_once(block: TreeBlock, device: torch.device) -> int:
    pairs = CACHED_PAIRS if device.type == "cpu" else PAIRS
    return max(FEWEST_ROWS, pairs // max(block.layout.n_nodes, 1))


def block_scores(plan: Plan, block: TreeBlock, parameters: BlockParameters, rows: Rows) -> Tensor:
    """Return what the trees of a block add to the raw scores, (n_outputs, batch)."""
    u = soft_leaves.memberships(
        plan.relaxation, _margins(plan, block, parameters, rows), _setting(plan, block, rows)
    )
    return sum_of(plan, u, parameters.vectors, block.leaves)


def may_be_sparse(plan: Plan) -> bool:
    """Return whether leaves that are not reached may be left out."""
    has_zeros = plan.relaxation.gate == "smooth_step" and plan.relaxation.leaf_map == PRODUCT
    # What is reached is known from values alone.
    return has_zeros and plan.routing != "dense" and not is_traced()


def sparse_total(plan: Plan, part: Part, rows: Rows) -> Tensor | None:
    """Return the same sum from the leaves that are reached, or None where the recursion is faster.

    Parameters
    ----------
    part : TreeBlock, BlockParameters
        All trees.
    """
    block, parameters = part
    if plan.routing == "auto" and not sparse_routing.might_be_few(block.layout):
        return None
    visits = sparse_routing.visits(
        block, parameters, rows, plan.shift, gamma=plan.gamma, dtype=plan.dtype
    )
    if plan.routing == "auto" and visits > sparse_routing.FEW * block.layout.n_nodes:
        return None
    pieces = rows.pieces(max(FEWEST_ROWS, int(sparse_routing.PAIRS / max(visits, 1.0))))
    scores = partial(_reached_scores, plan)
    if len(pieces) > 1 and torch.is_grad_enabled():
        return recomputed(scores, [part], [pieces])
    return torch.cat([scores(*part, piece) for piece in pieces], dim=1)


def _reached_scores(
    plan: Plan, block: TreeBlock, parameters: BlockParameters, rows: Rows
) -> Tensor:
    reached = sparse_routing.route(
        block, parameters, rows, plan.shift, gamma=plan.gamma, dtype=plan.dtype
    )
    return sum_of_reached(
        reached.row,
        reached.leaf,
        reached.u,
        parameters.vectors,
        plan.leaf_output,
        shape=(plan.n_outputs, len(rows)),
    )


def sum_of(plan: Plan, u: Tensor, vectors: Tensor, leaves: slice) -> Tensor:
    """Return the sum over some leaves of u · v, (n_outputs, batch)."""
    infinite = plan.infinite
    if infinite is not None and vectors.shape[0] < len(plan.leaf_weight):
        inside = (infinite >= leaves.start) & (infinite < leaves.stop)
        infinite = infinite[inside] - leaves.start
    output = None if plan.leaf_output is None else plan.leaf_output[leaves]
    return sum_of_leaves(u, vectors, output, plan.n_outputs, infinite)


def of_leaves(
    relaxed: Callable[[Relaxation, Margins, Setting], Tensor],
    plan: Plan,
    parts: Iterable[Part],
    rows: Rows,
) -> Tensor:
    """Return u or log u of all leaves, (n_leaves, batch)."""
    found = [
        relaxed(
            plan.relaxation, _margins(plan, block, parameters, rows), _setting(plan, block, rows)
        )
        for block, parameters in parts
    ]
    return found[0] if len(found) == 1 else torch.cat(found)


def exit_leaves(plan: Plan, parts: Iterable[Part], rows: Rows) -> Tensor:
    """Return the hard exits as forest leaves, (n_trees, batch)."""
    found = []
    for block, parameters in parts:
        margins = node_margins.margins(block.tests, parameters, rows, plan.shift, decided=True)
        assert margins.right is not None
        found.append(block.layout.exit_leaves(margins.right) + block.leaves.start)
    return torch.cat(found)


def _margins(plan: Plan, block: TreeBlock, parameters: BlockParameters, rows: Rows) -> Margins:
    decided = plan.relaxation.gate == "straight_through"
    return node_margins.margins(block.tests, parameters, rows, plan.shift, decided=decided)


def _setting(plan: Plan, block: TreeBlock, rows: Rows) -> Setting:
    return Setting(block.layout, plan.gamma, plan.dtype, block.kernel, rows.raw)
