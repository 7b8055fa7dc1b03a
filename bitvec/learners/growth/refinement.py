"""Refinement after growth: all nodes and leaves trained together, by `bitvec.retrain`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from bitvec.converters import native
from bitvec.converters.native.native_forest import NativeForest
from bitvec.converters.native.native_tree import NativeTree
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import NodeTests
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.retrained.retrain import retrain
from bitvec.runtime.train.retrain import Evaluation, Penalties, RetrainResult, Schedule
from bitvec.runtime.train.retrain.optimizers import SameColumns, adamw

ROWS_AT_ONCE = 8192
"""Rows that a tree is walked by at a time."""
PACE = 0.1
"""Factor of the learning rate of φ, beside the root mean square of its weights."""


ERRORS: Final = 0.5
"""Paired standard errors by which a refined tree must be better: few rows choose a tree's own."""
ERRORS_OF_VALUES: Final = 1.0
"""The same of squared errors, a few of which decide: with fewer, gains by luck are kept."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """Options of refining a grown tree; see `bitvec.retrain`.

    Parameters
    ----------
    trainable : tuple of str
        What moves.
    steps : int, optional
    learning_rate : float
    gamma : (first, last) or callable, optional
    spatial : float
    spatial_shape : tuple of int, optional
    checkpoint_path : path, optional
    seed : int
    progress : callable, optional
    same_columns : bool
        Whether a weight of 0 stays 0, so that a node reads what it read before.
    device : torch.device, optional
    """

    trainable: tuple[str, ...]
    steps: int | None
    learning_rate: float
    gamma: Any
    spatial: float
    spatial_shape: Any
    checkpoint_path: str | os.PathLike[str] | None
    seed: int
    progress: Callable[[Evaluation], None] | None
    same_columns: bool = False
    device: torch.device | None = None


def refine(
    tree: NativeTree | NativeForest[Any],
    X: Float64[Array, "n_rows n_features"],
    y: Array,
    weight: Float64[Array, " n_rows"],
    validation: tuple[Array, Array, Array],
    how: Refinement,
) -> RetrainResult:
    """Refine a tree, or a forest by its mean.

    What comes back is hard and on the validation rows never worse.

    Branches that no row reaches any more are removed.

    Parameters
    ----------
    y
        Class numbers, or values.
    validation : (X, y, sample_weight)
        Rows that the tree was not grown on.
    """
    forest = native.convert(tree)
    return retrain(
        forest,
        X,
        y,
        trainable=how.trainable,
        sample_weight=weight,
        validation=validation,
        metric="accuracy" if forest.output.is_classifier else "auto",
        budget=None,
        schedule=Schedule(
            steps=how.steps,
            optimizer=_optimizer(how),
            learning_rate=how.learning_rate,
            gamma=how.gamma,
            errors=ERRORS if forest.output.is_classifier else ERRORS_OF_VALUES,
        ),
        penalties=Penalties(spatial=how.spatial, spatial_shape=how.spatial_shape),
        checkpoint_path=how.checkpoint_path,
        device=how.device,
        seed=how.seed,
        prune_dead=True,
        progress=how.progress,
    )


@dataclass(frozen=True, slots=True)
class _MovesPhi:
    """AdamW whose last group, the weights of φ, moves in units of `PACE` times their own size.

    They are weights of raw columns, whose unit may be any; size is the root mean square.
    """

    same_columns: bool

    def __call__(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        *rest, phi = groups
        rest += [
            {**phi, "params": [part], "lr": phi["lr"] * PACE * _size(part)}
            for part in phi["params"]
        ]
        return SameColumns()(rest) if self.same_columns else adamw(rest)


def _optimizer(how: Refinement) -> str | Callable[[list[dict[str, Any]]], torch.optim.Optimizer]:
    if "phi" in how.trainable:
        return _MovesPhi(how.same_columns)
    return SameColumns() if how.same_columns else "adamw"


def _size(part: torch.Tensor) -> float:
    """Return the root mean square of a parameter, 1 of zeros."""
    return float(part.detach().double().square().mean().sqrt()) or 1.0


def children_of(forest: Forest) -> tuple[Array, Array]:
    """Return the children of the nodes of a forest of one tree, leaves as `~leaf`."""
    return structure.children(forest.bitvectors)


def leaves_of(tree: NativeTree, X: Float64[Array, "n n_features"]) -> Int64[Array, " n"]:
    """Return the leaf of each row, some rows at a time, which the layers of a φ make wide."""
    parts = [tree.decide(X[at : at + ROWS_AT_ONCE]) for at in range(0, len(X), ROWS_AT_ONCE)]
    return np.concatenate(parts)


def dense_rows(tests: NodeTests, n_features: int) -> Float64[Array, "n_rows n_features"]:
    """Return the rows of S."""
    S = np.zeros((tests.n_rows, n_features))
    S[np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr)), tests.column] = tests.weight
    return S


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Hold torch to some threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
