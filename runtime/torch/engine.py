"""The matrix form of the equation on any device: gather, compare, one product with B, argmax."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int32
from torch import Tensor

from bitvec import matrices, reference, structure
from bitvec.arrays import Array
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.forest import Forest
from bitvec.output import Aggregate
from bitvec.runtime.torch import devices, forks
from bitvec.runtime.torch.outcomes import decide, to_device
from bitvec.runtime.torch.walk import flatten, is_plain_tree

GEMM_LEAVES = {"cpu": 4, "cuda": 64}
"""Largest tree that is run as a product with B rather than walked, by device.

On a CPU walking is faster from 8 leaves on, and trees of plain comparisons are walked at any size
(1.5 against 12 ms for 50 trees of 4 leaves and 1,797 rows, one thread). The figure for CUDA is an
estimate from the count of operations.
"""
BLOCK = 1 << 22
"""Elements of h, of scores or of (row, tree) pairs held at a time."""
DENSE_B = 1 << 26
"""Elements of dense B held in all; trees beyond it are walked."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Trees of similar size, padded to one: `node` (T, n) and `B` (T, L, n) as 0/1 in float32."""

    tree: Tensor
    node: Tensor
    B: Tensor


class TorchEngine:
    """Run a forest in PyTorch: exit leaves and raw scores bit-identical to the reference.

    Small trees run as the paper writes them, as a batched product of the 0/1 matrix B with the 0/1
    vectors h: the counts are exact in float32, and in tf32. Larger trees are walked level by level,
    because B grows with the square of a tree's size; a CPU walks trees whose nodes all compare one
    column at any size. `info` says which trees run how.

    Parameters
    ----------
    forest : Forest
        With a prediction kernel, `exit_leaves` is the crisp route and `raw` the soft score, which
        is then computed by the reference.
    device : torch.device or str, optional
        The CPU if not given.
    gemm_leaves : int, optional
        Largest tree that is run as a product with B; see `GEMM_LEAVES` if not given.

    Raises
    ------
    InputError
        If torch cannot use the device here.
    UnsupportedModelError
        If the device cannot compute in the forest's dtypes.

    Notes
    -----
    A process that has run torch on several threads must not be forked and go on with torch: the
    child waits for ever for threads that only its parent has, with plain torch too. Start workers
    by `multiprocessing.get_context("spawn")` or "forkserver", or call `torch.set_num_threads(1)`
    first thing in the child. In a child of a process where an engine of this class has run on
    several threads, both methods raise BitvecError instead of waiting.

    First argmax of B · h + a strictly decreasing vector: Eqs. (3) to (5), Zhang 2021. Polytope
    nodes compute their softplus on the host; linear leaves and the aggregates min, max and weighted
    median are combined on the host.
    """

    name = "torch"

    def __init__(
        self,
        forest: Forest,
        device: torch.device | str | None = None,
        *,
        gemm_leaves: int | None = None,
    ) -> None:
        self.forest = forest
        self.device = devices.find(device)
        if self.device.type == "mps" and np.float64 in (forest.dtype, forest.output.dtype):
            raise UnsupportedModelError(
                "a forest on the device mps must be float32 throughout, got float64: "
                "run it on the cpu or on cuda."
            )
        plain = is_plain_tree(forest)
        walks_plain = gemm_leaves is None and self.device.type == "cpu"
        if gemm_leaves is None:
            gemm_leaves = GEMM_LEAVES.get(self.device.type, GEMM_LEAVES["cpu"])
        self._tests = to_device(forest.tests, forest.inputs.missing_sentinel, self.device)
        B = forest.bitvectors
        left, right = structure.children(B)
        self._children = self._put(np.stack([left, right], axis=1).reshape(-1, 2))
        self._groups, walked = self._plan(np.where(plain & walks_plain, 0, min(gemm_leaves, 4096)))
        has_nodes = np.diff(B.leaf_ptr) > 1
        n_walked = int(np.count_nonzero(has_nodes[walked]))
        self._flat = flatten(forest, walked[plain[walked]], self.device)
        walked = walked[~plain[walked]]
        self._walked = self._put(walked)
        roots = np.where(has_nodes, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
        self._roots = self._put(roots[walked])
        self._first_leaf = self._put(B.leaf_ptr[:-1])
        self._on_device = (
            forest.output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
            and forest.leaves.linear is None
        )
        if self._on_device:
            self._set_leaves()
        self.info: dict[str, Any] = {
            "device": str(self.device),
            "gemm_leaves": gemm_leaves,
            "gemm_trees": sum(len(group.tree) for group in self._groups),
            "traversal_trees": n_walked,
            "sums": "device" if self._on_device and forest.kernel is None else "host",
        }

    def exit_leaves(self, X: Array) -> Int32[Array, "batch n_trees"]:
        """Return argmax(B · σ(Sx − b)) for every row and tree, as leaf numbers within the tree."""
        Z = self._columns(X)
        exits = np.zeros((len(Z), self.forest.n_trees), np.int32)
        for part in self._blocks(len(Z)):
            exits[part] = self._exits(self._rows(Z[part])).T.to(torch.int32).cpu().numpy()
        return exits

    def raw(self, X: Array) -> Float[Array, "batch n_outputs"]:
        """Return raw scores in the forest's output dtype, summed in the source's order."""
        forest = self.forest
        if forest.kernel is not None:
            self._check(X)
            return reference.raw(forest if forest.n_trees else replace(forest, kernel=None), X)
        if not self._on_device:
            exits = self.exit_leaves(X).astype(np.int64)
            return reference.accumulate(forest, _cast(X, forest.dtype), exits)
        Z = self._columns(X)
        raw = np.zeros((len(Z), forest.n_outputs), forest.output.dtype)
        for part in self._blocks(len(Z)):
            leaf = self._exits(self._rows(Z[part])) + self._first_leaf[:, None]
            total = self._accumulate(leaf).cpu().numpy()
            raw[part] = forest.output.finish(total, forest.n_trees)
        return raw

    def _put(self, array: Array) -> Tensor:
        return torch.tensor(array, device=self.device)

    def _check(self, X: Array) -> None:
        n = self.forest.n_features
        if np.ndim(X) != 2 or np.shape(X)[1] != n:
            raise InputError(
                f"`X` must have {n} features, got shape {np.shape(X)}: pass the training columns."
            )

    def _columns(self, X: Array) -> Array:
        self._check(X)
        forks.check()
        return reference.columns(self.forest, X)

    def _rows(self, Z: Array) -> Tensor:
        return torch.from_numpy(np.array(Z, order="C", copy=True)).to(self.device)

    def _blocks(self, n_rows: int) -> list[slice]:
        widest = max(
            self.forest.n_trees,
            *(group.B.shape[0] * group.B.shape[1] for group in self._groups),
            1,
        )
        step = max(1, BLOCK // widest)
        return [slice(start, start + step) for start in range(0, n_rows, step)]

    def _plan(self, gemm_leaves: Array) -> tuple[list[_Group], Array]:
        B = self.forest.bitvectors
        n_leaves = np.diff(B.leaf_ptr)
        small = (n_leaves > 1) & (n_leaves <= gemm_leaves)
        size = np.where(small, 1 << np.ceil(np.log2(np.maximum(n_leaves, 2))).astype(int), 0)
        groups, taken, budget = [], np.zeros(B.n_trees, bool), DENSE_B
        for width in np.unique(size[small]):
            trees = np.flatnonzero(size == width)[: int(budget // (width * width))]
            per_group = max(1, (1 << 14) // int(width))
            groups += [
                self._group(trees[i : i + per_group]) for i in range(0, len(trees), per_group)
            ]
            taken[trees] = True
            budget -= len(trees) * int(width) ** 2
        return groups, np.flatnonzero(~taken)

    def _group(self, trees: Array) -> _Group:
        B = self.forest.bitvectors
        n_nodes = np.diff(B.node_ptr)[trees]
        widest = int(n_nodes.max())
        # A padding node repeats the tree's first one, with a column of zeros; a padding leaf has a
        # row of zeros and stands last, so it loses to leaf 0.
        number = np.arange(widest)
        node = B.node_ptr[trees][:, None] + np.where(number < n_nodes[:, None], number, 0)
        dense = np.zeros((len(trees), widest + 1, widest), np.float32)
        for i, tree in enumerate(trees):
            dense[i, : n_nodes[i] + 1, : n_nodes[i]] = matrices.dense(B.tree(int(tree)))
        return _Group(self._put(trees), self._put(node), self._put(dense))

    @torch.no_grad()
    def _exits(self, Z: Tensor) -> Tensor:
        exits = torch.zeros((self.forest.n_trees, len(Z)), dtype=torch.int64, device=Z.device)
        for flat in self._flat:
            exits[flat.trees] = flat.exits(Z)
        if not self._groups and not self._walked.numel():
            return exits
        Zt = Z.T.contiguous()
        for group in self._groups:
            n_trees, n_leaves, n_nodes = group.B.shape
            h = decide(self._tests, Zt, group.node.ravel())[1]
            counts = torch.bmm(group.B, h.to(torch.float32).view(n_trees, n_nodes, -1))
            # Whole numbers below 2**24, all different: torch.argmax promises no first maximum.
            order = torch.arange(n_leaves, device=Zt.device, dtype=torch.float32)
            exits[group.tree] = (counts * n_leaves - order[:, None]).argmax(dim=1)
        if self._walked.numel():
            exits[self._walked] = self._walk(Zt) - self._first_leaf[self._walked][:, None]
        return exits

    def _walk(self, Zt: Tensor) -> Tensor:
        """Return the forest's leaf index for every walked tree and row."""
        batch = Zt.shape[1]
        at = self._roots[:, None].expand(-1, batch).reshape(-1).clone()
        row = torch.arange(batch, device=Zt.device).repeat(len(self._roots))
        moving = torch.nonzero(at >= 0)[:, 0]
        while moving.numel():
            node = at[moving]
            right = decide(self._tests, Zt, node, row[moving])[1]
            child = self._children[node, right.to(torch.int64)]
            at[moving] = child
            moving = moving[child >= 0]
        return (~at).view(-1, batch)

    def _set_leaves(self) -> None:
        """Put v on the device, times its tree's weight: rounded once, as the product in the sum."""
        output, leaves, B = self.forest.output, self.forest.leaves, self.forest.bitvectors
        v = leaves.v.astype(output.dtype)
        if output.tree_weight is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                v *= np.repeat(output.tree_weight, np.diff(B.leaf_ptr))[:, None]
        self._v = self._put(v)
        self._leaf_output: Tensor | None = None
        self._tree_output = np.zeros(B.n_trees, np.int64)
        if leaves.output is not None and B.n_trees:
            self._leaf_output = self._put(leaves.output.astype(np.int64))
            # A booster's tree adds to one output only; -1 where leaves differ.
            lowest, highest = (
                extreme.reduceat(leaves.output, B.leaf_ptr[:-1])
                for extreme in (np.minimum, np.maximum)
            )
            self._tree_output = np.where(lowest == highest, lowest, -1)

    def _accumulate(self, leaf: Tensor) -> Tensor:
        """Sum the vectors of leaves (n_trees, batch), one tree after the other."""
        output = self.forest.output
        shape = (leaf.shape[1], output.n_outputs)
        total = torch.zeros(shape, dtype=self._v.dtype, device=leaf.device)
        if output.base_first:
            total[:] = self._put(output.base_score)  # type: ignore[arg-type]
        for at, to in zip(leaf, self._tree_output, strict=True):
            vector = self._v.index_select(0, at)
            if self._leaf_output is None:
                total += vector
            elif to >= 0:
                total[:, to] += vector[:, 0]
            else:
                # One output per row, so no two additions meet.
                total.scatter_add_(1, self._leaf_output[at][:, None], vector)
        return total


def _cast(X: Array, dtype: np.dtype) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(X).astype(dtype, copy=False)
