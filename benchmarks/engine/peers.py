"""Environments for the engines whose libraries need other versions than the benchmark's own."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from benchmarks.environments import PYTHON

REQUIREMENTS: Final = Path(__file__).parent / "requirements"


def environments() -> list[str]:
    """Return the names of the environments; each has a file of requirements."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def interpreter(peers: Path | None, environment: str) -> Path:
    """Return the Python of an environment, or the running one where there is none."""
    if peers is not None and environment:
        # Not resolved: the link is what tells Python its environment.
        python = peers.absolute() / environment / PYTHON
        if (peers / environment / "made").exists():
            return python
    return Path(sys.executable)


def make(peers: Path) -> None:
    """Make the environments that are not made yet, by pip."""
    for environment in environments():
        folder = peers / environment
        if (folder / "made").exists():
            continue
        print(f"making {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        requirements = str(REQUIREMENTS / f"{environment}.txt")
        command = [str(folder / PYTHON), "-m", "pip", "install", "--quiet", "-r", requirements]
        subprocess.run(command, check=True)
        (folder / "made").touch()
