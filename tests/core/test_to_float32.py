"""Laws of narrowing: routes of float32 rows stay, scores move by rounding only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from strategies import OBLIQUE, ONE_HOT, forests, forests_with_rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import MissingRule, Relation
from bitvec.core.output import Aggregate
from bitvec.core.to_float32 import F32, fold_weights, narrow_scores, narrow_tests
from bitvec.errors import UnsupportedModelError

F64 = np.dtype(np.float64)


def narrowed(forest):
    try:
        return narrow_tests(forest)
    except UnsupportedModelError:  # a missing rule that float32 cannot tell
        assume(False)


def in_range(change, forest):
    try:
        return change(forest)
    except UnsupportedModelError as error:  # leaves that float32 cannot hold within rounding
        assume("must be 0 or from" not in str(error) and "at most" not in str(error))
        raise


@given(forests_with_rows(kinds=ONE_HOT))
def test_every_row_of_float32_takes_the_same_way(drawn):
    forest, X = drawn
    narrow = narrowed(forest)
    assert narrow.dtype == F32
    with np.errstate(over="ignore"):
        X = X.astype(F32)
    wide = X.astype(forest.dtype)
    assert np.array_equal(reference.exit_leaves(narrow, X), reference.exit_leaves(forest, wide))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "b", [0.1, -0.1, 0.5, 1e-50, -1e-50, 1e300, -1e300, 3.4028235e38, np.inf, -np.inf, 0.0, -0.0]
)
def test_the_numbers_beside_a_threshold_stay_on_their_sides(b, relation):
    forest = Forest.from_matrices([[1.0]], [b], [[0], [1]], [0, 1])
    rule = np.full(1, relation, np.uint8)
    forest = replace(forest, tests=replace(forest.tests, relation=rule))
    narrow = narrow_tests(forest)
    with np.errstate(over="ignore"):
        near = F32.type(b)
        beside = [np.nextafter(near, F32.type(end)) for end in (-np.inf, np.inf)]
    X = np.array([near, *beside, 0, -0.0, np.inf, -np.inf, np.nan], F32)[:, None]
    expected = reference.exit_leaves(forest, X.astype(F64))
    assert np.array_equal(reference.exit_leaves(narrow, X), expected)


@given(forests(linear=False))
def test_scores_move_by_rounding_only(forest):
    narrow = in_range(narrow_scores, forest)
    assert narrow.output.dtype == F32
    if forest.output.dtype == F32:
        assert narrow is forest
    with np.errstate(over="ignore"):
        assert np.array_equal(narrow.leaves.v, forest.leaves.v.astype(F32), equal_nan=True)


@given(forests_with_rows(kinds=ONE_HOT))
def test_a_plain_sum_is_within_its_rounding(drawn):
    forest, X = drawn
    if forest.leaves.linear is not None:
        for change in (fold_weights, narrow_scores):
            with pytest.raises(UnsupportedModelError, match="must have constant leaves"):
                change(forest)
        return
    plain = in_range(fold_weights, forest)
    output = plain.output
    if output.aggregate is not Aggregate.SUM:
        assert plain is forest
        return
    assert output.scale is None
    assert output.tree_weight is None
    magnitudes = replace(
        forest,
        leaves=replace(forest.leaves, v=np.abs(forest.leaves.v)),
        output=replace(
            forest.output,
            **{
                name: np.abs(getattr(forest.output, name))
                for name in ("base_score", "scale", "tree_weight", "divisor")
                if getattr(forest.output, name) is not None
            },
        ),
    )
    with np.errstate(all="ignore"):
        bound = np.abs(reference.raw(magnitudes, X)).astype(F64)
        expected, found = reference.raw(forest, X), reference.raw(plain, X)
    unit = np.finfo(output.dtype).eps / 2
    sound = np.isfinite(expected) & np.isfinite(bound) & np.isfinite(found)
    assert np.array_equal(np.isfinite(expected) & np.isfinite(bound), sound)
    limit = 4 * (forest.n_trees + 3) * unit * bound + np.finfo(output.dtype).tiny
    assert np.all(np.abs(found[sound].astype(F64) - expected[sound]) <= limit[sound])


def test_what_cannot_be_compared_in_float32_is_refused():
    oblique = Forest.from_matrices([[0.3, 0.7]], [0.1], [[0], [1]], [0, 1])
    with pytest.raises(UnsupportedModelError, match="1 nodes that add several columns"):
        narrow_tests(oblique)
    stump = Forest.from_matrices([[1.0]], [0.1], [[0], [1]], [0, 1])
    rule = np.full(1, MissingRule.NAN_OR_ZERO, np.uint8)
    with pytest.raises(UnsupportedModelError, match="1e-35"):
        narrow_tests(replace(stump, tests=replace(stump.tests, missing_rule=rule)))
    with pytest.raises(UnsupportedModelError, match=r"float32, got 0\.1"):
        narrow_tests(replace(stump, inputs=Inputs(1, missing_sentinel=0.1)))
    assert OBLIQUE not in ONE_HOT


def one_tree(v, dtype=np.float64):
    return Forest.from_matrices(np.ones((1, 1), dtype), np.array([0.5], dtype), [[0], [1]], v)


@pytest.mark.parametrize("v", [[1e300, 2.0], [1.0, -1e39], [1e-50, 2.0], [1.0, -1e-40]])
def test_leaves_beyond_the_range_of_float32_are_refused(v):
    with pytest.raises(UnsupportedModelError, match=r"must be 0 or from 1\.18e-38 to 3\.4e\+38"):
        narrow_scores(one_tree(v))


def test_zeros_infinities_and_the_ends_of_the_range_stay():
    ends = np.finfo(F32)
    for v in ([0.0, -0.0], [np.inf, -np.inf], [float(ends.tiny), float(ends.max)]):
        assert narrow_scores(one_tree(v)).leaves.v.ravel().tolist() == v


def test_sums_beyond_the_range_of_float32_are_refused():
    forest = one_tree([1.0, 2e38]).take([0, 0])
    with pytest.raises(UnsupportedModelError, match=r"must sum to 3\.4e\+38 at most, got up to 4e"):
        narrow_scores(forest)
    assert narrow_scores(forest.take([0])).output.dtype == F32


@pytest.mark.parametrize(("v", "weight"), [(1e30, 1e30), (1e-30, 1e-30), (1e300, 1e300)])
def test_products_beyond_the_range_of_their_dtype_are_refused(v, weight):
    dtype = np.dtype(np.float64 if v > 1e38 else np.float32)
    forest = one_tree([v, 1.0], dtype)
    forest = replace(
        forest,
        leaves=replace(forest.leaves, v=forest.leaves.v.astype(dtype)),
        output=replace(
            forest.output,
            dtype=dtype,
            base_score=np.zeros(forest.n_outputs, dtype),
            tree_weight=np.array([weight], dtype),
        ),
    )
    with pytest.raises(UnsupportedModelError, match="must be 0 or from"):
        fold_weights(forest)
    dropped = replace(forest, output=replace(forest.output, tree_weight=np.zeros(1, dtype)))
    assert not fold_weights(dropped).leaves.v.any()


def test_rows_of_float64_are_refused_where_thresholds_are_rounded():
    stump = Forest.from_matrices([[1.0]], [0.1], [[0], [1]], [0, 1])
    with pytest.raises(UnsupportedModelError, match="must read rows of float32, got"):
        narrow_tests(stump, rows=F64)
    assert narrow_tests(stump, rows=np.dtype(np.float16)).dtype == F32
    narrow = narrow_tests(stump)
    assert narrow_tests(narrow, rows=F64) is narrow
