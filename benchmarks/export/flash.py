"""Our headers beside emlearn's for a microcontroller: bytes of flash, and time for a row.

Bytes are those of code and constants of a program that predicts a label or value, by `-Os`, for a
Cortex-M4 and for this machine. Time is that of this machine, where calls take turns; for the
Cortex-M4 QEMU counts instructions (`-icount`), since it has no clock of its own.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier

import bitvec
from benchmarks import jobs
from benchmarks.report import ROOT, Column, Goal, Row, Table, one, where
from benchmarks.runner import say
from benchmarks.worker import CannotRunError
from benchmarks.workers import in_environment
from bitvec.core.arrays import Array
from bitvec.runtime.export.c import to_c
from bitvec.runtime.export.c.compiled import find_compiler

CORTEX: Final = ("arm-none-eabi-gcc", "qemu-system-arm")
FLAGS: Final = ("-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
HERE: Final = ROOT / "tests" / "runtime" / "export" / "c"
LEVELS: Final = ("-Os", "-O2")
DIGITS: Final = "digits, RandomForest 20 x 6"
ROWS_ON_CORTEX: Final = 8
FORMS: Final = {
    "tables": {},
    "levels": {"form": "levels"},
    "levels, finite": {"form": "levels", "finite": True},
    "tables, bins": {"input": "bins"},
}


@dataclass(frozen=True, slots=True)
class _Program:
    """A header's text, the type of x, its function of a row, and a folder of other headers."""

    text: str
    kind: str
    call: str
    include: Path | None = None


def measured(*, baselines: Path | None, turns: int) -> list[Row]:
    """Return a row for each model and header."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            row
            for name, estimator, X in _models()
            # A library that was loaded from a path is not loaded from it again.
            for row in _of_model(
                name, estimator, X, Path(tempfile.mkdtemp(dir=folder)), baselines, turns
            )
        ]


def _models() -> Iterator[tuple[str, Any, Array]]:
    import lightgbm
    import xgboost

    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    forest = RandomForestClassifier(20, max_depth=6, random_state=0)
    yield DIGITS, forest.fit(X, y), X
    booster = xgboost.XGBClassifier(n_estimators=5, max_depth=4)
    yield "digits, xgboost 50 x 4", booster.fit(X, y), X
    X, y = load_diabetes(return_X_y=True)
    X = X.astype(np.float32)
    model = lightgbm.LGBMRegressor(n_estimators=50, num_leaves=15, max_depth=6, verbose=-1)
    yield "diabetes, LightGBM 50 x 15 leaves", model.fit(X, y), X


def _of_model(
    name: str, estimator: Any, X: Array, folder: Path, baselines: Path | None, turns: int
) -> list[Row]:
    say(f"headers of {name}")
    forest = bitvec.convert(estimator)
    programs: dict[str, _Program] = {}
    rows: list[Row] = []
    options = dict(FORMS)
    if forest.dtype == np.float64:
        options = {form: asked | ({} if "input" in asked else {"input_dtype": np.float32})
                   for form, asked in options.items()}  # fmt: skip
        options = {"tables, float64": {}, **options}
    for form, asked in options.items():
        source = to_c(forest, **asked)
        kind = re.findall(r"^typedef (\w+) model_input;", source.text, re.MULTILINE)[0]
        programs[form] = _Program(source.text, kind, _CALLS[forest.output.is_classifier])
    try:
        programs["emlearn"] = _emlearn(estimator, X, folder, baselines)
    except CannotRunError as error:
        rows.append(_row(name, "emlearn", ours=False) | {"reason": str(error)})
    expected = estimator.predict(X)
    given = {form: _given(forest, X, program.kind) for form, program in programs.items()}
    for level in LEVELS:
        built = {form: _built(p, folder, form, level) for form, p in programs.items()}
        found = _timed(built, given, turns)
        for form, (answers, nanoseconds) in found.items():
            told = {"level": level, "object_bytes": _bytes(folder, form, level), "ns": nanoseconds}
            if forest.output.is_classifier:
                told["labels_differ"] = int((answers.astype(int) != expected).sum())
            else:
                told["labels_differ"] = int((answers != expected).sum())
            told["rows"] = len(X)
            rows.append(_row(name, form, ours=form != "emlearn") | told)
            if level == "-Os":
                rows[-1] |= _on_cortex(programs[form], given[form], folder)
    return rows


def _row(model: str, form: str, *, ours: bool) -> Row:
    return {"what": "header", "model": model, "form": form, "ours": ours}


_CALLS: Final = {
    True: "(double)model_label(x)",
    False: "(model_predict(x, value), (double)value[0])",
}


def _given(forest: bitvec.Forest, X: Array, kind: str) -> Array:
    from bitvec.runtime.export.binned_rows import bins_of

    if kind.startswith("uint"):
        return np.ascontiguousarray(bins_of(forest).of(X))
    return np.ascontiguousarray(X, np.float64 if kind == "double" else np.float32)


def _emlearn(estimator: Any, X: Array, folder: Path, baselines: Path | None) -> _Program:
    """Return what emlearn writes by its defaults, for rows of float.

    Raises
    ------
    CannotRunError
        If it cannot be run, or refuses the model.
    """
    if not type(estimator).__module__.startswith("sklearn"):
        raise CannotRunError("emlearn reads models of scikit-learn only")
    import skops.io

    job = Path(tempfile.mkdtemp(dir=folder))
    skops.io.dump(estimator, job / "model.skops")
    facts = {"library": "sklearn", "model": "model.skops", "is_classifier": True, "votes": True}
    jobs.write(job, facts, X=X[:10])
    place = "benchmarks.foreign.emlearn:run"
    in_environment(place, job, baselines=baselines, baseline="emlearn", within=60.0)
    text = (job / "model.h").read_text("ascii")
    return _Program(text, "float", f"(double)model_predict(x, {X.shape[1]})")


def _source(program: _Program, n_columns: int) -> str:
    return _USE.format(kind=program.kind, call=program.call, columns=n_columns)


_USE: Final = """#include <stdint.h>
#include "header.h"
double one(const {kind} *x);
double one(const {kind} *x)
{{
#ifdef MODEL_N_OUTPUTS
    model_score value[MODEL_N_OUTPUTS];
    (void)value;
#endif
    return {call};
}}
"""
_RUN: Final = """
void run(const {kind} *X, int n, double *out);
void run(const {kind} *X, int n, double *out)
{{
    int i;
    for (i = 0; i < n; i++) {{
        out[i] = one(X + i * {columns});
    }}
}}
"""


def _columns(program: _Program) -> int:
    found = re.findall(r"^#define MODEL_N_FEATURES (\d+)$", program.text, re.MULTILINE)
    return int(found[0]) if found else int(re.findall(r", (\d+)\)", program.call)[0])


def _built(program: _Program, folder: Path, form: str, level: str) -> Any:
    """Compile a program into an object for its size, and a library."""
    place = folder / f"{form}{level}".replace(", ", "_")
    place.mkdir(exist_ok=True)
    (place / "header.h").write_text(program.text, "ascii")
    source = _source(program, _columns(program))
    (place / "use.c").write_text(source, "ascii")
    run = _RUN.format(kind=program.kind, columns=_columns(program))
    (place / "run.c").write_text(source + run, "ascii")
    compiler = [find_compiler(), "-std=c99", level]
    subprocess.run([*compiler, "-c", "-o", place / "use.o", place / "use.c"], check=True)
    shared = ["-shared", "-fPIC", "-o", place / "run.so", place / "run.c", "-lm"]
    subprocess.run([*compiler, *shared], check=True)
    return ctypes.CDLL(str(place / "run.so"))


def _bytes(folder: Path, form: str, level: str) -> int | None:
    return size_of(folder / f"{form}{level}".replace(", ", "_") / "use.o", "size")


def size_of(path: Path, program: str) -> int | None:
    """Return code and constants of an object file, or None without binutils."""
    if shutil.which(program) is None:
        return None
    told = subprocess.run([program, path], capture_output=True, text=True, check=True)
    text, data = told.stdout.splitlines()[1].split()[:2]
    return int(text) + int(data)


def _timed(
    built: dict[str, Any], given: dict[str, Array], turns: int
) -> dict[str, tuple[Array, float]]:
    """Return answers and nanoseconds for a row, of libraries that take turns."""
    out = {form: np.zeros(len(X)) for form, X in given.items()}
    taken: dict[str, list[float]] = {form: [] for form in built}
    for _ in range(turns):
        for form, library in built.items():
            X, answers = given[form], out[form]
            pointers = X.ctypes.data_as(ctypes.c_void_p), answers.ctypes.data_as(ctypes.c_void_p)
            start = time.perf_counter()
            library.run(pointers[0], len(X), pointers[1])
            taken[form].append(1e9 * (time.perf_counter() - start) / len(X))
    return {form: (out[form], float(np.median(taken[form]))) for form in built}


def _on_cortex(program: _Program, X: Array, folder: Path) -> Row:
    """Return bytes for a Cortex-M4, and instructions for a row there."""
    if any(shutil.which(tool) is None for tool in CORTEX):
        return {}
    place = folder / "cortex"
    place.mkdir(exist_ok=True)
    (place / "header.h").write_text(program.text, "ascii")
    (place / "use.c").write_text(_source(program, _columns(program)), "ascii")
    compiler = ["arm-none-eabi-gcc", "-std=c99", "-Os", *FLAGS]
    subprocess.run([*compiler, "-c", "-o", place / "use.o", place / "use.c"], check=True)
    rows = X[:ROWS_ON_CORTEX]
    words = ", ".join(
        f"({program.kind}){float(v).hex() if np.isfinite(v) else '0'}" for v in rows.ravel()
    )
    main = _CORTEX.format(kind=program.kind, n=rows.size, words=words, rows=len(rows),
                          columns=rows.shape[1])  # fmt: skip
    (place / "main.c").write_text(main, "ascii")
    link = ["--specs=rdimon.specs", f"-T{HERE / 'cortex_m.ld'}", HERE / "startup.c", "-lm"]
    files: list[str | Path] = [place / "use.o", place / "main.c"]
    subprocess.run([*compiler, "-o", place / "program", *files, *link], check=True)
    machine = ["-machine", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"]
    asked = ["-icount", "shift=0", "-semihosting-config", "enable=on,target=native"]
    command = ["qemu-system-arm", *machine, *asked, "-kernel", place / "program"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    empty, full = (int(word) for word in done.stdout.split())
    return {
        "cortex_bytes": size_of(place / "use.o", "arm-none-eabi-size"),
        "cortex_instructions": (full - empty) * NANOSECONDS_OF_TICK / len(rows) / REPEATS,
    }


REPEATS: Final = 20
NANOSECONDS_OF_TICK: Final = 40
"""Nanoseconds of a tick of SysTick at the 25 MHz of mps2-an386; by `-icount shift=0` an instruction
is a nanosecond."""
_CORTEX: Final = """#include <stdint.h>
#include <stdio.h>
#define LOAD (*(volatile uint32_t *)0xE000E014)
#define VALUE (*(volatile uint32_t *)0xE000E018)
#define CONTROL (*(volatile uint32_t *)0xE000E010)
extern double one(const {kind} *x);
static const {kind} rows[{n}] = {{{words}}};
static double (*volatile called)(const {kind} *x);
static double nothing(const {kind} *x)
{{
    (void)x;
    return 0;
}}
static uint32_t ticks(void)
{{
    volatile double kept;
    uint32_t start;
    int i, k;
    LOAD = 0xFFFFFFU;
    VALUE = 0;
    CONTROL = 5;
    start = VALUE;
    for (k = 0; k < 20; k++) {{
        for (i = 0; i < {rows}; i++) {{
            kept = called(rows + i * {columns});
        }}
    }}
    (void)kept;
    return (start - VALUE) & 0xFFFFFFU;
}}
int main(void)
{{
    called = nothing;
    printf("%lu ", (unsigned long)ticks());
    called = one;
    printf("%lu\\n", (unsigned long)ticks());
    return 0;
}}
"""


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield the bounds of bytes and time beside emlearn, and the answers that may differ: none."""
    for level in LEVELS:
        ours, theirs = (
            one(rows, what="header", model=DIGITS, form=form, level=level)
            for form in ("levels, finite", "emlearn")
        )
        for what, key, most in (("bytes", "object_bytes", 1.0), ("time", "ns", 1.2)):
            there = key in ours and key in theirs
            value = ours[key] / theirs[key] if there else None
            yield Goal(f"{DIGITS}: levels / emlearn, {level}, {what}", f"<= {most}", value)
    ours, theirs = (
        one(rows, what="header", model=DIGITS, form=form, level="-Os")
        for form in ("levels, finite", "emlearn")
    )
    for what, key, most in (("bytes", "cortex_bytes", 1.0), ("time", "cortex_instructions", 1.2)):
        value = ours[key] / theirs[key] if key in ours and key in theirs else None
        yield Goal(f"{DIGITS}: levels / emlearn, Cortex-M4, {what}", f"<= {most}", value)
    found = [row["labels_differ"] for row in where(rows, what="header", ours=True)]
    yield Goal("headers: answers that differ", "0", sum(found) if found else None)


def _beside(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        if row["what"] == "header" and "reason" not in row:
            yield row


TABLE: Final = Table(
    (
        Column("model", "model"),
        Column("header", lambda row: row["form"] if row["ours"] else f"*{row['form']}*"),
        Column("compiled", "level"),
        Column("bytes", "object_bytes", ","),
        Column("ns a row", "ns", ",.0f"),
        Column("bytes, Cortex-M4", lambda row: row.get("cortex_bytes"), ","),
        Column("instructions a row there", lambda row: row.get("cortex_instructions"), ",.0f"),
        Column("answers that differ", "labels_differ", ","),
        Column("of", "rows", ","),
    ),
    _beside,
)
