"""Other libraries' fine-tuning of the same models, each in an environment of its own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks.old_jobs import read_answers
from benchmarks.old_report import Row
from benchmarks.old_worker import CannotRunError
from benchmarks.old_workers import in_environment
from benchmarks.retrain.data import Split, split
from benchmarks.retrain.forests import ALL, stages
from benchmarks.retrain.rows import gain, parameters, rounded, score, score_of, without
from benchmarks.retrain.workers.job import Job

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
SECONDS: Final = 1800.0


@dataclass(frozen=True, slots=True)
class BaselineCase:
    """One library's fine-tuning on one data set; `source` is the model that both begin with."""

    data: str
    baseline: str
    source: str
    trees: int
    leaves: int = 31

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{self.data}, {self.baseline}"


_SOURCES: Final = {
    "treegrad": ("LightGBM, 30 rounds, 31 leaves", 30),
    "ydf": ("YDF boosted trees, 100 rounds or fewer, depth 6", 100),
}
CASES: Final = tuple(
    BaselineCase(data, baseline, source, trees)
    for baseline, (source, trees) in _SOURCES.items()
    for data in ("satimage", "adult", "california")
)


def measure(case: BaselineCase, data: Path, seed: int, *, baselines: Path | None) -> list[Row]:
    """Return the row of one case and one seed, or why there is none."""
    try:
        return _measured(case, data, seed, baselines)
    except CannotRunError as error:
        return [without("baselines", case.name, str(error), seed)]


def _measured(case: BaselineCase, data: Path, seed: int, baselines: Path | None) -> list[Row]:
    rows = split(data, case.data, seed).ordinal()
    with tempfile.TemporaryDirectory() as place:
        job = Job(
            Path(place),
            rows.fit,
            rows.held_out,
            rows.test[0],
            is_classifier=rows.is_classifier,
            seed=seed,
            trees=case.trees,
            leaves=case.leaves,
        )
        job.write()
        told = in_environment(
            f"benchmarks.retrain.workers.of_{case.baseline}",
            job.folder,
            baselines=baselines,
            baseline=case.baseline,
            within=SECONDS,
        )
        return [_compared(case, rows, job, told)]


def _compared(case: BaselineCase, rows: Split, job: Job, told: dict[str, Any]) -> Row:
    predicted, seed = read_answers(job.folder), job.seed
    forest = bitvec.convert(job.model)
    classes = forest.output.classes
    own = rows if classes is None or classes[0].dtype.kind == "i" else rows.named()
    *_, last = stages(forest, own, seed)
    is_classifier, y = rows.is_classifier, rows.test[1]

    def scored(name: str) -> float | None:
        if name not in predicted:
            return None
        return rounded(score(y, predicted[name], is_classifier=is_classifier))

    start, ours = score_of(forest, own.test), score_of(last.forest, own.test)
    theirs, soft = scored("hard"), scored("soft")
    assert theirs is not None
    better: dict[str, Any] = {
        "ahead": rounded(gain(theirs, ours, is_classifier=is_classifier)),
        "gain": rounded(gain(start, ours, is_classifier=is_classifier)),
    }
    return better | {
        "part": "baselines",
        "case": case.name,
        "data": case.data,
        "source": case.source,
        "moved": ALL,
        "measure": "accuracy" if is_classifier else "RMSE",
        "seed": seed,
        "start": rounded(start),
        "score": rounded(ours),
        "theirs_start": scored("start"),
        "theirs": theirs,
        "theirs_transferred": scored("transferred"),
        "theirs_soft": soft,
        "theirs_settings": told["hard"]["settings"],
        "held_out_start": rounded(last.start_score),
        "held_out_gain": rounded(last.score - last.start_score),
        "improved": last.improved,
        "start_leaves": forest.n_leaves,
        "leaves": last.forest.n_leaves,
        "parameters": parameters(last.forest),
        "seconds": rounded(last.seconds),
        "theirs_seconds": rounded(told["seconds"]),
    }
