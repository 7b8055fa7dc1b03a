"""Calibration: better on rows kept apart or not taken, and the same in every export."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bitvec
from bitvec.core.composition import Composition
from bitvec.core.float_keys import ulps
from bitvec.core.forest import Forest
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.calibration.isotonic_curves import rising
from bitvec.runtime.train.calibration.temperature import RANGE, Temperature, at_temperature
from bitvec.runtime.train.retrain import metrics

xgboost = pytest.importorskip("xgboost")
ensemble = pytest.importorskip("sklearn.ensemble")

N = 1600


def rows(n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, 5)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + random.normal(size=N)
    return X, np.digitize(score, [0.0] if n_classes == 2 else [-0.7, 0.7])


def forest_of(kind: str, n_classes: int) -> Forest:
    """Return a classifier that is too sure of the noise that it has learned."""
    X, y = rows(n_classes)
    if kind == "xgboost":
        model: Any = xgboost.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1)
    elif kind == "histograms":
        model = ensemble.HistGradientBoostingClassifier(max_iter=100, early_stopping=False)
    else:
        model = ensemble.RandomForestClassifier(10, min_samples_leaf=2, random_state=0)
    return bitvec.convert(model.fit(X[:300], y[:300]))


BOOSTED = pytest.mark.parametrize("n_classes", [2, 3])
KINDS = pytest.mark.parametrize("kind", ["xgboost", "histograms"])


def log_loss(model: Forest | Composition, X: np.ndarray, y: np.ndarray) -> float:
    p = bitvec.compile(model).predict_proba(X)
    return -float(np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean())


@KINDS
@BOOSTED
def test_a_temperature_moves_probabilities_and_no_raw_score_or_label(kind, n_classes):
    forest, (X, y) = forest_of(kind, n_classes), rows(n_classes)
    found = bitvec.calibrate(forest, X[300:1000], y[300:1000])
    assert found.calibrated
    assert found.temperature > 1
    before, after = bitvec.compile(forest), bitvec.compile(found.model)
    assert np.array_equal(before.raw(X), after.raw(X))
    assert np.array_equal(before.predict(X), after.predict(X))
    scores = before.raw(X).astype(np.float64) / found.temperature
    if n_classes == 2:
        scores = np.concatenate([0 * scores, scores], axis=1)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    assert np.allclose(after.predict_proba(X), p, rtol=1e-5, atol=1e-7)  # of float32 links
    # On rows of which neither the model nor the temperature knows.
    assert log_loss(found.model, X[1000:], y[1000:]) < log_loss(forest, X[1000:], y[1000:])


@KINDS
@BOOSTED
def test_the_temperature_is_the_best_of_all(kind, n_classes):
    forest, (X, y) = forest_of(kind, n_classes), rows(n_classes)
    weight = np.random.default_rng(1).uniform(0.5, 2, 700)
    raw, target = bitvec.compile(forest).raw(X[300:1000]), y[300:1000, None]
    found = Temperature.fit(forest, raw, target, weight)

    def loss(temperature):
        output = at_temperature(forest.output, temperature)
        return -np.average(metrics.log_likelihood(output, raw, target), weights=weight)

    grid = np.exp(np.linspace(*RANGE, 200))
    assert loss(found.temperature) <= min(map(loss, grid)) + 1e-12


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
@KINDS
@BOOSTED
def test_exports_answer_as_the_forest_does(kind, n_classes, tmp_path):
    from bitvec.runtime.export.c import to_c
    from bitvec.runtime.export.c.compiled import oracle_of

    X = rows(n_classes)[0][:300]
    forest = forest_of(kind, n_classes).take(np.arange(12))
    model = replace(forest, output=at_temperature(forest.output, 2.1))
    header = oracle_of(to_c(model), classes=model.output.classes)
    assert bitvec.certify(model, header, X, progress=False).passed
    session = pytest.importorskip("onnxruntime").InferenceSession
    expected = bitvec.compile(model).predict_proba(X)
    for form in ("traversal", "tensor"):
        path = bitvec.export(model, tmp_path / f"{form}.onnx", form=form, leaves=True)
        certificate = bitvec.certify(model, path, X, exported=True, progress=False)
        assert certificate.passed, certificate.summary()
        onnx = session(str(path))
        wide = onnx.get_inputs()[0].type == "tensor(double)"
        rows_of = X.astype(np.float64 if wide else np.float32)
        (p,) = onnx.run(["probabilities"], {onnx.get_inputs()[0].name: rows_of})
        # Of the link: exponentials of two libraries, and a quotient of them. The first of two
        # classes is the second one's distance from 1.
        own = slice(1 if n_classes == 2 else 0, None)
        assert ulps(p[:, own], expected[:, own]).max() <= 4
        assert np.allclose(p, expected, rtol=0, atol=4 * np.finfo(p.dtype).eps)


@KINDS
def test_a_format_without_a_temperature_is_refused_by_name(kind, tmp_path):
    forest, (X, y) = forest_of(kind, 2), rows(2)
    found = bitvec.calibrate(forest, X[300:1000], y[300:1000])
    with pytest.raises(UnsupportedModelError, match="xgboost must have"):
        bitvec.export(found.model, tmp_path / "model.ubj")
    curves = bitvec.calibrate(forest, X[300:1000], y[300:1000], method="isotonic")
    with pytest.raises(UnsupportedModelError, match="composition"):
        bitvec.export(curves.model, tmp_path / "model.onnx")


@BOOSTED
def test_a_folded_temperature_is_written_back(n_classes, tmp_path):
    forest, (X, y) = forest_of("xgboost", n_classes), rows(n_classes)
    fit = (X[300:1000], y[300:1000])
    linked, found = (bitvec.calibrate(forest, *fit, fold=fold) for fold in (False, True))
    assert found.temperature == linked.temperature
    assert found.model.output.parameter == 1
    raw = bitvec.compile(forest).raw(X).astype(np.float64) / found.temperature
    # Each of some 100 leaves of a class, and each partial sum of them, is rounded once.
    size = np.abs(forest.leaves.v).max() / found.temperature
    near = 2 * 101**2 * size * np.finfo(np.float32).eps
    assert np.allclose(bitvec.compile(found.model).raw(X), raw, rtol=0, atol=near)
    path = bitvec.export(found.model, tmp_path / "folded.ubj")
    again = xgboost.XGBClassifier()
    again.load_model(path)
    predictor = bitvec.compile(found.model)
    assert np.array_equal(again.predict(X), predictor.predict(X))
    margin = again.predict(X, output_margin=True)
    assert np.array_equal(margin.reshape(predictor.raw(X).shape), predictor.raw(X))


@pytest.mark.parametrize("kind", ["xgboost", "random forest"])
@BOOSTED
def test_isotonic_curves_lower_the_log_loss_on_new_rows(kind, n_classes, tmp_path):
    forest, (X, y) = forest_of(kind, n_classes), rows(n_classes)
    found = bitvec.calibrate(forest, X[300:1000], y[300:1000], method="isotonic")
    assert isinstance(found.model, Composition)
    assert log_loss(found.model, X[1000:], y[1000:]) < log_loss(forest, X[1000:], y[1000:])
    bitvec.save(found.model, tmp_path / "both.safetensors")
    again = bitvec.files.load_composition(tmp_path / "both.safetensors")
    answers = [bitvec.compile(one).predict_proba(X) for one in (found.model, again)]
    assert np.array_equal(*answers)
    assert np.allclose(answers[0].sum(axis=1), 1)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 60))
@examples(25)
def test_a_rising_curve_is_scikit_learns(seed, n):
    from sklearn.isotonic import IsotonicRegression

    random = np.random.default_rng(seed)
    x, y = random.integers(0, 20, n) / 20, random.integers(0, 2, n)
    weight = random.uniform(0.1, 3, n)
    end = 1 / (n + 2)
    theirs = IsotonicRegression(y_min=end, y_max=1 - end, out_of_bounds="clip")
    theirs.fit(x, y, sample_weight=weight)
    at = np.linspace(-0.2, 1.2, 57)
    assert np.allclose(rising(x, y, weight)(at), theirs.predict(at), atol=1e-12)


def test_what_is_no_better_is_not_taken():
    forest, (X, y) = forest_of("xgboost", 2), rows(2)
    once = bitvec.calibrate(forest, X[300:1000], y[300:1000]).model
    again = bitvec.calibrate(once, X[300:1000], y[300:1000])
    assert again.model is once
    assert not again.calibrated
    assert again.temperature == pytest.approx(1, abs=1e-3)
    assert "as it was" in again.note
    assert "not taken" in repr(again)


def test_rows_of_no_weight_are_not_there():
    forest, (X, y) = forest_of("xgboost", 2), rows(2)
    weight = (np.arange(1300) < 700).astype(float)
    found = bitvec.calibrate(forest, X[300:], y[300:], sample_weight=weight)
    other = bitvec.calibrate(forest, X[300:1000], y[300:1000])
    assert found.temperature == other.temperature
    assert found.after == other.after


def test_bad_input_is_refused():
    forest, (X, y) = forest_of("xgboost", 2), rows(2)
    with pytest.raises(InputError, match="`method` must be"):
        bitvec.calibrate(forest, X, y, method="platt")
    with pytest.raises(InputError, match="no leaf holds a curve"):
        bitvec.calibrate(forest, X, y, method="isotonic", fold=True)
    with pytest.raises(InputError, match="at least 10 rows"):
        bitvec.calibrate(forest, X[:9], y[:9])
    with pytest.raises(UnsupportedModelError, match="isotonic"):
        bitvec.calibrate(forest_of("random forest", 2), X, y)
    with pytest.raises(InputError, match="a classifier of one target, got a regressor"):
        bitvec.calibrate(replace(forest, output=replace(forest.output, classes=None)), X, y)


def test_a_retraining_is_calibrated_by_the_rows_it_was_chosen_by():
    forest, (X, y) = forest_of("xgboost", 2), rows(2)
    held = (X[300:1000], y[300:1000])
    options = {"validation": held, "budget": "quick"}
    plain = bitvec.retrain(forest, X[:300], y[:300], **options)
    found = bitvec.retrain(forest, X[:300], y[:300], calibrate="temperature", **options)
    assert plain.calibration is None
    assert found.calibration.calibrated
    own = bitvec.calibrate(plain.forest, *held)
    assert found.calibration.temperature == own.temperature
    assert found.forest.output.parameter == 1 / own.temperature
    assert np.array_equal(found.forest.leaves.v, plain.forest.leaves.v)
    assert found.score == plain.score


def test_a_retraining_refuses_what_it_cannot_calibrate():
    forest, (X, y) = forest_of("xgboost", 2), rows(2)
    with pytest.raises(InputError, match="isotonic curves make"):
        bitvec.retrain(forest, X, y, calibrate="isotonic")
    with pytest.raises(InputError, match="learns the validation rows"):
        bitvec.retrain(forest, X, y, calibrate="temperature", refit=True)
    with pytest.raises(UnsupportedModelError, match="isotonic"):
        bitvec.retrain(forest_of("random forest", 2), X, y, calibrate="temperature")


def test_one_sigmoid_for_each_class_is_calibrated_by_all_of_their_answers():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = rows(3)
    data = lightgbm.Dataset(X[:300], y[:300])
    options = {"objective": "multiclassova", "num_class": 3, "verbose": -1, "num_threads": 1}
    forest = bitvec.convert(lightgbm.train(options, data, 100))
    fit, new = slice(300, 900), slice(900, None)
    for method in ("temperature", "isotonic"):
        found = bitvec.calibrate(forest, X[fit], y[fit], method=method)
        assert found.calibrated
        before, after = (
            bitvec.compile(model).predict_proba(X[new]) for model in (forest, found.model)
        )
        wanted = np.eye(3)[y[new]]
        assert np.square(after - wanted).mean() < np.square(before - wanted).mean()
        assert np.array_equal(after.argmax(axis=1), before.argmax(axis=1)) or method == "isotonic"
    found = bitvec.calibrate(forest, X[fit], y[fit])
    assert 1 < found.temperature < 20


def test_the_likelihood_of_sigmoids_is_that_of_yes_and_no():
    output = replace(
        forest_of("xgboost", 3).output, post_transform=bitvec.core.output.PostTransform.SIGMOID
    )
    raw, target = np.array([[2.0, -1.0, 0.5], [9.0, 9.0, 9.0]]), np.array([[0], [2]])
    p = 1 / (1 + np.exp(-raw))
    expected = [
        np.log(p[0, 0] * (1 - p[0, 1]) * (1 - p[0, 2])),
        np.log((1 - p[1, 0]) * (1 - p[1, 1]) * p[1, 2]),
    ]
    assert np.allclose(metrics.log_likelihood(output, raw, target), expected)
    mixed = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    half = np.log(p[0]) * mixed[0] + np.log(1 - p[0]) * (1 - mixed[0])
    assert np.allclose(metrics.log_likelihood(output, raw, mixed), [half.sum(), expected[1]])


def test_a_class_that_cannot_be_has_no_part_in_the_likelihood_of_the_others():
    output = replace(
        forest_of("xgboost", 3).output, post_transform=bitvec.core.output.PostTransform.SIGMOID
    )
    raw = np.array([[5.0, -np.inf, -np.inf]])
    got = metrics.log_likelihood(output, raw, np.array([[0]]))
    assert np.allclose(got, -np.log1p(np.exp(-5.0)))
