"""Files that a parent and the program of another library leave for each other in a folder.

It is imported in environments of other libraries: it needs NumPy alone. A program's first answer
(see `benchmarks.worker`) is what it has to tell; its arrays are the answers of this folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def write(folder: Path, facts: dict[str, Any], **rows: Array) -> None:
    """Leave a job: facts, and rows by name."""
    np.savez(folder / "rows.npz", **rows)
    (folder / "job.json").write_text(json.dumps(facts), encoding="utf-8")


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the facts and the rows of a job."""
    return json.loads((folder / "job.json").read_text(encoding="utf-8")), _arrays(
        folder / "rows.npz"
    )


def write_answers(folder: Path, **answers: Any) -> None:
    """Leave what a program answers of the rows."""
    np.savez(folder / "answers.npz", **answers)


def read_answers(folder: Path) -> dict[str, Array]:
    """Read what a program answered; nothing if it left none."""
    path = folder / "answers.npz"
    return _arrays(path) if path.exists() else {}


def _arrays(path: Path) -> dict[str, Array]:
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}
