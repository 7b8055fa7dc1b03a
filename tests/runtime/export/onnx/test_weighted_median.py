"""Weighted medians in ONNX are the forest's, and so scikit-learn's, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_evaluator import evaluator_of
from sklearn.datasets import load_diabetes
from sklearn.ensemble import AdaBoostRegressor
from strategies import AXIS, forests_with_rows

import bitvec
from bitvec.converters.onnx.session import OnnxEngine
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.machine import from_forest
from bitvec.core.output import Aggregate
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx_files import OnnxOptions, machine_model, onnx_model

FORMS = ("tree_ensemble", "traversal", "tensor")


@pytest.fixture(scope="module")
def boosted():
    X, y = load_diabetes(return_X_y=True)
    return AdaBoostRegressor(n_estimators=15, random_state=0).fit(X[:300], y[:300]), X[250:]


@pytest.mark.parametrize("form", FORMS)
def test_adaboost_predicts_as_scikit_learn_in_two_runtimes(boosted, form, tmp_path):
    model, X = boosted
    forest = bitvec.convert(model)
    file = onnx_model(forest, OnnxOptions(form=form))
    assert np.array_equal(OnnxEngine(file).run("prediction", X)[:, 0], model.predict(X))
    if form != "traversal":  # onnx.reference gathers from 64 columns at most
        evaluator = evaluator_of(file)
        (prediction,) = evaluator.run(["prediction"], {"X": X.astype(np.float32)})
        assert np.array_equal(prediction[:, 0], model.predict(X))
    path = bitvec.export(forest, tmp_path / "median.onnx", form=form)
    assert bitvec.certify(forest, path, allow_values_only=True).passed


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15)
@given(drawn=forests_with_rows(kinds=(AXIS,), linear=False, max_leaves=12), seed=st.integers(0, 99))
def test_ties_and_weights_of_any_forest_are_the_references(form, drawn, seed):
    forest, X = drawn
    rng, output = np.random.default_rng(seed), drawn[0].output
    v = rng.choice([-1.5, -0.0, 0.0, 2.0, 2.0 + 2**-20], forest.leaves.v.shape)
    weight = rng.choice([0.25, 0.5, 1.0, 1 / 3], forest.n_trees)
    median = replace(
        forest,
        leaves=replace(forest.leaves, v=v.astype(forest.leaves.v.dtype)),
        output=replace(
            output,
            aggregate=Aggregate.WEIGHTED_MEDIAN,
            tree_weight=weight.astype(output.dtype),
            base_first=False,
            scale=None,
            divisor=None,
        ),
    )
    expected = reference.raw(median, X)
    for held in (
        onnx_model(median, OnnxOptions(form=form)),
        machine_model(from_forest(median), OnnxOptions()),
    ):
        raw = OnnxEngine(held).raw(X)
        assert raw.dtype == expected.dtype
        assert raw.tobytes() == expected.tobytes()


def test_a_file_of_the_operator_converts_again(boosted):
    model, X = boosted
    forest = bitvec.convert(onnx_model(bitvec.convert(model), OnnxOptions(form="tree_ensemble")))
    assert forest.output.aggregate is Aggregate.WEIGHTED_MEDIAN
    assert np.array_equal(bitvec.compile(forest).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"form": "portable"}, "a sum or a mean over trees, got weighted_median"),
        ({"version": 3}, "a sum or a mean over trees, got weighted_median"),
        ({"target": "coreml"}, "a weighted median, which rounding moves to another tree"),
    ],
)
def test_what_cannot_hold_a_median_says_so(boosted, options, reason):
    with pytest.raises(UnsupportedModelError, match=reason):
        onnx_model(bitvec.convert(boosted[0]), OnnxOptions(**options))


def test_one_tree_is_its_own_median():
    stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    output = replace(stump.output, aggregate="weighted_median", tree_weight=np.ones(1))
    file = onnx_model(replace(stump, output=output), OnnxOptions(form="tensor"))
    assert OnnxEngine(file).raw(np.array([[-1.0], [1.0]])).tolist() == [[1.0], [2.0]]
