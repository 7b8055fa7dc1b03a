"""Times of a model's predictions beside its library's, onnxruntime's and torch's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec import api
from bitvec.certification import oracle_of
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError, UnsupportedModelError
from bitvec.runtime.export.exports import export
from bitvec.verify.oracle import Oracle
from bitvec.verify.timing import seconds

ROUNDS = 5
TIMED: Final = {"scores": "probabilities", "predict": "predictions", "raw": "raw scores"}
"""Words for what is timed, by the method that gives it."""
Answer = Callable[[Array], Array]


class Rival(NamedTuple):
    """A way to run the model: its answers, or why there are none."""

    name: str
    answer: Answer | None
    why: str = ""


class Times(NamedTuple):
    """Median seconds of a call with each number of rows, and how far the answers lie from ours."""

    name: str
    seconds: list[float]
    difference: float
    why: str = ""


@contextmanager
def one_core() -> Iterator[bool]:
    """Keep this process, and what it starts, on one core; yield whether the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)


def drawn_rows(forest: Forest, n_rows: int) -> Array:
    """Return rows of values around the thresholds of each column."""
    rng, tests = np.random.default_rng(0), forest.tests
    rows = rng.normal(size=(n_rows, forest.n_features)).astype(forest.dtype)
    if forest.feature_map is not None:
        return rows
    for column in np.unique(tests.feature[tests.feature >= 0]).tolist():
        b = tests.b[tests.feature == column]
        book = forest.inputs.book(column)
        drawn = rng.choice(b, n_rows) if book is None else rng.integers(0, len(book), n_rows)
        rows[:, column] = drawn
    return rows


def measure(
    forest: Forest,
    path: Path,
    X: Array,
    batches: Sequence[int],
    span: float,
    *,
    is_model: bool,
    advance: Callable[[float], None] | None = None,
) -> tuple[str, list[Times]]:
    """Return what was asked, "scores", "predict" or "raw", and the times of all, bitvec first.

    The ways take turns, so that what else the machine does meets all alike.

    Parameters
    ----------
    X : (n_rows, n_features) in the forest's dtype, n_rows at least the largest batch
    span : float
        Seconds for each way and number of rows.
    is_model : bool
        Whether the file holds the library's own model.
    """
    with tempfile.TemporaryDirectory() as folder:
        verb, rivals = _rivals(forest, path, Path(folder), is_model=is_model)
        ours = rivals[0].answer
        if ours is None:
            raise UnsupportedModelError(rivals[0].why)
        expected = ours(X)
        taken: dict[tuple[int, int], list[float]] = {}
        differences = [0.0] * len(rivals)
        for at, rival in enumerate(rivals):
            if rival.answer is None:
                continue
            try:
                differences[at] = _difference(expected, rival.answer(X))
            except (BitvecError, ValueError) as error:
                rivals[at] = rival._replace(answer=None, why=str(error))
        done, all_of_it = 0, ROUNDS * len(batches) * len(rivals)
        for _ in range(ROUNDS):
            for batch in batches:
                for at, rival in enumerate(rivals):
                    if rival.answer is not None:
                        part = seconds(rival.answer, X, batch, span / ROUNDS)
                        taken.setdefault((at, batch), []).append(float(np.median(part)))
                    done += 1
                    if advance is not None:
                        advance(done / all_of_it)
    return verb, [
        Times(
            rival.name,
            [float(np.median(taken[at, batch])) for batch in batches if (at, batch) in taken],
            differences[at],
            rival.why,
        )
        for at, rival in enumerate(rivals)
    ]


def _rivals(forest: Forest, path: Path, folder: Path, *, is_model: bool) -> tuple[str, list[Rival]]:
    """Return what is asked of all, a method of predictors and oracles, and who answers."""
    makers: dict[str, Callable[[], Any]] = {
        f"bitvec, engine {engine}": partial(api.compile, forest, engine=engine)
        for engine in ("auto", "torch")
    }
    if is_model:
        makers["its library"] = lambda: oracle_of(path)
    makers["onnxruntime"] = lambda: oracle_of(export(forest, folder / "model.onnx"))
    made: dict[str, Any] = {}
    for name, maker in makers.items():
        try:
            made[name] = maker()
        except BitvecError as error:
            made[name] = str(error)
    verbs = ("scores" if forest.output.is_classifier else "predict", "raw")
    verb = next(
        verb
        for verb in verbs
        if not any(isinstance(one, Oracle) and getattr(one, verb) is None for one in made.values())
    )
    return verb, [
        Rival(name, None, one) if isinstance(one, str) else Rival(_name(one), getattr(one, verb))
        for name, one in made.items()
    ]


def _name(one: Any) -> str:
    return f"{one.name} {one.version}" if isinstance(one, Oracle) else f"bitvec, {one.engine.name}"


def _difference(ours: Array, theirs: Array) -> float:
    both = np.asarray(ours, np.float64).reshape(len(ours), -1)
    other = np.asarray(theirs, np.float64).reshape(len(ours), -1)
    if other.shape != both.shape:
        raise ValueError(f"answers of shape {np.shape(theirs)}, ours {np.shape(ours)}")
    return float(np.abs(both - other)[both != other].max(initial=0.0))
