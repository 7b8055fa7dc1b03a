"""The table of TAO forests: sizes, means over seeds, and who is better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

for library in ("sklearn", "xgboost", "lightgbm"):
    pytest.importorskip(library)

import bitvec  # noqa: E402


def test_every_method_is_fitted_on_one_thread_with_as_many_trees() -> None:
    from benchmarks.retrain.data import Split
    from benchmarks.tables.tao_forests import METHODS, SETTINGS, TREES, _made

    X = np.random.default_rng(0).normal(size=(60, 3))
    part = X, (X[:, 0] > 0).astype(np.int64)
    rows = Split("drawn", part, part, part)
    for method in METHODS:
        model = _made(method, SETTINGS[method][0], rows, 0)
        assert (model.n_estimators, model.n_jobs) == (TREES, 1)
        assert len(SETTINGS[method]) == 4


def test_oblique_weights_are_counted_and_stored() -> None:
    from benchmarks.tables.tao_forests import sizes

    axis = bitvec.Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    oblique = bitvec.Forest.from_matrices([[1, 2]], [0.5], [[0], [1]], [10, 20])
    assert sizes(axis) == {"trees": 1, "leaves": 2, "weights": 1, "bytes": 4 + 2 + 2 * 2 + 2 * 4}
    assert sizes(oblique)["bytes"] == 4 + 2 * (4 + 2) + 2 * 2 + 2 * 4


def test_means_are_of_seeds_and_more_accuracy_or_less_error_is_better() -> None:
    from benchmarks.tables.tao_forests import METHODS, against, rows

    def figures(score: float, loss: float) -> dict[str, Any]:
        size = {"trees": 30, "leaves": 60, "weights": 90, "bytes": 1000}
        return {"score": score, "loss": loss, "seconds": [2.0, 1.0], **size}

    def record(name: str, seed: int, measure: str, first: float) -> dict[str, Any]:
        methods = {method: figures(0.5, 0.5) for method in METHODS}
        methods["TAO bagged"] = figures(first, 0.6)
        return {"unit": ["forests", name, seed], "measure": measure, "methods": methods}

    found = rows(
        [record("letter", seed, "accuracy", 0.6 + 0.2 * seed) for seed in range(2)]
        + [record("california", 0, "RMSE", 0.6)]
    )
    assert [row["score"] for row in found if row["method"] == "TAO bagged"] == [0.7, 0.6]
    lines = {(row["method"], row["by"]): row["xgboost"] for row in against(found)}
    assert lines["TAO bagged", "accuracy, RMSE"] == "1 of 2"
    assert lines["TAO bagged", "log loss, RMSE"] == "0 of 2"
    assert lines["TAO boosted", "accuracy, RMSE"] == "0 of 2"


def test_a_split_is_cut_to_rows_of_labels_that_are_fitted() -> None:
    from benchmarks.retrain.data import Split

    X, y = np.arange(8.0)[:, None], np.array([5, 7, 7, 9, 5, 9, 7, 5])
    whole = Split("drawn", (X, y), (X, y), (X, y))
    cut = whole.head(fit=3, held_out=4, test=8)
    assert cut.fit[1].tolist() == [0, 1, 1]
    assert cut.held_out[0][:, 0].tolist() == [0.0, 1.0, 2.0]
    assert cut.test[1].tolist() == [0, 1, 1, 0, 1, 0]
