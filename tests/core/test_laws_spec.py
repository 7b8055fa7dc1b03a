"""Laws of the source papers beyond the hard forms: polytopes, float32 routing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Activation, from_rows
from bitvec.core.output import Output, PostTransform
from bitvec.core.structure import from_children
from bitvec.core.transforms import predictions

SEEDS = st.integers(0, 2**32 - 1)


def polytope_stump(beta: np.ndarray, r: np.ndarray, q: float) -> Forest:
    """One node of a convex polytope tree; the last column of `beta` is the bias."""
    n_facets, n_features = beta.shape[0], beta.shape[1] - 1
    tests = from_rows(
        np.arange(0, n_facets * n_features + 1, n_features),
        np.tile(np.arange(n_features), n_facets),
        beta[:, :-1].ravel(),
        np.array([-np.log1p(-q)]),
        node_ptr=[0, n_facets],
        offset=-beta[:, -1],
        activation=Activation.SOFTPLUS,
        r=r,
    )
    return Forest(
        tests=tests,
        bitvectors=from_children([~0], [~1], [0]),
        leaves=Leaves(np.array([[0.0], [1.0]])),
        output=Output(1, np.dtype(np.float64)),
        inputs=Inputs(n_features),
    )


@given(SEEDS)
def test_a_polytope_node_is_the_threshold_of_its_noisy_or_gate(seed):
    """f(x) = 1 − exp(−sum of r_k ln(1 + exp(beta_k · x))), right where f > q."""
    rng = np.random.default_rng(seed)
    n_facets, n_features = rng.integers(1, 6), rng.integers(1, 5)
    beta = rng.normal(size=(n_facets, n_features + 1))
    r, q = rng.gamma(1.0, size=n_facets), rng.uniform(0.1, 0.9)
    X = rng.normal(size=(64, n_features)) * 2
    gate = -np.expm1(-(np.logaddexp(0, X @ beta[:, :-1].T + beta[:, -1]) @ r))
    clear = np.abs(gate - q) > 1e-9  # rounding of two different formulas
    right = reference.raw(polytope_stump(beta, r, q), X)[:, 0] == 1
    assert np.array_equal(right[clear], gate[clear] > q)
    assert clear.sum() > 32


@given(SEEDS)
def test_float32_and_float64_route_alike_away_from_the_boundary(seed):
    """The dtype of comparison decides only rows within rounding of a margin of 0."""
    rng = np.random.default_rng(seed)
    n_features = rng.integers(1, 6)
    w, b = rng.normal(size=(1, n_features)), rng.normal()
    X = rng.normal(size=(200, n_features)).astype(np.float32).astype(np.float64)
    margin = X @ w[0] - b
    clear = np.abs(margin) > 1e-5  # eight products of float32: eps 6e-8 times sum |w x| below 40
    for dtype in (np.float32, np.float64):
        stump = _oblique(w.astype(dtype), np.array([b], dtype))
        right = reference.raw(stump, X)[:, 0] == 1
        assert np.array_equal(right[clear], margin[clear] > 0)


def _oblique(w: np.ndarray, b: np.ndarray) -> Forest:
    stump = Forest.from_matrices(w, b, [[0], [1]], [0, 1])
    rows = {name: getattr(stump.tests, name).astype(w.dtype) for name in ("weight", "offset", "r")}
    return replace(stump, tests=replace(stump.tests, b=b, **rows))


def test_labels_from_raw_scores_break_at_zero_as_told():
    raw = np.array([[-1e-9], [0.0], [1e-17]])
    options = {"post_transform": PostTransform.SIGMOID, "classes": (np.array(["no", "yes"]),)}
    plain = Output(1, np.dtype(np.float64), **options)
    from_raw = replace(plain, labels_from_raw=True)
    tie = replace(from_raw, tie_to_second=True)
    assert predictions(plain, raw).tolist() == ["no", "no", "no"], "the sigmoid rounds to 0.5"
    assert predictions(from_raw, raw).tolist() == ["no", "no", "yes"]
    assert predictions(tie, raw).tolist() == ["no", "yes", "yes"]
