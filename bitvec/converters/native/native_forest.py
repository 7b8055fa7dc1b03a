"""A forest of native trees of one paper, which averages their vectors or adds them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np

from bitvec.converters.native.native_tree import NativeTree, predictions
from bitvec.core.arrays import Array, ArrayLike, put, require
from bitvec.core.shape_annotations import Float, Int64

Tree = TypeVar("Tree", bound=NativeTree)


@dataclass(frozen=True, slots=True, eq=False)
class NativeForest(Generic[Tree]):
    """Native trees whose vectors are averaged, unless a subclass says otherwise.

    Parameters
    ----------
    trees : tuple of trees
        At least one; all of one class, with the same columns of X, dtypes, outputs and classes.

    Raises
    ------
    InvalidForestError
    """

    trees: tuple[Tree, ...]
    kind: ClassVar[type] = NativeTree
    """The class of the trees."""

    def __post_init__(self) -> None:
        put(self, trees=tuple(self.trees))
        require(self.trees, "`trees` must hold at least one tree.")
        first, kind = self.trees[0], self.kind.__name__
        for number, tree in enumerate(self.trees):
            require(
                isinstance(tree, self.kind),
                f"each of `trees` must be of class {kind}, got {type(tree).__name__}: see "
                f"from_{kind.lower()}.",
            )
            for name, one, other in (
                ("columns of X", first.n_features, tree.n_features),
                ("dtype", first.dtype, tree.dtype),
                ("outputs", first.n_outputs, tree.n_outputs),
                ("dtype of leaves", first.values.dtype, tree.values.dtype),
                ("classes", _listed(first.classes), _listed(tree.classes)),
            ):
                require(
                    one == other,
                    f"all `trees` must have the same {name}, got {one} at tree 0 and {other} at "
                    f"tree {number}.",
                )

    @property
    def classes(self) -> Array | None:
        """Labels, which make this a classifier."""
        return self.trees[0].classes

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.trees[0].n_features

    def decide(self, X: ArrayLike) -> Int64[Array, "batch n_trees"]:
        """Return the leaf that each row reaches in each tree."""
        return np.stack([tree.decide(X) for tree in self.trees], axis=1)

    def raw(self, X: ArrayLike) -> Float[Array, "batch n_outputs"]:
        """Return the mean over trees of their vectors for each row.

        Added in the order of the trees, then divided by their number.
        """
        total = np.zeros_like(self.trees[0].raw(X))
        with np.errstate(over="ignore"):
            for tree in self.trees:
                total += tree.raw(X)
        return total / total.dtype.type(len(self.trees))

    def predict(self, X: ArrayLike) -> Array:
        """Return labels, or for a regressor its values: (batch,), or (batch, n_outputs)."""
        return predictions(self.raw(X), self.classes)


def _listed(classes: Array | None) -> list[object] | None:
    return None if classes is None else classes.tolist()
