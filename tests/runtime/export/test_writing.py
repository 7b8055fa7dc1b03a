"""Laws of exporting to other libraries: the file predicts there what the forest predicts here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import bitvec
from bitvec.converters.sklearn.skops import load
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.errors import InputError, UnsupportedModelError

X, y = load_diabetes(return_X_y=True)


def _moved(forest: Forest) -> Forest:
    """As after retraining: other thresholds and other leaves."""
    rng = np.random.default_rng(0)
    v = forest.leaves.v + rng.normal(size=forest.leaves.v.shape).astype(forest.leaves.v.dtype)
    tests = replace(forest.tests, b=forest.tests.b * forest.dtype.type(1.01))
    return replace(forest, leaves=Leaves(v, forest.leaves.output), tests=tests)


def _xgboost():
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBRegressor(n_estimators=4, max_depth=3, n_jobs=1).fit(X, y)


def _lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMRegressor(n_estimators=4, num_leaves=8, n_jobs=1, verbose=-1).fit(X, y)


def _sklearn():
    return RandomForestRegressor(4, max_depth=4, random_state=0).fit(X, y)


def _treelite():
    treelite = pytest.importorskip("treelite")
    return treelite.sklearn.import_model(_sklearn())


WAYS = [
    (_xgboost, "model.ubj"),
    (_xgboost, "model.json"),
    (_lightgbm, "model.txt"),
    (_treelite, "model.tl"),
    (_sklearn, "model.skops"),
    (_sklearn, "model.tl"),
    (_xgboost, "model.onnx"),
    (_xgboost, "model.tl"),
]


@pytest.mark.parametrize(
    "moves", [pytest.param(False, marks=pytest.mark.full), True], ids=["as converted", "moved"]
)
@pytest.mark.parametrize(("make", "name"), WAYS)
def test_what_is_written_back_predicts_bit_for_bit_in_its_own_library(make, name, moves, tmp_path):
    forest = bitvec.convert(make())
    if moves:
        forest = _moved(forest)
    path = bitvec.export(forest, tmp_path / name)
    certificate = bitvec.certify(forest, path, X, exported=True, allow_values_only=True)
    assert certificate.passed, certificate.summary()
    assert certificate.max_ulp == 0
    again = bitvec.convert(path)
    raw = [bitvec.compile(f).predict(X) for f in (forest, again)]
    assert np.array_equal(*raw)


def test_the_target_is_named_or_told_by_the_ending(tmp_path):
    forest = bitvec.convert(_sklearn())
    with pytest.raises(InputError, match="must end in one of"):
        bitvec.export(forest, tmp_path / "model.bin")
    with pytest.raises(InputError, match=r"must end in \.ubj or \.json"):
        bitvec.export(forest, tmp_path / "model.onnx", to="xgboost")
    with pytest.raises(InputError, match="`leaves` must be left out where treelite is written"):
        bitvec.export(forest, tmp_path / "model.tl", leaves=True)


def test_what_a_target_cannot_hold_is_refused_and_leaves_no_file(tmp_path):
    oblique = bitvec.Forest.from_matrices([[1, -1]], [0.5], [[0], [1]], [10, 20])
    for name in ("model.ubj", "model.txt", "model.tl", "model.skops"):
        with pytest.raises(UnsupportedModelError):
            bitvec.export(oblique, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_texts_of_several_targets_keep_their_length(tmp_path):
    Y = np.array([["a", "bb"], ["z", "q"]] * 50, object)
    rows = np.arange(100.0)[:, None] % 2
    model = DecisionTreeClassifier().fit(rows, Y)
    path = bitvec.export(bitvec.convert(model), tmp_path / "model.skops")
    assert bitvec.certify(bitvec.convert(model), path, rows, exported=True).passed
    written = load(path)
    assert np.array_equal(written.predict(rows), model.predict(rows))


def test_labels_that_a_target_does_not_hold_are_not_compared(tmp_path):
    pytest.importorskip("treelite")
    names = np.array(["low", "mid", "high"])[np.digitize(y, [100, 200])]
    forest = bitvec.convert(RandomForestClassifier(3, max_depth=4, random_state=0).fit(X, names))
    certificate = bitvec.certify(forest, bitvec.export(forest, tmp_path / "model.tl"), X)
    assert certificate.passed, certificate.summary()
    assert "labels" not in certificate.parts
    assert any("labels" in note for note in certificate.exclusions)
