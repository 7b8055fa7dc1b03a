"""Linear maps of columns before the trees, as a feature map: exact but for the order of sums.

z = W x + b holds the map itself and the scalers before it, of which each is x · s + c. Its sums are
taken in another order than the library's, so that rows within rounding of a threshold may exit
elsewhere: such a pipeline is converted only where that is allowed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.converters.attribute_records import library_class
from bitvec.converters.pipelines.derived_columns import Step
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Layers, Linear
from bitvec.core.forest import Forest
from bitvec.core.inputs import Domain, Inputs

MAPS: Final = ("PCA", "IncrementalPCA", "TruncatedSVD")
_MOST = float(np.finfo(np.float64).max)


class LinearMap(NamedTuple):
    """z = W x + b, and the steps behind it."""

    W: Array
    b: Array
    after: list[Step]

    def under(self, forest: Forest, names: tuple[str, ...] | None) -> Forest:
        """Return the forest of z over x, which must be finite float64."""
        n_features = self.W.shape[1]
        domain = Domain("float64", ((-_MOST, _MOST),), missing=False)
        inputs = Inputs(n_features, names, domains=(domain,) * n_features)
        return replace(forest, inputs=inputs, feature_map=Layers((Linear(self.W, self.b),)))


def linear_map(steps: list[Step], n_features: int) -> LinearMap | None:
    """Return the last linear map among steps with all before it, None if there is none.

    Raises
    ------
    UnsupportedModelError
        If a step before it is neither a scaler nor a linear map.
    """
    last = max((at for at, s in enumerate(steps) if library_class(s.model) in MAPS), default=None)
    if last is None:
        return None
    W, b = np.eye(n_features), np.zeros(n_features)
    for step in steps[: last + 1]:
        own, offset = _of(step, len(b))
        W, b = own @ W, own @ b + offset
    return LinearMap(W, b, steps[last + 1 :])


def _of(step: Step, n: int) -> tuple[Array, Array]:
    """Return W and b of one step."""
    kind = library_class(step.model)
    if kind in MAPS:
        return _components(step, n)
    if kind not in _SCALERS or step.option("clip", False):
        raise step.refuse("before a linear map, scalers without clipping alone can be rounded into")
    scale, offset = np.ones(n), np.zeros(n)
    for attribute, option, work in _SCALERS[kind]:
        if step.option(option, True):
            value = step.array(attribute, n).astype(np.float64)
            if work == "divide":
                scale, offset = scale / value, offset / value
            elif work == "multiply":
                scale, offset = scale * value, offset * value
            else:
                offset = offset + (value if work == "add" else -value)
    return np.diag(scale), offset


def _components(step: Step, n: int) -> tuple[Array, Array]:
    W: Any = np.asarray(step.fitted("components_"), np.float64)
    if W.ndim != 2 or W.shape[1] != n:
        raise step.refuse(f"its `components_` must be of {n} columns")
    if step.option("whiten", False):
        variance = np.sqrt(step.array("explained_variance_", len(W)).astype(np.float64))
        W = W / np.maximum(variance, np.finfo(np.float64).eps)[:, None]
    mean = getattr(step.model, "mean_", None)
    offset = np.zeros(len(W)) if mean is None else -(W @ np.asarray(mean, np.float64))
    return W, offset


_SCALERS: Final = {
    "StandardScaler": (("mean_", "with_mean", "subtract"), ("scale_", "with_std", "divide")),
    "MinMaxScaler": (("scale_", "", "multiply"), ("min_", "", "add")),
    "MaxAbsScaler": (("scale_", "", "divide"),),
    "RobustScaler": (
        ("center_", "with_centering", "subtract"),
        ("scale_", "with_scaling", "divide"),
    ),
}
"""Attributes of scalers in their order, the option that leaves each out, and its use."""
