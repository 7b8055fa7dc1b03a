"""Coordinates of leaf vectors, and the pull towards the old ones, each strictly convex."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.train.relax import probability_leaves

SMOOTHING = 1 / 300
"""Added to each old probability, so that the pull toward it keeps away from 0 and 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Leaf vectors at some coordinates θ.

    Parameters
    ----------
    v : float64, (n_leaves, width)
    distance : float
        From the old leaves.
    away : float64, of θ's shape
        Its gradient with respect to θ.
    pulled_back : callable
        From a gradient with respect to v to the one with respect to θ.
    """

    v: Array
    distance: float
    away: Array
    pulled_back: Callable[[Array], Array]


class Chart(Protocol):
    """Coordinates θ of leaf vectors v, (n_leaves, width)."""

    def start(self) -> Array:
        """Return the coordinates of the old leaves."""
        ...

    def at(self, theta: Array) -> Place:
        """Return the leaf vectors at θ."""
        ...

    def scale(self, theta: Array, pull: float, curvature: Array) -> Array:
        """Return about the diagonal of the Hessian in θ, there.

        `curvature` is the loss's in v, (n_leaves, width); `pull` multiplies the distance.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FreeLeaves:
    """Any numbers: θ = v, at a distance ½ ||v − old v||².

    Parameters
    ----------
    old : float64, (n_leaves, width)
    """

    old: Array

    def start(self) -> Array:
        """Return the old leaves."""
        return self.old

    def at(self, theta: Array) -> Place:
        """Return θ."""
        with np.errstate(invalid="ignore"):  # infinite leaves are legal
            away = theta - self.old
        return Place(theta, 0.5 * float((away * away).sum()), away, lambda gradient: gradient)

    def scale(self, theta: Array, pull: float, curvature: Array) -> Array:
        """Return the sum of both."""
        return pull + curvature


@dataclass(frozen=True, slots=True, eq=False)
class ProbabilityLeaves:
    """Class probabilities: v = softmax(θ) in each group, at a distance KL(old v || v).

    The pull keeps every probability above 0, so the least loss plus pull lies inside the simplex.
    There every direction along the simplex is one of θ. So a point in θ without a gradient is one
    in v, and a loss that is convex in v, as are all of `class_losses` for such leaves, has one:
    the descent in θ cannot stop short of it.

    Parameters
    ----------
    old : float64, (n_leaves, number of classes)
        Smoothed; a group of one output has a column for each of its two classes.
    groups : tuple of slice
        Columns of `old` of each group.
    kept : int64, (width,)
        The columns that v holds.
    """

    old: Array
    groups: tuple[slice, ...]
    kept: Array

    def start(self) -> Array:
        """Return log v."""
        return np.log(self.old)

    def at(self, theta: Array) -> Place:
        """Return the softmax of each group, at sum of old v · (log old v − log v)."""
        p, log_p = np.empty_like(theta), np.empty_like(theta)
        for group in self.groups:
            below = theta[:, group] - theta[:, group].T.max(axis=0)[:, None]
            exp = np.exp(below)
            total = exp @ np.ones(exp.shape[1])
            p[:, group] = exp / total[:, None]
            log_p[:, group] = below - np.log(total)[:, None]
        distance = float((self.old * (np.log(self.old) - log_p)).sum())

        def pulled_back(gradient: Array) -> Array:
            wide = np.zeros_like(p)
            wide[:, self.kept] = gradient
            wide *= p
            for group in self.groups:
                part = wide[:, group]
                wide[:, group] = part - p[:, group] * (part @ np.ones(part.shape[1]))[:, None]
            return wide

        return Place(p[:, self.kept], distance, p - self.old, pulled_back)

    def scale(self, theta: Array, pull: float, curvature: Array) -> Array:
        """Return the curvature of both along each number alone."""
        p = self.at(theta).away + self.old
        spread = p * (1 - p)
        wide = np.zeros_like(spread)
        wide[:, self.kept] = curvature
        return pull * (spread + 1e-3) + wide * spread**2


def chart(forest: Forest) -> Chart:
    """Return the coordinates that keep class probabilities such, else those without a bound."""
    v = forest.leaves.v.astype(np.float64)
    groups = probability_leaves.groups(forest)
    if groups is None:
        return FreeLeaves(v)
    columns: list[Array] = []
    kept: list[list[int]] = []
    wide_groups = []
    for group in groups:
        part, n = v[:, group].clip(0, 1), sum(column.shape[1] for column in columns)
        if part.shape[1] == 1:
            part = np.concatenate([1 - part, part], axis=1)
            kept.append([n + 1])
        else:
            kept.append(list(range(n, n + part.shape[1])))
        columns.append((part + SMOOTHING) / (part + SMOOTHING).sum(axis=1, keepdims=True))
        wide_groups.append(slice(n, n + part.shape[1]))
    return ProbabilityLeaves(
        np.concatenate(columns, axis=1), tuple(wide_groups), np.concatenate(kept)
    )
