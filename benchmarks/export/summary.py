"""The figures that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.export import forms
from benchmarks.export.emulators import PROCESSORS
from benchmarks.export.measure import BATCHES, compared, name_of
from benchmarks.export.models import MODELS, TEN, TWO, VALUES, XGBOOST, XGBOOST_VALUES
from benchmarks.old_report import Row, Target, at_most, below, none, undecided

MOST_OF_PEERS_TIME: Final = 1.05
MOST_OF_PEERS_BYTES: Final = 0.9
MOST_BYTES_OF_TENSOR: Final = {TWO: 600_000, VALUES: 600_000, TEN: 600_000} | {
    XGBOOST: 160_000,
    XGBOOST_VALUES: 160_000,
}
MOST_MS_OF_TRAVERSAL: Final = {TEN: 15, TWO: 15, VALUES: 15, XGBOOST: 22, XGBOOST_VALUES: 22}
MOST_BYTES_A_NODE: Final = 24
OF_C: Final = (TEN, TWO, VALUES)
GIB: Final = 2**30


def targets(rows: Sequence[Row], *, whole: bool) -> list[Target]:
    """Return one entry for each figure; `whole` says whether all was measured, and in full."""
    found = [
        *_of_baselines(rows),
        *_of_exactness(rows),
        *_of_standard_operators(rows),
        *_of_c(rows),
        *_of_big(rows),
    ]
    return undecided(found, whole=whole)


def _row(rows: Sequence[Row], what: str, **facts: Any) -> Row:
    """Return the row of these facts, or an empty one."""
    same = (row for row in rows if row["what"] == what)
    return next((row for row in same if all(row.get(k) == v for k, v in facts.items())), {})


def _file(rows: Sequence[Row], model: str, file: str) -> Row:
    return _row(rows, "file", model=model, file=file)


def _of_baselines(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for model in MODELS:
        row = _file(rows, model.name, compared(model))
        named = f"{model.name}: tree_ensemble {model.version} / {model.baseline}"
        for batch in BATCHES:
            name = f"{named}, latency at {batch:,} row{'s' if batch > 1 else ''}"
            entries.append(at_most(name, MOST_OF_PEERS_TIME, row.get(f"ratio_{batch}")))
        entries.append(at_most(f"{named}, bytes", MOST_OF_PEERS_BYTES, row.get("bytes_ratio")))
    for model in MODELS:
        if model.baseline_differs:
            other = model.baseline
            name = f"{model.name}: rows that our file answers otherwise, where {other} differs"
            entries.append(none(name, _file(rows, model.name, compared(model)).get("rows_differ")))
    return entries


def _of_exactness(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for form in forms.FORMS:
        file = name_of(form)
        found = [
            row["rows_differ"]
            for row in rows
            if row["what"] == "file" and row["file"] == file and "rows_differ" in row
        ]
        entries.append(none(f"{file}: rows that differ, all models", sum(found) if found else None))
    return entries


def _of_standard_operators(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for model, most in MOST_BYTES_OF_TENSOR.items():
        value = _file(rows, model, f"tensor, {forms.ONNXRUNTIME}").get("bytes")
        entries.append(at_most(f"{model}: bytes of tensor", most, value))
    for model, slowest in MOST_MS_OF_TRAVERSAL.items():
        value = _file(rows, model, f"traversal, {forms.ONNXRUNTIME}").get("ms_1000")
        entries.append(at_most(f"{model}: ms of traversal at 1,000 rows", slowest, value))
    return entries


def _of_c(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for model in OF_C:
        for form in forms.FORMS:
            if form.runtime != forms.C:
                continue
            row = _file(rows, model, name_of(form))
            name = f"{model}: {name_of(form)}"
            value = row.get("bytes_per_node")
            entries.append(at_most(f"{name}, bytes a node", MOST_BYTES_A_NODE, value))
            entries.append(none(f"{name}, rows not bit-identical", row.get("rows_differ")))
    for processor in PROCESSORS:
        row = _row(rows, "emulator", processor=processor)
        name = f"C99 on {processor}: emulator tests that fail"
        if "reason" in row:
            entries.append(Target(name, "0", row["reason"], None))
        else:
            entries.append(none(name, row.get("failed")))
    return entries


def _of_big(rows: Sequence[Row]) -> list[Target]:
    entries = []
    for form in (forms.TREES, forms.TREES_3):
        row = _row(rows, "big", form=form)
        peak, name = row.get("export_peak_bytes"), f"1,000 trees of depth 10, {form}"
        entries += [
            below(f"{name}: export s", 10, row.get("export_seconds")),
            at_most(f"{name}: export peak GiB", 2, None if peak is None else peak / GIB),
            below(f"{name}: load s", 2, row.get("load_seconds")),
            below(f"{name}: memory / file", 3, row.get("times_file")),
        ]
    return entries
