"""Base of native trees: each answers for itself, row by row, without a Forest."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from bitvec.converters.native import children
from bitvec.converters.native.leaf_values import labels_of
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.errors import InputError


def rows(X: ArrayLike, n_features: int, dtype: np.dtype) -> Float[Array, "batch n_features"]:
    """Return X in the dtype in which a native tree computes.

    Raises
    ------
    InputError
        If X is not (batch, n_features) numbers.
    """
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != n_features or X.dtype.kind not in "biuf":
        raise InputError(
            f"`X` must be numbers of shape (n, {n_features}), got {X.dtype} of shape {X.shape}: "
            "pass the columns that the tree was trained on."
        )
    with np.errstate(over="ignore"):
        return X.astype(dtype)


class NativeTree(ABC):
    """A tree of one paper, in that paper's symbols.

    A row goes right where the node's own rule says so; see each class. A margin that is NaN exceeds
    no threshold.
    """

    __slots__ = ()

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    classes: Array | None

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Columns of X."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """The dtype in which rows are read and compared."""

    @property
    @abstractmethod
    def values(self) -> Float[Array, "n_leaves n_outputs"]:
        """The constant vector of each leaf."""

    @abstractmethod
    def goes_right(self, node: int, Z: Float[Array, "batch n_columns"]) -> Bool[Array, " batch"]:
        """Return which rows of Z go right at a node, by the paper's rule."""

    @property
    def n_nodes(self) -> int:
        """Number of internal nodes."""
        return self.left.size

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.left.size + 1

    @property
    def n_outputs(self) -> int:
        """Columns of the leaf vectors."""
        return self.values.shape[1]

    def columns(self, X: ArrayLike) -> Float[Array, "batch n_columns"]:
        """Return what the nodes read: X itself, unless there is a feature map."""
        return rows(X, self.n_features, self.dtype)

    def decide(self, X: ArrayLike) -> Int64[Array, " batch"]:
        """Return the leaf that each row reaches, by its place among the leaf vectors."""
        Z = self.columns(X)
        return children.walk(
            self.left, self.right, len(Z), lambda node, at: self.goes_right(node, Z[at])
        )

    def raw(self, X: ArrayLike) -> Float[Array, "batch n_outputs"]:
        """Return the vector of the leaf that each row reaches."""
        return self.values[self.decide(X)]

    def predict(self, X: ArrayLike) -> Array:
        """Return labels, or for a regressor its values: (batch,), or (batch, n_outputs)."""
        return predictions(self.raw(X), self.classes)


def predictions(raw: Float[Array, "batch n_outputs"], classes: Array | None) -> Array:
    """Return labels, or for a regressor its values, from raw scores."""
    if classes is not None:
        return labels_of(raw, classes)
    return raw[:, 0] if raw.shape[1] == 1 else raw
