"""The engine in PyTorch: the trees of a forest in the form that suits them, on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isnan

import numpy as np
import torch
from torch import Tensor

from bitvec.core import reference, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation
from bitvec.core.shape_annotations import Float, Int32
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.predict.threads import for_each_block
from bitvec.runtime.predict.torch import devices, forms, torch_threads
from bitvec.runtime.predict.torch.compared_columns import lay_out
from bitvec.runtime.predict.torch.groups import Group, group_trees
from bitvec.runtime.predict.torch.hard_columns import HardColumns
from bitvec.runtime.predict.torch.matrix import MatrixTrees
from bitvec.runtime.predict.torch.path_traversal import PathTrees
from bitvec.runtime.predict.torch.sums import Sums

PAIRS = {"alone": 1 << 17, "side by side": 1 << 15}
"""(tree, row) pairs that a thread of a CPU takes at a time: torch spreads a call on more than 2**15
elements over threads of its own, which would meet those that take blocks side by side."""
ROWS = 1 << 13
"""Rows that a CPU takes at a time."""
SMALL = 1 << 14
"""Pairs at most that a CPU walks by NumPy, whose calls cost less."""
BUDGET = 1 << 29
"""Bytes of intermediate results that are held at a time on a device, about."""


class TorchEngine:
    """Run a forest in PyTorch: exit leaves and raw scores bit-identical to the reference.

    What a node does is done once for each row, as a column of numbers that is compared with a
    threshold (`compared_columns`); a tree of such comparisons runs as the paper writes it, as a
    product of h with B (`matrix`), or is walked, padded to a full depth (`perfect`) or level by
    level (`levels`). Trees with many oblique or polytope nodes are followed node by node (`paths`).
    `info` says which trees run how, and why.

    Parameters
    ----------
    forest : Forest
        With a prediction kernel, `exit_leaves` is the crisp route and `raw` the soft score, which
        is then computed by the reference.
    device : torch.device or str, optional
        The CPU if not given.
    form : {"auto", "matrix", "perfect", "levels"}
        Trees that the form cannot hold are walked by levels.

    Raises
    ------
    InputError
        If torch cannot use the device here, or the form is unknown.
    UnsupportedModelError
        If the device cannot compute in the forest's dtypes.

    Notes
    -----
    A process that has run torch on several threads must not be forked and go on with torch: the
    child waits for ever for threads that only its parent has, with plain torch too. Start workers
    by `multiprocessing.get_context("spawn")` or "forkserver", or call `torch.set_num_threads(1)`
    first thing in the child. In a child of a process where an engine of this class has run on
    several threads, all methods raise BitvecError instead of waiting.

    A feature map is computed on the host.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> TorchEngine(stump).raw(np.array([[0.0, 9.0], [1.0, 9.0]])).tolist()
    [[10.0], [20.0]]
    """

    name = "torch"

    def __init__(
        self,
        forest: Forest,
        device: torch.device | str | None = None,
        *,
        form: str = "auto",
    ) -> None:
        self.forest = forest
        self.device = devices.find(device)
        wide = np.float64 in (forest.dtype, forest.output.dtype)
        if self.device.type == "mps" and (
            wide or np.any(forest.tests.activation == Activation.SOFTPLUS)
        ):
            raise UnsupportedModelError(
                "a forest on the device mps must be float32 throughout, got float64 or the "
                "softplus of polytope nodes, which needs it: run it on the cpu or on cuda."
            )
        B = forest.bitvectors
        depth = (
            np.maximum.reduceat(tree_paths.leaf_depth(B), B.leaf_ptr[:-1])
            if B.n_trees
            else (np.zeros(0, np.int64))
        )
        self._compared = lay_out(forest, depth)
        self._columns = HardColumns(forest, self._compared).to(self.device)
        self._choice = forms.choose(B, depth, self._compared.decides_ahead, form, self.device.type)
        self._sums = Sums(forest, self.device)
        scalars = self._sums.scalars if self._sums.are_scalars else None
        self._groups = group_trees(
            forest, depth, self._compared, self._choice, scalars, self.device
        )
        self._on_cpu = self.device.type == "cpu"
        self._is_traversed = all(group.is_traversed for group in self._groups)

    def info(self) -> dict[str, object]:
        """Return which form runs, why, and how many trees run in each."""
        used, counts = np.unique(self._choice.form, return_counts=True)
        trees = {str(form): int(n) for form, n in zip(used, counts, strict=True)}
        return {
            "engine": self.name,
            "device": str(self.device),
            "form": max(trees, key=lambda form: trees[form], default=forms.LEVELS),
            "why": self._choice.why,
            "trees": trees,
            "compared_columns": self._compared.n_compared,
            "sums": "host" if self._sums.on_host else "device",
            "block_rows": self._block_rows(),
        }

    def exit_leaves(
        self, X: Array, out: Int32[Array, "batch n_trees"] | None = None
    ) -> Int32[Array, "batch n_trees"]:
        """Return argmax(B · σ(Sx − b)) for every row and tree, as leaf numbers within the tree.

        Parameters
        ----------
        X : float32 or float64, (batch, n_features)
            Of any strides; cast to the forest's dtype block by block.
        out : int32, (batch, n_trees), optional
            Filled and returned.
        """
        if out is None:
            out = np.empty((len(X), self.forest.n_trees), np.int32)
        if self._is_small(len(X)):
            for group, places in self._places_of_few(X):
                out[:, group.trees.trees] = group.array_exits[places].T
            return out
        Z, result = self._mapped(X), out

        def fill(part: slice) -> None:
            result[part] = self._exits(self._tensor(Z, part)).cpu().numpy()

        self._for_each_block(fill, len(X))
        return out

    def raw(
        self, X: Array, out: Float[Array, "batch n_outputs"] | None = None
    ) -> Float[Array, "batch n_outputs"]:
        """Return raw scores in the forest's output dtype, summed in the source's order.

        Parameters
        ----------
        X : float32 or float64, (batch, n_features)
            Of any strides; cast to the forest's dtype block by block.
        out : F, (batch, n_outputs), optional
            Filled and returned.
        """
        forest, sums = self.forest, self._sums
        if out is None:
            out = np.empty((len(X), forest.n_outputs), forest.output.dtype)
        if self._is_small(len(X)) and sums.on_host and forest.kernel is None:
            with np.errstate(over="ignore", invalid="ignore"):  # infinite leaves are legal
                out[:] = self._raw_of_few(X)
            return out
        Z, result = self._mapped(X), out

        def fill(part: slice) -> None:
            raw = self._raw(X, Z, part)
            result[part] = raw.cpu().numpy() if isinstance(raw, Tensor) else raw

        self._for_each_block(fill, len(X))
        return out

    def _is_small(self, n_rows: int) -> bool:
        few = n_rows * max(1, self.forest.n_trees) <= SMALL
        return few and self._on_cpu and self._is_traversed and self.forest.feature_map is None

    def _places_of_few(self, X: Array) -> Iterator[tuple[Group, Array]]:
        """Walk few rows by NumPy; yield each group's places, (n_trees, batch)."""
        compared = self._compared
        self._check(X)
        with np.errstate(over="ignore", invalid="ignore"):
            V = np.ascontiguousarray(X, self.forest.dtype)
            all_present = compared.are_columns or (
                compared.may_be_columns and not np.isnan(V.sum())
            )
        if not all_present:
            torch_threads.require_own_threads()
            with torch.inference_mode():
                V = self._columns(_as_tensor(V)).numpy()
        for group in self._groups:
            yield group, group.array_trees.places_of_few(V, all_present)

    def _raw_of_few(self, X: Array) -> Array:
        forest, sums = self.forest, self._sums
        shape = (forest.n_trees, len(X))
        if not sums.are_scalars:
            leaf = np.empty(shape, np.int64)
            for group, places in self._places_of_few(X):
                leaf[group.trees.trees] = group.array_leaves[places]
            return sums.of_vectors(leaf)
        values = np.empty((1 + forest.n_trees, len(X)), forest.output.dtype)
        for group, places in self._places_of_few(X):
            values[1 + group.trees.trees] = group.array_values[places]
        return sums.of_scalars(values)

    def _for_each_block(self, work: Callable[[slice], None], n_rows: int) -> None:
        torch_threads.require_own_threads()
        if self._on_cpu:
            torch_threads.require_subnormals()

        def guarded(part: slice) -> None:
            # Both settings belong to a thread.
            with torch.inference_mode(), np.errstate(over="ignore", invalid="ignore"):
                work(part)

        n_threads = self._n_threads()
        block = self._block_rows()
        if n_threads > 1:
            fewest = max(1, SMALL // max(1, self.forest.n_trees))
            block = min(block, max(fewest, -(-n_rows // (2 * n_threads))))
        for_each_block(guarded, n_rows, block=block, n_threads=n_threads)

    def _n_threads(self) -> int:
        """Return how many blocks run side by side; a product takes torch's threads itself."""
        return torch.get_num_threads() if self._on_cpu and self._is_traversed else 1

    def _block_rows(self) -> int:
        forest = self.forest
        n_trees, width = max(1, forest.n_trees), forest.leaves.v.shape[1]
        if forest.kernel is not None:
            return max(1, PAIRS["side by side"] // forest.n_leaves)
        # A row takes: compared columns, places and addresses for each tree, counts, leaf vectors.
        held = sum(group.held_for_a_row for group in self._groups)
        n_bytes = 8 * (self._compared.n_compared + 6 * n_trees + width * n_trees + held)
        rows = max(1, BUDGET // n_bytes)
        if not self._on_cpu:
            return rows
        pairs = PAIRS["alone" if self._n_threads() == 1 else "side by side"]
        return max(1, min(rows, ROWS, pairs // n_trees))

    def _check(self, X: Array) -> None:
        n = self.forest.n_features
        if X.ndim != 2 or X.shape[1] != n:
            raise InputError(
                f"`X` must have {n} features, got shape {tuple(X.shape)}: "
                "pass the training columns."
            )

    def _mapped(self, X: Array) -> Array:
        """Return what S reads: X, or φ(X), which is computed on the host."""
        self._check(X)
        return X if self.forest.feature_map is None else reference.columns(self.forest, X)

    def _tensor(self, X: Array, part: slice) -> Tensor:
        """Return some rows in the forest's dtype, contiguous, on the engine's device."""
        return _as_tensor(np.ascontiguousarray(X[part], self.forest.dtype)).to(self.device)

    def _places(self, Z: Tensor) -> Iterator[tuple[Group, Tensor]]:
        """Yield each group with what its tables are indexed by, flat, (n_trees · batch,)."""
        compared = self._compared
        # A sum with a NaN in it is NaN; so is one of opposite infinities, which costs a copy only.
        all_present = compared.are_columns or (
            compared.may_be_columns and not isnan(float(Z.sum()))
        )
        V = Z if all_present else self._columns(Z)
        for group in self._groups:
            trees = group.trees
            if isinstance(trees, MatrixTrees):
                yield group, trees.leaves(V, all_present)
            elif isinstance(trees, PathTrees):
                yield group, trees.leaves(Z)
            else:
                yield group, trees.places(V, all_present)

    def _combined(self, Z: Tensor, table: str, into: Tensor) -> Tensor:
        """Fill `into`, (n_trees, batch), with what a table of each group holds for its places."""
        for group, places in self._places(Z):
            values = getattr(group, table)
            if group.is_all:
                torch.index_select(values, 0, places, out=into.view(-1))
            else:
                part = values.index_select(0, places).view(-1, len(Z))
                into.index_copy_(0, group.members, part)
        return into

    def _exits(self, Z: Tensor) -> Tensor:
        exits = torch.empty((self.forest.n_trees, len(Z)), dtype=torch.int32, device=Z.device)
        return self._combined(Z, "slot_exit", exits).T

    def _raw(self, X: Array, Z: Array, part: slice) -> Array | Tensor:
        forest, sums = self.forest, self._sums
        if forest.kernel is not None:
            hard_or_soft = forest if forest.n_trees else replace(forest, kernel=None)
            return reference.raw(hard_or_soft, X[part])
        values = self._tensor(Z, part)
        shape = (forest.n_trees, len(values))
        if not sums.are_scalars:
            leaf = torch.empty(shape, dtype=torch.int64, device=self.device)
            rows = self._tensor(X, part) if forest.leaves.linear is not None else values
            return sums.of_leaves(self._combined(values, "slot_leaf", leaf), rows)
        added = torch.empty((1 + forest.n_trees, len(values)), dtype=sums.dtype, device=self.device)
        self._combined(values, "slot_value", added[1:])
        return sums.of_scalars(added.numpy())


def _as_tensor(array: Array) -> Tensor:
    # torch warns of arrays that it could not write to, though nothing here does, and refuses the
    # odd strides that an axis of one element may have in an array that NumPy calls contiguous.
    usual = array.strides == (array.shape[1] * array.itemsize, array.itemsize)
    return torch.from_numpy(array if array.flags.writeable and usual else array.copy("C"))
