"""Laws of LightGBM's walker: its trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from proof_laws import assert_proved, some_in_full
from walker_laws import assert_walks_to_the_leaves_of, catalogue

lgb = pytest.importorskip("lightgbm")

from bitvec.converters.lightgbm.oracle import oracle_of  # noqa: E402
from bitvec.converters.lightgbm.read import convert  # noqa: E402
from bitvec.core.node_tests import ZERO_THRESHOLD  # noqa: E402
from bitvec.verify.certificates.proof import prove  # noqa: E402

MODELS = catalogue("test_lightgbm")
OPTIONS = [
    *((objective, "gbdt") for objective in MODELS.OBJECTIVES),
    *((objective, "rf") for objective in ("binary", "multiclass")),
    *((objective, name) for name in MODELS.BOOSTINGS for objective in ("regression", "multiclass")),
]


@pytest.mark.parametrize(("objective", "boosting"), some_in_full(OPTIONS))
def test_trees_lead_to_the_leaves_of_the_library_and_prove_the_conversion(
    objective: str, boosting: str, tmp_path: Path
) -> None:
    model = MODELS.trained(objective, 3, **MODELS.BOOSTINGS[boosting])
    assert_walks_to_the_leaves_of(oracle_of(model), 40)
    assert_proved(convert(model), oracle_of(model))
    model.save_model(tmp_path / "model.txt")
    assert_proved(convert(tmp_path / "model.txt"), oracle_of(tmp_path / "model.txt"))


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS.CERTIFIED]))
def test_wrappers_state_their_labels_and_boosters_the_numbers_of_classes(name: str) -> None:
    model = MODELS.CERTIFIED[name]()
    trees = assert_proved(convert(model), oracle_of(model))
    assert "classes" in trees.stated
    if not hasattr(model, "booster_") and trees.stated["classes"] is not None:
        n_classes = max(2, model.num_model_per_iteration())
        assert [labels.tolist() for labels in trees.stated["classes"]] == [[*range(n_classes)]]


@pytest.mark.parametrize("decision", [0, 2, 4, 6, 8, 10])
def test_tiny_thresholds_are_compared_as_the_dense_reader_makes_rows_zero(decision: int) -> None:
    text, k = MODELS.trained(rounds=1).model_to_string(), ZERO_THRESHOLD
    near = [np.nextafter(k, 1), np.nextafter(-k, -1)]
    x = np.array([*MODELS.SPECIAL, *near, 1e-34, -1e-34])
    X = np.zeros((x.size, 5))
    X[:, 1] = x
    for t in (k, -k, 0.0, -0.0, 1e-40, -1e-40, *near, np.inf, -np.inf, 1e300):
        stump = MODELS._with_tree(text, f"threshold={float(t)!r}\ndecision_type={decision}")
        model = lgb.Booster(model_str=stump)
        trees = assert_walks_to_the_leaves_of(oracle_of(model), X=X)
        assert prove(convert(model), trees, missing=True, infinite=True).holds


def test_names_of_features_are_no_lines_of_a_tree() -> None:
    X, y = MODELS.mixed()
    names = ["threshold", "leaf_value", "Tree", "num_leaves", "decision_type"]
    model = lgb.train(MODELS.QUIET, lgb.Dataset(X, y, feature_name=names), 3)
    assert_walks_to_the_leaves_of(oracle_of(model), 40)
    assert_proved(convert(model), oracle_of(model))
