"""Values by cover equal those of the libraries, on their catalogues of models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

xgb = pytest.importorskip("xgboost")
lgb = pytest.importorskip("lightgbm")
cb = pytest.importorskip("catboost")

from proof_laws import some_in_full  # noqa: E402

import bitvec  # noqa: E402
from bitvec.core.arrays import Array  # noqa: E402
from bitvec.errors import UnsupportedModelError  # noqa: E402
from bitvec.explanations.explainer import explain  # noqa: E402
from tests.models import catboost, lightgbm, xgboost  # noqa: E402
from tests.models.samples import small  # noqa: E402

X = small().X[:120]
FLOAT32 = 2e-6
"""xgboost sums covers, products of shares and values in float32, as we do by default."""
FLOAT64 = 1e-13


def as_theirs(explainer: Any, values: Array) -> Array:
    """Return values with the base value behind them, and one axis of outputs before: (o, n, m)."""
    outputs = values[..., None] if explainer.forest.n_outputs == 1 else values
    base = np.broadcast_to(explainer.base_value, (len(values), 1, outputs.shape[-1]))
    return np.concatenate([outputs, base], axis=1).transpose(2, 0, 1)


def require_equal(found: Array, wanted: Array, tolerance: float) -> None:
    """Compare by the largest value."""
    assert found.shape == wanted.shape
    atol = tolerance * (1 + np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


def is_scalar(name: str) -> bool:
    """Return whether the leaves have one value each: xgboost 3.2 explains no others."""
    return "multi_strategy" not in xgboost.MODELS[name].parameters


@pytest.mark.parametrize(
    "name", some_in_full([(name,) for name in filter(is_scalar, xgboost.MODELS)], one_in=2)
)
def test_values_are_those_of_xgboost(name):
    model, about = xgboost.trained(name), xgboost.MODELS[name]
    booster = model.get_booster() if about.wrapper else model
    kinds = ["c" if i in small().categorical else "float" for i in range(X.shape[1])]
    given = {"feature_types": kinds, "enable_categorical": True} if about.categories else {}
    missing = about.parameters.get("missing", np.nan)
    rows = xgb.DMatrix(X, feature_names=booster.feature_names, missing=missing, **given)
    stop = getattr(model, "best_iteration", -1) + 1 if "early" in str(about.parameters) else 0
    wanted = booster.predict(rows, pred_contribs=True, iteration_range=(0, stop))
    wanted = wanted[None] if wanted.ndim == 2 else wanted.transpose(1, 0, 2)
    explainer = explain(bitvec.convert(model))
    require_equal(as_theirs(explainer, explainer.values(X)), wanted, FLOAT32)
    exact = explain(bitvec.convert(model), dtype="float64")
    require_equal(as_theirs(exact, exact.values(X)), wanted, FLOAT32)
    wanted = booster.predict(rows, pred_interactions=True, iteration_range=(0, stop))[..., :-1, :-1]
    found = explainer.interactions(X)
    require_equal(found if found.ndim == 3 else found.transpose(0, 3, 1, 2), wanted, FLOAT32)


@pytest.mark.parametrize("name", lightgbm.MODELS)
def test_values_are_those_of_lightgbm(name):
    model, about = lightgbm.trained(name), lightgbm.MODELS[name]
    forest = bitvec.convert(model)
    if "linear_tree" in about.parameters:
        with pytest.raises(UnsupportedModelError, match="no linear leaves"):
            explain(forest)
        return
    booster = model.booster_ if about.wrapper else model
    wanted = booster.predict(X, pred_contrib=True)
    wanted = wanted.reshape(len(X), -1, X.shape[1] + 1).transpose(1, 0, 2)
    if about.parameters.get("boosting") == "rf":  # its own sum, not the mean that it predicts
        wanted = wanted / (forest.n_trees / forest.n_outputs)
    for dtype, tolerance in (("float64", FLOAT64), ("float32", FLOAT32)):
        explainer = explain(forest, dtype=dtype)
        require_equal(as_theirs(explainer, explainer.values(X)), wanted, tolerance)


def is_explained(name: str) -> bool:
    """Return whether CatBoost explains a model: with a scale it refuses, and see the last test."""
    about = catboost.MODELS[name]
    is_symmetric = about.parameters.get("grow_policy", "SymmetricTree") == "SymmetricTree"
    return is_symmetric and about.scale_and_bias is None


@pytest.mark.parametrize("name", [*filter(is_explained, catboost.MODELS)])
def test_values_are_those_of_catboost(name):
    model, data = catboost.trained(name), small()
    coded = np.flatnonzero(~np.isnan(data.X[:, [*data.categorical]]).any(axis=1))
    rows = catboost.pool(catboost.MODELS[name], data)
    wanted = model.get_feature_importance(rows, type="ShapValues", shap_calc_type="Regular")
    wanted = wanted[None] if wanted.ndim == 2 else wanted.transpose(1, 0, 2)
    forest = bitvec.convert(model)
    # A leaf that no training row reached has the value 0 for CatBoost's explanations; monotone
    # constraints give it another.
    leaves = forest.leaves
    v = np.where(forest.source.leaf_cover[:, None] > 0, leaves.v, 0)
    explainer = explain(replace(forest, leaves=replace(leaves, v=v)), dtype="float64")
    found = as_theirs(explainer, explainer.values(data.X[coded]))
    if catboost.MODELS[name].loss == "RMSEWithUncertainty":
        found = found[:1]  # of mean and variance CatBoost explains the mean alone
    require_equal(found, wanted[:, coded], FLOAT64)


def test_values_of_catboost_do_not_sum_to_its_predictions_for_other_trees():
    # So that there is nothing to compare with; a version that repairs it fails here.
    model, rows = catboost.trained("RMSE, Depthwise"), catboost.pool(catboost.Model(), small())
    found = model.get_feature_importance(rows, type="ShapValues", shap_calc_type="Regular")
    assert np.abs(found.sum(axis=1) - model.predict(rows)).max() > 0.1
