"""Rounds of new trees, each a Newton step on the loss of what the trees before it answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.train.grow.appended_trees import NewTree
from bitvec.runtime.train.grow.histogram_kernels import MOST_BINS, Columns, Limits, Tree, grow
from bitvec.runtime.train.grow.loss_derivatives import derivatives
from bitvec.runtime.train.retrain.objective import Objective

OF_NODES = ("feature", "cut", "left", "right", "missing_right", "goes_right")
STEPS, LONGEST_STEP, SMALLEST_STEP = 30, 2.0, 1e-4
"""Newton steps toward a constant, at most; the longest of a log loss, and the shortest, as a part
of the constant."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Options of growth.

    Parameters
    ----------
    leaves : int
        Of a tree, at most.
    rate : float
        What leaf values are multiplied by.
    rows : float
        Least rows of a leaf.
    ridge : float
        Added to the second derivatives of a leaf.
    column_share, row_share : float
        Columns and rows that a tree sees.
    """

    leaves: int = 16
    rate: float = 0.15
    rows: float = 20.0
    ridge: float = 1.0
    column_share: float = 0.8
    row_share: float = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows that trees are grown on, and those that are only led through them, of weight 0.

    Parameters
    ----------
    columns : Columns
    target : (n_rows, width)
    weight : float64, (n_rows,)
    """

    columns: Columns
    target: Array
    weight: Array


def rounds(
    goal: Objective,
    rows: Rows,
    raw: Float64[Array, "n_rows n_outputs"],
    growth: Growth,
    *,
    vectors: bool,
    seed: tuple[int, ...],
    shift: Float64[Array, " n_outputs"] | None = None,
) -> Iterator[list[NewTree]]:
    """Yield rounds of trees without end, and add what they answer to `raw`, which is changed.

    Parameters
    ----------
    vectors : bool
        Whether a round is one tree for all outputs, or else one for each.
    shift : float64, (n_outputs,), optional
        What stands in `raw` already and in no tree: the leaves of the first round hold it.
    """
    random = np.random.default_rng(seed)
    n_rows, n_outputs = raw.shape
    columns, n_columns = rows.columns, len(rows.columns.is_set)
    width = n_outputs if vectors else 1
    counted = np.flatnonzero(rows.weight > 0)
    scale = 1.0 / rows.weight[counted].mean()
    limits = Limits(growth.leaves, growth.rows, growth.ridge)
    scratch = np.empty((growth.leaves, int(columns.start[-1]), 2 * width + 1))
    shift = np.zeros(n_outputs) if shift is None else shift
    n_read = max(1, round(growth.column_share * n_columns))
    while True:
        weight = np.zeros(n_rows)
        drawn = counted[random.random(len(counted)) < growth.row_share]
        weight[drawn] = rows.weight[drawn] * scale
        both = derivatives(goal, raw, rows.target) * weight[:, None]
        made, step = [], np.empty_like(raw)
        for k in range(1 if vectors else n_outputs):
            reads = np.sort(random.permutation(n_columns)[:n_read])
            part = both if vectors else np.ascontiguousarray(both[:, [k, n_outputs + k]])
            tree = _empty(growth.leaves, width, n_rows)
            order = np.arange(n_rows, dtype=np.int32)
            n = grow(columns, reads, part, limits, 0.0, order, tree, scratch)
            value = growth.rate * tree.value[:n]
            step[:, slice(None) if vectors else [k]] = value[tree.exit]
            parts = {name: getattr(tree, name)[: n - 1] for name in OF_NODES}
            value += shift if vectors else shift[k]
            made.append(NewTree(**parts, value=value, output=-1 if vectors else k))
        raw += step
        shift = np.zeros(n_outputs)
        yield made


def constant(
    goal: Objective, raw: Float64[Array, "n_rows n_outputs"], rows: Rows
) -> Float64[Array, " n_outputs"]:
    """Return what, added to all raw scores, makes the loss about least.

    Newton steps, bounded and halved until the loss falls: whole ones may run away from a start that
    is far from the rows.
    """
    weight = rows.weight / rows.weight.sum()
    counted = np.flatnonzero(weight > 0)
    raw, target, weight = raw[counted], rows.target[counted], weight[counted]

    def loss(shift: Array) -> float:
        with torch.no_grad():
            losses = goal.losses(torch.tensor(raw + shift), torch.tensor(target))
            return float(weight @ losses.numpy())

    found = np.zeros(raw.shape[1])
    least = loss(found)
    most = LONGEST_STEP if goal.is_likelihood else np.inf
    for _ in range(STEPS):
        both = weight @ derivatives(goal, raw + found, target)
        step = np.clip(-both[: len(found)] / (both[len(found) :] + 1 / len(raw)), -most, most)
        now = loss(found + step)
        while not now <= least and np.any(np.abs(step) > SMALLEST_STEP * np.abs(found)):
            step /= 2
            now = loss(found + step)
        if not now < least:
            break
        found, least = found + step, now
        if np.all(np.abs(step) <= SMALLEST_STEP * np.abs(found)):
            break
    return found


def _empty(leaves: int, width: int, n_rows: int) -> Tree:
    n = leaves - 1
    integers = [np.zeros(n, np.int32) for _ in range(4)]
    feature, cut, left, right = integers
    return Tree(
        feature, cut, left, right, np.zeros(n, bool), np.zeros((n, MOST_BINS), bool),
        np.zeros((leaves, width)), np.zeros(n_rows, np.int32),
    )  # fmt: skip
