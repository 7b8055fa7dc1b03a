"""Nodes are read some at a time: how many does not matter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitvec.converters.ydf import directory
from bitvec.converters.ydf.read import convert
from bitvec.core.forest import Forest

ydf = pytest.importorskip("ydf")


def saved(path: Path, learner: str) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    columns = {"a": X[:, 0], "b": X[:, 1], "c": rng.choice(["x", "y", "z"], 300)}
    score = X[:, 0] * X[:, 1] + (columns["c"] == "x")
    options = {"num_trees": 4, "num_threads": 1}
    if learner == "isolation forest":
        model = ydf.IsolationForestLearner(**options).train(columns, verbose=0)
    elif learner == "random forest":
        labelled = columns | {"y": np.digitize(score, [-0.5, 0.5]).astype(str)}
        model = ydf.RandomForestLearner(label="y", winner_take_all=False, **options).train(
            labelled, verbose=0
        )
    else:
        axis = {"split_axis": "SPARSE_OBLIQUE"} if learner == "oblique" else {}
        model = ydf.GradientBoostedTreesLearner(
            label="y", task=ydf.Task.REGRESSION, **options, **axis
        ).train(columns | {"y": score}, verbose=0)
    model.save(str(path))
    return path


def arrays(forest: Forest) -> list[tuple[str, object]]:
    parts = (forest.tests, forest.bitvectors, forest.leaves, forest.output, forest.source)
    return [(name, getattr(part, name)) for part in parts for name in part.__dataclass_fields__]


@pytest.mark.parametrize("learner", ["boosted", "oblique", "random forest", "isolation forest"])
def test_nodes_read_in_parts_are_those_read_at_once(
    learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "model", learner)
    at_once = arrays(convert(path))
    for count in (1, 7):
        monkeypatch.setattr(directory, "NODES", count)
        for (name, got), (_, want) in zip(arrays(convert(path)), at_once, strict=True):
            np.testing.assert_equal(got, want, err_msg=name)
