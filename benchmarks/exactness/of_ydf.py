"""YDF: learners, tasks, kinds of conditions, missing values and directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ydf

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table

ROWS = 3000
BOOSTING: dict[str, Any] = {"num_trees": 8, "max_depth": 5, "validation_ratio": 0.0}
FOREST: dict[str, Any] = {"num_trees": 8, "max_depth": 7, "compute_oob_performances": False}
ISOLATION: dict[str, Any] = {"num_trees": 12}
LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gradient boosted trees": (ydf.GradientBoostedTreesLearner, BOOSTING),
    "random forest": (ydf.RandomForestLearner, FOREST),
    "CART": (ydf.CartLearner, {"max_depth": 9}),
    "isolation forest": (ydf.IsolationForestLearner, ISOLATION),
}
OBLIQUE = {"split_axis": "SPARSE_OBLIQUE"}
NUMBERS, CATEGORIES = "numerical conditions", "categorical conditions"
TRUTHS, OBLIQUES, BLANKS = "boolean conditions", "sparse oblique conditions", "missing values"
BINS = "discretized numbers"


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    adult, house, cover, letter = data.adult, data.california, data.covtype, data.letter
    higgs, mushroom = data.higgs, data.mushroom

    boosting, forest, cart, isolation = LEARNERS
    two, many = "two classes", "several classes"
    mixed = (NUMBERS, CATEGORIES, BLANKS)
    regression = {"task": ydf.Task.REGRESSION}
    for learner in (boosting, forest, cart):
        yield _trained(learner, "adult", adult, (two, *mixed))
        yield _trained(learner, "california", house, ("regression", *mixed), regression, saved=True)
    for learner in (boosting, forest):
        yield _trained(learner, "covtype", cover, (many, NUMBERS), saved=True)
        yield _trained(learner, "letter", letter, (many, NUMBERS), {"num_trees": 4})
        yield _trained(
            learner, "mushroom, indicators as truth values", mushroom, (two, TRUTHS), saved=True
        )
        yield _trained(learner, "higgs, oblique", higgs, (two, OBLIQUES), OBLIQUE)
        yield _trained(
            learner,
            "california, oblique",
            house,
            ("regression", OBLIQUES, BLANKS),
            regression | OBLIQUE,
            saved=True,
        )
        yield _trained(
            learner,
            "california, in bins",
            house,
            ("regression", BINS, BLANKS),
            regression | {"discretize_numerical_columns": True},
        )
    yield _trained(
        forest, "adult, shares", adult, (two, "shares", *mixed), {"winner_take_all": False}
    )
    yield _trained(
        forest, "covtype, shares", cover, (many, "shares", NUMBERS), {"winner_take_all": False}
    )
    for table in (house, higgs):
        yield _trained(
            boosting,
            f"{table.__name__}, Poisson",
            table,
            ("regression", "Poisson", NUMBERS),
            regression | {"loss": "POISSON"},
        )
        yield _trained(
            boosting,
            f"{table.__name__}, absolute error",
            table,
            ("regression", "absolute error", NUMBERS),
            regression | {"loss": "MEAN_AVERAGE_ERROR"},
        )
        yield _trained(isolation, table.__name__, table, (NUMBERS,), saved=table is house)
    for loss in ("LAMBDA_MART_NDCG", "XE_NDCG_MART"):
        yield _trained(
            boosting,
            f"higgs, {loss}",
            higgs,
            ("ranking", NUMBERS),
            {"task": ydf.Task.RANKING, "ranking_group": "group", "loss": loss},
        )


def _trained(
    learner: str,
    name: str,
    table: Callable[[], Table],
    options: tuple[str, ...],
    more: dict[str, Any] | None = None,
    *,
    saved: bool = False,
) -> Case:
    """Train on 3,000 rows; `saved` has the model saved and converted from there."""
    kind, usual = LEARNERS[learner]
    given = usual | (more or {})

    def make(folder: Path) -> Made:
        part = table().head(ROWS)
        columns = _columns(part, truths=TRUTHS in options)
        ydf.verbose(0)
        if learner == "isolation forest":
            model = kind(features=list(columns), **given).train(columns)
        else:
            rows = columns | {"label": part.y, "group": np.arange(len(part.y)) // 20}
            model = kind(label="label", features=list(columns), **given).train(rows)
        read = [columns[name].astype(object) for name in model.input_feature_names()]
        X = np.column_stack(read)
        if not saved:
            return Made(model, X)
        model.save(str(folder / "model"))
        return Made(folder / "model", X)

    known = (learner, "directory" if saved else "model object")
    return Case(f"{learner} on {name}", "YDF", (*known, *options), make)


def _columns(part: Table, *, truths: bool) -> dict[str, np.ndarray]:
    """Return numbers as float32, categories as texts, the empty one for blanks."""
    columns = {}
    for at, column in enumerate(part.frame.columns):
        values = part.frame[column]
        if at in part.categorical:
            found = values.astype(object).where(values.notna(), "").map(str).to_numpy(object)
        else:
            found = values.to_numpy(np.float32)
        columns[f"f_{column}"] = found.astype(bool) if truths else found
    return columns
