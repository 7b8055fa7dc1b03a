"""The cost of one conversion: CPU seconds with and without parsing, and memory at its peak."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import bitvec
from benchmarks.report import Row


@dataclass(frozen=True, slots=True)
class Case:
    """A model to convert.

    Parameters
    ----------
    format, what : str
    make : callable
        Takes a path to write and a size; returns what to convert, the path or an object.
    parser : str, optional
        "module:function" of the converter that turns a file into a document, by json, protobuf or
        code of its own; what comes behind it is the rest.
    own : callable, optional
        The source library's own reading of the path, where no such function can be set apart.
    """

    format: str
    what: str
    make: Callable[..., Any]
    parser: str | None = None
    own: Callable[[Path], Any] | None = None

    def __str__(self) -> str:
        """Return the name of the case."""
        return f"{self.format}, {self.what}"


@contextmanager
def _replaced(place: str, by: Callable[[Any], Any]) -> Iterator[None]:
    module_name, name = place.split(":")
    module = import_module(module_name)
    original = getattr(module, name)
    setattr(module, name, by(original))
    try:
        yield
    finally:
        setattr(module, name, original)


class _Clock:
    """CPU seconds that go by in a function."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Any) -> Any:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.process_time()
            result = function(*arguments, **named)
            self.seconds += time.process_time() - start
            return result

        return timed


def seconds(case: Case, model: Any) -> tuple[Any, float, float]:
    """Return the forest, and the CPU seconds of the conversion and of the parsing in it."""
    clock = _Clock()
    if case.parser is None:
        start = time.process_time()
        forest = bitvec.convert(model)
        whole = time.process_time() - start
        if case.own is not None:
            clock.around(case.own)(model)
        return forest, whole, clock.seconds
    with _replaced(case.parser, clock.around):
        start = time.process_time()
        forest = bitvec.convert(model)
        return forest, time.process_time() - start, clock.seconds


def peak(case: Case, model: Any) -> int:
    """Return the bytes that a conversion holds at its peak, beyond the file and its document.

    A document, which json or protobuf made, is there before the count begins. Where a converter
    parses by itself, the count holds all but one copy of the file.
    """
    if case.parser is None:
        return _traced(model) - (_size(model) if isinstance(model, Path) else 0)
    document: list[Any] = []

    def keeping(function: Any) -> Any:
        def kept(*arguments: Any) -> Any:
            document.append(function(*arguments))
            return document[0]

        return kept

    with _replaced(case.parser, keeping):
        bitvec.convert(model)
    converter = import_module(f"{case.parser.split(':')[0].rpartition('.')[0]}.read")
    empty = model.with_name(f"empty{model.suffix}")
    empty.touch()
    with _replaced(case.parser, lambda _: lambda *_: document[0]):
        return _traced(empty, converter.convert)


def _traced(model: Any, convert: Callable[[Any], Any] = bitvec.convert) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        convert(model)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _size(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def array_bytes(part: Any) -> int:
    """Return the bytes of all arrays of a forest."""
    if isinstance(part, np.ndarray):
        return part.nbytes
    if is_dataclass(part):
        return sum(array_bytes(getattr(part, field.name)) for field in fields(part))
    if isinstance(part, tuple):
        return sum(map(array_bytes, part))
    return 0


def measure_model(case: Case, folder: Path, *, times: int, leaves: int) -> Row:
    """Return the row of a case: the median of three conversions, and one more for its memory."""
    model = case.make(folder / "model", times=times, leaves=leaves)
    runs = []
    for _ in range(3):
        forest, whole, parsing = seconds(case, model)
        runs.append((whole, parsing))
        shape = (forest.n_trees, forest.n_leaves, array_bytes(forest))
        del forest
    whole, parsing = (statistics.median(values) for values in zip(*runs, strict=True))
    n_trees, n_leaves, n_bytes = shape
    return {
        "what": case.what,
        "format": case.format,
        "trees": n_trees,
        "leaves": n_leaves,
        "file_mb": _size(model) / 1e6 if isinstance(model, Path) else None,
        "seconds": whole,
        "parsing_seconds": parsing,
        "building_seconds": whole - parsing,
        "array_mb": n_bytes / 1e6,
        "peak_over_arrays": peak(case, model) / n_bytes,
    }
