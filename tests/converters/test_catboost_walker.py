"""Laws of CatBoost's walker: its trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from proof_laws import assert_proved
from walker_laws import assert_walks_to_the_leaves_of

cb = pytest.importorskip("catboost")

from bitvec.converters.catboost.oracle import oracle_of  # noqa: E402
from bitvec.converters.catboost.read import convert  # noqa: E402
from bitvec.core.node_tests import Kind  # noqa: E402
from tests.models.catboost import (  # noqa: E402
    POLICIES,
    QUIET,
    Model,
    saved,
    train,
    with_texts,
)


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


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_with_or_without_texts_states_sets_of_codes(
    policy: str, texts: bool, tmp_path: Path
) -> None:
    model = train(Model("RMSE", {"grow_policy": policy}), with_texts())
    path = saved(model, tmp_path / "model.json", texts=texts)
    trees = assert_walks_to_the_leaves_of(oracle_of(path), 60)
    assert np.any(trees.tests.kind == Kind.SET) == texts
    assert np.any(trees.tests.kind == Kind.EQUAL)
    assert_proved(convert(path), oracle_of(path))


def test_scale_and_bias_are_stated() -> None:
    model = train(Model())
    model.set_scale_and_bias(0.3, 1.7)
    trees = assert_proved(convert(model), oracle_of(model))
    assert (trees.stated["scale"].tolist(), trees.stated["base_score"].tolist()) == ([0.3], [1.7])
