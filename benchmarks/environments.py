"""Environments of other libraries, each made from its requirements, and programs run there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PYTHON: Final = Path("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class NoAnswerError(Exception):
    """A library could not be run, or gave no answer; the text says why."""


def make(peers: Path, requirements: Path) -> None:
    """Make the environments that are not made yet, by pip; keep in `failed` why one was not."""
    for path in sorted(requirements.glob("*.txt")):
        folder = peers / path.stem
        if (folder / "made").exists():
            continue
        print(f"making {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        command = [str(folder / PYTHON), "-m", "pip", "install", "--quiet", "-r", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            (folder / "failed").write_text(_last_line(done.stderr), encoding="utf-8")
        else:
            (folder / "made").touch()


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.startswith("ERROR")]
    return (lines or text.strip().splitlines() or ["no reason was given"])[-1][:300]


def find(peers: Path | None, peer: str) -> Path:
    """Return the folder of a library's environment.

    Raises
    ------
    NoAnswerError
        If it is not there.
    """
    if peers is None:
        raise NoAnswerError("needs --peers-dir")
    failed = peers / peer / "failed"
    if failed.exists() and not (peers / peer / "made").exists():
        reason = failed.read_text(encoding="utf-8")
        raise NoAnswerError(f"could not be installed: {reason}")
    if not (peers / peer / "made").exists():
        raise NoAnswerError("its environment is not made: run with --make-peers")
    return peers / peer


def run(environment: Path, program: str, job: Path, seconds: float) -> None:
    """Run a module in an environment, on one thread, in the folder of the job that it is given.

    Raises
    ------
    NoAnswerError
        If it fails, or takes longer than this.
    """
    variables = dict(os.environ) | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(ROOT)}
    # Not resolved: the link is what tells Python its environment.
    command = [str(environment.absolute() / PYTHON), "-m", program, str(job)]
    try:
        done = subprocess.run(
            command,
            cwd=job,  # some leave files where they run
            env=variables,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"no answer in {seconds:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NoAnswerError(said[-1][:300] if said else f"exit status {done.returncode}")
