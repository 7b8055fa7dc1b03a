"""Laws of YDF's walker: its trees lead rows to the leaves that `predict_leaves` names."""

from __future__ import annotations

import numpy as np
import pytest
from proof_laws import some_in_full
from walker_laws import (
    assert_mutants_refuted,
    assert_proved,
    assert_walks_to_the_leaves_of,
    rows_about,
    summed,
)

ydf = pytest.importorskip("ydf")

from bitvec.converters.ydf.oracle import oracle_of  # noqa: E402
from bitvec.converters.ydf.read import convert  # noqa: E402
from tests.models.ydf import DATA, ISOLATION, MODELS, train, trained  # noqa: E402

BINARY = "BINOMIAL_LOG_LIKELIHOOD"
REFUTED = (
    *(BINARY, "MULTINOMIAL_LOG_LIKELIHOOD", "GradientBoostedTrees, bins, two"),
    *("GradientBoostedTrees, oblique, two", "shares, two", ISOLATION),
)
EACH = [*REFUTED, *(name for name in MODELS if name not in REFUTED)]


@pytest.mark.parametrize("name", some_in_full([(name,) for name in EACH], one_in=3))
def test_models_are_proved_and_lead_to_the_leaves_and_sums_of_ydf(name: str) -> None:
    model = trained(name)
    answers = oracle_of(model)
    trees = assert_walks_to_the_leaves_of(answers, 30)
    forest = convert(model)
    assert_proved(forest, answers)
    if name in REFUTED:
        assert_mutants_refuted(forest, answers)
    assert answers.n_outputs is not None
    X = rows_about(trees, 30, seed=1)
    total = summed(trees, X, answers.n_outputs)
    # QuickScorer adds the trees to the initial prediction: at most 8 sums round otherwise.
    np.testing.assert_allclose(total, answers.raw(X), rtol=1e-6, atol=1e-6)


def test_a_directory_states_the_trees_of_its_model(tmp_path) -> None:
    model = trained(BINARY)
    model.save(str(tmp_path / "model"))
    assert_proved(convert(model), oracle_of(tmp_path / "model"))


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
