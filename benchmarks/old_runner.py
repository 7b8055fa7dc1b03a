"""The run of any benchmark: options, what it measures, and the report that is printed and kept."""

from __future__ import annotations

import argparse
import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks import old_environments as environments
from benchmarks.old_report import (
    RESULTS,
    Report,
    Row,
    Target,
    command,
    everything,
    machine,
    versions,
)

Options = Mapping[str, dict[str, Any]]
DATA: Final[Options] = {"--data": {"type": Path, "help": "the folder of real data"}}
MODELS: Final[Options] = {"--models": {"type": Path, "help": "models that other libraries stored"}}
ONLY: Final[Options] = {"--only": {"default": "", "help": "what has this in its name"}}


class UsageError(Exception):
    """An option that cannot be meant so; the text says what it must be."""


def count(text: str) -> int:
    """Read a whole number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
    return int(text)


def say(text: str) -> None:
    """Report progress."""
    print(text, file=sys.stderr, flush=True)


def run(
    name: str,
    about: str | None,
    measure: Callable[[Namespace], tuple[list[Row], list[Target]]],
    *,
    tables: Callable[[Namespace], Iterable[Callable[[Report], str]]],
    options: Options | None = None,
    requirements: Path | None = None,
    kept: Callable[[Namespace], str] | None = None,
    figures: Callable[[list[Row]], list[Row]] = list,
) -> None:
    """Measure, print JSON or tables, keep it if asked, and exit 1 if a target was missed.

    Parameters
    ----------
    name : str
        The module under `benchmarks`, and the file of results if `kept` gives no other.
    measure : callable
        From the options, rows and targets; `options.whole` says whether nothing was left out.
    tables : callable
        From the options, the tables for a terminal.
    options : dict
        Flag to what argparse takes, beside those that every benchmark has.
    figures : callable
        From rows, those that tables are made of and that are kept; all, if none is given.
    requirements : Path, optional
        Folder with a file for each environment of other libraries.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a smaller run, under a minute")
    parser.add_argument("--save", action="store_true", help="keep the run in benchmarks/results")
    if requirements is not None:
        parser.add_argument("--baselines-dir", type=Path, help="environments of other libraries")
        parser.add_argument("--make-baselines", action="store_true", help="make these, and end")
    for flag, facts in (options or {}).items():
        parser.add_argument(flag, **facts)
    chosen = parser.parse_args()
    if requirements is not None and chosen.make_baselines:
        if chosen.baselines_dir is None:
            parser.error("--make-baselines needs --baselines-dir: the folder to make them in")
        environments.make(chosen.baselines_dir, requirements)
        return
    chosen.whole = not chosen.quick and not getattr(chosen, "only", "")
    try:
        rows, targets = measure(chosen)
    except UsageError as error:
        parser.error(str(error))
    report = {
        "machine": machine(),
        "versions": versions(),
        "command": command(name),
        "rows": rows,
        "targets": [asdict(target) for target in targets],
    }
    short = report | {"rows": figures(rows)}
    if chosen.save:
        keep(short, kept(chosen) if kept else name)
    print(in_json(report) if chosen.json else everything(short, tables(chosen)))
    if any(target.met is False for target in targets):
        sys.exit(1)


def in_json(report: Report) -> str:
    """Return a report as JSON, one row or target a line."""

    def lines(values: Iterable[Any]) -> str:
        return "[\n" + ",\n".join(json.dumps(one, allow_nan=False) for one in values) + "\n]"

    parts = (
        f"{json.dumps(key)}: {lines(value) if isinstance(value, list) else json.dumps(value)}"
        for key, value in report.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}"


def keep(report: Report, name: str) -> None:
    """Write a report to the results; a run that is stopped leaves the one before."""
    RESULTS.mkdir(exist_ok=True)
    aside = RESULTS / f".{name}.json"
    aside.write_text(in_json(report) + "\n", encoding="utf-8")
    aside.replace(RESULTS / f"{name}.json")
