"""Monotone constraints that a model records, as training reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.errors import UnsupportedModelError

pytest.importorskip("torch")

from bitvec.runtime.train.monotone import Monotone


def numbers() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    return X, X[:, 1] - X[:, 3] + np.sin(3 * X[:, 0]) + 0.3 * random.normal(size=300)


def of_xgboost() -> Any:
    xgboost = pytest.importorskip("xgboost")
    options = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
    return xgboost.XGBRegressor(**options, monotone_constraints="(0,1,0,-1)").fit(*numbers())


def of_a_booster() -> Any:
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(*numbers())
    return xgboost.train({"monotone_constraints": (0, 1, 0, -1), "nthread": 1}, data, 8)


def of_dart() -> Any:
    xgboost = pytest.importorskip("xgboost")
    options = {"booster": "dart", "monotone_constraints": (0, 1, 0, -1), "nthread": 1}
    return xgboost.train(options, xgboost.DMatrix(*numbers()), 8)


def of_lightgbm() -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    options = {"monotone_constraints": [0, 1, 0, -1], "verbose": -1, "num_threads": 1}
    return lightgbm.train(options, lightgbm.Dataset(*numbers()), 8)


def of_catboost() -> Any:
    catboost = pytest.importorskip("catboost")
    options = {"iterations": 8, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    return catboost.CatBoostRegressor(**options, monotone_constraints={1: 1, 3: -1}).fit(*numbers())


def of_histograms() -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble")
    options = {"max_iter": 8, "monotonic_cst": [0, 1, 0, -1]}
    return ensemble.HistGradientBoostingRegressor(**options).fit(*numbers())


def of_a_forest() -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.ExtraTreesRegressor(8, max_depth=4, monotonic_cst=[0, 1, 0, -1]).fit(*numbers())


ALL: list[Callable[[], Any]] = [
    of_xgboost, of_a_booster, of_dart, of_lightgbm, of_catboost, of_histograms, of_a_forest,
]  # fmt: skip


@pytest.mark.parametrize("fit", ALL)
def test_the_record_is_read_and_the_model_keeps_it(fit: Callable[[], Any]) -> None:
    forest = bitvec.convert(fit())
    keeps = Monotone.of(forest)
    assert keeps is not None
    assert keeps.signs.tolist() == [0, 1, 0, -1]
    assert keeps.kept(forest) is forest


def test_a_file_of_xgboost_has_no_record(tmp_path: Any) -> None:
    model = of_xgboost()
    model.save_model(tmp_path / "model.ubj")
    assert Monotone.of(bitvec.convert(tmp_path / "model.ubj")) is None


def test_a_record_of_a_pipelines_columns_is_refused() -> None:
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    tree = pytest.importorskip("sklearn.tree")
    steps = (
        preprocessing.StandardScaler(),
        tree.DecisionTreeRegressor(max_depth=3, monotonic_cst=[0, 1, 0, -1]),
    )
    forest = bitvec.convert(pipeline.make_pipeline(*steps).fit(*numbers()))
    with pytest.raises(UnsupportedModelError, match="a pipeline makes"):
        Monotone.of(forest)
