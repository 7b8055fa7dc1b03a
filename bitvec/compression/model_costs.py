"""Costs of a forest: bytes of its tables in C, leaves, and microseconds a row on this machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bitvec.compression.budget import Budget
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import MissingLibraryError, UnsupportedModelError
from bitvec.runtime.export.c.c99 import smallest, to_c
from bitvec.runtime.export.c.compiled import CompiledHeader, MissingCompilerError, find_compiler
from bitvec.runtime.export.c.estimate import CSource
from bitvec.runtime.predict.cpu.engine import NumbaEngine

TIMED_ROWS, TIMED_TURNS = 2_000, 5


def table_bytes(forest: Forest) -> int:
    """Return the bytes of the tables that a prediction reads, in the smallest exact header."""
    return smallest(forest)[1].predict_bytes


def header_of(forest: Forest, name: str = "model") -> CSource:
    """Return the smallest exact header."""
    options, _ = smallest(forest, name=name)
    return to_c(forest, name=name, **options)  # type: ignore[arg-type] # they are of `SMALL`


def code_bytes(forest: Forest) -> int | None:
    """Return the code of the header's prediction for this machine, -Os; None without a compiler.

    All that the object file holds beside its tables, names of classes left out.
    """
    size = shutil.which("size")
    try:
        compiler = find_compiler()
    except MissingCompilerError:
        return None
    if size is None:
        return None
    source = header_of(forest)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source.save(place / "model.h")
        (place / "use.c").write_text(_USE, "ascii")
        command = [compiler, "-std=c99", "-Os", "-c", "-o", str(place / "use.o")]
        done = subprocess.run([*command, str(place / "use.c")], capture_output=True, check=False)
        if done.returncode:
            return None
        told = subprocess.run(
            [size, str(place / "use.o")], capture_output=True, text=True, check=True
        )
    text, data = (int(word) for word in told.stdout.splitlines()[1].split()[:2])
    return max(text + data - source.estimate.predict_bytes, 0)


_USE = """#include "model.h"
void one(const model_input *x, model_score *raw);
void one(const model_input *x, model_score *raw)
{
    model_raw(x, raw);
}
"""


def onnx_bytes(forest: Forest) -> int | None:
    """Return the size of the forest's ONNX file; None without onnx, or where it has no form."""
    try:
        from bitvec.runtime.export.onnx_files import OnnxOptions, onnx_model

        return int(onnx_model(forest, OnnxOptions()).ByteSize())
    except (MissingLibraryError, UnsupportedModelError):
        return None


def microseconds(forest: Forest, X: Array) -> float:
    """Return the time of a row on one thread: by the compiled header, else by the engine.

    The least of some turns over a few thousand rows.
    """
    rows = np.ascontiguousarray(np.resize(X, (min(TIMED_ROWS, 8 * len(X)), X.shape[1])))
    answer: Callable[[Array], Array]
    try:
        answer = CompiledHeader(header_of(forest)).raw
    except MissingCompilerError:
        answer = NumbaEngine(forest, n_jobs=1).raw
    answer(rows)
    taken = []
    for _ in range(TIMED_TURNS):
        start = time.perf_counter()
        answer(rows)
        taken.append(time.perf_counter() - start)
    return 1e6 * min(taken) / len(rows)


def cost_of(budget: Budget, X: Array) -> Callable[[Forest], float]:
    """Return the function that says what a forest costs of a budget; X has rows to be timed."""
    if budget.kind == "bytes":
        return table_bytes
    if budget.kind == "leaves":
        return lambda forest: float(forest.n_leaves)
    return lambda forest: microseconds(forest, X)


def largest(
    made: Callable[[int], Forest], cost: Callable[[Forest], float], most: int, limit: float
) -> tuple[int, Forest] | None:
    """Return the largest n up to `most` whose forest costs at most `limit`, and the forest.

    Costs rise with n, nearly in a straight line, so that few forests are made; None where the
    first one costs too much.
    """
    first = made(1)
    low, cost_low = 1, cost(first)
    if not cost_low <= limit:
        return None
    found, high, cost_high = first, most, np.inf
    guess = most
    while low < high:
        candidate = made(guess)
        price = cost(candidate)
        if price <= limit:
            low, cost_low, found = guess, price, candidate
        else:
            high, cost_high = guess - 1, price
        if low >= high:
            break
        slope = (cost_high - cost_low) / (high + 1 - low) if np.isfinite(cost_high) else cost_low
        step = (limit - cost_low) / slope if slope > 0 else np.inf
        # A step short of the line's end, and never outside of what is left.
        guess = int(np.clip(low + max(int(step), 1), low + 1, high))
    return low, found
