"""Forests and boosters, S fixed: leaves, then thresholds and leaves; then written back."""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks.report import Row
from benchmarks.retrain.data import Array, Split, split
from benchmarks.retrain.libraries import LIBRARIES, Library
from benchmarks.retrain.scores import losses, score, score_of, told
from bitvec.core.forest import Forest

LEAVES: Final = "v"
ALL: Final = "v, then b and v"
BOTH: Final[tuple[dict[str, Any], ...]] = (
    {"schedule": {"steps": 300, "gamma": (4.0, 30.0)}},
    {"schedule": {"steps": 200, "gamma": (4.0, 30.0), "learning_rate": 0.01}},
)
"""Settings that train thresholds and leaves, the same for all forests; rows held out choose one."""
QUICK: Final[dict[str, Any]] = {"schedule": {"steps": 10}}


@dataclass(frozen=True, slots=True)
class ForestCase:
    """One library's forest of one data set.

    Parameters
    ----------
    least_gain : float, optional
        The mean gain on the test rows that is asked for; 0 stands for any gain.
    """

    data: str
    library: Library
    least_gain: float | None = None

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{self.data}, {self.library.name}"


_LEAST_GAIN: Final = {
    ("satimage", "RandomForest"): 0.008,
    ("adult", "RandomForest"): 0.008,
    ("california", "RandomForest"): 0.045,
    ("satimage", "xgboost"): 0.0,
    ("california", "xgboost"): 0.0,
}
CASES: Final = tuple(
    ForestCase(data, library, _LEAST_GAIN.get((data, library.name)))
    for data in ("satimage", "adult", "california")
    for library in LIBRARIES
)


@dataclass(frozen=True, slots=True)
class Stage:
    """A forest after one stage: what has moved so far, and its scores on the rows held out."""

    moved: str
    forest: Forest
    improved: bool
    start_score: float
    score: float
    seconds: float


def stages(forest: Forest, rows: Split, seed: int, *, quick: bool = False) -> Iterator[Stage]:
    """Yield the forest with new leaves, then with new thresholds and leaves.

    Each is the one before it where the rows held out prefer that.
    """
    first: float | None = None
    seconds, improved = 0.0, False
    recipes: tuple[dict[str, Any], ...]
    for moved, train, recipes in ((LEAVES, ("v",), ({},)), (ALL, ("b", "v"), BOTH)):
        tried = (QUICK,) if quick else recipes
        start = time.process_time()
        results = [
            bitvec.retrain(
                forest,
                *rows.fit,
                trainable=train,
                validation=rows.held_out,
                budget=None,
                seed=seed,
                **recipe,
            )
            for recipe in tried
        ]
        seconds += time.process_time() - start
        # The first of equals.
        result = max(results, key=lambda result: result.score)
        forest, improved = result.forest, improved or result.improved
        first = result.start_score if first is None else first
        yield Stage(moved, forest, improved, first, result.score, seconds)


def measure(case: ForestCase, seed: int, options: Namespace) -> Iterator[Row]:
    """Yield the rows of one case and one seed; the last stage is written back too."""
    rows, library = split(options.data, case.data, seed), case.library
    source = {"source": library.source}
    forest = bitvec.convert(library.grow(rows, seed, library.size))
    before = score_of(forest, rows.test)
    for stage in stages(forest, rows, seed, quick=options.quick):
        after = score_of(stage.forest, rows.test)
        yield {
            **source,
            **told(stage.moved, stage.forest, before, after, stage.seconds),
            **losses(forest, stage.forest, rows.test),
            "held_out_gain": stage.score - stage.start_score,
            "improved": stage.improved,
            **(written_back(stage.forest, library, rows) if stage.moved == ALL else {}),
        }
    # Other models of the same library, in its own hands.
    for name, size in () if options.quick else library.others:
        start = time.process_time()
        model = library.grow(rows, seed, size)
        seconds = time.process_time() - start
        after = score(rows.test[1], model.predict(rows.test[0]), is_classifier=rows.is_classifier)
        grown = bitvec.convert(model)
        row = told(f"grown instead: {name}", grown, before, after, seconds)
        yield source | row | losses(forest, grown, rows.test)


def written_back(forest: Forest, library: Library, rows: Split) -> dict[str, Any]:
    """Write a forest for its library; return the library's score from it and what differs."""
    predictor = bitvec.compile(forest, n_jobs=1)
    with tempfile.TemporaryDirectory() as folder:
        path = bitvec.export(forest, Path(folder) / f"forest{library.suffix}", to=library.to)
        theirs, their_scores = library.answers(path, rows)
    ours = predictor.predict(rows.test[0])
    our_scores = predictor.predict_proba(rows.test[0]) if rows.is_classifier else ours
    other = _differ(ours, theirs) | _differ(our_scores, their_scores)
    return {
        "file_score": score(rows.test[1], theirs, is_classifier=rows.is_classifier),
        "file_differences": int(np.count_nonzero(other)),
    }


def _differ(one: Array, other: Array) -> Array:
    """Return which rows differ."""
    return np.any(np.not_equal(one, other).reshape(len(one), -1), axis=1)
