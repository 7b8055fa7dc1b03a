"""Hypothesis strategies: rows with densities around their values, weights and targets."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from kddt_growth import Sample

from bitvec.converters.native.kddt import gaussian_pieces
from bitvec.core.kernels import FeatureKernel

SHAPES = {
    "box": ([-1.0, 1.0], [1.0]),
    "one-sided": ([0.0, 1.0], [1.0]),
    "triangle": ([-1.0, -0.5, 0.0, 0.5, 1.0], [0.125, 0.375, 0.375, 0.125]),
    "asymmetric": ([-0.5, 0.25, 3.0], [0.75, 0.25]),
    "hollow": ([-2.0, -1.0, 1.0, 2.0], [0.5, 0.0, 0.5]),
    "empty ends": ([-3.0, -1.0, 0.5, 4.0], [0.0, 1.0, 0.0]),
    "gaussian": tuple(part.tolist() for part in gaussian_pieces(6, 3.0)),
}
CRITERIA = ["labels", "shares", "entropy", "squares"]


def kernel(name: str, bandwidth: float | list[float], location: tuple = ()) -> FeatureKernel:
    """Return a kernel of a named shape."""
    edges, mass = SHAPES[name]
    return FeatureKernel(
        np.array(edges), np.array(mass), np.atleast_1d(bandwidth).astype(float), np.array(location)
    )


def targets(criterion: str, n_rows: int, n_outputs: int, rng: np.random.Generator) -> np.ndarray:
    """Return targets that the criterion can read."""
    if criterion == "squares":
        return rng.integers(-8, 9, (n_rows, n_outputs)) / 4
    if criterion == "labels":
        return np.eye(max(n_outputs, 2))[rng.integers(0, max(n_outputs, 2), n_rows)]
    share = rng.integers(0, 5, (n_rows, max(n_outputs, 2))) + np.eye(1, max(n_outputs, 2))
    return share / share.sum(axis=1, keepdims=True)


def values(n_rows: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers with duplicates, and some that are almost equal.

    They are of few binary digits: with bandwidths that are powers of two, each event is exact.
    """
    X = rng.integers(-16, 17, (n_rows, n_features)) / 8
    return X + 2.0**-20 * rng.integers(0, 2, X.shape) * rng.integers(0, 2)


@st.composite
def samples(
    draw,
    *,
    bandwidths: st.SearchStrategy[float] | None = None,
    max_rows: int = 9,
    max_features: int = 3,
    criteria: list[str] | None = None,
    densities: tuple[str, ...] = ("constant", "by location", "by value", "some crisp"),
) -> Sample:
    """Draw a sample; bandwidths of one sample differ by less than 2^7."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(2, max_rows))
    n_features = draw(st.integers(1, max_features))
    criterion = draw(st.sampled_from(criteria or CRITERIA))
    unit = draw(bandwidths or st.sampled_from([2.0**-4, 2.0**-2, 0.5, 1.0, 2.0]))
    kind = draw(st.sampled_from(densities))
    names = [draw(st.sampled_from(sorted(SHAPES))) for _ in range(n_features)]
    if kind == "by location":
        kernels = [kernel(name, [unit, 4 * unit, unit / 8], (-0.5, 0.75)) for name in names]
    else:
        kernels = [kernel(name, unit) for name in names]
    uncertainty = None
    if kind == "by value":
        uncertainty = unit * 2.0 ** rng.integers(-3, 3, (n_rows, n_features))
    elif kind == "some crisp":
        uncertainty = unit * rng.integers(0, 2, (n_rows, n_features))
    weight = rng.choice([0.0, 0.5, 1.0, 1.0, 1.0, 2.0, 1 / 3], n_rows)
    weight[0] = 1.0
    return Sample(
        values(n_rows, n_features, rng),
        tuple(kernels),
        uncertainty,
        weight,
        targets(criterion, n_rows, draw(st.integers(1, 3)), rng),
        criterion,
    )


@st.composite
def boxes(draw, sample: Sample, feature: int) -> tuple[float, float]:
    """Draw an interval of a feature that holds some mass: wide, narrow, or just at an event."""
    widest = max(sample.density(row, feature).bandwidth[0] for row in range(len(sample.X)))
    middle = float(draw(st.sampled_from(sample.X[:, feature].tolist())))
    units = st.sampled_from([0.0, 2.0**-16, 2.0**-8, 0.125, 0.375, 0.5, 1.0, 2.0, np.inf])
    reach = max(widest, 2.0**-8)
    return middle - reach * draw(units) - 2.0**-30, middle + reach * draw(units)
