"""Raw scores of an engine become the values that a predictor's methods return."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bitvec.core import reference, transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float
from bitvec.errors import BitvecError
from bitvec.runtime.predict.engine import Engine
from bitvec.runtime.predict.isolation_scores import isolation_offset

if TYPE_CHECKING:
    from bitvec.runtime.predict.cpu.few_rows.calls import ScoresCall

Fill = Callable[[Array, Array], object]

OF_SCORES = ("scores", "predict", "predict_proba", "score_samples")
"""Methods of a predictor whose answer is made of raw scores alone."""


class Predictions:
    """The post-transform and the labels of a forest's output.

    Parameters
    ----------
    forest : Forest
    engine : Engine
        With the engine numba all this is compiled too; it has the same bits.
    """

    def __init__(self, forest: Forest, engine: Engine) -> None:
        self._forest = forest
        self.output = forest.output
        self.isolation_offset = isolation_offset(forest)
        self._compiled: dict[str, ScoresCall | None] = {}
        if engine.name == "numba":
            from bitvec.runtime.predict.cpu.few_rows.forest_rows import fill_of_scores

            n_threads = getattr(engine, "n_threads", 1)
            self._compiled = {verb: fill_of_scores(forest, verb, n_threads) for verb in OF_SCORES}

    @property
    def scores_are_raw(self) -> bool:
        """Return whether the post-transform leaves scores as they are."""
        return self.output.post_transform is PostTransform.IDENTITY

    @property
    def prediction_shape(self) -> tuple[int, ...]:
        """The shape of one row's prediction."""
        output = self.output
        width = output.n_outputs if output.classes is None else len(output.classes)
        return () if width == 1 else (width,)

    @property
    def prediction_dtype(self) -> np.dtype:
        """The dtype of labels or values."""
        classes = self.output.classes
        if classes is None:
            return self.output.dtype
        return np.stack([labels[:1] for labels in classes]).dtype

    def filling(
        self, verb: str
    ) -> tuple[Callable[[Array, Array], None], tuple[int, ...], np.dtype]:
        """Return what fills in the answers of a verb, and the shape of one and their dtype.

        Parameters
        ----------
        verb : "scores", "predict" or "predict_proba"
            The last of a classifier; of several targets the shape is that of the first.

        Raises
        ------
        BitvecError
            If probabilities are asked of a regressor.
        """
        output = self.output
        if verb == "scores":
            return self.fill_scores, (output.n_outputs,), output.dtype
        if verb == "predict":
            return self.fill_predictions, self.prediction_shape, self.prediction_dtype
        if output.classes is None:
            raise BitvecError(
                "`predict_proba` needs a classifier, got a regressor: use `predict` or `scores`."
            )
        return self.fill_probabilities, (output.classes[0].size,), output.dtype

    def transform(self, raw: Float[Array, "batch n_outputs"]) -> Float[Array, "batch n_outputs"]:
        """Return transformed scores."""
        out = np.empty_like(raw)
        self.fill_scores(raw, out)
        return out

    def fill_scores(self, raw: Float[Array, "batch n_outputs"], out: Array) -> None:
        """Fill `out` with transformed scores."""
        self._answer("scores", raw, out, partial(transforms.transform, self.output))

    def leaf_predictions(self) -> Array | None:
        """Return what is predicted at each leaf of a lone tree, None of any other forest."""
        forest = self._forest
        if forest.n_trees != 1 or forest.leaves.linear is not None or forest.kernel is not None:
            return None
        leaf = np.arange(forest.n_leaves)[:, None]
        X = np.broadcast_to(forest.dtype.type(0), (forest.n_leaves, forest.n_features))
        predictions = np.empty((forest.n_leaves, *self.prediction_shape), self.prediction_dtype)
        self._predict(reference.accumulate(forest, X, leaf), predictions)
        return predictions

    def _answer(self, verb: str, raw: Array, out: Array, otherwise: Fill) -> None:
        """Fill `out` by what is compiled for a verb, or otherwise."""
        compiled = self._compiled.get(verb)
        if compiled is None:
            otherwise(raw, out)
        else:
            compiled.fill(raw, out, otherwise)

    def fill_predictions(self, raw: Float[Array, "batch n_outputs"], out: Array) -> None:
        """Fill `out` with labels, or with a regressor's values."""
        self._answer("predict", raw, out, self._predict)

    def _predict(self, raw: Float[Array, "batch n_outputs"], out: Array) -> None:
        output = self.output
        value = raw if output.is_classifier and output.labels_from_raw else self.transform(raw)
        if output.is_classifier:
            out[...] = transforms.class_labels(output, value)
        else:
            out[...] = value.reshape(out.shape)

    def fill_probabilities(self, raw: Float[Array, "batch n_outputs"], out: Array) -> None:
        """Fill `out` with the probabilities of a classifier of one target."""

        def fill(raw: Array, out: Array) -> None:
            (out[...],) = self.probabilities(raw)

        self._answer("predict_proba", raw, out, fill)

    def probabilities(
        self, raw: Float[Array, "batch n_outputs"]
    ) -> list[Float[Array, "batch n_classes"]]:
        """Return the probabilities for each target."""
        return transforms.class_columns(self.output, self.transform(raw))

    def fill_isolation_scores(self, raw: Float[Array, "batch 1"], out: Array) -> None:
        """Fill `out` with what scikit-learn's `score_samples` returns."""

        def fill(raw: Array, out: Array) -> None:
            np.negative(self.transform(raw)[:, 0], out=out)

        self._answer("score_samples", raw, out, fill)

    def fill_isolation_decision(self, raw: Float[Array, "batch 1"], out: Array) -> None:
        """Fill `out` with what scikit-learn's `decision_function` returns."""
        assert self.isolation_offset is not None
        self.fill_isolation_scores(raw, out)
        out -= self.isolation_offset
