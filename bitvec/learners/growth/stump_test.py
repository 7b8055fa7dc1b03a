"""Protocols of a node's test, implemented by linear and polytope nodes only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.learners.growth.cuts import Cuts
from bitvec.learners.growth.level import Level, Unit, Units
from bitvec.learners.growth.targets import Target


class Rule(Protocol):
    """A node's margin over raw columns, in float64, bit for bit as the native tree computes it.

    A row goes right where it exceeds a threshold.
    """

    def margins(self, X: Float64[Array, "batch n_features"]) -> Float64[Array, " batch"]:
        """Return the margin of each row."""


class StumpTests(Protocol):
    """The tests of all nodes of a level, as they are trained.

    Parameters have the restarts as their first axis and the nodes as their second.
    """

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Return what Adam moves."""

    @property
    def numbers_of_a_row(self) -> int:
        """Return how many numbers are held of a row at a time, in all restarts."""

    def margins(
        self, Z: Tensor, node: Tensor
    ) -> Tensor:  # (n_blocks, block, n_features + 1) -> (n_restarts, n_blocks, block)
        """Return the margins of blocks of standardised rows, each block at its node."""

    def center(self, by: Tensor, scale: Tensor) -> None:
        """Turn every margin m into (m − by) / scale: (n_restarts, n_nodes) each."""

    def rule(self, restart: int, node: int, units: Units) -> Rule:
        """Return a test over raw columns; its threshold is left to the scan."""


class Kind(Protocol):
    """A kind of node."""

    @property
    def unit(self) -> Unit:
        """Return what the columns that a node reads are standardised by."""

    @property
    def pace(self) -> float:
        """Return what the learning rate is multiplied by."""

    def draw(
        self, generators: Sequence[np.random.Generator], level: Level, restarts: int
    ) -> StumpTests:
        """Draw the start of each node's tests from the node's own generator."""

    def finish(
        self, rule: Rule, X: Float64[Array, "n_rows n_features"], target: Target, weight: Array
    ) -> tuple[Rule, Cuts]:
        """Return a trained rule as the tree keeps it, and its best cut for the node's rows."""


def exact_cut(rule: Rule, X: Array, target: Target, weight: Array) -> Cuts:
    """Return the best cut of one node, by the margins that the native tree computes."""
    return target.cuts(rule.margins(X), np.array([0, len(X)]), weight)
