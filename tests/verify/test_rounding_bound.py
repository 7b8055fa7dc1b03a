"""How far rounding may bring raw scores apart: enough for honest sums, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Aggregate, Output
from bitvec.core.structure import from_children
from bitvec.core.to_float32 import fold_weights, narrow_scores
from bitvec.verify.certificates import compare, load
from bitvec.verify.certificates.footing import rounding_bound
from bitvec.verify.oracle import Oracle

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
N_FEATURES = 3


def drawn(rng: np.random.Generator, n_trees: int, *, width: int = 1, signed: bool = True) -> Forest:
    """Trees of three leaves on columns of their own choice, added in float64."""
    tree = np.arange(n_trees)
    left = np.stack([2 * tree + 1, ~(3 * tree)], axis=1).ravel()
    right = np.stack([~(3 * tree + 2), ~(3 * tree + 1)], axis=1).ravel()
    B = from_children(left, right, 2 * tree)
    tests = axis_aligned(
        rng.integers(0, N_FEATURES, 2 * n_trees), rng.normal(size=2 * n_trees).astype(F32)
    )
    v = rng.normal(size=(3 * n_trees, width)) if signed else rng.random((3 * n_trees, width)) + 0.5
    return Forest(tests, B, Leaves(v), Output(width, F64), Inputs(N_FEATURES))


def kinds(rng: np.random.Generator, n_trees: int, *, signed: bool) -> dict[str, Forest]:
    """A forest for each way in which leaves become raw scores."""
    plain = drawn(rng, n_trees, signed=signed)
    wide = drawn(rng, n_trees, width=3, signed=signed)
    base = rng.normal(size=1) if signed else 0.1 * rng.random(1)
    weight = rng.random(n_trees) + 0.1

    def with_output(forest: Forest, **changed) -> Forest:
        return replace(forest, output=replace(forest.output, **changed))

    three = replace(
        plain,
        leaves=Leaves(plain.leaves.v, output=np.repeat(np.arange(n_trees, dtype=np.int32) % 3, 3)),
        output=Output(3, F64),
    )
    return {
        "sum": plain,
        "base score": with_output(plain, base_score=base),
        "base score first": with_output(plain, base_score=base, base_first=True),
        "weights": with_output(plain, tree_weight=weight),
        "scale": with_output(plain, scale=np.array([0.37]), base_score=base),
        "mean": with_output(plain, aggregate=Aggregate.MEAN),
        "mean of vectors": with_output(wide, aggregate=Aggregate.MEAN),
        "mean and base score": with_output(plain, aggregate=Aggregate.MEAN, base_score=base),
        "weighted mean": with_output(plain, aggregate=Aggregate.MEAN, tree_weight=weight),
        "divisor": with_output(plain, aggregate=Aggregate.MEAN, divisor=np.array([n_trees / 3])),
        "outputs by tree": three,
        "divisor of each": with_output(
            three, aggregate=Aggregate.MEAN, divisor=np.full(3, max(n_trees / 3, 1.0))
        ),
        "least": with_output(plain, aggregate=Aggregate.MIN, base_score=base),
        "greatest": with_output(plain, aggregate=Aggregate.MAX),
    }


def raw(forest: Forest, X: np.ndarray) -> np.ndarray:
    exits = reference.exit_leaf_traversal(forest, reference.columns(forest, X))
    return reference.accumulate(forest, X, exits)


def inexact(forest: Forest) -> Oracle:
    """A forest as a runtime that promises no bits."""
    return Oracle("narrow", "1", lambda X: raw(forest, X), exact=False)


def passes(forest: Forest, oracle: Oracle, X: np.ndarray | None = None) -> bool:
    """Whether a certificate of values alone passes: the runtime shows nothing else."""
    return compare(forest, oracle, X=X, allow_values_only=True).passed


def shuffled(rng: np.random.Generator, forest: Forest) -> Forest:
    """The same trees in another order."""
    return forest.take(rng.permutation(forest.n_trees))


def gap(forest: Forest, other: Forest, X: np.ndarray) -> float:
    return float(np.abs(raw(forest, X) - raw(other, X).astype(F64)).max())


@given(st.integers(0, 2**32), st.integers(1, 25))
@settings(max_examples=5)
def test_honest_sums_in_float32_are_within_the_bound_in_every_order(seed, n_trees):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, N_FEATURES)).astype(F32)
    for kind, forest in kinds(rng, n_trees, signed=True).items():
        allowed = rounding_bound(forest, F32, F64)
        for narrow in (narrow_scores(forest), narrow_scores(fold_weights(forest))):
            assert gap(forest, narrow, X) <= allowed, kind
            assert gap(forest, shuffled(rng, narrow), X) <= allowed, kind


@pytest.mark.parametrize("n_trees", [1, 10, 100])
def test_leaves_shifted_by_a_hundred_thousandth_are_beyond_the_bound(n_trees):
    rng = np.random.default_rng(n_trees)
    X = rng.normal(size=(100, N_FEATURES)).astype(F32)
    for kind, forest in kinds(rng, n_trees, signed=False).items():
        narrow = narrow_scores(fold_weights(forest))
        v = narrow.leaves.v * (1 + 1e-5)
        shifted = replace(narrow, leaves=replace(narrow.leaves, v=v.astype(F32)))
        assert gap(forest, shifted, X) > rounding_bound(forest, F32, F64), kind


@pytest.mark.parametrize("name", ["RandomForestClassifier", "RandomForestRegressor", "Gradient"])
def test_forests_of_scikit_learn_pass_narrowed_and_not_shifted(name):
    ensemble = pytest.importorskip("sklearn.ensemble")
    datasets = pytest.importorskip("sklearn.datasets")
    from bitvec.converters.sklearn.read import convert

    X, y = datasets.load_diabetes(return_X_y=True)
    model = {
        "RandomForestClassifier": ensemble.RandomForestClassifier(100, max_depth=3, random_state=0),
        "RandomForestRegressor": ensemble.RandomForestRegressor(100, max_depth=3, random_state=0),
        "Gradient": ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0),
    }[name]
    model.fit(X, y > 140 if "Classifier" in name else y)
    forest = convert(model)
    narrow = narrow_scores(fold_weights(forest))
    X = X.astype(F32)
    assert passes(forest, inexact(narrow), X=X)
    v = narrow.leaves.v * (1 + 1e-5)
    shifted = replace(narrow, leaves=replace(narrow.leaves, v=v.astype(F32)))
    assert not passes(forest, inexact(shifted), X=X)


def test_a_mean_has_the_bound_of_its_sum_divided():
    forest = kinds(np.random.default_rng(0), 50, signed=True)["mean"]
    total = replace(forest, output=replace(forest.output, aggregate=Aggregate.SUM))
    mean, summed = rounding_bound(forest, F32, F64), rounding_bound(total, F32, F64)
    assert mean == pytest.approx(summed / 50)
    base = replace(forest, output=replace(forest.output, base_score=np.array([1e6])))
    # The base score is added after the division, and not divided.
    assert rounding_bound(base, F32, F64) > 1e6 * 2.0**-24


def test_a_score_that_the_narrower_dtype_cannot_hold_is_a_difference(tmp_path):
    for low, high in ((1e300, 2e300), (1e-50, 2e-50), (-1e300, 1e300), (0.0, 1e-50)):
        forest = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [low, high])
        v = forest.leaves.v.astype(F32) if abs(high) < 1 else np.sign(forest.leaves.v) * np.inf
        narrow = Leaves(v.astype(F32))
        output = replace(forest.output, dtype=F32, base_score=np.zeros(forest.n_outputs, F32))
        oracle = inexact(replace(forest, leaves=narrow, output=output))
        for other in (oracle, replace(oracle, exact=True)):
            certificate = compare(forest, other, allow_values_only=True)
            assert not certificate.passed, (low, high)
            assert certificate.n_raw_mismatches > 0
            assert {d.got for d in certificate.differences} <= {low, high}
            again = load(certificate.save(tmp_path / "c.json"))
            assert again.to_json() == certificate.to_json()


def test_infinite_leaves_agree_with_infinities_and_with_nothing_else():
    forest = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1.0, np.inf])
    assert passes(forest, inexact(narrow_scores(forest)))
    finite = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1.0, 7.0])
    assert not passes(forest, inexact(narrow_scores(finite)))
    assert not passes(finite, inexact(narrow_scores(forest)))


def test_a_zero_from_terms_that_cancel_is_within_rounding():
    forest = kinds(np.random.default_rng(0), 2, signed=True)["sum"]
    v = np.repeat([[1e-9 + 1], [-1.0]], 3, axis=0)
    forest = replace(forest, leaves=Leaves(v))
    certificate = compare(forest, inexact(narrow_scores(forest)), allow_values_only=True)
    assert certificate.n_raw_mismatches > 0
    assert certificate.passed, str(certificate)
