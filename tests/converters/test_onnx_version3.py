"""Laws of version 3 of the tree operators: routes are the reference's, scores within rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from sklearn import datasets
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from strategies import EQUAL, ONE_HOT, SET, forests_with_rows

import bitvec
from bitvec.converters.onnx.ensemble3 import classifies
from bitvec.converters.onnx.read import convert
from bitvec.converters.onnx.session import OnnxEngine
from bitvec.converters.onnx.write import to_onnx
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output, PostTransform
from bitvec.core.to_float32 import narrow_scores
from bitvec.errors import UnsupportedModelError

onnxruntime = pytest.importorskip("onnxruntime")

HELD = tuple(kind for kind in ONE_HOT if kind != SET)
F32 = np.float32
ANSWERS = ("label", "probabilities")


def written(forest, outputs=None, **options):
    interface = Interface(outputs=outputs)
    try:
        return to_onnx(forest, version=3, interface=interface, **options)
    except UnsupportedModelError:
        assume(False)


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


@given(forests_with_rows(kinds=HELD))
def test_leaves_are_the_references_for_every_row_of_float32(drawn):
    forest, X = drawn
    model = written(forest, leaves=True)
    with np.errstate(over="ignore"):
        X = X.astype(F32)
    found = OnnxEngine(model).exit_leaves(X)
    assert np.array_equal(found, reference.exit_leaves(forest, X.astype(forest.dtype)))


@given(forests_with_rows(kinds=HELD))
def test_sums_in_float32_are_the_references_bit_for_bit(drawn):
    forest, X = drawn
    assume(forest.leaves.linear is None)
    forest = narrow_scores(forest)
    model = written(forest)
    output = forest.output
    # These are said to be within rounding.
    assume(output.aggregate.value == "sum" and output.scale is None)
    assume(output.base_score.dtype == F32)
    with np.errstate(all="ignore"):
        X = X.astype(F32)
        expected = reference.raw(forest, X.astype(forest.dtype))
    assert np.array_equal(OnnxEngine(model).raw(X), expected, equal_nan=True)


def classified(model, X, **options):
    forest = bitvec.convert(model)
    made = to_onnx(forest, version=3, interface=Interface(outputs=ANSWERS), **options)
    (node,) = made.graph.node
    assert node.op_type == "TreeEnsembleClassifier"
    return forest, session(made).run(None, {"X": np.asarray(X, F32)})


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_a_forest_of_classes_is_one_operator(classes, text, kind):
    X, y = datasets.load_iris(return_X_y=True)
    X, y = X[y < classes], y[y < classes]
    y = np.array(["a", "b", "c"])[y] if text else y * 3 - 1
    model = kind(9, max_depth=4, random_state=0).fit(X, y)
    _, (label, probabilities) = classified(model, X)
    assert np.array_equal(label, model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=9 * 2.0**-24)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_booster_of_classes_is_one_operator(classes):
    xgboost = pytest.importorskip("xgboost")
    X, y = datasets.load_iris(return_X_y=True)
    X, y = X[y < classes].astype(F32), y[y < classes]
    X[::7, 2] = np.nan
    y[::5] = 0  # so that leaves of both signs remain
    model = xgboost.XGBClassifier(n_estimators=7, max_depth=3, n_jobs=1).fit(X, y)
    _, (label, probabilities) = classified(model, X)
    assert np.array_equal(label, model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=1e-6)


def binary(v, **options):
    """A stump of one output and two classes."""
    forest = Forest.from_matrices(np.ones((1, 1), F32), np.zeros(1, F32), [[0], [1]], v)
    output = Output(1, np.dtype(F32), classes=(np.array([0, 1]),), **options)
    return replace(forest, output=output, leaves=Leaves(np.array(v, F32)[:, None]))


@pytest.mark.parametrize("v", [(0.2, 0.8), (-0.2, 0.8), (0.0, 0.0), (-3.0, 0.0)])
@pytest.mark.parametrize("base", [0.0, -0.5, 0.5])
def test_leaves_of_any_sign_give_the_labels_of_the_reference(v, base):
    """onnxruntime looks for 0 or for one half, by the signs of the leaves."""
    forest = binary(
        v, post_transform=PostTransform.SIGMOID, base_score=np.array([base], F32), base_first=True
    )
    X = np.array([[-1.0], [1.0]], F32)
    label, probabilities = session(
        to_onnx(forest, version=3, interface=Interface(outputs=ANSWERS))
    ).run(None, {"X": X})
    predictor = bitvec.compile(forest)
    assert np.array_equal(label, predictor.predict(X))
    np.testing.assert_allclose(probabilities, predictor.predict_proba(X), rtol=1e-6)


def test_classes_that_no_leaf_names_are_never_the_label():
    forest = Forest.from_matrices(np.ones((1, 1), F32), np.zeros(1, F32), [[0], [1]], [0, 1])
    v = np.array([[0, 0, 0], [0.25, 0, 0.75]], F32)
    output = Output(3, np.dtype(F32), classes=(np.array([4, 5, 6]),))
    forest = replace(forest, leaves=Leaves(v), output=output)
    X = np.array([[-1.0], [1.0]], F32)
    assert classifies(forest, ANSWERS)
    label, probabilities = session(
        to_onnx(forest, version=3, interface=Interface(outputs=ANSWERS))
    ).run(None, {"X": X})
    assert label.tolist() == [4, 6]
    assert np.array_equal(probabilities, v)


def test_a_mean_is_within_its_rounding():
    X, y = datasets.load_diabetes(return_X_y=True)
    model = RandomForestRegressor(30, max_depth=6, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    made = to_onnx(forest, version=3, interface=Interface(outputs=("prediction",)))
    assert [node.op_type for node in made.graph.node] == ["TreeEnsembleRegressor"]
    found = session(made).run(None, {"X": X.astype(F32)})[0][:, 0]
    np.testing.assert_allclose(found, model.predict(X), rtol=31 * 2.0**-24)


def test_a_file_of_version_3_converts_again():
    X, y = datasets.load_iris(return_X_y=True)
    model = RandomForestClassifier(9, max_depth=4, random_state=0).fit(X, y)
    forest, (label, _) = classified(model, X)
    again = convert(to_onnx(forest, version=3, interface=Interface(outputs=ANSWERS)))
    X = X.astype(F32)
    assert np.array_equal(reference.exit_leaves(again, X), reference.exit_leaves(forest, X))
    assert np.array_equal(bitvec.compile(again).predict(X), label)


def test_the_file_says_version_3_and_is_checked():
    X, y = datasets.load_iris(return_X_y=True)
    forest = bitvec.convert(RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y))
    model = to_onnx(forest, version=3)
    onnx.checker.check_model(model, full_check=True)
    assert {d.domain: d.version for d in model.opset_import} == {"": 21, "ai.onnx.ml": 3}
    assert {output.name for output in model.graph.output} == {"raw", *ANSWERS}


@settings(max_examples=20)
@given(forests_with_rows(kinds=(SET, EQUAL)))
def test_sets_are_refused(drawn):
    forest, _ = drawn
    if forest.n_trees == 0 or not forest.tests.set_words.any():
        assume(False)
    with pytest.raises(UnsupportedModelError, match=r"needs no category sets|needs|must"):
        to_onnx(forest, version=3)
