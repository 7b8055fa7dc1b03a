"""The run of any benchmark: options, cases that are measured, and the report, printed and kept."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from benchmarks.report import RESULTS, Goal, Report, Row, asked, command, machine, versions
from benchmarks.workers import THREADS, make_environments

Options = Mapping[str, dict[str, Any]]
DATA: Final[Options] = {"--data": {"type": Path, "help": "the folder of real data"}}
MODELS: Final[Options] = {
    "--models": {"type": Path, "help": "the folder of models that other libraries stored"}
}
RECORDS: Final = RESULTS / "records"
"""Folder of cases that take hours, kept as they are measured: a run goes on where it was."""
KEPT_THREADS: Final = tuple(name for name in THREADS if not name.startswith("NUMBA"))
"""Limited where cases are kept: some of these time two threads of the package's own."""
_START: Final = time.perf_counter()


class UsageError(Exception):
    """An option that cannot be meant so; the text says what it must be."""


class EnoughError(Exception):
    """A case that is left to the next run of a benchmark whose cases are kept."""


def count(text: str) -> int:
    """Read a whole number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
    return int(text)


def say(text: str) -> None:
    """Report progress."""
    print(f"{time.perf_counter() - _START:6.0f} s  {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Benchmark:
    """A table of cases, what measures one, and what is made of the rows.

    Parameters
    ----------
    name : str
        Of the file of results, and of the module: `benchmarks.NAME`, `tables.PAPER` of a paper's
        table, which is called tables-PAPER.
    cases : callable
        From the options; `--only` picks those with such a text in their `str`.
    measure : callable
        From a case and the options, its rows.
    goals : callable
        From the figures, what is asked for; None where it was not measured.
    tables : dict
        By the name that pages have for them, from a report to Markdown; the first is `table`.
    figures : callable
        From all rows, those that goals and tables are made of, and that are kept.
    options : dict
        Flag to what argparse takes, beside those that every benchmark has.
    needs : sequence of str
        Options that must be given.
    requirements : Path, optional
        Folder with a file for each environment of other libraries.
    processes : bool
        Whether cases are measured side by side, one a core, on one thread each; `measure` must be
        of a module then.
    kept : bool
        Whether each case's rows are kept in `RECORDS` as they come; cases are tuples then.
    in_turn : bool
        Whether kept cases are measured one after the other, as those that share one GPU.
    """

    name: str
    cases: Callable[[Namespace], Iterable[Any]]
    measure: Callable[[Any, Namespace], Iterable[Row]]
    goals: Callable[[Sequence[Row]], Iterable[Goal]]
    tables: Mapping[str, Callable[[Report], str]]
    figures: Callable[[Sequence[Row]], list[Row]] = list
    options: Options = field(default_factory=dict)
    needs: Sequence[str] = ()
    requirements: Path | None = None
    processes: bool = False
    kept: bool = False
    in_turn: bool = False

    def targets(self, figures: Sequence[Row], *, whole: bool) -> list[dict[str, Any]]:
        """Return the goals, judged."""
        return [goal.judged(whole=whole) for goal in self.goals(figures)]


def load(name: str) -> Benchmark:
    """Return the benchmark of a name."""
    found: Benchmark = import_module(f"benchmarks.{name.replace('-', '.')}").BENCHMARK
    return found


def run(benchmark: Benchmark, about: str | None) -> None:
    """Measure, print JSON or tables, keep the figures if asked, exit 1 if a target was missed."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = _parsed(benchmark, parser)
    if chosen.make_baselines:
        make_environments(chosen.baselines_dir, benchmark.requirements or Path())
        return
    try:
        with _nothing_printed():
            rows = _measured(benchmark, chosen)
    except UsageError as error:
        parser.error(str(error))
    figures = benchmark.figures(rows)
    report = {
        "machine": machine(),
        "versions": versions(),
        "command": command(benchmark.name),
        "rows": rows,
        "targets": benchmark.targets(figures, whole=chosen.whole),
    }
    short = report | {"rows": figures}
    if chosen.save:
        keep(short, benchmark.name)
    tables = (table(short) for table in benchmark.tables.values())
    print(in_json(report) if chosen.json else "\n\n".join([*tables, asked(short)]))
    if any(target["met"] is False for target in report["targets"]):
        sys.exit(1)


@contextmanager
def _nothing_printed() -> Iterator[None]:
    """Have what libraries print go to the errors: the report stands alone."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(output, 1)
        os.close(output)


def _parsed(benchmark: Benchmark, parser: argparse.ArgumentParser) -> Namespace:
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a smaller run, under a minute")
    parser.add_argument("--save", action="store_true", help="keep the run in benchmarks/results")
    parser.add_argument(
        "--only", action="append", default=[], help="cases with this in their name; any number"
    )
    if benchmark.requirements is not None:
        parser.add_argument("--baselines-dir", type=Path, help="environments of other libraries")
        parser.add_argument("--make-baselines", action="store_true", help="make these, and end")
    if benchmark.kept:
        help_of_work = "folder of what is done, to go on from; empty it to measure anew"
        parser.add_argument("--work", type=Path, help=help_of_work)
        parser.add_argument("--done", action="store_true", help="only tell what is done already")
    parser.set_defaults(make_baselines=False, work=None, done=False)
    flags = {flag: parser.add_argument(flag, **facts) for flag, facts in benchmark.options.items()}
    chosen = parser.parse_args()
    if chosen.make_baselines and chosen.baselines_dir is None:
        parser.error("--make-baselines needs --baselines-dir: the folder to make them in")
    for name in () if chosen.make_baselines else benchmark.needs:
        if getattr(chosen, name) is None:
            parser.error(f"--{name} must name {flags[f'--{name}'].help}")
    chosen.whole = not chosen.quick and not chosen.only
    return chosen


def _measured(benchmark: Benchmark, chosen: Namespace) -> list[Row]:
    every = [*benchmark.cases(chosen)]
    texts = [text.lower() for text in chosen.only or [""]]
    cases = [case for case in every if any(text in str(case).lower() for text in texts)]
    if not cases:
        known = ", ".join(dict.fromkeys(map(str, every)))
        raise UsageError(f"--only must be part of one of: {known}; got {chosen.only}")
    work = partial(_rows, benchmark.measure, chosen)
    if benchmark.kept:
        folder = chosen.work or (Path(tempfile.mkdtemp()) if chosen.quick else RECORDS)
        path = folder / f"{benchmark.name.rpartition('-')[2]}{'-quick' * chosen.quick}.jsonl"
        limits = () if benchmark.in_turn else KEPT_THREADS
        return _kept(cases, work, path, chosen, limits)
    rows: dict[int, list[Row]] = {}
    for done, (number, found) in enumerate(_each(cases, work, THREADS * benchmark.processes), 1):
        rows[number] = found
        say(f"{done} of {len(cases)}: {cases[number]}")
    return [row for number in sorted(rows) for row in rows[number]]


def _each(
    cases: Sequence[Any], work: Callable[[Any], list[Row]], limits: Sequence[str]
) -> Iterator[tuple[int, list[Row]]]:
    """Yield the number of each case and its rows, as they come.

    Cases are measured side by side where there are variables that limit the threads of each.
    """
    if not limits:
        for number, case in enumerate(cases):
            yield number, work(case)
        return
    with ProcessPoolExecutor(
        machine()["cores"], get_context("spawn"), one_thread, (limits,)
    ) as pool:
        waiting = {pool.submit(work, case): n for n, case in enumerate(cases)}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:  # of an error too: the pool would measure all others first, for nobody
            pool.shutdown(cancel_futures=True)


def _rows(
    measure: Callable[[Any, Namespace], Iterable[Row]], options: Namespace, case: Any
) -> list[Row]:
    return [*measure(case, options)]


def one_thread(variables: Sequence[str] = THREADS) -> None:
    """Hold this process to one thread, before a library that has several is imported."""
    os.environ.update(dict.fromkeys(variables, "1"))
    import torch

    torch.set_num_threads(1)


def _kept(
    cases: Sequence[Any],
    work: Callable[[Any], list[Row]],
    path: Path,
    chosen: Namespace,
    limits: Sequence[str],
) -> list[Row]:
    """Measure the cases that a file of JSON lines does not hold yet; return the rows of all.

    A line that was cut off by a kill is measured again.
    """
    found = read_records(path)
    left = [] if chosen.done else [case for case in cases if tuple(case) not in found]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if path.stat().st_size and left:
            file.write("\n")  # ends a line that was cut off
        try:
            for done, (number, rows) in enumerate(_each(left, work, limits), 1):
                record = {"unit": [*left[number]]}
                record |= rows[0] if len(rows) == 1 else {"rows": rows}
                file.write(json.dumps(record) + "\n")
                file.flush()
                found[tuple(left[number])] = record
                say(f"{done} of {len(left)}: {' '.join(map(str, left[number]))}")
        except EnoughError:
            n_left = sum(tuple(case) not in found for case in left)
            say(f"the next run measures {n_left} more")
    records = [found[tuple(case)] for case in cases if tuple(case) in found]
    chosen.whole &= len(records) == len(cases)
    return [row for record in records for row in _rows_of(record)]


def _rows_of(record: Row) -> list[Row]:
    """Return the rows of a case: several are held under a name that one may use for a number."""
    found = record.get("rows")
    return found if isinstance(found, list) else [record]


def read_records(path: Path) -> dict[tuple[Any, ...], Row]:
    """Return what a file of JSON lines holds, by case."""
    found: dict[tuple[Any, ...], Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[tuple(record["unit"])] = record
    return found


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
