"""Environments of other libraries, each made from its file of requirements."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from benchmarks.old_worker import CannotRunError

PYTHON: Final = Path("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def make(baselines: Path, requirements: Path) -> None:
    """Make the environments that are not made yet, by pip; keep in `failed` why one was not."""
    for path in sorted(requirements.glob("*.txt")):
        folder = baselines / path.stem
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


def interpreter(baselines: Path | None, baseline: str) -> Path:
    """Return the Python of a library's environment.

    Raises
    ------
    CannotRunError
        If it is not there.
    """
    if baselines is None:
        raise CannotRunError("needs --baselines-dir")
    folder = baselines / baseline
    if (folder / "made").exists():
        # Not resolved: the link is what tells Python its environment.
        return folder.absolute() / PYTHON
    if (folder / "failed").exists():
        reason = (folder / "failed").read_text(encoding="utf-8")
        raise CannotRunError(f"could not be installed: {reason}")
    raise CannotRunError("its environment is not made: run with --make-baselines")
