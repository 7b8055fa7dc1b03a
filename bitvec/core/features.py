"""The feature map φ that may stand in front of S."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float


@runtime_checkable
class FeatureMap(Protocol):
    """A function of X whose columns S reads instead of those of X (Eq. 6, Zhang 2021)."""

    @property
    def n_inputs(self) -> int:
        """Columns of X."""
        ...

    @property
    def n_features(self) -> int:
        """Columns of φ(X)."""
        ...

    def __call__(self, X: Float[Array, "batch n_inputs"]) -> Float[Array, "batch n_features"]:
        """Return φ(X) in the dtype of X."""
        ...
