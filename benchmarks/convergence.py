"""The weight that each relaxation leaves off the exit leaf as it grows steeper, on real rows.

    python -m benchmarks.convergence [--json] [--save]

A CART of depth 5 on the breast cancer data of scikit-learn. Beside the relaxations stands the one
that is refused, softmax of B · σ: leaves share the maximum, so it spreads over all of them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import torch

import bitvec
from benchmarks.report import Column, Goal, Report, Row, Table, measured_by
from benchmarks.runner import Benchmark, run
from bitvec.core.forest import Forest
from bitvec.runtime.train.relax.relaxations import RELAXATIONS

GAMMAS: Final = (1, 4, 16, 64, 1024, 1_000_000)
REFUSED: Final = "softmax of B · σ"
LEAST: Final = 1e-6
"""The least weight that is drawn."""
SMALL: Final = 1e-3
"""The mean weight off the exit leaf that counts as having come to the hard tree."""


@cache
def _fitted() -> tuple[Forest, Any]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_breast_cancer(return_X_y=True)
    return bitvec.convert(DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, y)), X


def cases(options: Namespace) -> Iterable[str]:
    """Return the names of relaxations, then the one that is refused."""
    return [*RELAXATIONS, REFUSED]


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield the mean weight off the exit leaf of a relaxation, by steepness."""
    forest, X = _fitted()
    leaf = torch.tensor(bitvec.compile(forest, engine="reference").exit_leaves(X)[:, :1]).long()
    row: Row = {"name": name}
    for gamma in GAMMAS:
        u = _refused(gamma) if name == REFUSED else _memberships(name, gamma)
        row[str(gamma)] = float(f"{1 - u.gather(1, leaf).mean().item():.2g}")
    yield row


def _memberships(name: str, gamma: float) -> torch.Tensor:
    forest, X = _fitted()
    soft = bitvec.to_torch(forest, name, dtype=torch.float64).calibrate(X)
    soft.gamma = float(gamma)
    with torch.no_grad():
        return soft.memberships(X)


def _refused(gamma: float) -> torch.Tensor:
    """Return softmax of gamma · B · σ(gamma · m), with m in deviations of each node's margin."""
    forest, X = _fitted()
    margins = X.astype(np.float32)[:, forest.tests.column].astype(np.float64) - forest.tests.b
    s = torch.sigmoid(torch.tensor(gamma * margins / margins.std(axis=0)))
    return torch.softmax(gamma * (s @ torch.tensor(forest.B.T, dtype=torch.float64)), dim=1)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return that the relaxations that are offered come to the hard tree, and the other not."""
    last = {row["name"]: row[str(GAMMAS[-1])] for row in rows}
    offered = sum(last.get(name, 1) > SMALL for name in RELAXATIONS)
    return [
        Goal("relaxations that do not come to the hard tree", "0", offered),
        Goal("weight off the exit leaf of the one that is refused", ">= 0.1", last.get(REFUSED)),
    ]


def _cell(gamma: float) -> Callable[[Row], str]:
    return lambda row: f"{row[str(gamma)]:.2g}"


BENCHMARK: Final = Benchmark(
    "convergence",
    cases,
    measure,
    goals,
    {
        "table": Table(
            (
                Column(
                    "relaxation",
                    lambda row: row["name"] if row["name"] == REFUSED else f"`{row['name']}`",
                ),
                *(Column(f"γ = {gamma:,}", _cell(gamma)) for gamma in GAMMAS),
            ),
            list,
            after=measured_by,
        )
    },
)


def draw(report: Report, path: Any) -> None:
    """Draw the weight off the exit leaf by steepness, a line for each relaxation."""
    from matplotlib.figure import Figure

    from benchmarks import svg

    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axis = figure.subplots()
    shown = GAMMAS[:-1]
    for row in report["rows"]:
        refused = row["name"] == REFUSED
        values = [max(row[str(gamma)], LEAST) for gamma in shown]
        style = {"color": "#d1495b", "lw": 3} if refused else {"lw": 1.2}
        axis.plot(shown, values, label=row["name"], **style)
    axis.set(xscale="log", yscale="log", xlabel="steepness γ", ylabel="weight off the exit leaf")
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_ylim(LEAST, 2)
    figure.legend(fontsize=8, loc="outside right center", frameon=False)
    svg.write(figure, path)


if __name__ == "__main__":
    run(BENCHMARK, __doc__)
