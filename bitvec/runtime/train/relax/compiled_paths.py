"""Soft forests on the CPU by compiled paths, in place of operations on all nodes and rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.plain_walks import column_nodes
from bitvec.runtime.predict.threads import for_each_block
from bitvec.runtime.train.relax import node_margins, path_kernels
from bitvec.runtime.train.relax.block_scores import CACHED_PAIRS, RECOMPUTE_BEYOND, Plan
from bitvec.runtime.train.relax.dense_margins import in_block_order
from bitvec.runtime.train.relax.dense_rows import DenseRows, RowParameters
from bitvec.runtime.train.relax.leaf_sums import sum_of_leaves
from bitvec.runtime.train.relax.node_margins import (
    AT_EQUAL,
    BlockParameters,
    NodeBlock,
    node_blocks,
)
from bitvec.runtime.train.relax.path_kernels import Soft, Trees
from bitvec.runtime.train.relax.path_layout import PathLayout, plain_slots
from bitvec.runtime.train.relax.path_vectors import LANES
from bitvec.runtime.train.relax.relaxations import PRODUCT
from bitvec.runtime.train.relax.scaling import Scaling
from bitvec.runtime.train.relax.soft_rows import LARGEST_PLAIN, Rows
from bitvec.runtime.train.relax.tracing import is_batched, is_traced

KEPT = 1 << 21
"""Pairs of a node and a row up to which shares are kept for the backward pass."""
PARTS = 4
"""Parts of the trees for each thread, in the backward pass."""


@dataclass(frozen=True, eq=False)
class CompiledPaths:
    """A forest's trees as kernels read them.

    Parameters
    ----------
    trees : Trees
    size : int
        Nodes of the largest tree.
    n_outputs : int
    given : int64, (n_given,)
        Nodes whose margins torch computes: they are no plain comparison of one column.
    block : NodeBlock, optional
        These nodes; None where there is none.
    bitvectors : Bitvectors
    """

    trees: Trees
    size: int
    n_outputs: int
    given: Tensor
    block: NodeBlock | None
    bitvectors: Bitvectors

    def total(
        self, plan: Plan, b: Tensor, own: RowParameters | None, vectors: Tensor, rows: Rows
    ) -> Tensor:
        """Return the sum over all leaves of u · v, (n_outputs, batch).

        Parameters
        ----------
        b : float32, (n_nodes,)
            How far thresholds have moved.
        own : RowParameters, optional
            Rows of S that may move.
        vectors : float32, (n_leaves, width)
            Times the weights of trees.
        """
        keeps = torch.is_grad_enabled()  # which it is not any more in the function
        found = []
        for part in rows.pieces(self._rows_at_once):
            margins = vectors.new_zeros((0, len(part)))
            if self.block is not None:
                margins = self._margins(plan, b, own, vectors, part)
            found.append(
                _Scores.apply(  # type: ignore[no-untyped-call]
                    margins, b, vectors, part.raw, plan.gamma, keeps, self
                )
            )
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)

    def plain_total(
        self, margins: Tensor, b: Tensor, vectors: Tensor, columns: Tensor, gamma: float
    ) -> Tensor:
        """Return the same by operations of torch alone, which may be differentiated again.

        Parameters
        ----------
        margins : float32, (n_given, batch)
            Of the given nodes, but for gamma.
        columns : F, (n_columns, batch)
        """
        trees = Trees(*(torch.tensor(part) for part in self.trees))
        x = columns[trees.feature.clamp_min(0)]
        m = ((x - trees.b[:, None] + trees.cut[:, None]) * trees.inverse[:, None]).float()
        m = torch.where(x.isnan(), trees.missing[:, None], m - b[:, None])
        is_given = torch.nonzero(trees.feature < 0)[:, 0]
        m = m.index_copy(0, is_given, margins)
        m = gamma * torch.where(m == 0, m + trees.at_equal[:, None], m)
        by_level = self.layout.by_level(m)
        turns = torch.stack((-by_level, by_level), dim=1).sigmoid()
        u = self.layout.leaves(plain_slots(turns, self.layout, torch.mul, 1))
        output = trees.output if trees.output.numel() else None
        return sum_of_leaves(u, vectors, output, self.n_outputs, None)

    @cached_property
    def layout(self) -> PathLayout:
        """The trees, level by level."""
        return PathLayout(self.bitvectors)

    def _margins(
        self, plan: Plan, b: Tensor, own: RowParameters | None, vectors: Tensor, rows: Rows
    ) -> Tensor:
        """Return margins of the given nodes, ± infinity where a test passes hard."""
        assert self.block is not None
        if self.block.dense is not None and own is not None:
            own = in_block_order(own, self.block.dense)
        parameters = BlockParameters(b.index_select(0, self.given), own, vectors)
        found = node_margins.with_zeros(self.block, parameters, rows, plan.shift, decided=False)
        return found.settled()

    @property
    def _rows_at_once(self) -> int:
        return max(1, RECOMPUTE_BEYOND // max(1, len(self.given)))

    def fits(self, rows: Rows) -> bool:
        """Return whether margins that are given, and kept for gradients, are few enough.

        Those of rows of S that stay are computed one by one, in a cache or several times slower;
        torch's operations on runs of trees stay in it.
        """
        n_fixed = 0 if self.block is None else len(self.block.fixed_at)
        if n_fixed * len(rows) > CACHED_PAIRS:
            return False
        return not torch.is_grad_enabled() or len(rows) <= self._rows_at_once


def may_compile(plan: Plan, rows: Rows, b: Tensor, vectors: Tensor) -> bool:
    """Return whether paths are those of sigmoids, on numbers that kernels take.

    Parameters
    ----------
    b, vectors : Tensor
        What moves: no tensors that carry a tangent, or are of inference alone.
    """
    raw, gamma, dual = rows.raw, cast(Any, plan.gamma), cast(Any, forward_ad)
    if any(dual.unpack_dual(one).tangent is not None for one in (b, vectors)):
        return False
    return (
        plan.relaxation.gate in ("sigmoid", "noisy_or")
        and plan.relaxation.leaf_map == PRODUCT
        and plan.dtype == plan.shift.dtype == torch.float32
        and plan.functions is None
        and plan.infinite is None
        and not isinstance(gamma, Tensor)
        and not (b.is_inference() or vectors.is_inference())
        and raw.device.type == "cpu"
        and not raw.requires_grad
        and not is_traced()
    )


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        margins: Tensor,
        b: Tensor,
        vectors: Tensor,
        columns: Tensor,
        gamma: float,
        keeps: bool,
        paths: CompiledPaths,
    ) -> Tensor:
        batch = columns.shape[1]
        soft = Soft(
            _padded(columns), _padded(margins), _array(b), _array(vectors), np.float32(gamma)
        )
        out = np.zeros((paths.n_outputs, soft.columns.shape[1]), np.float32)
        keeps = keeps and soft.moved.size * out.shape[1] <= KEPT
        n_kept = soft.moved.size if keeps else 0
        kept = np.empty((2, n_kept, out.shape[1]), np.float32)

        def fill(rows: slice) -> None:
            space = path_kernels.scratch(paths.size)
            path_kernels.fill_scores(paths.trees, soft, rows.start, rows.stop, space, kept, out)

        threads = torch.get_num_threads()
        block = out.shape[1] if threads == 1 else path_kernels.RUN
        for_each_block(fill, out.shape[1], block=block, n_threads=threads)
        ctx.save_for_backward(margins, b, vectors)
        ctx.soft, ctx.kept, ctx.paths, ctx.columns = soft, kept, paths, columns
        return torch.from_numpy(out[:, :batch])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        moving = ctx.saved_tensors  # refused where numbers were changed since, which arrays share
        soft, paths = ctx.soft, ctx.paths
        if torch.is_grad_enabled() or is_batched(grads[0]):
            with torch.enable_grad():
                # Views: margins may depend on b, which is not to count by way of them here.
                moving = [one.view_as(one) for one in moving]
                total = paths.plain_total(*moving, ctx.columns, float(soft.gamma))
                asked = [one for one in moving if one.requires_grad]
                again = iter(torch.autograd.grad(total, asked, grads[0], create_graph=True))
            return *(next(again) if one.requires_grad else None for one in moving), *[None] * 4
        wanted, batch = _padded(grads[0]), grads[0].shape[1]
        b, v, m = (np.zeros(part.shape, np.float32) for part in (soft.moved, soft.v, soft.margins))

        def fill(trees: slice) -> None:
            space = path_kernels.scratch(paths.size)
            path_kernels.fill_slopes(
                paths.trees, soft, wanted, trees.start, trees.stop, space, ctx.kept, b, v, m
            )

        threads, n_trees = torch.get_num_threads(), len(paths.trees.node_ptr) - 1
        block = n_trees if threads == 1 else -(-n_trees // (PARTS * threads))
        for_each_block(fill, n_trees, block=block, n_threads=threads)
        found = torch.from_numpy(m[:, :batch]), torch.from_numpy(b), torch.from_numpy(v)
        return *found, None, None, None, None


def _array(values: Tensor) -> Array:
    return constant(values.detach().numpy())


def _padded(values: Tensor) -> Array:
    """Return rows up to a whole number of vectors, those that are added all 0."""
    array = values.detach().numpy()
    lacks = -array.shape[1] % LANES
    return constant(np.pad(array, ((0, 0), (0, lacks))) if lacks else array)


def compiled_paths(forest: Forest, dense: DenseRows | None, units: Scaling) -> CompiledPaths:
    """Return a forest's trees as kernels read them.

    Parameters
    ----------
    dense : DenseRows, optional
        Rows of S that may move.
    """
    tests, B = forest.tests, forest.bitvectors
    left, right = structure.children(B)
    with np.errstate(invalid="ignore"):
        is_plain = column_nodes(forest) & (np.abs(tests.b) <= LARGEST_PLAIN)
    if dense is not None:
        is_plain[dense.nodes] = False
    given = np.flatnonzero(~is_plain)
    feature = tests.feature.astype(np.int64)
    feature[given] = ~np.arange(len(given))
    block = None
    if len(given):
        make = node_blocks(
            forest, dense, units, with_kernel=False, learned=False, device=torch.device("cpu")
        )
        block = make(given)
    output = forest.leaves.output
    # The answers of a kernel of the forest's own are soft already.
    at_equal = np.where(tests.relation, AT_EQUAL, -AT_EQUAL) * (forest.kernel is None)

    def put(values: Array, dtype: Any) -> Array:
        return constant(values.astype(dtype))

    trees = Trees(
        put(B.node_ptr, np.int64),
        put(B.leaf_ptr, np.int64),
        put(left, np.int64),
        put(right, np.int64),
        put(feature, np.int64),
        put(np.where(is_plain, tests.b, 0), tests.dtype),
        put(units.cut, tests.dtype),
        put(1 / units.margin, tests.dtype),
        put(at_equal, np.float32),
        put(np.where(tests.missing_right, np.inf, -np.inf), np.float32),
        put(np.zeros(0) if output is None else output, np.int64),
    )
    size = int(np.diff(B.node_ptr).max(initial=0))
    return CompiledPaths(trees, size, forest.n_outputs, torch.tensor(given), block, B)
