"""Laws of CatBoost's walker: its trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from proof_laws import assert_proved, some_in_full
from walker_laws import assert_walks_to_the_leaves_of, catalogue

cb = pytest.importorskip("catboost")

from bitvec.converters.catboost.oracle import oracle_of  # noqa: E402
from bitvec.converters.catboost.read import convert  # noqa: E402
from bitvec.core.node_tests import Kind  # noqa: E402

MODELS = catalogue("test_catboost")
OPTIONS = [
    *((loss, MODELS.POLICIES[at % 3]) for at, loss in enumerate(MODELS.LOSSES)),
    *((loss, policy) for policy in MODELS.POLICIES for loss in ("RMSE", "Logloss", "MultiClass")),
]


@pytest.mark.parametrize(("loss", "policy"), some_in_full(OPTIONS))
def test_trees_lead_to_the_leaves_of_the_library_and_prove_the_conversion(
    loss: str, policy: str, tmp_path: Path
) -> None:
    model = MODELS.trained(loss, policy, iterations=4)
    assert_walks_to_the_leaves_of(oracle_of(model), 40)
    assert_proved(convert(model), oracle_of(model))
    for texts in (False, True):
        path = MODELS.saved(model, tmp_path / f"{texts}.json", texts=texts)
        assert_walks_to_the_leaves_of(oracle_of(path), 40)
        assert_proved(convert(path), oracle_of(path))


@pytest.mark.parametrize("policy", MODELS.POLICIES)
@pytest.mark.parametrize("mode", ["Min", "Max"])
def test_missing_values_go_by_the_nan_mode(mode: str, policy: str) -> None:
    Z, y = MODELS.X[:, :3].astype(np.float32), MODELS.Y.copy()
    y[::7] += 3  # where column 1 is missing
    options = {**MODELS.QUIET, "grow_policy": policy, "nan_mode": mode}
    model = cb.CatBoostRegressor(**options).fit(Z, y)
    trees = assert_walks_to_the_leaves_of(oracle_of(model), 60)
    assert np.any(trees.tests.missing_right) == (mode == "Max")
    assert_proved(convert(model), oracle_of(model))


def test_a_category_of_two_codes_is_a_set_of_both(tmp_path: Path) -> None:
    path = MODELS.saved(MODELS.trained(), tmp_path / "model.json")
    trees = assert_walks_to_the_leaves_of(oracle_of(path), 60)
    assert np.any(trees.tests.kind == Kind.SET)
    assert np.any(trees.tests.kind == Kind.EQUAL)
    assert_proved(convert(path), oracle_of(path))


def test_scale_and_bias_are_stated() -> None:
    model = MODELS.trained("RMSE")
    model.set_scale_and_bias(0.3, 1.7)
    trees = assert_proved(convert(model), oracle_of(model))
    assert (trees.stated["scale"].tolist(), trees.stated["base_score"].tolist()) == ([0.3], [1.7])
