"""A decision machine made ready to predict, with the verbs of `Predictor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core import machine as machines
from bitvec.core.arrays import Array
from bitvec.core.machine import DecisionMachine
from bitvec.core.shape_annotations import Float, Int32
from bitvec.errors import BitvecError
from bitvec.runtime.predict.predictor import Predictor

BLOCK_ROWS = 4096
"""Rows that are cast and run at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class MachineEngine:
    """The equation v[argmax(B · h − c)] as an `Engine`: one exact matrix product per tree."""

    machine: DecisionMachine

    @property
    def name(self) -> str:
        """The name of this engine."""
        return "machine"

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return leaf numbers within each tree."""
        if out is None:
            out = np.empty((len(X), self.machine.n_trees), np.int32)
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            out[part] = machines.exit_leaves(self.machine, X[part])
        return out

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores."""
        output = self.machine.output
        if out is None:
            out = np.empty((len(X), output.n_outputs), output.dtype)
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            out[part] = machines.raw(self.machine, X[part])
        return out

    def info(self) -> dict[str, Any]:
        """Return the dtype in which scores are exact."""
        return {"scores": str(self.machine.B.dtype)}


class MachinePredictor(Predictor):
    """Predicts with one decision machine; made by `compile`.

    It has all verbs of a `Predictor` but `decision_path`: a machine compares all of its tests with
    every leaf, and a row takes no path.

    Parameters
    ----------
    machine : DecisionMachine
    """

    def __init__(self, machine: DecisionMachine) -> None:
        super().__init__(machine.frame, MachineEngine(machine), why="a decision machine")
        self.machine = machine

    def __reduce__(self) -> tuple[Callable[..., Predictor], tuple[Any, ...]]:
        return MachinePredictor, (self.machine,)

    def __repr__(self) -> str:
        return f"MachinePredictor({self.machine!r})"

    def decision_path(self, X: Any) -> Any:
        """Refuse: there is no path.

        Raises
        ------
        BitvecError
        """
        raise BitvecError(
            "`decision_path` needs a forest, got a decision machine, which has no tree: use "
            "`apply` for the exit leaves."
        )


def compile(machine: DecisionMachine) -> MachinePredictor:
    """Make a decision machine ready to predict.

    Raises
    ------
    TypeError
        If `machine` is no DecisionMachine.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> compile(machines.from_forest(stump)).predict([[0.0, 9.0], [1.0, 9.0]]).tolist()
    [10.0, 20.0]
    """
    if not isinstance(machine, DecisionMachine):
        raise TypeError(
            f"a DecisionMachine must be given, got {type(machine).__module__}."
            f"{type(machine).__qualname__}: make one with bitvec.core.machine.from_forest."
        )
    return MachinePredictor(machine)
