"""Laws of CatBoost's walker: its trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from proof_laws import assert_proved, some_in_full
from walker_laws import assert_walks_to_the_leaves_of

cb = pytest.importorskip("catboost")

from bitvec.converters.catboost.oracle import oracle_of  # noqa: E402
from bitvec.converters.catboost.read import convert  # noqa: E402
from bitvec.core.node_tests import Kind  # noqa: E402
from tests.models.catboost import (  # noqa: E402
    MODELS,
    POLICIES,
    QUIET,
    Model,
    saved,
    train,
    with_texts,
)


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS], one_in=7))
def test_trees_lead_to_the_leaves_of_the_library_and_prove_the_conversion(
    name: str, tmp_path: Path
) -> None:
    model = train(MODELS[name], with_texts(), iterations=4)
    assert_walks_to_the_leaves_of(oracle_of(model), 40)
    assert_proved(convert(model), oracle_of(model))
    for texts in (False, True):
        path = saved(model, tmp_path / f"{texts}.json", texts=texts)
        assert_walks_to_the_leaves_of(oracle_of(path), 40)
        assert_proved(convert(path), oracle_of(path))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mode", ["Min", "Max"])
def test_missing_values_go_by_the_nan_mode(mode: str, policy: str) -> None:
    Z, y = with_texts().X[:, :3].astype(np.float32), with_texts().y.copy()
    y[::7] += 3  # where column 1 is missing
    options = {**QUIET, "grow_policy": policy, "nan_mode": mode}
    model = cb.CatBoostRegressor(**options).fit(Z, y)
    trees = assert_walks_to_the_leaves_of(oracle_of(model), 60)
    assert np.any(trees.tests.missing_right) == (mode == "Max")
    assert_proved(convert(model), oracle_of(model))


def test_a_category_of_two_codes_is_a_set_of_both(tmp_path: Path) -> None:
    path = saved(train(Model(), with_texts()), tmp_path / "model.json")
    trees = assert_walks_to_the_leaves_of(oracle_of(path), 60)
    assert np.any(trees.tests.kind == Kind.SET)
    assert np.any(trees.tests.kind == Kind.EQUAL)
    assert_proved(convert(path), oracle_of(path))


def test_scale_and_bias_are_stated() -> None:
    model = train(Model())
    model.set_scale_and_bias(0.3, 1.7)
    trees = assert_proved(convert(model), oracle_of(model))
    assert (trees.stated["scale"].tolist(), trees.stated["base_score"].tolist()) == ([0.3], [1.7])
