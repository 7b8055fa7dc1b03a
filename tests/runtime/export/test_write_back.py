"""Write-back: an updated file answers in its own library as the forest does."""

from __future__ import annotations

import numpy as np
import pytest

import bitvec
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.write_back import back_to


def rows(seed, n=500):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    filled = np.nan_to_num(X)
    y = np.digitize(filled[:, 0] - seed * filled[:, 1], [-0.7, 0.7])
    return X, y


def xgboost_file(path, n_classes):
    xgboost = pytest.importorskip("xgboost")
    X, y = rows(0)
    y = np.minimum(y, n_classes - 1)
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(X, y)
    model.save_model(path)

    def margins(file, X):
        booster = xgboost.Booster({"nthread": 1}, model_file=file)
        return booster.predict(xgboost.DMatrix(X), output_margin=True), booster.predict(
            xgboost.DMatrix(X)
        )

    return margins


def lightgbm_file(path, n_classes):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = rows(0)
    y = np.minimum(y, n_classes - 1)
    options = {"n_estimators": 8, "num_leaves": 7, "verbose": -1, "n_jobs": 1}
    lightgbm.LGBMClassifier(**options).fit(X, y).booster_.save_model(path)

    def margins(file, X):
        booster = lightgbm.Booster(model_file=file)
        return booster.predict(X, raw_score=True), booster.predict(X)

    return margins


@pytest.mark.parametrize("grow", [False, 8])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("make", "suffix"), [(xgboost_file, ".ubj"), (xgboost_file, ".json"), (lightgbm_file, ".txt")]
)
def test_the_updated_file_answers_as_the_forest(make, suffix, n_classes, grow, tmp_path):
    path = tmp_path / f"model{suffix}"
    answers = make(path, n_classes)
    back, forest = back_to(path), bitvec.convert(path)
    back.require(forest)
    X, y = rows(1)
    result = bitvec.update(forest, X, np.minimum(y, n_classes - 1), grow=grow)
    assert result.updated
    assert bool(result.growth.trees_added) == bool(grow)
    # Which of both move depends on the trees, and so on the version of the library.
    assert grow or result.moved.thresholds + result.moved.leaves > 0
    back.write(result.forest, path)
    predictor = bitvec.compile(result.forest, n_jobs=1)
    Z = rows(2)[0]
    # On the thresholds themselves too, where a last bit would decide.
    tests = result.forest.tests
    for at in range(min(60, tests.n_nodes)):
        Z[at, tests.feature[at]] = tests.b[at]
    raw, transformed = answers(path, Z)
    ours = predictor.raw(Z)
    assert np.array_equal(raw.reshape(len(Z), -1), ours)
    p = predictor.predict_proba(Z)
    assert np.abs(transformed.reshape(len(Z), -1) - (p if n_classes > 2 else p[:, 1:])).max() < 1e-6
    again = bitvec.convert(path)
    assert again.tests.b.tobytes() == result.forest.tests.b.tobytes()
    assert again.leaves.v.tobytes() == result.forest.leaves.v.tobytes()
    assert np.array_equal(bitvec.compile(again).raw(Z), ours)
    assert bitvec.update(again, X, np.minimum(y, n_classes - 1)) is not None  # and so on each month


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_parallel_tree": 2, "subsample": 0.5},
        {"booster": "dart", "rate_drop": 0.3},
        {"objective": "count:poisson"},
        {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree"},
    ],
)
def test_boosters_of_every_kind_grow_month_after_month(options, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    X, y = rows(0)
    options = {"nthread": 1, "max_depth": 3, **options}
    path = tmp_path / "model.ubj"
    xgboost.train(options, xgboost.DMatrix(X, y), 6).save_model(path)
    for seed in (1, 2):
        forest, (Z, z) = bitvec.convert(path), rows(seed)
        found = bitvec.update(forest, Z, z, grow=8)
        back_to(path).write(found.forest, path)
        margins = xgboost.Booster({"nthread": 1}, model_file=path).predict(
            xgboost.DMatrix(Z), output_margin=True
        )
        raw = bitvec.compile(found.forest, n_jobs=1).raw(Z)
        assert np.array_equal(margins.reshape(len(Z), -1), raw)
    assert found.growth.trees_added or not found.updated


def test_a_saved_forest_is_written_back_as_one(tmp_path):
    stump = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0])
    bitvec.save(stump, tmp_path / "stump.safetensors")
    back = back_to(tmp_path / "stump.safetensors")
    assert back.suffixes == (".safetensors",)
    assert back.write(stump, tmp_path / "again.safetensors").exists()


def test_a_format_that_is_only_read_is_refused(tmp_path):
    catboost = pytest.importorskip("catboost")
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50) % 2
    model = catboost.CatBoostClassifier(iterations=2, depth=2, verbose=0, allow_writing_files=False)
    model.fit(X, y).save_model(str(tmp_path / "model.cbm"))
    with pytest.raises(UnsupportedModelError, match="cannot be written back"):
        back_to(tmp_path / "model.cbm")


def sklearn_file(folder):
    skops = pytest.importorskip("skops.io")
    from sklearn.ensemble import RandomForestClassifier

    X, y = rows(0)
    path = folder / "model.skops"
    skops.dump(RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y), path)
    return path


def treelite_file(folder):
    treelite = pytest.importorskip("treelite")
    xgboost_file(folder / "model.ubj", 3)
    path = folder / "model.tl"
    treelite.frontend.load_xgboost_model(folder / "model.ubj").serialize(path)
    return path


def onnx_file(folder):
    pytest.importorskip("onnxruntime")
    xgboost_file(folder / "model.ubj", 3)
    return bitvec.export(bitvec.convert(folder / "model.ubj"), folder / "model.onnx", leaves=True)


def histogram_file(folder):
    skops = pytest.importorskip("skops.io")
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y = rows(0)
    path = folder / "model.skops"
    skops.dump(HistGradientBoostingClassifier(max_iter=5, early_stopping=False).fit(X, y), path)
    return path


def gradient_file(folder):
    skops = pytest.importorskip("skops.io")
    from sklearn.ensemble import GradientBoostingClassifier

    X, y = rows(0)
    path = folder / "model.skops"
    skops.dump(GradientBoostingClassifier(n_estimators=5).fit(np.nan_to_num(X), y), path)
    return path


@pytest.mark.full
@pytest.mark.parametrize("grow", [False, 8])
@pytest.mark.parametrize("make", [histogram_file, gradient_file, treelite_file, onnx_file])
def test_boosters_of_other_formats_come_back_certified(make, grow, tmp_path):
    path = make(tmp_path)
    forest, (X, y) = bitvec.convert(path), rows(1)
    X = np.nan_to_num(X) if make is gradient_file else X
    result = bitvec.update(forest, X, forest.output.classes[0][y], grow=grow)
    assert bool(result.growth.trees_added) == bool(grow)
    back_to(path).write(result.forest, path)
    certificate = bitvec.certify(
        result.forest, path, exported=True, progress=False, allow_values_only=True
    )
    assert certificate.passed


@pytest.mark.full
@pytest.mark.parametrize("make", [sklearn_file])
def test_forests_of_sklearn_come_back_certified(make, tmp_path):
    path = make(tmp_path)
    back, forest = back_to(path), bitvec.convert(path)
    back.require(forest)
    X, y = rows(1)
    result = bitvec.update(
        forest, X, forest.output.classes[0][y] if forest.output.is_classifier else y
    )
    assert result.updated
    back.write(result.forest, path)
    certificate = bitvec.certify(
        result.forest, path, exported=True, progress=False, allow_values_only=True
    )
    assert certificate.passed
