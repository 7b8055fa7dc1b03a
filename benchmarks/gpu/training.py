"""A step of retraining on a GPU against two cores of the same machine."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from typing import Any, Final

import torch

import bitvec
from benchmarks.gpu import generated
from benchmarks.report import Row

TREES, DEPTH, FEATURES, BATCH = 100, 10, 28, 4096
STEPS: Final = 5
CPU_STEPS: Final = 2


def measure_retraining(options: Namespace) -> Row:
    """Return the seconds of a step of a soft forest on the device and on two cores, and its peak.

    A step is the squared error of a batch, its gradient in b and v, and one of AdamW.
    """
    trees, depth = (2, 3) if options.quick else (TREES, DEPTH)
    forest = generated.forest(FEATURES, depth, trees)
    row: Row = {"what": "retraining", "n_trees": trees, "depth": depth, "rows_of_step": BATCH}
    if options.device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        row["device_seconds"] = _seconds_of_step(forest, options.device, options.quick)
        row["device_peak_mb"] = torch.cuda.max_memory_allocated() / 1e6
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    row["two_cores_seconds"] = _seconds_of_step(forest, "cpu", options.quick)
    torch.set_num_threads(threads)
    if "device_seconds" in row:
        row["times_two_cores"] = row["two_cores_seconds"] / row["device_seconds"]
    return row


def _seconds_of_step(forest: Any, device: str, quick: bool) -> float:
    batch = 64 if quick else BATCH
    module = bitvec.to_torch(forest, "sigmoid", gamma=2.0, device=device)
    x = torch.tensor(generated.rows(batch, FEATURES), device=device)
    y = torch.zeros((batch, 1), device=device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    times = []
    warm, steps = (2, STEPS) if device != "cpu" else (1, CPU_STEPS)
    for _ in range(2 if quick else warm + steps):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        (module(x) - y).square().mean().backward()
        optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1 if quick else warm :])
