"""What follows from exit leaves: contributions add up to the raw score, paths hold at any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import AXIS, KERNEL, forests, forests_with_rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output
from bitvec.errors import BitvecError
from bitvec.runtime.predict import leaf_outputs
from bitvec.runtime.predict.predictor import compile


def added(forest, contributions):
    """Add contributions as the source does."""
    output = forest.output
    total = np.zeros((len(contributions), output.n_outputs), output.dtype)
    if output.base_first:
        total[:] = output.base_score
    with np.errstate(all="ignore"):
        for tree in range(forest.n_trees):
            total += contributions[:, tree]
        return output.finish(total, forest.n_trees)


def same_bits(a, b):
    return (
        a.dtype == b.dtype
        and np.array_equal(
            np.where(np.isnan(a), 0, a).view(f"u{a.itemsize}"),
            np.where(np.isnan(b), 0, b).view(f"u{b.itemsize}"),
        )
        and np.array_equal(np.isnan(a), np.isnan(b))
    )


def is_additive(forest):
    return forest.output.aggregate in (Aggregate.SUM, Aggregate.MEAN)


@given(forests_with_rows())
def test_contributions_add_up_to_the_raw_score_bit_for_bit(drawn):
    forest, X = drawn
    predictor = compile(forest, n_jobs=1)
    if not is_additive(forest):
        with pytest.raises(BitvecError, match="a sum or a mean over trees, got the aggregate"):
            predictor.tree_contributions(X)
        return
    contributions = predictor.tree_contributions(X)
    assert contributions.shape == (len(X), forest.n_trees, forest.n_outputs)
    with np.errstate(all="ignore"):
        assert same_bits(added(forest, contributions), reference.raw(forest, X))


@settings(max_examples=15)
@given(forests(kinds=(AXIS, KERNEL), soft=True, linear=False, max_leaves=8))
def test_contributions_of_a_soft_forest_add_up_too(forest):
    X = np.linspace(-1, 1, 4 * forest.n_features, dtype=forest.dtype).reshape(4, -1)
    if is_additive(forest):
        contributions = compile(forest).tree_contributions(X)
        with np.errstate(all="ignore"):
            assert same_bits(added(forest, contributions), reference.raw(forest, X))


def test_a_sum_that_starts_at_minus_zero_is_kept():
    # The second output gets nothing from any tree.
    leaves = Leaves(np.array([[1.0], [2.0]]), output=np.zeros(2, np.int32))
    base = np.array([-0.0, -0.0])
    output = Output(2, np.dtype(np.float64), base_score=base, base_first=True)
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    forest = replace(stump, leaves=leaves, output=output)
    X = np.zeros((1, 2))
    raw = compile(forest).raw(X)
    assert np.signbit(raw).tolist() == [[False, True]]
    assert same_bits(added(forest, compile(forest).tree_contributions(X)), raw)


@pytest.mark.parametrize("pairs", [1, 7, 1 << 20])
@given(drawn=forests_with_rows())
@settings(max_examples=15)
def test_the_size_of_parts_does_not_matter(pairs, drawn):
    forest, X = drawn
    predictor = compile(forest, n_jobs=1)
    verbs = ["apply", "per_tree", "decision_path"] + ["tree_contributions"] * is_additive(forest)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        expected = [dense(getattr(predictor, verb)(X)) for verb in verbs]
        patch.setattr(leaf_outputs, "PAIRS", pairs)
        for verb, whole in zip(verbs, expected, strict=True):
            got = dense(getattr(predictor, verb)(X))
            assert np.array_equal(got, whole, equal_nan=whole.dtype.kind == "f")


def dense(answer):
    answer = answer[0] if isinstance(answer, tuple) else answer
    return answer.toarray() if hasattr(answer, "toarray") else answer


@settings(max_examples=15)
@given(forests_with_rows())
def test_a_path_is_a_well_formed_matrix(drawn):
    forest, X = drawn
    paths = compile(forest, n_jobs=1).decision_path(X)
    if forest.n_trees > 1:
        paths, ptr = paths
        assert ptr.dtype == np.int64
        assert np.array_equal(np.diff(ptr), 2 * np.diff(forest.bitvectors.leaf_ptr) - 1)
        assert ptr[0] == 0
    paths.check_format(full_check=True)
    assert paths.has_sorted_indices
    assert paths.has_canonical_format
    assert paths.indices.dtype == paths.indptr.dtype == np.int32
    assert paths.shape == (len(X), forest.n_nodes + forest.n_leaves)


def test_paths_with_wide_indices_are_the_same(monkeypatch):
    monkeypatch.setattr(leaf_outputs, "NARROW", 2)
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    paths = leaf_outputs.decision_path(forest, np.zeros((3, 1), np.int32))
    assert paths.toarray().tolist() == [[1, 1, 0]] * 3
