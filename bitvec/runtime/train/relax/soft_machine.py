"""A decision machine as a torch module: S, b, v, B and c as parameters, its leaves softly reached.

u = map(gamma · (B · gate(gamma · m) − c)) over the leaves of each tree, with m the margins in units
of their standard deviation. As gamma grows, gate tends to h in {0, 1} and u to the leaf of highest
score, where that is one leaf. So what ties by construction is refused: the bitvectors and the sign
rule, whose scores tend to the uniform distribution over all maxima; the ternary encoding has one
maximum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core import options, reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.machine import DecisionMachine, from_forest, on_grid
from bitvec.core.output import Aggregate
from bitvec.core.source import retrained_source
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.predict.torch.outcomes import DeviceTests, decide, to_device
from bitvec.runtime.train.relax import leaf_maps
from bitvec.runtime.train.relax.aggregation import divisor
from bitvec.runtime.train.relax.leaf_functions import LeafFunctions, to_leaves
from bitvec.runtime.train.relax.machine_tests import (
    MachineRows,
    MachineUnits,
    entry_nodes,
    may_move,
    moved_tests,
    tests_hard,
)
from bitvec.runtime.train.relax.moments import deviation
from bitvec.runtime.train.relax.score_blocks import ScoreBlocks
from bitvec.runtime.train.relax.soft_rows import host_rows

TRAINABLE = ("S", "b", "v", "B", "c")


class SoftMachine(nn.Module):
    """A relaxed decision machine, differentiable; made by `from_forest` or `from_machine`.

    Parameters that may move require a gradient:

    * `B`, (n_elements,), and `c`, (n_leaves,), as in `DecisionMachine`;
    * `b`, (n_nodes,): by how much each threshold has moved, in units of its node's scale;
    * `S`, (n_entries,): by how much each entry of S has moved, in units of its node's scale and its
      column's spread. S moves where it has entries; rows of several terms (polytopes), substitutes
      and category indicators stay;
    * `functions.v`, `functions.constant`, `functions.weight`: see `LeafFunctions`.

    Attributes
    ----------
    gamma : float
        Steepness of gates and of the map, in units of each node's margin standard deviation once
        `calibrate` has measured it.
    """

    b: nn.Parameter
    S: nn.Parameter
    B: nn.Parameter
    c: nn.Parameter
    divisor: Tensor
    base_score: Tensor
    leaf_weight: Tensor
    entry_node: Tensor
    entry_column: Tensor
    entry_moves: Tensor
    accepts_equal: Tensor
    tests_hard: Tensor

    def __init__(
        self,
        machine: DecisionMachine,
        score_map: str,
        trainable: tuple[str, ...],
        gamma: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.origin, self.trainable, self.gamma, self.dtype = machine, trainable, gamma, dtype
        self.score_map = score_map
        frame, tests = machine.frame, machine.tests
        self.blocks = ScoreBlocks(machine)
        self.functions = LeafFunctions(
            machine.leaves, machine.output.n_outputs, moves="v" in trainable, dtype=dtype
        )
        n_columns = frame.n_features
        if frame.feature_map is not None:
            n_columns = frame.feature_map.n_features
        self.units = MachineUnits(np.zeros(n_columns), np.ones(n_columns), np.ones(tests.n_nodes))
        weight = np.ones(machine.n_trees)
        if machine.output.tree_weight is not None:
            weight = machine.output.tree_weight.astype(np.float64)
        node = entry_nodes(tests)
        buffers = {
            "divisor": torch.tensor(divisor(frame), dtype=dtype),
            "base_score": torch.tensor(machine.output.base_score, dtype=dtype),
            "leaf_weight": torch.tensor(np.repeat(weight, np.diff(machine.leaf_ptr)), dtype=dtype),
            "entry_node": torch.tensor(node),
            "entry_column": torch.tensor(tests.column.astype(np.int64)),
            "entry_moves": torch.tensor(may_move(tests)[node]),
            "accepts_equal": torch.tensor(tests.relation == 1),
            "tests_hard": torch.tensor(tests_hard(tests)),
        }
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)
        for name, start in self.start().items():
            self.register_parameter(name, nn.Parameter(start, name in trainable))
        self._tests: tuple[torch.device, DeviceTests] | None = None

    @classmethod
    def from_forest(cls, forest: Forest, encoding: str = "ternary", **options: Any) -> SoftMachine:
        """Relax a forest whose B may move; options are those of `from_machine`.

        Raises
        ------
        UnsupportedModelError
            If the encoding is not the ternary one: its maximum alone is unique.
        """
        return cls.from_machine(from_forest(forest, encoding), **options)

    @classmethod
    def from_machine(
        cls,
        machine: DecisionMachine,
        score_map: str = "softmax",
        *,
        trainable: Iterable[str] = ("b", "v", "B", "c"),
        gamma: float = 1.0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> SoftMachine:
        """Relax a machine.

        Parameters
        ----------
        score_map : "softmax", "entmax" or "sparsemax"
        trainable : names among "S", "b", "v", "B", "c"
            What may move; all else comes back from `machine` bit for bit.
        gamma : float
            Steepness, above 0.
        dtype : torch.float32 or torch.float64
            In which the module computes.
        device : torch.device or str, optional
            The CPU if not given.

        Raises
        ------
        InputError
            If a name is unknown or a number is out of place.
        UnsupportedModelError
            If leaves of a tree tie where all of its tests are false, or the machine has no trees or
            trees that are neither summed nor averaged.
        """
        if not isinstance(machine, DecisionMachine):
            raise TypeError(
                f"a DecisionMachine must be given, got {type(machine).__module__}."
                f"{type(machine).__qualname__}: relax a forest with SoftMachine.from_forest."
            )
        leaf_maps.score_map(score_map)
        names = options.names(trainable, TRAINABLE)
        gamma, place = options.positive("gamma", gamma), devices.find(device)
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"`dtype` must be torch.float32 or torch.float64, got {dtype!r}.")
        _refuse(machine)
        return cls(machine, score_map, names, gamma, dtype).to(place)

    def start(self) -> dict[str, Tensor]:
        """Return where S, b, B and c start, on the CPU."""
        tests = self.origin.tests
        return {
            "S": torch.zeros(tests.column.size, dtype=self.dtype),
            "b": torch.zeros(tests.n_nodes, dtype=self.dtype),
            "B": torch.tensor(self.origin.B, dtype=self.dtype),
            "c": torch.tensor(self.origin.c, dtype=self.dtype),
        }

    @property
    def device(self) -> torch.device:
        """Return the device of the parameters."""
        return self.B.device

    @torch.no_grad()
    def calibrate(self, X: Any) -> SoftMachine:
        """Measure the units of margins and columns on rows, and start all parameters anew.

        To be called before training: what the parameters learned is given up.
        """
        rows, Z = self._rows(X)
        if len(Z) == 0:
            raise InputError("`X` must have at least one row to calibrate on, got none.")
        z, _, undefined = self._decided(Z)
        margin = z.to(torch.float64) - torch.tensor(self.origin.tests.b, device=z.device)[:, None]
        margins = torch.where(undefined, torch.nan, margin).cpu().numpy()
        self.units = MachineUnits(*deviation(Z), deviation(margins, axis=1)[1])
        self.functions.calibrate(rows)
        with torch.no_grad():
            for name, value in self.start().items():
                getattr(self, name).copy_(value)
        return self

    def prepare(self, X: Any) -> MachineRows:
        """Compute margins once, for many calls on parts of the rows: n_nodes numbers for each."""
        rows, Z = self._rows(X)
        z, right, undefined = self._decided(Z)
        b = torch.tensor(self.origin.tests.b, device=z.device)[:, None]
        scale = torch.tensor(self.units.margin, device=z.device)[:, None]
        margin = ((z.to(torch.float64) - b) / scale).to(self.dtype)
        hard = undefined | self.tests_hard[:, None] | ~margin.isfinite()
        columns = np.zeros((0, len(Z)))
        if "S" in self.trainable:
            with np.errstate(invalid="ignore", over="ignore"):
                scaled = (Z.astype(np.float64) - self.units.center) / self.units.spread
            columns = np.nan_to_num(scaled, nan=0.0, posinf=0.0, neginf=0.0).T
        return MachineRows(
            torch.where(hard, 0.0, margin),
            hard,
            right,
            torch.tensor(columns, dtype=self.dtype, device=self.device),
            self.functions.prepare(rows),
        )

    def forward(self, X: Any) -> Tensor:
        """Return soft raw scores, (batch, n_outputs)."""
        rows = self._ready(X)
        return self._combine(self._memberships(rows), rows)

    def memberships(self, X: Any) -> Tensor:
        """Return u, (batch, n_leaves): each tree's sum is 1."""
        return self._memberships(self._ready(X)).T

    @torch.no_grad()
    def exit_leaves(self, X: Any) -> Tensor:
        """Return the hard exits in this module's arithmetic, as forest leaves (n_trees, batch)."""
        rows = self._ready(X)
        margin = self._margins(rows)
        turned = torch.where(self.accepts_equal[:, None], margin >= 0, margin > 0)
        touched = self.b != 0
        touched[self.entry_node[self.S != 0]] = True
        h = torch.where(rows.hard | ~touched[:, None], rows.right, turned)
        scores = self.blocks.scores(self.B, h.to(self.dtype), self.c)
        return self.blocks.first_maximum(scores)

    def hard(self, X: Any) -> Tensor:
        """Return raw scores, (batch, n_outputs), hard exits, in this module's arithmetic."""
        rows = self._ready(X)
        leaf = self.exit_leaves(rows)
        u = torch.zeros((self.origin.n_leaves, len(rows)), dtype=self.dtype, device=self.device)
        return self._combine(u.scatter_(0, leaf, 1.0), rows)

    def machine(self) -> DecisionMachine:
        """Return the hard machine: what has moved, rounded to the machine's dtypes and grid.

        What may not move, and a number that has not moved, comes back bit for bit, but for one of B
        or c whose tree has moved to a coarser grid. Where nothing has moved, it is the machine that
        the module was made of.

        Raises
        ------
        InvalidForestError
            If a number that has moved is not finite.
        """
        origin, start = self.origin, self.start()
        now = {name: getattr(self, name).detach().cpu() for name in start}
        moved = {name: (now[name] != old).numpy() for name, old in start.items()}
        leaves = to_leaves(self.functions)
        if leaves is origin.leaves and not any(part.any() for part in moved.values()):
            return origin
        for name, part in now.items():
            if not bool(part.isfinite().all()):
                raise InvalidForestError(
                    f"what has moved in `{name}` must be finite to be hardened, got NaN or "
                    "infinity: lower the learning rate."
                )
        with np.errstate(over="ignore"):  # refused by the grid
            B = np.where(moved["B"], now["B"].numpy().astype(origin.B.dtype), origin.B)
            c = np.where(moved["c"], now["c"].numpy().astype(origin.c.dtype), origin.c)
        B, c = on_grid(B, c, origin.leaf_ptr)
        S, b = (now[name].numpy().astype(np.float64) for name in ("S", "b"))
        tests = moved_tests(origin.tests, self.units, S, b)
        source = retrained_source(origin.frame.source)
        return replace(origin, tests=tests, B=B, c=c, leaves=leaves, source=source)

    def _rows(self, X: Any) -> tuple[Array, Array]:
        """Return X and what S reads, in the dtype of comparison."""
        rows = host_rows(X, self.origin.inputs, self.origin.tests.dtype)
        return rows, reference.columns(self.origin.frame, rows)

    def _decided(self, Z: Array) -> tuple[Tensor, Tensor, Tensor]:
        if self._tests is None or self._tests[0] != self.device:
            sentinel = self.origin.inputs.missing_sentinel
            self._tests = (self.device, to_device(self.origin.tests, sentinel, self.device))
        Zt = torch.tensor(np.ascontiguousarray(Z.T), device=self.device)
        return decide(self._tests[1], Zt, torch.arange(self.origin.n_nodes, device=self.device))

    def _ready(self, X: Any) -> MachineRows:
        return X if isinstance(X, MachineRows) else self.prepare(X)

    def _margins(self, rows: MachineRows) -> Tensor:
        margin = rows.margin - self.b[:, None]
        if "S" in self.trainable:
            shift = torch.where(self.entry_moves, self.S, 0.0)
            terms = shift[:, None] * rows.columns[self.entry_column]
            margin = margin.index_add(0, self.entry_node, terms)
        return margin

    def _memberships(self, rows: MachineRows) -> Tensor:
        gate = torch.sigmoid(self.gamma * self._margins(rows))
        gate = torch.where(rows.hard, rows.right.to(self.dtype), gate)
        scores = self.blocks.scores(self.B, gate, self.c)
        score_map = leaf_maps.score_map(self.score_map)
        return self.blocks.memberships([self.gamma * score for score in scores], score_map)

    def _combine(self, u: Tensor, rows: MachineRows) -> Tensor:
        total = self.functions.combine(u * self.leaf_weight[:, None], rows.leaves)
        return total / self.divisor + self.base_score


def _refuse(machine: DecisionMachine) -> None:
    aggregate = machine.output.aggregate
    if machine.n_trees == 0:
        raise UnsupportedModelError("a machine that is relaxed must have a tree, got none.")
    if aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        raise UnsupportedModelError(
            f"a machine that is relaxed must sum or average its trees, got aggregate {aggregate}."
        )
    for tree in range(machine.n_trees):
        _, c = machine.block(tree)
        if np.sum(c == c.min()) > 1:
            raise UnsupportedModelError(
                "the leaves of a tree that is relaxed must have one of least c, got several in "
                f"tree {tree}: where all of its tests are false they tie, and no map of scores "
                'tends to the first of them. Encode the forest as "ternary", whose maximum is '
                "unique, or move c."
            )
