"""Trees of TAO that were boosted: their answers are added to a base score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bitvec.converters.native.leaf_values import checked_classes
from bitvec.converters.native.native_forest import NativeForest
from bitvec.converters.native.native_tree import predictions
from bitvec.converters.native.plain_arrays import finite, floats
from bitvec.converters.native.tao import TAO, convert_trees
from bitvec.core.arrays import Array, ArrayLike, put, require
from bitvec.core.forest import Forest
from bitvec.core.output import Output, PostTransform
from bitvec.core.shape_annotations import Float


@dataclass(frozen=True, slots=True, eq=False)
class TAOBoosting(NativeForest[TAO]):
    """Trees of TAO whose answers are added to a base score; `from_tao_boosting` builds one.

    Parameters
    ----------
    trees : tuple of TAO
        Without classes of their own.
    base_score : dtype of V, (n_outputs,)
    labels : (n_classes,), optional
        Labels, which make this a classifier: a single output is the log odds of the second of two,
        several are logits, one a class.

    Raises
    ------
    InvalidForestError
    """

    base_score: Float[Array, " n_outputs"]
    labels: Array | None = None

    kind = TAO

    def __post_init__(self) -> None:
        # A dataclass with slots is another class than the one that `super()` would see.
        NativeForest.__post_init__(self)
        first = self.trees[0]
        require(first.classes is None, "`trees` that are added must hold values, got classes.")
        base = finite("base_score", self.base_score, first.values.dtype, (first.n_outputs,))
        put(self, base_score=base)
        if self.labels is not None:
            put(self, labels=checked_classes(self.labels, first.n_outputs))

    @property
    def classes(self) -> Array | None:
        """Labels, which make this a classifier."""
        return self.labels

    def raw(self, X: ArrayLike) -> Float[Array, "batch n_outputs"]:
        """Return the sum over trees of their vectors for each row, then the base score added."""
        total = np.zeros_like(self.trees[0].raw(X))
        with np.errstate(over="ignore"):
            for tree in self.trees:
                total += tree.raw(X)
            return total + self.base_score

    def predict_proba(self, X: ArrayLike) -> Float[Array, "batch n_outputs"]:
        """Return the probability of each class, of two classes that of the second."""
        raw = self.raw(X)
        with np.errstate(over="ignore"):
            if raw.shape[1] == 1:
                odds: Array = 1 / (np.exp(-raw) + 1)
                return odds
            exp = np.exp(raw - raw.max(axis=1, keepdims=True))
        shares: Array = exp / exp.sum(axis=1, keepdims=True)
        return shares

    def predict(self, X: ArrayLike) -> Array:
        """Return labels, or for a regressor its values: (batch,), or (batch, n_outputs)."""
        raw = self.raw(X)
        if self.labels is not None and raw.shape[1] == 1:  # log odds
            return self.labels[(raw[:, 0] > 0).astype(np.intp)]
        return predictions(raw, self.labels)


def from_tao_boosting(
    trees: Sequence[TAO], base_score: ArrayLike, *, classes: ArrayLike | None = None
) -> TAOBoosting:
    """Build a sum of trees of TAO and a base score, for `bitvec.convert`.

    Parameters
    ----------
    trees : sequence of TAO
        As `from_tao` returns them, without classes.
    base_score : number, or numbers, (n_outputs,)
    classes : (n_classes,), optional
        Labels, which make this a classifier: a single output is the log odds of the second of two,
        several are logits, one a class.

    Returns
    -------
    TAOBoosting

    Raises
    ------
    InvalidForestError
        If the trees do not fit each other or the classes.

    Examples
    --------
    >>> from bitvec.converters.native.tao import from_tao
    >>> stump = from_tao(W=[[1, 1]], bias=[-1], left=[-1], right=[-2], V=[-3, 4])
    >>> from_tao_boosting([stump, stump], 0.5).predict([[1, 1], [0, 0]]).tolist()
    [8.5, -5.5]
    >>> from_tao_boosting([stump], 0.5, classes=["no", "yes"]).predict([[1, 1], [0, 0]]).tolist()
    ['yes', 'no']
    """
    trees = tuple(trees)
    dtype = trees[0].values.dtype if trees else np.dtype(np.float64)
    base = np.atleast_1d(floats("base_score", base_score, dtype))
    return TAOBoosting(trees, base, None if classes is None else np.asarray(classes))


def convert_boosting(model: TAOBoosting) -> Forest:
    """Convert trees of TAO as `tao.convert_trees` does, to be added to the base score."""
    link = PostTransform.IDENTITY
    if model.labels is not None:
        link = PostTransform.SIGMOID if model.base_score.size == 1 else PostTransform.SOFTMAX
    output = Output(
        model.base_score.size,
        model.base_score.dtype,
        base_score=model.base_score,
        post_transform=link,
        classes=None if model.labels is None else (model.labels,),
        labels_from_raw=model.labels is not None,
        iteration=np.arange(len(model.trees), dtype=np.int32),
    )
    return replace(convert_trees(model), output=output)
