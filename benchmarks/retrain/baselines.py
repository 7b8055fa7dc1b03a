"""Other libraries' fine-tuning of the same models, each in an environment of its own."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks import jobs
from benchmarks.jobs import Job
from benchmarks.report import Row
from benchmarks.retrain.data import Split, split
from benchmarks.retrain.forests import ALL, stages
from benchmarks.retrain.scores import losses, score, score_of, told
from benchmarks.workers import in_environment

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


def write_job(folder: Path, rows: Split, **facts: Any) -> Job:
    """Leave the rows for another library; the labels to test on stay here."""
    facts = {"model": "model", "is_classifier": rows.is_classifier, **facts}
    (X, y), (held_out_X, held_out_y) = rows.fit, rows.held_out
    return jobs.write(
        folder, facts, X=X, y=y, held_out_X=held_out_X, held_out_y=held_out_y, test_X=rows.test[0]
    )


def measure(case: BaselineCase, seed: int, options: Namespace) -> list[Row]:
    """Return the row of one case and one seed; raises CannotRunError where theirs cannot run."""
    rows = split(options.data, case.data, seed).ordinal()
    with tempfile.TemporaryDirectory() as place:
        job = write_job(Path(place), rows, seed=seed, trees=case.trees, leaves=case.leaves)
        answer = in_environment(
            f"benchmarks.foreign.{case.baseline}:run",
            job.folder,
            baselines=options.baselines_dir,
            baseline=case.baseline,
            within=SECONDS,
        )
        return [_compared(case, rows, job, answer)]


def _compared(case: BaselineCase, rows: Split, job: Job, answer: dict[str, Any]) -> Row:
    forest = bitvec.convert(job.path)
    classes = forest.output.classes
    own = rows if classes is None or classes[0].dtype.kind == "i" else rows.named()
    *_, last = stages(forest, own, job.facts["seed"])
    is_classifier = rows.is_classifier
    theirs = {
        name: score(rows.test[1], predicted, is_classifier=is_classifier)
        for name, predicted in job.answers.items()
    }
    ours = score_of(last.forest, own.test)
    return {
        "source": case.source,
        **told(ALL, last.forest, score_of(forest, own.test), ours, last.seconds),
        **losses(forest, last.forest, own.test),
        "ahead": ours - theirs["hard"] if is_classifier else theirs["hard"] - ours,
        "theirs_start": theirs.get("start"),
        "theirs": theirs["hard"],
        "theirs_transferred": theirs.get("transferred"),
        "theirs_soft": theirs.get("soft"),
        "theirs_settings": answer["hard"]["settings"],
        "held_out_gain": last.score - last.start_score,
        "improved": last.improved,
        "theirs_seconds": answer["seconds"],
    }
