"""One row, or a few, with as little Python around the compiled traversal as can be.

What answers one row is a function closed over all that it needs: an attribute looked up, a method
bound or a slice taken would each cost a tenth of what a small forest takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from bitvec.core import transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.runtime.predict.cpu.traversal import onerow, single
from bitvec.runtime.predict.engine import OneRow

LISTED = 4096
"""Up to so many answers of leaves stand in a list, which is read faster than a slice is made."""


class FewRows:
    """A forest packed for a few rows, for each dtype of X when it is first asked for.

    Parameters
    ----------
    forest : Forest
    """

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        soft = forest.kernel is not None or forest.feature_map is not None
        constant = forest.leaves.linear is None
        self._is_lone = (
            forest.n_trees == 1 and constant and single.unsupported_reason(forest) is None
        )
        self.holds = not soft and (self._is_lone or onerow.unsupported_reason(forest) is None)
        self._of_size: dict[int, Any] = {}

    def raw(self, X: Float[Array, "batch n_features"]) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores of C-contiguous rows."""
        scores: Array = self._packed(X.dtype).raw(X)
        return scores

    def one_row(self, method: str) -> OneRow | None:
        """Return what answers one row in place of a method of `Predictor`, or None."""
        if not self.holds or method not in ("raw", "predict"):
            return None
        if self._is_lone:
            return self._of_leaves(method)
        if method == "raw":
            return self._of_scores(keeps_axis=True)
        output = self._forest.output
        if output.classes is not None:
            return self._of_labels()
        is_value = output.n_outputs == 1 and output.post_transform is PostTransform.IDENTITY
        return self._of_scores(keeps_axis=False) if is_value else self._of_predictions()

    def _of_leaves(self, method: str) -> OneRow:
        """A lone tree: what its leaf answers is known beforehand."""
        ways: dict[int, tuple[Callable[..., int], int, int]] = {}
        held: list[Array] = []

        def prepare(X: Array) -> tuple[Callable[..., int], int, int]:
            packed = self._packed(X.dtype)
            if not held:
                table = packed.leaf_outputs[0 if method == "raw" else 1]
                rows = [table[leaf : leaf + 1] for leaf in range(min(len(table), LISTED))]
                held.extend(rows if len(table) <= LISTED else [table])
            run, *places = packed.way(X)
            run(X, *places)  # compiles
            return ways.setdefault(X.itemsize, (run.compiled, *places))

        def answer(X: Array) -> Array:
            run, nodes, leaf_at = ways.get(X.itemsize) or prepare(X)
            return held[run(X, nodes, leaf_at)].copy()

        def answer_of_many(X: Array) -> Array:
            run, nodes, leaf_at = ways.get(X.itemsize) or prepare(X)
            leaf = run(X, nodes, leaf_at)
            return held[0][leaf : leaf + 1].copy()

        return answer if self._forest.n_leaves <= LISTED else answer_of_many

    def _of_scores(self, *, keeps_axis: bool) -> OneRow:
        output = self._forest.output
        size, dtype, empty = output.n_outputs, output.dtype, np.empty
        ways: dict[int, tuple[Callable[..., None], int]] = {}

        def prepare(X: Array) -> tuple[Callable[..., None], int]:
            run, place = self._packed(X.dtype).scores_of
            run(X, place, np.empty(size, dtype))  # compiles
            return ways.setdefault(X.itemsize, (run.compiled, place))

        def answer(X: Array) -> Array:
            run, place = ways.get(X.itemsize) or prepare(X)
            scores = empty(size, dtype)
            run(X, place, scores)
            return scores

        def answer_with_axis(X: Array) -> Array:
            return answer(X).reshape(1, size)

        return answer_with_axis if keeps_axis else answer

    def _of_labels(self) -> OneRow:
        output = self._forest.output
        scores_of = self._of_scores(keeps_axis=True)
        assert output.classes is not None
        if self._packed(np.dtype(np.float32)).label_of is None:
            return self._of_predictions()
        classes = [output.classes[0][k : k + 1] for k in range(output.classes[0].size)]
        ways: dict[int, tuple[Callable[..., int], int]] = {}

        def prepare(X: Array) -> tuple[Callable[..., int], int]:
            run, place = self._packed(X.dtype).label_of
            run(X, place)  # compiles
            return ways.setdefault(X.itemsize, (run.compiled, place))

        def answer(X: Array) -> Array:
            run, place = ways.get(X.itemsize) or prepare(X)
            label = run(X, place)
            if label >= 0:
                return classes[label].copy()
            return transforms.predictions(output, scores_of(X))

        return answer

    def _of_predictions(self) -> OneRow:
        output, scores_of = self._forest.output, self._of_scores(keeps_axis=True)
        return lambda X: transforms.predictions(output, scores_of(X))

    def _packed(self, dtype: np.dtype) -> Any:
        packed = self._of_size.get(dtype.itemsize)
        if packed is None:
            if self._is_lone:
                packed = single.pack(self._forest)
            else:
                packed = onerow.OneRow(self._forest, dtype)
            packed = self._of_size.setdefault(dtype.itemsize, packed)
        return packed
