"""Raw scores of an engine become the values that a predictor's methods return."""

from __future__ import annotations

from functools import partial

import numpy as np
from jaxtyping import Float

from bitvec.core import reference, transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.runtime.predict.engine import Engine


class Predictions:
    """The post-transform and the labels of a forest's output.

    Parameters
    ----------
    forest : Forest
    engine : Engine
        With the engine numba the exponentials are compiled too; they have the same bits.
    """

    def __init__(self, forest: Forest, engine: Engine) -> None:
        self._forest = forest
        self.output = output = forest.output
        self.isolation_offset = _isolation_offset(forest)
        self.transform = partial(transforms.transform, output)
        if engine.name == "numba":
            from bitvec.runtime.predict.cpu import probabilities

            self.transform = partial(
                probabilities.transform, output, n_threads=engine.info().get("n_threads", 1)
            )

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

    def fill_scores(self, raw: Float[Array, "batch n_outputs"], out: Array) -> None:
        """Fill `out` with transformed scores."""
        out[...] = self.transform(raw)

    def leaf_predictions(self) -> Array | None:
        """Return what is predicted at each leaf of a lone tree, None of any other forest."""
        forest = self._forest
        if forest.n_trees != 1 or forest.leaves.linear is not None or forest.kernel is not None:
            return None
        leaf = np.arange(forest.n_leaves)[:, None]
        X = np.broadcast_to(forest.dtype.type(0), (forest.n_leaves, forest.n_features))
        predictions = np.empty((forest.n_leaves, *self.prediction_shape), self.prediction_dtype)
        self.fill_predictions(reference.accumulate(forest, X, leaf), predictions)
        return predictions

    def fill_predictions(self, raw: Float[Array, "batch n_outputs"], out: Array) -> None:
        """Fill `out` with labels, or with a regressor's values."""
        output = self.output
        value = raw if output.is_classifier and output.labels_from_raw else self.transform(raw)
        if output.is_classifier:
            out[...] = transforms.class_labels(output, value)
        else:
            out[...] = value.reshape(out.shape)

    def fill_probabilities(self, raw: Float[Array, "batch n_outputs"], out: Array) -> None:
        """Fill `out` with the probabilities of a classifier of one target."""
        (out[...],) = self.probabilities(raw)

    def probabilities(
        self, raw: Float[Array, "batch n_outputs"]
    ) -> list[Float[Array, "batch n_classes"]]:
        """Return the probabilities for each target."""
        return transforms.class_columns(self.output, self.transform(raw))

    def fill_isolation_scores(self, raw: Float[Array, "batch 1"], out: Array) -> None:
        """Fill `out` with what scikit-learn's `score_samples` returns."""
        np.negative(self.transform(raw)[:, 0], out=out)

    def fill_isolation_decision(self, raw: Float[Array, "batch 1"], out: Array) -> None:
        """Fill `out` with what scikit-learn's `decision_function` returns."""
        assert self.isolation_offset is not None
        self.fill_isolation_scores(raw, out)
        out -= self.isolation_offset


def _isolation_offset(forest: Forest) -> float | None:
    """Return what scikit-learn's `decision_function` subtracts; None for other forests."""
    source, kind = forest.source, forest.output.post_transform
    if source is None or kind is not PostTransform.EXPONENTIAL_STANDARD_RATIO:
        return None
    offset = source.metadata.get("offset")
    return offset if source.library == "sklearn" and isinstance(offset, float) else None
