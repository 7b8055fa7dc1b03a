"""All that is measured, each case and seed in one of as many processes as there are cores."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.datasets import READERS
from benchmarks.old_report import Row
from benchmarks.old_runner import say
from benchmarks.old_workers import THREADS
from benchmarks.retrain import baselines, forests, trees
from benchmarks.retrain.rows import without


@dataclass(frozen=True, slots=True)
class Work:
    """One case and seed, and what measures it."""

    part: str
    case: str
    data: str
    seed: int
    measure: Callable[[], list[Row]]


def everything(data: Path, seeds: int, *, environments: Path | None, quick: bool) -> list[Work]:
    """Return all that can be measured, what takes longest first."""
    found: list[Work] = []

    def add(part: str, case: Any, measure: Callable[..., list[Row]], **options: Any) -> None:
        for seed in range(seeds * getattr(case, "times", 1)):
            work = partial(measure, case, data, seed, **options)
            found.append(Work(part, case.name, case.data, seed, work))

    for baseline_case in baselines.CASES:
        add("baselines", baseline_case, baselines.measure, baselines=environments)
    for forest_case in forests.CASES:
        add("forests", forest_case, forests.measure, quick=quick)
    for tree_case in trees.CASES:
        add("trees", tree_case, trees.measure, quick=quick)
    return found


def run(works: Sequence[Work], data: Path) -> list[Row]:
    """Return the rows, in the order of the work."""
    rows: dict[int, list[Row]] = {}
    with ProcessPoolExecutor(_cores(), get_context("spawn"), _one_thread) as pool:
        waiting = {}
        for number, work in enumerate(works):
            folder = READERS[work.data][0]
            if (data / folder).is_dir():
                waiting[pool.submit(_rows, work)] = number
            else:
                reason = f"the folder of data has no {folder}"
                rows[number] = [without(work.part, work.case, reason, work.seed)]
        for done in as_completed(waiting):
            number = waiting[done]
            rows[number] = done.result()
            work = works[number]
            told = f"{len(rows)} of {len(works)}: {work.part}, {work.case}, seed {work.seed}"
            say(told)
    return [row for number in range(len(works)) for row in rows[number]]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _one_thread() -> None:
    """Hold this process to one thread, before a library that has several is imported."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    import torch

    torch.set_num_threads(1)


def _rows(work: Work) -> list[Row]:
    try:
        return work.measure()
    except Exception as error:
        # The other cases are not lost for this one, which is told of in the tables.
        traceback.print_exc()
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return [without(work.part, work.case, reason, work.seed)]
