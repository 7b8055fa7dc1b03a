"""The rows of one model: every form of ours and every baseline, compared first and timed then."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks.export import baselines, clock, forms
from benchmarks.export.baselines import COMPLETE, MOST_COMPLETE, TAKES
from benchmarks.export.forms import FORMS, Form
from benchmarks.export.models import Grown, Model
from benchmarks.export.rows import (
    Difference,
    Expected,
    Probing,
    difference,
    expected,
    in_blocks,
    probing,
)
from benchmarks.export.runtimes import Loaded
from benchmarks.report import Row
from benchmarks.runner import say
from benchmarks.worker import CannotRunError
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError

BATCHES: Final = (1, 1000)
SHARE: Final = 10
"""Divisor of the number of rows that the shipped file of a slow form is compared on."""


@dataclass(frozen=True, slots=True)
class Size:
    """Extent of a run: the share of trees, rows to probe with, turns of the clock."""

    share: float
    rows: int
    turns: int


FULL, QUICK = Size(1.0, 100_000, 61), Size(0.1, 4_000, 5)


@dataclass(slots=True)
class _Work:
    """Measurements of one model, and its rows so far; those in `loaded` are timed."""

    model: Model
    grown: Grown
    forest: Forest
    probing: Probing
    folder: Path
    rows: list[Row] = field(default_factory=list)
    loaded: dict[str, Loaded] = field(default_factory=dict)
    seldom: list[str] = field(default_factory=list)

    def add(self, name: str, form: str, runtime: str, **told: Any) -> None:
        facts = {"what": "file", "model": self.model.name, "file": name}
        self.rows.append(facts | {"form": form, "runtime": runtime} | told)


def measured(model: Model, size: Size, *, environments: Path | None) -> list[Row]:
    """Return the rows of a model."""
    grown = model.grow(size.share)
    forest = bitvec.convert(grown.estimator)
    say(f"{model.name}: {forest.n_trees} trees, {forest.n_nodes} nodes")
    probes = probing(forest, grown.estimator, grown.X, size.rows)
    with tempfile.TemporaryDirectory() as folder:
        work = _Work(model, grown, forest, probes, Path(folder))
        for form in FORMS:
            _ours(work, form)
        _theirs(work, environments)
        _time(work, size.turns)
    return [_facts(model, forest, probes), *work.rows]


def _facts(model: Model, forest: Forest, probes: Probing) -> Row:
    return {
        "what": "model",
        "model": model.name,
        "trees": forest.n_trees,
        "nodes": forest.n_nodes,
        "leaves": forest.n_leaves,
        "outputs": forest.n_outputs,
        "rows_taken": len(probes.taken.X),
        "rows_of_any_kind": len(probes.other.X),
    }


def name_of(form: Form) -> str:
    """Return what a form in its runtime is called."""
    return f"{form.name}, {form.runtime}"


def _ours(work: _Work, form: Form) -> None:
    name = name_of(form)
    say(f"  {name}")
    try:
        made = forms.make(form, work.forest, work.folder)
    except ImportError as error:
        work.add(name, form.name, form.runtime, ours=True, reason=f"{error.name} is not installed")
        return
    except (BitvecError, OSError) as error:
        work.add(name, form.name, form.runtime, ours=True, reason=" ".join(str(error).split()))
        return
    parts = [work.probing.taken, work.probing.other]
    if form.finite:
        parts = [_finite(work.forest, work.probing.taken)]
    found = []
    for part in parts:
        twin = difference(in_blocks(made.twin.answers, part.X), part, exactly=made.exactly)
        shipped = part.of(slice(len(part.X) // SHARE)) if form.slow else part
        own = difference(in_blocks(made.shipped.answers, shipped.X), shipped)
        # The same rows go through both files; the greater count is told.
        found.append(
            replace(
                twin,
                differ=max(twin.differ, own.differ),
                present_differ=max(twin.present_differ, own.present_differ),
                labels_differ=own.labels_differ,
                largest=max(twin.largest, own.largest),
            )
        )
    whole = found[0] if len(found) == 1 else found[0] | found[1]
    told = {"ours": True, "adds_exactly": made.exactly, **made.told, **_told(whole)}
    work.add(name, form.name, form.runtime, **told)
    if whole.differ == 0:
        work.loaded[name] = made.shipped
        if form.slow:
            work.seldom.append(name)


def _told(found: Difference) -> Row:
    infinite = not np.isfinite(found.largest)
    return {
        "rows_compared": found.rows,
        "rows_differ": found.differ,
        "present_rows_differ": found.present_differ,
        "leaves_differ": found.leaves_differ,
        "labels_differ": found.labels_differ,
        "largest_difference": "infinite" if infinite else found.largest,
    }


def _finite(forest: Forest, part: Expected) -> Expected:
    """Return the rows with the largest numbers instead of infinities, and what is right of them."""
    if not np.isinf(part.X).any():
        return part
    most = np.finfo(np.float32).max
    return expected(forest, np.clip(part.X, -most, most))


def _theirs(work: _Work, environments: Path | None) -> None:
    """Compare what others export with rows that the model's own library takes."""
    model = work.model
    say(f"  {model.baseline}")
    try:
        made = baselines.exported_here(model, work.grown, work.folder)
        _their_row(work, model.baseline, made, work.probing.taken)
    except Exception as error:  # exporters and onnxruntime have no common base of theirs
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        work.add(model.baseline, model.baseline, forms.ONNXRUNTIME, ours=False, reason=reason)
    for baseline, libraries in TAKES.items():
        if model.library in libraries:
            _apart(work, baseline, environments)


def _apart(work: _Work, baseline: str, environments: Path | None) -> None:
    say(f"  {baseline}")
    taken = work.probing.taken
    if baseline in COMPLETE:
        taken = taken.of(np.flatnonzero(~np.isnan(taken.X).any(axis=1))[:MOST_COMPLETE])
    runtime = forms.ONNXRUNTIME if baseline == "hummingbird" else forms.C
    try:
        made = baselines.exported_apart(
            baseline, work.model, work.grown, taken.X, baselines=environments, folder=work.folder
        )
        _their_row(work, baseline, made, taken)
    except Exception as error:  # the library's own, or onnxruntime's
        reason = " ".join(str(error).split())[:300]
        kind = "" if isinstance(error, CannotRunError) else f"{type(error).__name__}: "
        work.add(baseline, baseline, runtime, ours=False, reason=kind + reason)


def _their_row(work: _Work, baseline: str, made: baselines.Exported, taken: Expected) -> None:
    session = made.session
    answers = made.answers if session is None else in_blocks(session.answers, taken.X)
    told = {"ours": False, **made.told, **_told(difference(answers, taken))}
    work.add(baseline, baseline, forms.C if session is None else forms.ONNXRUNTIME, **told)
    if session is not None:
        work.loaded[baseline] = session
        if baseline != work.model.baseline:
            work.seldom.append(baseline)


def _time(work: _Work, turns: int) -> None:
    say("  milliseconds")
    rows = {row["file"]: row for row in work.rows}
    X = work.grown.X[np.arange(clock.ROWS) % len(work.grown.X)]
    for batch in BATCHES:
        taken = clock.milliseconds(work.loaded, X, batch, turns=turns, seldom=work.seldom)
        for name, values in taken.items():
            row = rows[name]
            row[f"ms_{batch}"] = float(np.nanmedian(values))
            row[f"ms_{batch}_least"] = float(np.nanmin(values))
            row[f"ms_{batch}_most"] = float(np.nanmax(values))
        _ratio(work.model, rows, taken, batch)


def _ratio(model: Model, rows: dict[str, Row], taken: Mapping[str, Array], batch: int) -> None:
    """Put the ratios to the baseline on the rows of both versions of `tree_ensemble`."""
    for form in (forms.TREES, forms.TREES_3):
        ours = f"{form}, {forms.ONNXRUNTIME}"
        if ours not in taken or model.baseline not in taken:
            continue
        found = clock.ratio(taken[ours], taken[model.baseline])
        for name, value in zip(("ratio", "ratio_low", "ratio_high"), found, strict=True):
            rows[ours][f"{name}_{batch}"] = value
        rows[ours]["bytes_ratio"] = rows[ours]["bytes"] / rows[model.baseline]["bytes"]
        rows[ours]["is_compared"] = ours == compared(model)


def compared(model: Model) -> str:
    """Return the name of our file that is held against the baseline's."""
    form = forms.TREES_3 if model.version == 3 else forms.TREES
    return f"{form}, {forms.ONNXRUNTIME}"
