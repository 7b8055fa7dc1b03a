"""Other libraries' fine-tuning of the same models, each in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import bitvec
from benchmarks.retrain.children.exchange import Job, read_answers, write_job
from benchmarks.retrain.data import Split, split
from benchmarks.retrain.forests import ALL, stages
from benchmarks.retrain.rows import Row, gain, parameters, rounded, score, score_of, without

ROOT: Final = Path(__file__).parent.parent.parent
REQUIREMENTS: Final = Path(__file__).parent / "requirements"
SECONDS: Final = 1800.0
_PYTHON: Final = Path("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class PeerCase:
    """One library's fine-tuning on one data set; `source` is the model that both begin with."""

    data: str
    peer: str
    source: str
    trees: int
    leaves: int = 31

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{self.data}, {self.peer}"


_SOURCES: Final = {
    "treegrad": ("LightGBM, 30 rounds, 31 leaves", 30),
    "ydf": ("YDF boosted trees, 100 rounds or fewer, depth 6", 100),
}
CASES: Final = tuple(
    PeerCase(data, peer, source, trees)
    for peer, (source, trees) in _SOURCES.items()
    for data in ("satimage", "adult", "california")
)


def make(peers: Path) -> None:
    """Make the environments that are not made yet, by pip; keep in `failed` why one was not."""
    for path in sorted(REQUIREMENTS.glob("*.txt")):
        folder = peers / path.stem
        if (folder / "made").exists():
            continue
        print(f"making {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        command = [str(folder / _PYTHON), "-m", "pip", "install", "--quiet", "-r", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            (folder / "failed").write_text(_last_line(done.stderr), encoding="utf-8")
        else:
            (folder / "made").touch()


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.startswith("ERROR")]
    return (lines or text.strip().splitlines() or ["no reason was given"])[-1][:300]


def _reason(peers: Path | None, peer: str) -> str | None:
    """Return why a library cannot be run, or None."""
    if peers is None:
        return "needs --peers-dir"
    if (peers / peer / "made").exists():
        return None
    failed = peers / peer / "failed"
    if failed.exists():
        return f"could not be installed: {failed.read_text(encoding='utf-8')}"
    return "its environment is not made: run with --make-peers"


def measure(case: PeerCase, data: Path, seed: int, *, peers: Path | None) -> list[Row]:
    """Return the row of one case and one seed, or why there is none."""
    reason = _reason(peers, case.peer)
    if reason is not None or peers is None:
        return [without("peers", case.name, str(reason), seed)]
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
        write_job(job)
        reason = _run(peers / case.peer, f"benchmarks.retrain.children.of_{case.peer}", job.folder)
        if reason is not None:
            return [without("peers", case.name, reason, seed)]
        return [_compared(case, rows, job, seed)]


def _run(environment: Path, program: str, folder: Path) -> str | None:
    """Run a program in an environment; return why it failed, or None."""
    variables = dict(os.environ) | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": str(ROOT)}
    # Not resolved: the link is what tells Python its environment.
    command = [str(environment.absolute() / _PYTHON), "-m", program, str(folder)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=variables,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {SECONDS:g} s"
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return said[-1][:300] if said else f"exit status {done.returncode}"
    return None


def _compared(case: PeerCase, rows: Split, job: Job, seed: int) -> Row:
    predicted, told = read_answers(job.folder)
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
        "part": "peers",
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
