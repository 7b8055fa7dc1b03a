"""Cost of exported forests beside other files, and whether they still answer alike.

    python -m benchmarks.export [--quick] [--json] [--save] [--baselines-dir FOLDER]

A row is a form, a model and a runtime: bytes, seconds to export and to load, milliseconds at 1 and
1,000 rows in one thread, and how many of at least 100,000 probing rows it answers otherwise than
the forest. Models are grown on the spot. `--make-baselines` makes the environments of other
libraries in `--baselines-dir`.
"""

from __future__ import annotations

import tempfile
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.export import big, emulators, flash, forms, small_runtimes
from benchmarks.export.measure import BATCHES, FULL, QUICK, compared, measured, name_of
from benchmarks.export.models import MODELS, TEN, TWO, VALUES, XGBOOST, XGBOOST_VALUES
from benchmarks.export.models import QUICK as QUICK_MODELS
from benchmarks.report import (
    Column,
    Goal,
    Report,
    Row,
    Table,
    measured_by,
    one,
    six_digits,
    table,
    where,
    why_not,
)
from benchmarks.runner import Benchmark

MOST_BYTES_OF_TENSOR: Final = dict.fromkeys((TWO, VALUES, TEN), 600_000) | dict.fromkeys(
    (XGBOOST, XGBOOST_VALUES), 160_000
)
MOST_MS_OF_TRAVERSAL: Final = dict.fromkeys((TEN, TWO, VALUES), 15) | dict.fromkeys(
    (XGBOOST, XGBOOST_VALUES), 22
)
OF_C: Final = (TEN, TWO, VALUES)


class Work(NamedTuple):
    """A part of the run by its name, and what measures it."""

    name: str
    measure: Callable[[], Sequence[Row]]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


def cases(options: Namespace) -> Iterator[Work]:
    """Yield the models, the large forest and the emulators."""
    # Exporters warn of their own old calls.
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        forms.warm_up(Path(folder))
    size = QUICK if options.quick else FULL
    places = None if options.quick else options.baselines_dir
    for model in MODELS:
        if not options.quick or model.name in QUICK_MODELS:
            yield Work(model.name, lambda model=model: measured(model, size, environments=places))
    yield Work(
        "headers",
        lambda: flash.measured(baselines=options.baselines_dir, turns=5 if options.quick else 81),
    )
    yield Work("big", lambda: big.measured(0.01 if options.quick else 1.0))
    if not options.quick:
        yield Work("emulators", emulators.measured)
        yield Work("small runtimes", small_runtimes.measured)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return the bounds of size and time, and the rows that may differ: none."""
    return [
        *_of_baselines(rows),
        *_of_exactness(rows),
        *_of_standard_operators(rows),
        *_of_c(rows),
        *_of_big(rows),
        *small_runtimes.goals(rows),
    ]


def _file(rows: Sequence[Row], model: str, file: str) -> Row:
    return one(rows, what="file", model=model, file=file)


def _of_baselines(rows: Sequence[Row]) -> Iterator[Goal]:
    for model in MODELS:
        row = _file(rows, model.name, compared(model))
        named = f"{model.name}: tree_ensemble {model.version} / {model.baseline}"
        for batch in BATCHES:
            name = f"{named}, latency at {batch:,} row{'s' if batch > 1 else ''}"
            yield Goal(name, "<= 1.05", row.get(f"ratio_{batch}"))
        yield Goal(f"{named}, bytes", "<= 0.9", row.get("bytes_ratio"))
    for model in MODELS:
        if model.baseline_differs:
            differ = _file(rows, model.name, compared(model)).get("rows_differ")
            what = f"rows that our file answers otherwise, where {model.baseline} differs"
            yield Goal(f"{model.name}: {what}", "0", differ)


def _of_exactness(rows: Sequence[Row]) -> Iterator[Goal]:
    for file in map(name_of, forms.FORMS):
        own = where(rows, what="file", file=file)
        found = [row["rows_differ"] for row in own if "rows_differ" in row]
        name = f"{file}: rows that differ, all models"
        yield Goal(name, "0", sum(found) if found else None)


def _of_standard_operators(rows: Sequence[Row]) -> Iterator[Goal]:
    for model, most in MOST_BYTES_OF_TENSOR.items():
        value = _file(rows, model, f"tensor, {forms.ONNXRUNTIME}").get("bytes")
        yield Goal(f"{model}: bytes of tensor", f"<= {most}", value)
    for model, most in MOST_MS_OF_TRAVERSAL.items():
        value = _file(rows, model, f"traversal, {forms.ONNXRUNTIME}").get("ms_1000")
        yield Goal(f"{model}: ms of traversal at 1,000 rows", f"<= {most}", value)


def _of_c(rows: Sequence[Row]) -> Iterator[Goal]:
    for model in OF_C:
        for form in forms.FORMS:
            if form.runtime == forms.C:
                row, name = _file(rows, model, name_of(form)), f"{model}: {name_of(form)}"
                yield Goal(f"{name}, bytes a node", "<= 24", row.get("bytes_per_node"))
                yield Goal(f"{name}, rows not bit-identical", "0", row.get("rows_differ"))
    yield from flash.goals(rows)
    for processor in emulators.PROCESSORS:
        row = one(rows, what="emulator", processor=processor)
        name = f"C99 on {processor}: emulator tests that fail"
        yield Goal(name, "0", row.get("reason", row.get("failed")))


def _of_big(rows: Sequence[Row]) -> Iterator[Goal]:
    for form in (forms.TREES, forms.TREES_3):
        row = one(rows, what="big", form=form)
        peak, name = row.get("export_peak_bytes"), f"1,000 trees of depth 10, {form}"
        yield Goal(f"{name}: export s", "< 10", row.get("export_seconds"))
        yield Goal(f"{name}: export peak GiB", "<= 2", None if peak is None else peak / 2**30)
        yield Goal(f"{name}: load s", "< 2", row.get("load_seconds"))
        yield Goal(f"{name}: memory / file", "< 3", row.get("times_file"))


def _three(middle: str, low: str, high: str, form: str) -> Callable[[Row], str | None]:
    def cell(row: Row) -> str | None:
        if middle not in row:
            return None
        told = [format(row[key], form) for key in (middle, low, high)]
        return f"{told[0]} ({told[1]} to {told[2]})"

    return cell


def _form(row: Row) -> str:
    return str(row["form"]) if row["ours"] else f"*{row['form']}*"


_LATENCY: Final = [
    _three(f"ms_{batch}", f"ms_{batch}_least", f"ms_{batch}_most", ".3g") for batch in BATCHES
]
_RATIO: Final = [
    _three(f"ratio_{batch}", f"ratio_low_{batch}", f"ratio_high_{batch}", ".2f")
    for batch in BATCHES
]
_FILES: Final = (
    Column("form", _form),
    Column("runtime", "runtime"),
    Column("bytes", "bytes", ","),
    Column("export s", "export_seconds", ".3g"),
    Column("load s", "load_seconds", ".3g"),
    Column("ms, 1 row", _LATENCY[0]),
    Column("ms, 1,000 rows", _LATENCY[1]),
    Column("rows", "rows_compared", ","),
    Column("differ", "rows_differ", ","),
    Column("labels differ", "labels_differ", ","),
    Column("largest difference", "largest_difference", ".3g"),
)
_BESIDE: Final = (
    Column("model", "model"),
    Column("ours", lambda row: f"**{row['form']}**" if row["is_compared"] else row["form"]),
    Column("theirs", lambda row: row["baseline"]["form"]),
    Column("time, 1 row", _RATIO[0]),
    Column("time, 1,000 rows", _RATIO[1]),
    Column("bytes", "bytes_ratio", ".2f"),
    Column("our rows differ", "rows_differ", ","),
    Column("theirs", lambda row: row["baseline"].get("rows_differ"), ","),
    Column("of them without NaN", lambda row: row["baseline"].get("present_rows_differ"), ","),
    Column("their labels", lambda row: row["baseline"].get("labels_differ"), ","),
)
_C: Final = (
    Column("model", "model"),
    Column("form", _form),
    Column("bytes of constants", "bytes", ","),
    Column("a node that tests", "bytes_per_inner_node", ".1f"),
    Column("a node or leaf", "bytes_per_node", ".1f"),
    Column("bytes of the object file", "object_bytes", ","),
    Column("rows differ", "rows_differ", ","),
    Column("largest difference", "largest_difference", ".3g"),
)
_BIG: Final = (
    Column("form", "form"),
    Column("forest", lambda row: f"{row['trees']:,} trees, {row['nodes']:,} nodes"),
    Column("bytes", "bytes", ","),
    Column("export s", "export_seconds", ".3g"),
    Column("export peak, MiB", lambda row: row["export_peak_bytes"] / 2**20, ",.0f"),
    Column("load s", "load_seconds", ".3g"),
    Column("load peak, MiB", lambda row: row["load_bytes"] / 2**20, ",.0f"),
    Column("of the file", "times_file", ".2f"),
)


def files(report: Report) -> str:
    """Return every file of every model."""
    parts = []
    for fact in where(report["rows"], what="model"):
        rows = where(report["rows"], what="file", model=fact["model"])
        shown = table([row for row in rows if "reason" not in row], _FILES)
        title = (
            f"**{fact['model']}**: {fact['trees']:,} trees, {fact['nodes']:,} nodes, "
            f"{fact['leaves']:,} leaves"
        )
        parts.append("\n\n".join(filter(None, [title, shown, why_not(rows, "file")])))
    return "\n\n".join([*parts, measured_by(report)])


def _beside_baselines(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield our files, each with the baseline's row for the same model."""
    for row in where(rows, what="file"):
        if "bytes_ratio" in row:
            same = where(rows, what="file", model=row["model"], ours=False)
            yield row | {"baseline": next(r for r in same if "ms_1" in r)}


def _of_runtime_c(rows: Sequence[Row]) -> list[Row]:
    return [row for row in where(rows, what="file", runtime="C99") if "reason" not in row]


_UNUSED: Final = ("adds_exactly", "leaves_differ", "outputs", "loaded_bytes", "rows_taken")


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without what is only looked at while they are measured."""
    unused = {*_UNUSED, "rows_of_any_kind", "passed"}
    return [six_digits({k: v for k, v in row.items() if k not in unused}) for row in rows]


BENCHMARK: Final = Benchmark(
    "export",
    cases,
    lambda work, _: work.measure(),
    goals,
    {
        "table": files,
        "baseline_table": Table(_BESIDE, _beside_baselines),
        "c_table": Table(_C, _of_runtime_c),
        "header_table": flash.TABLE,
        "runtime_table": small_runtimes.TABLE,
        "runtime_form_table": small_runtimes.FORMS,
        "big_table": Table(_BIG, {"what": "big"}),
    },
    figures,
    requirements=Path(__file__).parent / "requirements",
)
