"""Laws of LightGBM's walker: its trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

import numpy as np
import pytest
from proof_laws import assert_proved
from walker_laws import assert_walks_to_the_leaves_of

lgb = pytest.importorskip("lightgbm")

from bitvec.converters.lightgbm.oracle import oracle_of  # noqa: E402
from bitvec.converters.lightgbm.read import convert  # noqa: E402
from bitvec.core.node_tests import ZERO_THRESHOLD  # noqa: E402
from bitvec.verify.certificates.proof import prove  # noqa: E402
from tests.models.lightgbm import COMMON, SPECIAL, stump, trained  # noqa: E402
from tests.models.samples import small  # noqa: E402

CERTIFIED = ("regression", "multiclass", "binary, rf", "classifier of two", "regressor")


@pytest.mark.parametrize("name", CERTIFIED)
def test_wrappers_state_their_labels_and_boosters_the_numbers_of_classes(name: str) -> None:
    model = trained(name)
    trees = assert_proved(convert(model), oracle_of(model))
    assert "classes" in trees.stated
    if not hasattr(model, "booster_") and trees.stated["classes"] is not None:
        n_classes = max(2, model.num_model_per_iteration())
        assert [labels.tolist() for labels in trees.stated["classes"]] == [[*range(n_classes)]]


@pytest.mark.parametrize("decision", [0, 2, 4, 6, 8, 10])
def test_tiny_thresholds_are_compared_as_the_dense_reader_makes_rows_zero(decision: int) -> None:
    k = ZERO_THRESHOLD
    near = [np.nextafter(k, 1), np.nextafter(-k, -1)]
    x = np.array([*SPECIAL, 1e-34, -1e-34])
    X = np.zeros((x.size, 4))
    X[:, 1] = x
    for t in (k, -k, 0.0, -0.0, 1e-40, -1e-40, *near, np.inf, -np.inf, 1e300):
        model = stump(f"threshold={float(t)!r}\ndecision_type={decision}")
        trees = assert_walks_to_the_leaves_of(oracle_of(model), X=X)
        assert prove(convert(model), trees, missing=True, infinite=True).holds


def test_names_of_features_are_no_lines_of_a_tree() -> None:
    names = ["threshold", "leaf_value", "Tree", "decision_type"]
    model = lgb.train(COMMON, lgb.Dataset(small().X, small().y, feature_name=names), 3)
    assert_walks_to_the_leaves_of(oracle_of(model), 40)
    assert_proved(convert(model), oracle_of(model))
