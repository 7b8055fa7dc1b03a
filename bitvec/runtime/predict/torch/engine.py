"""The engine in PyTorch: the hard module on arrays, block by block, on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation
from bitvec.core.shape_annotations import Float, Int32
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.predict.threads import for_each_block
from bitvec.runtime.predict.torch import devices, forms, torch_threads
from bitvec.runtime.predict.torch.hard_columns import HardColumns
from bitvec.runtime.predict.torch.hard_forest import (
    BUDGET,
    ELEMENTS,
    HardForest,
    of_columns,
)
from bitvec.runtime.predict.torch.hard_sums import HardSums

ROWS = 1 << 13
"""Rows that a CPU takes at a time."""


class TorchEngine:
    """Run a forest in PyTorch: exit leaves and raw scores bit-identical to the reference.

    `HardForest` computes both. `info` says which of its trees run how, and why.

    Parameters
    ----------
    forest : Forest
        With a prediction kernel, `exit_leaves` is the crisp route and `raw` the soft score, which
        is then computed by the reference.
    device : torch.device or str, optional
        The CPU if not given.
    form : {"auto", "matrix", "perfect", "levels"}
        See `HardForest`.

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
        hard = replace(forest, kernel=None)
        if forest.feature_map is not None:
            hard = of_columns(hard)
        self._module = HardForest(hard, output="leaves", form=form, device=self.device)
        self._module.columns.register_forward_pre_hook(_require_subnormals)
        self._sums = HardSums(forest).to(self.device)

    def info(self) -> dict[str, object]:
        """Return which form runs, why, and how many trees run in each."""
        choice = self._module.choice
        used, counts = np.unique(choice.form, return_counts=True)
        trees = {str(form): int(n) for form, n in zip(used, counts, strict=True)}
        return {
            "engine": self.name,
            "device": str(self.device),
            "form": max(trees, key=lambda form: trees[form], default=forms.LEVELS),
            "why": choice.why,
            "trees": trees,
            "compared_columns": self._module.columns.n_compared,
            "block_rows": self._block_rows,
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
        self._require_rows(X)
        module, Z = self._module, self._mapped(X)
        result = np.empty((len(X), self.forest.n_trees), np.int32) if out is None else out

        def fill(part: slice) -> None:
            leaf = module.exits(self._tensor(Z, part)) - module.first_leaf
            result[part] = leaf.T.cpu().numpy()

        self._for_each_block(fill, len(X))
        return result

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
        self._require_rows(X)
        forest = self.forest
        shape = (len(X), forest.n_outputs)
        result = np.empty(shape, forest.output.dtype) if out is None else out
        is_soft = forest.kernel is not None and forest.n_trees > 0
        Z = X if is_soft else self._mapped(X)

        def fill(part: slice) -> None:
            if is_soft:
                result[part] = reference.raw(forest, X[part])
                return
            values = self._tensor(Z, part)
            rows = values if Z is X else self._tensor(X, part)  # for linear leaves
            result[part] = self._sums(self._module.exits(values), rows).cpu().numpy()

        self._for_each_block(fill, len(X))
        return result

    def _for_each_block(self, work: Callable[[slice], None], n_rows: int) -> None:
        module, n_threads = self._module, self._n_threads(n_rows)
        block = self._block_rows
        is_walk = self.device.type == "cpu" and not module.trees.n_products
        if is_walk and n_threads == 1 < torch.get_num_threads():
            # None of it is spread over torch's threads: to wake them takes longer than they save.
            block = min(block, max(1, torch_threads.GRAIN // module.width))
        torch_threads.require_own_threads()
        if self.device.type == "cpu":
            sums = module.width * self.forest.leaves.v.shape[1]
            torch_threads.require_subnormals(
                min(n_rows, block) * max(sums, module.trees.n_products)
            )

        def guarded(part: slice) -> None:
            # Both settings belong to a thread.
            with torch.inference_mode(), np.errstate(over="ignore", invalid="ignore"):
                work(part)

        for_each_block(guarded, n_rows, block=block, n_threads=n_threads)

    def _n_threads(self, n_rows: int) -> int:
        """Return how many blocks run side by side; a product takes torch's threads itself.

        Python's threads wait for each other between any two steps, which takes as long as a step of
        a smaller block, or of fewer of them.
        """
        width = self._module.width
        alone = self.device.type != "cpu" or forms.MATRIX in self._module.choice.form
        if alone or ROWS * width < ELEMENTS or n_rows * width < 4 * ELEMENTS:
            return 1
        return torch.get_num_threads()

    @cached_property
    def _block_rows(self) -> int:
        forest = self.forest
        if forest.kernel is not None and forest.n_trees:
            return max(1, ELEMENTS // forest.n_leaves)
        leaves = forest.n_trees * forest.leaves.v.shape[1]
        rows = max(1, BUDGET // (self._module.held_for_a_row + 8 * leaves))
        if self.device.type != "cpu":
            return rows
        return max(1, min(rows, ROWS, ELEMENTS // self._module.width))

    def _require_rows(self, X: Array) -> None:
        n = self.forest.n_features
        if X.ndim != 2 or X.shape[1] != n:
            raise InputError(
                f"`X` must have {n} features, got shape {tuple(X.shape)}: "
                "pass the training columns."
            )

    def _mapped(self, X: Array) -> Array:
        """Return what S reads: X, or φ(X), which is computed on the host."""
        return X if self.forest.feature_map is None else reference.columns(self.forest, X)

    def _tensor(self, X: Array, part: slice) -> Tensor:
        """Return some rows in the forest's dtype, contiguous, on the engine's device."""
        rows = np.ascontiguousarray(X[part], self.forest.dtype)
        # torch warns of arrays that it could not write to, though nothing here does, and refuses
        # the odd strides that an axis of one element may have in an array that NumPy calls
        # contiguous.
        usual = rows.strides == (rows.shape[1] * rows.itemsize, rows.itemsize)
        tensor = torch.from_numpy(rows if rows.flags.writeable and usual else rows.copy("C"))
        return tensor.to(self.device)


def _require_subnormals(columns: HardColumns, given: tuple[Tensor]) -> None:
    """Refuse to make compared columns of some rows on threads that flush."""
    (x,) = given
    if x.device.type == "cpu":
        torch_threads.require_subnormals(len(x) * columns.n_compared)
