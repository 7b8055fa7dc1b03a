"""Laws of YDF's walker: its trees lead rows to the leaves that `predict_leaves` names."""

from __future__ import annotations

import numpy as np
import pytest
from proof_laws import assert_proved
from walker_laws import assert_walks_to_the_leaves_of

ydf = pytest.importorskip("ydf")

from bitvec.converters.ydf.oracle import oracle_of  # noqa: E402
from bitvec.converters.ydf.read import convert  # noqa: E402
from tests.models.ydf import DATA, MODELS, train  # noqa: E402

BINARY = "BINOMIAL_LOG_LIKELIHOOD"


def test_missing_numbers_that_keep_to_the_nodes_are_proved() -> None:
    numbers = {name: DATA[name] for name in ("a", "b", "two")}
    model = train(MODELS[BINARY], numbers, missing_value_policy="LOCAL_IMPUTATION")
    assert_proved(convert(model), oracle_of(model))


def test_shares_of_weighted_rows_keep_all_bits() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=40).astype(np.float32)
    rows = {"x": x, "y": np.where(rng.random(40) < 0.5, "a", "b"), "w": rng.random(40)}
    learner = ydf.RandomForestLearner(
        label="y", weights="w", num_trees=3, winner_take_all=False, max_depth=3
    )
    model = learner.train(rows)
    trees = assert_walks_to_the_leaves_of(oracle_of(model), 30)
    held = [node for i in range(3) for node in model._model.GetTree(i)]
    leaf = [node.classifier for node in held if not node.HasField("condition")]
    share = [one.distribution.counts[2] / (one.distribution.sum * 3) for one in leaf]
    np.testing.assert_array_equal(trees.v[:, 0], np.array(share, np.float32))
