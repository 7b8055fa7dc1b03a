"""A folder of models, the rows that they were asked, and a library's answers, for `check.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np


class Folder:
    """Where arrays are saved, and the manifest of the models whose answers they are.

    Parameters
    ----------
    path : Path
    release : str
        The library and its version, which every entry names.
    """

    def __init__(self, path: Path, release: str) -> None:
        self.path = path
        self.release = release
        self.entries: list[dict[str, Any]] = []
        path.mkdir(parents=True, exist_ok=True)

    def name(self, suffix: str = "") -> Path:
        """Return the path that the next model is saved at."""
        return self.path / f"{len(self.entries)}{suffix}"

    def add(
        self,
        model: Path,
        rows: Any,
        raw: Any,
        predict: Any,
        options: Iterable[str],
        *,
        ulps: int | None = None,
        rounds: bool = False,
    ) -> None:
        """Save the answers to a model that has been saved.

        Parameters
        ----------
        raw, predict : array or None
            None where the library does not tell it.
        ulps : int, optional
            How far the predictions may be apart in units in the last place, where the library
            approximates its exponentials.
        rounds : bool
            Whether it answers in a narrower dtype than it sums in.
        """
        entry: dict[str, Any] = {"model": model.name}
        for kind, values in (("rows", rows), ("raw", raw), ("predict", predict)):
            entry[kind] = None if values is None else f"{len(self.entries)}.{kind}.npy"
            if values is not None:
                np.save(self.path / entry[kind], values)
        entry["options"] = [*dict.fromkeys(options), self.release]
        if ulps is not None:
            entry["ulps"] = ulps
        if rounds:
            entry["rounds"] = True
        self.entries.append(entry)

    def close(self) -> None:
        """Write the manifest."""
        (self.path / "manifest.json").write_text(json.dumps(self.entries, indent=1) + "\n")
