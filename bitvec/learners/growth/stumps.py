"""Training: all stumps of a level at once, and the best restart of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.growth import compiled_descent
from bitvec.learners.growth.columns import Columns
from bitvec.learners.growth.level import Batch, Blocks, level_of
from bitvec.learners.growth.penalties import Penalty
from bitvec.learners.growth.stump_losses import Likelihood, StumpLoss
from bitvec.learners.growth.stump_test import Kind, Rule, StumpTests
from bitvec.learners.growth.targets import SoftTarget, Target
from bitvec.runtime.train.retrain.optimizers import adamw
from bitvec.runtime.train.retrain.recipe import few_threads
from bitvec.runtime.train.retrain.schedules import Course

LEAST_SPREAD = 1e-6
"""Deviation of a start's margins up to which they are not divided by it."""
MARGINS_AT_ONCE = 1 << 24
"""Numbers that are held at a time while the margins of all rows are computed."""
CHEAP = 8
"""Multiply-adds that take as long as one element of the operations that `few_threads` counts."""


@dataclass(frozen=True, slots=True)
class StumpTraining:
    """Options of training stumps.

    Parameters
    ----------
    kind : Kind
        What nodes ask.
    loss : callable
        From the rows of a level to their loss.
    steps, restarts, batch_size : int
        Rows of a step: see `Blocks`.
    learning_rate : float
        Adam's, of margins of deviation 1.
    gamma : Course
    penalties : tuple of Penalty
    columns : callable, optional
        Draws the columns that a node reads; it reads all if not given.
    weight_decay : float
        Decoupled from the gradient, in the units of standardised columns.
    device : torch.device, optional
        What trains; the CPU if not given. Cuts are scanned on the CPU.
    """

    kind: Kind
    loss: Callable[[SoftTarget], StumpLoss]
    steps: int
    restarts: int
    batch_size: int
    learning_rate: float
    gamma: Course
    penalties: tuple[Penalty, ...] = ()
    columns: Columns | None = None
    weight_decay: float = 0.0
    device: torch.device | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stump:
    """A trained node.

    Parameters
    ----------
    rule : Rule
    threshold : float
        A row goes right where its margin exceeds this.
    cost : float
        Impurity of both sides together, times weight; infinite where no cut parts the rows.
    """

    rule: Rule
    threshold: float
    cost: float


def train_stumps(
    X: Float64[Array, "n n_features"],
    target: Target,
    weight: Float64[Array, " n"],
    rows: Sequence[Int64[Array, " n_of_node"]],
    generators: Sequence[np.random.Generator],
    training: StumpTraining,
) -> list[Stump]:
    """Train the stumps of nodes that have these rows; each draws from its own generator.

    Each restart starts with half of the node's weight on each side. Among the restarts the least
    exact impurity wins; its threshold is then scanned on the margins that the tree will compute.
    """
    columns = None
    if training.columns is not None:
        columns = np.stack([training.columns(generator) for generator in generators])
    level = level_of(
        X, target, weight, rows, columns, unit=training.kind.unit, device=training.device
    )
    tests = training.kind.draw(generators, level, training.restarts)
    everything = Blocks(level)
    centre(tests, everything)
    weights = sum(part.numel() for part in tests.parameters) // level.n_nodes
    with few_threads(weights * len(level.Z) // CHEAP, level.Z.device):
        descend(tests, everything, generators, training)
    margins = margins_of(tests, everything).cpu().double().numpy()
    cost = np.stack([level.target.cuts(each, level.start, level.weight).cost for each in margins])
    best = cost.argmin(axis=0)
    stumps = []
    for j, own in enumerate(rows):
        if not np.isfinite(cost[best[j], j]):
            stumps.append(Stump(tests.rule(0, j, level.units), np.nan, np.inf))
            continue
        rule = tests.rule(int(best[j]), j, level.units)
        rule, cut = training.kind.finish(rule, X[own], target.take(own), weight[own])
        stumps.append(Stump(rule, float(cut.threshold[0]), float(cut.cost[0])))
    return stumps


def descend(
    tests: StumpTests,
    everything: Blocks,
    generators: Sequence[np.random.Generator],
    training: StumpTraining,
) -> None:
    """Train the parameters of tests by AdamW, γ rising on its schedule."""
    level = everything.level
    blocks = Blocks(level, training.batch_size, generators)
    if blocks.is_all:
        blocks = everything
    loss = training.loss(level.soft)
    rate = training.learning_rate * training.kind.pace
    if not training.penalties and compiled_descent.may_be_compiled(tests, level, blocks, loss):
        compiled_descent.descend(
            tests,
            level,
            blocks,
            np.array([training.gamma(step / training.steps) for step in range(training.steps)]),
            by_likelihood=isinstance(loss, Likelihood),
            rate=rate,
            decay=training.weight_decay,
        )
        return
    optimizer = adamw(tests.parameters, rate, weight_decay=training.weight_decay)
    for step in range(training.steps):
        gamma = training.gamma(step / training.steps)

        def steep(gamma: float = gamma) -> tuple[Tensor, Batch]:
            batch = everything.at(0)
            return gamma * _in_parts(tests, batch), batch

        loss.before(step, steep)
        batch = blocks.at(step)
        value = loss(gamma * tests.margins(batch.Z, batch.node), batch)
        for penalty in training.penalties:
            value = value + penalty(tests, level)
        optimizer.zero_grad()
        value.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@torch.no_grad()
def centre(tests: StumpTests, everything: Blocks) -> None:
    """Turn margins so that each has its median at 0 and the deviation 1 over the node's rows."""
    level = everything.level
    margins = margins_of(tests, everything).cpu().double().numpy()
    by, scale = np.empty((2, len(margins), level.n_nodes))
    for j in range(level.n_nodes):
        own = slice(level.start[j], level.start[j + 1])
        by[:, j], scale[:, j] = _median_and_spread(margins[:, own], level.weight[own])
    device = level.Z.device
    tests.center(
        torch.tensor(by, dtype=torch.float32, device=device),
        torch.tensor(scale, dtype=torch.float32, device=device),
    )


def _median_and_spread(
    margins: Float64[Array, "n_restarts n"], weight: Float64[Array, " n"]
) -> tuple[Array, Array]:
    """Return the middle between the weighted lower and upper median, and the deviation."""
    order = np.argsort(margins, axis=1)
    ordered = np.take_along_axis(margins, order, axis=1)
    below = np.cumsum(weight[order], axis=1)
    half = below[:, -1:] / 2
    lower, upper = (below >= half).argmax(axis=1), (below > half).argmax(axis=1)
    at = np.arange(len(margins))
    median = (ordered[at, lower] + ordered[at, upper]) / 2
    mean = margins @ weight / weight.sum()
    spread = np.sqrt(np.square(margins - mean[:, None]) @ weight / weight.sum())
    return median, np.where(spread > LEAST_SPREAD, spread, 1.0)


def margins_of(tests: StumpTests, everything: Blocks) -> Tensor:
    """Return the margins of all rows of a level: (n_restarts, n_rows)."""
    with torch.no_grad():
        return everything.spread(_in_parts(tests, everything.at(0)))


def _in_parts(tests: StumpTests, batch: Batch) -> Tensor:
    """Return margins of blocks, some blocks at a time, so that their products fit in memory."""
    step = max(1, MARGINS_AT_ONCE // (batch.rows.shape[1] * tests.numbers_of_a_row))
    parts = [
        tests.margins(batch.Z[at : at + step], batch.node[at : at + step])
        for at in range(0, len(batch.node), step)
    ]
    return torch.cat(parts, dim=1)
