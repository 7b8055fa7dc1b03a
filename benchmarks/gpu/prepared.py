"""Forests of the grid in nvForest's format, and exact answers, made by all cores beforehand."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import bitvec
from benchmarks.gpu import generated
from benchmarks.runner import say
from bitvec.core import reference

CHECKED = 32
"""Rows whose raw scores are compared with the reference, which is literal and slow."""
Point = tuple[int, int, int]
"""Features, depth and trees of a generated forest."""


@functools.cache
def folder() -> Path:
    """Return where what is prepared lies, for the life of the process."""
    kept = Path(tempfile.mkdtemp(prefix="bitvec-gpu-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    return kept


def prepare(points: Iterable[Point]) -> None:
    """Make the treelite checkpoints and the reference's answers of generated forests."""
    wanted = sorted(set(points), key=lambda one: -generated.n_nodes(*one[1:]))
    missing = [one for one in wanted if not _answers(one).exists()]
    if not missing:
        return
    say(f"preparing {len(missing)} forests")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(functools.partial(_make, folder()), missing))


def treelite_model(point: Point) -> bytes | None:
    """Return the checkpoint of a prepared forest, None where treelite is not installed."""
    path = _answers(point).with_suffix(".treelite")
    return path.read_bytes() if path.exists() else None


def checked_rows(point: Point) -> np.ndarray:
    """Return the rows that are compared with the reference."""
    return generated.rows(CHECKED, point[0], seed=3)


def expected(point: Point) -> np.ndarray:
    """Return the reference's raw scores of `checked_rows`."""
    return np.load(_answers(point))


def _answers(point: Point, at: Path | None = None) -> Path:
    return (at or folder()) / ("-".join(map(str, point)) + ".npy")


def _make(at: Path, point: Point) -> None:
    forest = generated.forest(*point)
    to = _answers(point, at)
    try:
        from bitvec.converters.treelite.write import to_treelite

        to.with_suffix(".treelite").write_bytes(bytes(to_treelite(forest).serialize_bytes()))
    except bitvec.BitvecError:
        pass
    np.save(to, reference.raw(forest, checked_rows(point)))
