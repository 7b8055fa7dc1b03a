"""Sparse matrices are answered from the columns that are read, as if all had been."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KERNEL, KINDS, forests_with_rows

from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.source import Source
from bitvec.errors import InputError
from bitvec.runtime.predict.narrow_forests import narrowed, read_columns
from bitvec.runtime.predict.predictor import compile

sparse = pytest.importorskip("scipy.sparse")

WIDTH = 23


def same(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)  # NaN equals NaN


def spread(forest: Forest, X: np.ndarray, place: np.ndarray) -> tuple[Forest, np.ndarray]:
    """Return a forest that reads its columns at other places of wider rows, and such rows."""
    leaves, linear, kernel = forest.leaves, forest.leaves.linear, forest.kernel
    if linear is not None:
        column = place[linear.column].astype(np.int32)
        leaves = replace(leaves, linear=replace(linear, column=column))
    if kernel is not None:
        kernels = dict(zip(place.tolist(), kernel, strict=True))
        kernel = tuple(kernels.get(at) for at in range(WIDTH))
    inputs = Inputs(WIDTH, missing_sentinel=forest.inputs.missing_sentinel)
    tests = replace(forest.tests, column=place[forest.tests.column].astype(np.int32))
    wide = np.ones((len(X), WIDTH), X.dtype)
    wide[:, place] = X
    return replace(forest, tests=tests, leaves=leaves, inputs=inputs, kernel=kernel), wide


@given(forests_with_rows(kinds=(*KINDS, KERNEL), soft=True), st.permutations(range(WIDTH)))
def test_answers_are_those_to_all_columns(drawn, order):
    forest, X = drawn
    forest, X = spread(forest, X, np.array(order)[: forest.n_features])
    X = sparse.csr_array(X)
    X[:, order[-1]] = np.nan  # which no tree reads
    read = read_columns(forest)
    dense = compile(forest, engine="reference")
    found = compile(forest)
    assert (found._sparse is None) == (read.size == 0)
    narrow = compile(narrowed(forest, read)) if read.size else found
    verbs = ["raw", "scores", "predict", "exit_leaves", "apply", "per_tree"]
    for verb in [*verbs, "predict_proba"] if forest.output.is_classifier else verbs:
        expected = getattr(dense, verb)(X.toarray())
        same(getattr(found, verb)(X), expected)
        if read.size:
            same(getattr(narrow, verb)(X.toarray()[:, read]), expected)
        out = np.empty_like(expected)
        assert getattr(found, verb)(X.tocsc(), out=out) is out
        same(out, expected)


def wide_stump(**metadata: bool) -> Forest:
    forest = Forest.from_matrices([[0, 0, 1, 0, 0]], [0.5], [[0], [1]], [10, 20])
    return replace(forest, source=Source("sklearn", "1.9", metadata=metadata))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_columns_that_are_not_read_hold_nothing_that_the_source_refuses(value):
    X = sparse.csr_matrix(([value, 1.0], ([0, 1], [4, 2])), shape=(3, 5))
    assert compile(wide_stump()).predict(X).tolist() == [10, 20, 10]
    refusing = compile(wide_stump(refuses_missing=True, refuses_infinite=True))
    if value == 1e300:
        assert refusing.predict(X).tolist() == [10, 20, 10]
        return
    with pytest.raises(InputError, match="contains"):
        refusing.predict(X)


def test_absent_entries_are_missing_where_the_forest_says_so():
    forest = wide_stump()
    tests = replace(forest.tests, missing_right=np.array([True]))
    inputs = replace(forest.inputs, absent_is_missing=True)
    X = sparse.csr_matrix(([0.0, 1.0], ([0, 1], [2, 0])), shape=(2, 5))
    assert compile(replace(forest, tests=tests, inputs=inputs)).predict(X).tolist() == [10, 20]


def test_what_does_not_fit_is_refused_and_no_rows_have_no_answers():
    predictor = compile(wide_stump())
    assert predictor.predict(sparse.csr_matrix((0, 5))).shape == (0,)
    for X, match in ((sparse.csr_matrix((2, 1)), "5 features"), (sparse.eye(5) * 1j, "complex")):
        with pytest.raises(InputError, match=match):
            predictor.predict(X)
