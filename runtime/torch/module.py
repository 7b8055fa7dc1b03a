"""A forest as a torch module: the four arrays as parameters, its leaves softly reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bitvec import reference
from bitvec.arrays import Array
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.forest import Forest, require_forest
from bitvec.node_tests import Kind
from bitvec.output import Aggregate
from bitvec.runtime import tables
from bitvec.runtime.torch import devices, options, relaxations, scaling
from bitvec.runtime.torch.dense_rows import (
    DenseRows,
    StandardColumns,
    is_plain,
    may_turn_dense,
)
from bitvec.runtime.torch.leaf_refit import divisor
from bitvec.runtime.torch.outcomes import DeviceTests, decide, is_missing, to_device
from bitvec.runtime.torch.paths import PathLayout

MOVABLE = ("S", "b", "v", "r", "base_score")
SMALLEST_LOGIT = 1e-6
"""What a probability of 0 counts as when leaves become logits."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows made ready for a soft forest: raw columns, (n_columns, batch), and standardised ones."""

    raw: Tensor
    standard: list[StandardColumns]

    def __len__(self) -> int:
        return self.raw.shape[1]

    def take(self, rows: Tensor) -> Rows:
        """Return some rows."""
        return Rows(self.raw[:, rows], [part.take(rows) for part in self.standard])


class SoftForest(nn.Module):
    """A relaxed forest: raw = base score + sum over leaves of u(x) · v, differentiable.

    Made by `from_forest`. Parameters that may move require a gradient:

    * `rows.S`, `rows.offset`, `rows.r`: the rows of S that are dense because S or r may move, in
      units of standardised columns and of each node's margin scale;
    * `b`, (n_nodes,), in units of each node's margin scale: a threshold where the node's rows are
      dense, elsewhere the distance by which the threshold has moved, so 0 is untouched;
    * `v`: leaf vectors, or their logits;
    * `base_score`.

    Missing values, set tests and equality tests pass hard, without gradient; an infinite margin
    does too. Gradients are with respect to parameters, not to X.

    Attributes
    ----------
    gamma : float
        Steepness, in units of each node's margin standard deviation (after `calibrate`).
    """

    def __init__(
        self,
        forest: Forest,
        relaxation: str,
        movable: tuple[str, ...],
        gamma: float,
        dtype: torch.dtype,
        leaves: Literal["values", "logits"],
    ) -> None:
        super().__init__()
        self.forest, self.movable, self.gamma, self.dtype = forest, movable, gamma, dtype
        self.relaxation, self.leaves = relaxation, leaves
        self.layout = PathLayout(forest.bitvectors)
        order = self.layout.order.numpy()
        self._level_tests = forest.tests.take(order)
        n_columns = forest.n_features
        if forest.feature_map is not None:
            n_columns = forest.feature_map.n_features
        self._tests: tuple[torch.device, DeviceTests] | None = None
        self._set_scaling(scaling.unit(n_columns, forest.n_nodes))
        v, base_score = self.start()
        self.v = nn.Parameter(v, requires_grad="v" in movable)
        self.base_score = nn.Parameter(base_score, requires_grad="base_score" in movable)
        weight = np.ones(forest.n_trees)
        if forest.output.tree_weight is not None:
            weight = forest.output.tree_weight.astype(np.float64)
        tables = {
            "leaf_weight": torch.tensor(
                np.repeat(weight, np.diff(forest.bitvectors.leaf_ptr)), dtype=dtype
            ),
            "divisor": torch.tensor(divisor(forest), dtype=dtype),
            "leaf_output": None
            if forest.leaves.output is None
            else torch.tensor(forest.leaves.output.astype(np.int64)),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    leaf_weight: Tensor
    divisor: Tensor
    leaf_output: Tensor | None
    margin_scale: Tensor
    fixed_at: Tensor
    place_of: Tensor

    @classmethod
    def from_forest(
        cls,
        forest: Forest,
        relaxation: str = "sigmoid",
        *,
        movable: Iterable[str] = ("S", "b", "v"),
        gamma: float = 1.0,
        dtype: torch.dtype = torch.float32,
        leaves: Literal["values", "logits"] = "values",
        device: torch.device | str | None = None,
    ) -> SoftForest:
        """Relax a forest.

        Parameters
        ----------
        relaxation : str
            A name in `relaxations.RELAXATIONS`.
        movable : names among "S", "b", "v", "r", "base_score"
            What may move. While S may not, axis-aligned tests stay axis-aligned; once it may, the
            rows of margin tests are dense (rows with substitutes or category indicators stay as
            they are). The offsets of a polytope's rows belong to S.
        gamma : float
            Steepness, above 0.
        dtype : torch.float32 or torch.float64
            In which the module computes.
        leaves : "values" or "logits"
            What the parameter `v` holds; with logits, leaf vectors are their softmax.
        device : torch.device or str, optional
            The CPU if not given.

        Raises
        ------
        InputError
            If a name is unknown, a number is out of place, torch cannot use the device, or a leaf
            vector or base score that may move is finite and too large for `dtype`.
        UnsupportedModelError
            If the forest has linear leaves, a prediction kernel, no trees, or trees that are
            neither summed nor averaged.
        """
        require_forest(forest)
        relaxations.find(relaxation)
        names = options.names(movable, MOVABLE)
        gamma, place = options.positive("gamma", gamma), devices.find(device)
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"`dtype` must be torch.float32 or torch.float64, got {dtype!r}.")
        if leaves not in ("values", "logits"):
            raise InputError(f'`leaves` must be "values" or "logits", got {leaves!r}.')
        _refuse(forest)
        module = cls(forest, relaxation, names, gamma, dtype, leaves)
        module.require_range()
        return module.to(place)

    def start(self) -> tuple[Tensor, Tensor]:
        """Return where `v` and `base_score` start, on the CPU."""
        v = self.forest.leaves.v.astype(np.float64)
        if self.leaves == "logits":
            v = np.log(np.maximum(v, SMALLEST_LOGIT))
        base_score = torch.tensor(self.forest.output.base_score, dtype=self.dtype)
        return torch.tensor(v, dtype=self.dtype), base_score

    def require_range(self) -> None:
        """Raise InputError if a leaf or base score that may move has overflowed in `dtype`."""
        given = {"v": self.forest.leaves.v, "base_score": self.forest.output.base_score}
        for name, values in given.items():
            assert values is not None
            held = getattr(self, name).detach().cpu().numpy()
            if name in self.movable and np.any(np.isfinite(values) & ~np.isfinite(held)):
                largest = float(np.abs(values[np.isfinite(values)]).max())
                raise InputError(
                    f"`{name}` must fit {self.dtype} while it may move, got values up to "
                    f"{largest:.3g}: scale the targets, leave {name!r} out of `movable`, or relax "
                    "with SoftForest.from_forest(..., dtype=torch.float64)."
                )

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.v.device

    def calibrate(self, X: Any) -> SoftForest:
        """Measure the units of columns and margins on rows, and start S, r and b from the forest.

        To be called before training: what these parameters learned is given up.
        """
        Z = self._columns(X)
        if len(Z) == 0:
            raise InputError("`X` must have at least one row to calibrate on, got none.")
        self._set_scaling(
            scaling.measure(self.forest, self._device_tests(), self.layout, Z), self.device
        )
        return self

    def prepare(self, X: Any) -> Rows:
        """Standardise rows once, for many calls of `raw` on parts of them."""
        Z = self._columns(X)
        raw = torch.tensor(np.ascontiguousarray(Z.T), device=self.device)
        standard = []
        if self.rows is not None:
            units, tests = self.scaling, self._device_tests()
            with np.errstate(invalid="ignore", over="ignore"):
                scaled = (Z.astype(np.float64) - units.center) / units.spread
            scaled = np.clip(np.nan_to_num(scaled, nan=0.0), -units.limit, units.limit)
            value = torch.tensor(scaled.T, dtype=self.dtype, device=self.device)
            for rule in self.rows.rules:
                missing = is_missing(tests, raw, torch.tensor(int(rule), device=self.device))
                if bool(missing.any()):
                    standard.append(StandardColumns(rule, value.masked_fill(missing, 0.0), missing))
                else:
                    standard.append(StandardColumns(rule, value, None))
        return Rows(raw, standard)

    def forward(self, X: Any) -> Tensor:
        """Return soft raw scores, (batch, n_outputs)."""
        return self.combine(self._memberships(self._ready(X)))

    def memberships(self, X: Any) -> Tensor:
        """Return u, (batch, n_leaves): each tree's sum is 1."""
        return self._memberships(self._ready(X)).T

    def log_memberships(self, X: Any) -> Tensor:
        """Return log u, (n_leaves, batch), not by way of u where the relaxation allows it."""
        rows = self._ready(X)
        kind = relaxations.find(self.relaxation)
        u = self._relaxed(kind, rows)
        return u if kind.is_log else torch.log(u.clamp_min(1e-6))

    @torch.no_grad()
    def exit_leaves(self, X: Any) -> Tensor:
        """Return the hard exits in this module's arithmetic, as forest leaves (n_trees, batch)."""
        margin, hard, right = self._margins(self._ready(X))
        at_zero = self.layout.by_level(self.accepts_equal)[:, None]
        turned = torch.where(at_zero, margin >= 0, margin > 0)
        untouched = self.layout.by_level(self.is_fixed & (self.b == 0))[:, None]
        given = untouched if hard is None else hard | untouched
        return self.layout.exit_leaves(torch.where(given, right, turned))

    def hard(self, X: Any) -> Tensor:
        """Return raw scores, (batch, n_outputs), hard routing, in this module's arithmetic."""
        leaf = self.exit_leaves(X)
        u = torch.zeros((self.layout.n_leaves, leaf.shape[1]), dtype=self.dtype, device=self.device)
        return self.combine(u.scatter_(0, leaf, 1.0))

    def leaf_vectors(self) -> Tensor:
        """Return v, (n_leaves, width): the parameter, or the softmax of logits."""
        return torch.softmax(self.v, dim=1) if self.leaves == "logits" else self.v

    def combine(self, u: Tensor) -> Tensor:
        """Return raw scores, (batch, n_outputs), from memberships (n_leaves, batch)."""
        vectors = self.leaf_vectors() * self.leaf_weight[:, None]
        if self.leaf_output is None:
            return u.T @ vectors / self.divisor + self.base_score
        raw = u.new_zeros((self.forest.n_outputs, u.shape[1]))
        raw = raw.index_add(0, self.leaf_output, u * vectors).T
        return raw / self.divisor + self.base_score

    def _columns(self, X: Any) -> Array:
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        return reference.columns(self.forest, tables.rows(X, self.forest.inputs, self.forest.dtype))

    def _ready(self, X: Any) -> Rows:
        return X if isinstance(X, Rows) else self.prepare(X)

    def _memberships(self, rows: Rows) -> Tensor:
        kind = relaxations.find(self.relaxation)
        u = self._relaxed(kind, rows)
        return u.exp() if kind.is_log else u

    def _relaxed(self, kind: relaxations.Relaxation, rows: Rows) -> Tensor:
        margin, hard, right = self._margins(rows)
        return relaxations.memberships(kind, self.layout, margin, hard, right, self.gamma)

    def _device_tests(self) -> DeviceTests:
        if self._tests is None or self._tests[0] != self.device:
            sentinel = self.forest.inputs.missing_sentinel
            self._tests = (self.device, to_device(self._level_tests, sentinel, self.device))
        return self._tests[1]

    def _set_scaling(self, units: scaling.Scaling, device: torch.device | None = None) -> None:
        tests, order = self.forest.tests, self.layout.order.cpu().numpy()
        self.scaling = units
        dense = np.zeros(tests.n_nodes, bool)
        if "S" in self.movable:
            dense |= may_turn_dense(tests, units)
        if "r" in self.movable:
            dense |= may_turn_dense(tests, units) & ~is_plain(tests)
        b = np.zeros(tests.n_nodes)
        self.rows: DenseRows | None = None
        if dense.any():
            self.rows = DenseRows(
                tests,
                np.flatnonzero(dense),
                units,
                moves_S="S" in self.movable,
                moves_r="r" in self.movable,
                moves_b="b" in self.movable,
                dtype=self.dtype,
            )
            b[dense] = self.rows.start_b
        self.b = nn.Parameter(torch.tensor(b, dtype=self.dtype), requires_grad="b" in self.movable)
        # Places in level order: which nodes are dense, and where each node's z stands when those
        # of the dense ones follow those of the fixed ones.
        fixed_at = np.flatnonzero(~dense[order])
        number = np.cumsum(dense) - 1
        stands = np.where(dense[order], len(fixed_at) + number[order], 0)
        stands[fixed_at] = np.arange(len(fixed_at))
        tables = {
            "margin_scale": torch.tensor(units.margin[order]),
            "fixed_at": torch.tensor(fixed_at),
            "place_of": torch.tensor(stands),
            "is_fixed": torch.tensor(~dense),
            "accepts_equal": torch.tensor(tests.relation == 1),
            "tests_hard": torch.tensor(
                ((tests.kind == Kind.SET) | (tests.kind == Kind.EQUAL))[order]
            ),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)
        if device is not None:
            self.to(device)

    is_fixed: Tensor
    accepts_equal: Tensor
    tests_hard: Tensor

    def _margins(self, rows: Rows) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return margins, where they pass hard (None: nowhere), and h there.

        All are (n_nodes, batch) in level order.
        """
        if self.rows is None:
            z, hard, right = self._fixed_margins(rows.raw)
            return z - self.layout.by_level(self.b)[:, None], hard, right
        z, missing = self.rows(rows.standard)
        right = self.rows.missing_right[:, None].expand(z.shape)
        if len(self.fixed_at):
            if missing is None:
                missing = torch.zeros(z.shape, dtype=torch.bool, device=z.device)
            fixed = self._fixed_margins(rows.raw)
            both = zip(fixed, (z, missing, right), strict=True)
            z, missing, right = (torch.cat(pair)[self.place_of] for pair in both)
        elif not self.layout.in_order:
            z, right = z[self.place_of], right[self.place_of]
            missing = None if missing is None else missing[self.place_of]
        return z - self.layout.by_level(self.b)[:, None], missing, right

    def _fixed_margins(self, Zt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        tests, at = self._device_tests(), self.fixed_at
        z, right, undefined = decide(tests, Zt, at)
        margin = ((z - tests.b[at][:, None]) / self.margin_scale[at][:, None]).to(self.dtype)
        hard = undefined | self.tests_hard[at][:, None] | ~margin.isfinite()
        return torch.where(hard, 0.0, margin), hard, right


def _refuse(forest: Forest) -> None:
    aggregate = forest.output.aggregate
    reason = None
    if forest.leaves.linear is not None:
        reason = "have constant leaves, got linear ones"
    elif forest.kernel is not None:
        reason = (
            "have no prediction kernel, whose answers are soft already: pass "
            "dataclasses.replace(forest, kernel=None) to relax its crisp trees"
        )
    elif aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        reason = f"sum or average its trees, got aggregate {aggregate}"
    elif forest.n_trees == 0:
        reason = "have at least one tree, got none"
    if reason is not None:
        raise UnsupportedModelError(f"a forest that is relaxed must {reason}.")
