"""A step of training on plain tensors beside one on rows that `prepare` has standardised."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.engine.cells import digits
from benchmarks.report import Column, Goal, Row

if TYPE_CHECKING:
    from torch import Tensor

    from bitvec.core.forest import Forest

BATCHES: Final = (128, 1_024)
KINDS: Final = ("prepared", "plain tensor", "tensor with a gradient")


def measure(model: str, forest: Forest, X: np.ndarray, options: Namespace) -> Iterator[Row]:
    """Yield a row for each number of rows of a step.

    Each step takes other rows; the kinds take turns, after their scores were found equal.

    Raises
    ------
    ArithmeticError
        If scores differ.
    """
    import torch

    import bitvec

    torch.set_num_threads(1)
    soft = bitvec.to_torch(forest, "sigmoid").calibrate(X)
    optimiser = torch.optim.SGD(soft.parameters(), 1e-4)
    every, plain = soft.prepare(X), torch.tensor(X)
    order = np.random.default_rng(0)
    for batch in BATCHES:

        def rows_of(kind: str, rows: Tensor) -> Any:
            if kind == "prepared":
                return every.take(rows)
            return plain[rows].requires_grad_(kind != "plain tensor")

        def step(kind: str, rows: Tensor) -> None:
            optimiser.zero_grad()
            soft(rows_of(kind, rows)).square().mean().backward()
            optimiser.step()

        at = torch.tensor(order.integers(0, len(X), (7 if options.quick else 30, batch)))
        scores = [soft(rows_of(kind, at[0])).detach() for kind in KINDS]
        if not all(torch.allclose(scores[0], other, rtol=1e-4, atol=1e-5) for other in scores[1:]):
            raise ArithmeticError(f"scores of one step differ by its kind of rows: {model}")
        least = _least({kind: lambda rows, kind=kind: step(kind, rows) for kind in KINDS}, at)
        yield {"model": model, "step": batch} | {k: digits(1e3 * v) for k, v in least.items()}


def _least(steps: dict[str, Callable[[Tensor], None]], parts: Tensor) -> dict[str, float]:
    """Return the least processor seconds of each kind, which take turns."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for part in parts:
        for name, step in steps.items():
            start = time.process_time()
            step(part)
            taken[name].append(time.process_time() - start)
    return {name: min(seconds) for name, seconds in taken.items()}


def ratio(row: Row) -> float:
    """Return the time of a step on plain tensors over that on prepared rows."""
    return float(row["plain tensor"] / row["prepared"])


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield what a step on plain tensors may cost."""
    found = [ratio(row) for row in rows if "step" in row]
    name = "step on plain tensors / on prepared rows, worst"
    yield Goal(name, "<= 1.3", digits(max(found)) if found else None)


COLUMNS: Final = (
    Column("model", "model"),
    Column("rows of a step", "step", ","),
    *(Column(f"{kind}, ms", kind, ".3g") for kind in KINDS),
    Column("plain / prepared", ratio, ".2f"),
)
