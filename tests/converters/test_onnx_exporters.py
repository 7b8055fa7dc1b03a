"""Laws of ONNX files of skl2onnx and onnxmltools: converted, certified with labels and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitvec import certify, convert
from bitvec.core import reference, transforms
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.errors import UnsupportedModelError

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2]


def labels(score: np.ndarray, n_classes: int) -> np.ndarray:
    cuts = {2: [0.0], 3: [-0.5, 0.5]}[n_classes]
    return np.array(["a", "b", "c"])[np.digitize(score, cuts)]


def run(model: Any, X: np.ndarray) -> list[Any]:
    """What onnxruntime answers on one thread to the whole file."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"X": X})


def assert_certified(model: Any, X: np.ndarray) -> Forest:
    """The conversion passes, with what the post-transform allows to compare; return it."""
    forest = convert(model)
    certificate = certify(forest, model, X.astype(forest.dtype))
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1
    assert certificate.n_raw_mismatches == 0
    if forest.output.classes is not None:
        assert "labels" in certificate.parts
        assert np.array_equal(predictions(forest, X), run(model, X)[0])
    else:
        assert "predictions" in certificate.parts
    return forest


def predictions(forest: Forest, X: np.ndarray) -> np.ndarray:
    return transforms.predictions(forest.output, reference.raw(forest, X))


SKLEARN = [
    ("DecisionTreeRegressor", 0),
    ("DecisionTreeClassifier", 2),
    ("DecisionTreeClassifier", 3),
    ("ExtraTreeRegressor", 0),
    ("RandomForestRegressor", 0),
    ("GradientBoostingRegressor", 0),
    ("RandomForestClassifier", 2),
    ("ExtraTreesClassifier", 3),
    ("GradientBoostingClassifier", 2),
    ("GradientBoostingClassifier", 3),
]


def fitted(name: str, n_classes: int, X: np.ndarray, score: np.ndarray) -> Any:
    ensemble, tree = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.tree")
    options: dict[str, Any] = {"max_depth": 4, "random_state": 0}
    if hasattr(ensemble, name):
        options["n_estimators"] = 12
    kind = getattr(ensemble, name, None) or getattr(tree, name)
    return kind(**options).fit(X, labels(score, n_classes) if n_classes else score)


@pytest.mark.parametrize("ml", [1, 3, 5])
@pytest.mark.parametrize(("name", "n_classes"), SKLEARN)
def test_models_of_skl2onnx_certify(name, n_classes, ml, table):
    skl2onnx = pytest.importorskip("skl2onnx")
    X, score = table
    model = fitted(name, n_classes, X, score)
    domains = {"": 17, "ai.onnx.ml": ml}
    assert_certified(skl2onnx.to_onnx(model, X[:1], target_opset=domains), X)


@pytest.mark.parametrize("zipmap", [False, "columns"])
@pytest.mark.parametrize("name", ["RandomForestClassifier", "GradientBoostingClassifier"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_ways_of_skl2onnx_to_hand_out_probabilities_certify(n_classes, name, zipmap, table):
    skl2onnx = pytest.importorskip("skl2onnx")
    X, score = table
    model = fitted(name, n_classes, X, score)
    options = {id(model): {"zipmap": zipmap}}
    assert_certified(skl2onnx.to_onnx(model, X[:1], options=options), X)


def test_raw_scores_of_skl2onnx_certify(table):
    skl2onnx = pytest.importorskip("skl2onnx")
    X, score = table
    for n_classes in (2, 3):
        model = fitted("GradientBoostingClassifier", n_classes, X, score)
        options = {id(model): {"raw_scores": True, "zipmap": False}}
        assert_certified(skl2onnx.to_onnx(model, X[:1], options=options), X)


def test_several_targets_of_skl2onnx_certify(table):
    skl2onnx = pytest.importorskip("skl2onnx")
    X, score = table
    model = fitted("RandomForestRegressor", 0, X, np.stack([score, X[:, 3]], axis=1))
    assert assert_certified(skl2onnx.to_onnx(model, X[:1]), X).n_outputs == 2


@pytest.mark.parametrize("name", ["RandomForestRegressor", "GradientBoostingRegressor"])
def test_float64_regressors_of_skl2onnx_certify(name, table):
    """The files declare float64 outputs, which onnxruntime refuses; their operators run."""
    skl2onnx = pytest.importorskip("skl2onnx")
    X, score = table[0].astype(np.float64), table[1]
    model = skl2onnx.to_onnx(
        fitted(name, 0, X, score), X[:1], target_opset={"": 17, "ai.onnx.ml": 3}
    )
    assert assert_certified(model, X).dtype == np.float64


@pytest.mark.parametrize("name", ["RandomForestClassifier", "GradientBoostingClassifier"])
def test_integer_inputs_of_skl2onnx_certify(name, table):
    skl2onnx = pytest.importorskip("skl2onnx")
    X, score = (table[0] * 10).astype(np.int64), table[1]
    for n_classes in (2, 3):
        model = skl2onnx.to_onnx(fitted(name, n_classes, X, score), X[:1])
        assert assert_certified(model, X).dtype == np.float32


def test_ensembles_of_several_operators_are_refused_by_their_number(table):
    skl2onnx = pytest.importorskip("skl2onnx")
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, score = table
    for kind in (ensemble.BaggingRegressor, ensemble.AdaBoostRegressor):
        model = skl2onnx.to_onnx(kind(n_estimators=3).fit(X, score), X[:1])
        with pytest.raises(UnsupportedModelError, match=r"got 3 among .*TreeEnsembleRegressor"):
            convert(model)


def converted(kind: str, model: Any, **options: Any) -> Any:
    onnxmltools = pytest.importorskip("onnxmltools")
    types = onnxmltools.convert.common.data_types
    columns = [("X", types.FloatTensorType([None, 4]))]
    return getattr(onnxmltools, f"convert_{kind}")(model, initial_types=columns, **options)


XGBOOST = [
    "reg:squarederror",
    "reg:absoluteerror",
    "reg:logistic",
    "reg:squaredlogerror",
    "reg:pseudohubererror",
    "binary:logistic",
    "multi:softmax",
    "multi:softprob",
]


@pytest.mark.parametrize("objective", XGBOOST)
def test_xgboost_models_of_onnxmltools_certify(objective, table):
    xgb = pytest.importorskip("xgboost")
    X, score = table
    X = np.where(np.abs(X) > 1.5, np.nan, X)
    three = np.digitize(score, [-0.5, 0.5])
    y = {"multi:softmax": three, "multi:softprob": three, "reg:squaredlogerror": three}
    y |= dict.fromkeys(("binary:logistic", "reg:logistic"), (score > 0).astype(int))
    classifies = objective.startswith(("binary", "multi"))
    kind = xgb.XGBClassifier if classifies else xgb.XGBRegressor
    options = {"n_estimators": 10, "max_depth": 4, "n_jobs": 1, "objective": objective}
    assert_certified(converted("xgboost", kind(**options).fit(X, y.get(objective, score))), X)


def test_other_xgboost_models_of_onnxmltools_certify(table):
    xgb = pytest.importorskip("xgboost")
    X, score = table
    y = (score > 0).astype(int)
    options = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
    for model in (
        xgb.XGBRFClassifier(**options).fit(X, y),
        xgb.XGBClassifier(base_score=0.3, **options).fit(X, y),
        xgb.XGBRegressor(**options).fit(X, np.stack([score, X[:, 3]], axis=1)),
        xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(X, score), 5),
    ):
        assert_certified(converted("xgboost", model), X)


def test_operators_behind_xgboost_that_no_forest_holds_are_refused_by_name(table):
    xgb = pytest.importorskip("xgboost")
    X, score = table
    options = {"n_estimators": 3, "max_depth": 2, "n_jobs": 1}
    counts = np.digitize(score, [-0.5, 0.5])
    poisson = xgb.XGBRegressor(objective="count:poisson", **options).fit(X, counts)
    hinge = xgb.XGBClassifier(objective="binary:hinge", **options).fit(X, counts > 0)
    for model, name in ((poisson, "Mul"), (hinge, "Greater")):
        with pytest.raises(UnsupportedModelError, match=f"operator '{name}'"):
            convert(converted("xgboost", model))


LIGHTGBM = [
    *((o, None) for o in ("regression", "l1", "huber", "poisson", "quantile", "gamma", "tweedie")),
    *(("binary", zipmap) for zipmap in (True, False)),
    *(("multiclass", zipmap) for zipmap in (True, False)),
]


@pytest.mark.parametrize(("objective", "zipmap"), LIGHTGBM)
def test_lightgbm_models_of_onnxmltools_certify(objective, zipmap, table):
    lgb = pytest.importorskip("lightgbm")
    X, score = table
    X = np.where(np.abs(X) > 1.5, np.nan, X)
    n_classes = {"binary": 2, "multiclass": 3}.get(objective, 0)
    kind = lgb.LGBMClassifier if n_classes else lgb.LGBMRegressor
    y = labels(score, n_classes) if n_classes else np.digitize(score, [-0.5, 0.5]) + 1.0
    options = {"n_estimators": 6, "num_leaves": 8, "verbose": -1, "n_jobs": 1}
    model = kind(objective=objective, **options).fit(X, y)
    more = {} if zipmap is None else {"zipmap": zipmap}
    assert_certified(converted("lightgbm", model, **more), X)


def test_other_lightgbm_models_of_onnxmltools_certify_or_are_refused_by_name(table):
    lgb = pytest.importorskip("lightgbm")
    X, score = table
    forest = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}
    options = {"n_estimators": 6, "num_leaves": 8, "verbose": -1, "n_jobs": 1}
    assert_certified(converted("lightgbm", lgb.LGBMRegressor(**forest, **options).fit(X, score)), X)
    dart = lgb.LGBMRegressor(boosting_type="dart", **options).fit(X, score)
    assert_certified(converted("lightgbm", dart), X)
    classifier = lgb.LGBMClassifier(**forest, **options).fit(X, labels(score, 2))
    with pytest.raises(UnsupportedModelError, match="ArrayFeatureExtractor"):
        convert(converted("lightgbm", classifier))
    with pytest.raises(UnsupportedModelError, match=r"got 2 among .*TreeEnsembleRegressor"):
        convert(converted("lightgbm", dart, split=3))


def test_category_chains_of_onnxmltools_certify(table):
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.integers(0, 12, (400, 1)), rng.normal(size=(400, 3))], axis=1)
    X = X.astype(np.float32)
    y = np.isin(X[:, 0], [1, 4, 5, 9]) + X[:, 1]
    options = {"objective": "regression", "min_data_per_group": 1, "cat_smooth": 0, "verbose": -1}
    options |= {"num_threads": 1, "max_cat_to_onehot": 1}
    model = converted("lightgbm", lgb.train(options, lgb.Dataset(X, y, categorical_feature=[0]), 8))
    forest = assert_certified(model, X)
    assert np.any(forest.tests.kind == Kind.SET)
    assert np.array_equal(reference.raw(forest, X), run(model, X)[0])
