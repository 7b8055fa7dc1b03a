"""Laws of conversions from scikit-learn: the library itself answers, bit for bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import bitvec
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.core import reference, transforms
from bitvec.core.float_keys import ulps
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from tests.models.sklearn import texts


def certified(model: Any, X: np.ndarray) -> Forest:
    """The forest of a model, whose certificate is complete and exact."""
    forest = convert(model)
    certificate = bitvec.certify(forest, model, X[:600])
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1
    assert {"leaf ids", "raw scores"} <= set(certificate.parts)
    assert certificate.max_ulp == 0
    return forest


def rows_where_trees_decide(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Rows of X, and copies with one value at a threshold, an ulp beside it, or special."""
    dtype = forest.dtype.type
    X = np.asarray(X, dtype)[:100]
    rng = np.random.default_rng(0)
    nodes = rng.permutation(np.flatnonzero(forest.tests.kind == Kind.MARGIN))[:60]
    parts = [X]
    for node in nodes:
        b = forest.tests.b[node]
        near = [np.nextafter(b, dtype(end)) for end in (np.inf, -np.inf)]
        values = [b, *near, np.nan, 0.0, -0.0, 1e-45, -1e-45]
        block = np.repeat(X[rng.integers(len(X), size=1)], len(values), axis=0)
        block[:, forest.tests.feature[node]] = values
        parts.append(block)
    parts.append(np.where(rng.random(X.shape) < 0.3, dtype(np.nan), X))
    return np.concatenate(parts)


def assert_equal_to_source(
    model: Any, X: np.ndarray, categorical: tuple[int, ...] = (), *, of_texts: bool = False
) -> Forest:
    """The forest leaves, sums and predicts as the library does, given texts for codes if asked."""
    forest, source = convert(model), oracle_of(model)
    rows = rows_where_trees_decide(forest, X)
    if "Boosting" in type(model).__name__ and not source.accepts_missing:
        rows = rows[~np.isnan(rows).any(axis=1)]
    infinite = rows.copy()
    numbers = np.setdiff1d(np.arange(forest.n_features), categorical)
    infinite[::2, numbers[0]], infinite[1::3, numbers[-1]] = np.inf, -np.inf
    for Z in (rows, infinite):
        exits = reference.exit_leaf_traversal(forest, Z)
        own = forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]
        np.testing.assert_array_equal(own, source.leaf_ids(Z))
    # A split of missing against present values has an infinite threshold.
    finite = rows[~np.isinf(rows).any(axis=1)]
    if not source.accepts_missing:
        finite = finite[~np.isnan(finite).any(axis=1)]
    raw = reference.accumulate(forest, finite, reference.exit_leaf_traversal(forest, finite))
    want = source.raw(finite)
    assert raw.dtype == want.dtype == np.float64
    np.testing.assert_array_equal(raw, want)
    # Labels, values and probabilities, through the library's own methods.
    asked = texts(finite, categorical) if of_texts else finite
    own = one_job(model).predict(asked)
    np.testing.assert_array_equal(transforms.predictions(forest.output, raw), np.squeeze(own))
    predictor = bitvec.compile(forest)
    np.testing.assert_array_equal(predictor.predict(finite), np.squeeze(own))
    if hasattr(model, "predict_proba") and len(forest.output.groups) == 1:
        assert_same_probabilities(
            model, one_job(model).predict_proba(asked), predictor.predict_proba(finite)
        )
    return forest


def assert_same_probabilities(model: Any, own: np.ndarray, got: np.ndarray) -> None:
    """Probabilities are those of the library: equal means, and links up to few ulps."""
    if not hasattr(model, "decision_function"):
        np.testing.assert_array_equal(got, own)
        return
    # scipy's expit and scikit-learn's softmax divide and sum in an order of their own, AdaBoost
    # computes a softmax of the two halves of a score; near 1 - p the ulps of the complement grow,
    # so that is bounded absolutely.
    np.testing.assert_allclose(own, got, rtol=0, atol=4e-16)
    if "AdaBoost" not in type(model).__name__:
        assert ulps(own[:, -1:], got[:, -1:]).max() <= 4
    elif own.shape[1] > 2:
        assert ulps(own, got).max() <= 4


def one_job(model: Any) -> Any:
    """A copy of the model that neither uses threads nor asks for names of features."""
    model = copy.copy(model)
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    vars(model).pop("feature_names_in_", None)
    return model
