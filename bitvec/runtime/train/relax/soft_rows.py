"""Rows made ready for a soft forest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import ZERO_THRESHOLD, MissingRule
from bitvec.errors import InputError
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.cpu import layer_kernels
from bitvec.runtime.train.relax import feature_margins
from bitvec.runtime.train.relax.feature_margins import ColumnUnits
from bitvec.runtime.train.relax.leaf_functions import LeafFunctions, LeafRows
from bitvec.runtime.train.relax.scaling import Scaling
from bitvec.runtime.train.relax.tracing import is_traced

LARGEST_PLAIN = 1e30
"""Rows without a value beyond this, and without a missing one, are plain."""


@dataclass(frozen=True, slots=True, eq=False)
class StandardColumns:
    """Standardised columns, (n_columns, batch), and where they are missing, if anywhere."""

    rule: MissingRule
    value: Tensor
    missing: Tensor | None

    def take(self, rows: Tensor | slice) -> StandardColumns:
        """Return some rows of the batch."""
        missing = None if self.missing is None else self.missing[:, rows]
        return StandardColumns(self.rule, self.value[:, rows], missing)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows made ready: raw columns, (n_columns, batch), and standardised ones, by missing rule.

    `plain` says that no value is missing by any rule, or too large to subtract. `leaves` are the
    columns that linear leaves read. `x`, F (batch, n_features), are rows of X of which φ, which
    moves, is to make columns in each pass; `raw` has none then.
    """

    raw: Tensor
    standard: list[StandardColumns]
    plain: bool = False
    leaves: LeafRows | None = None
    x: Tensor | None = None

    def __len__(self) -> int:
        return self.raw.shape[1]

    def take(self, rows: Tensor | slice) -> Rows:
        """Return some rows."""
        leaves, x = self.leaves, self.x
        if leaves is not None:
            leaves = leaves.take(cast(Tensor, rows))  # a slice selects as positions do
        if x is not None:
            x = x[rows]
        standard = [part.take(rows) for part in self.standard]
        return Rows(self.raw[:, rows], standard, self.plain, leaves, x)

    def pieces(self, size: int) -> list[Rows]:
        """Return all rows, at most `size` of them in each."""
        if len(self) <= size:
            return [self]
        return [self.take(slice(start, start + size)) for start in range(0, len(self), size)]


def host_rows(X: Any, inputs: Inputs, dtype: np.dtype) -> Array:
    """Return rows of any kind as an array in a dtype.

    Raises
    ------
    InputError
        If they do not fit, or are a tensor without values or whose gradient would be lost.
    """
    if isinstance(X, Tensor):
        if X.is_meta:
            raise InputError(
                "`X` must hold values, got a tensor on the device meta, which has none: pass rows "
                "of a device that computes."
            )
        if X.requires_grad and torch.is_grad_enabled():
            raise InputError(
                "`X` must not require a gradient here, got a tensor that does and whose gradient "
                "would be lost: pass X.detach(), or call under torch.no_grad()."
            )
        X = X.detach().cpu()
        X = (X.float() if X.dtype == torch.bfloat16 else X).numpy()  # which NumPy has not
    return tables.rows(X, inputs, dtype)


def prepare(
    forest: Forest,
    X: Array,
    units: Scaling,
    rules: list[MissingRule],
    *,
    dtype: torch.dtype,
    device: torch.device,
    functions: LeafFunctions | None,
    learned: bool,
) -> Rows:
    """Standardise rows.

    Parameters
    ----------
    X : F, (batch, n_features)
    units : Scaling
    rules : list of MissingRule
        Those of nodes that read standardised columns; without any, none are made.
    functions : LeafFunctions, optional
        Where leaves are linear.
    learned : bool
        Whether φ moves, so that its columns are not made here.
    """
    leaves = None if functions is None else functions.prepare(X)
    if learned:
        x = torch.tensor(X, device=device)
        return Rows(x.T[:0], [], leaves=leaves, x=x)
    Z = layer_kernels.columns(forest, X)
    raw = torch.tensor(np.ascontiguousarray(Z.T), device=device)
    value = None
    if rules:
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (Z.astype(np.float64) - units.center) / units.spread
        scaled = np.clip(np.nan_to_num(scaled, nan=0.0), -units.limit, units.limit)
        value = torch.tensor(scaled.T, dtype=dtype, device=device)
    return assembled(raw, value, reading(forest), rules, leaves)


def differentiable(
    how: Reading,
    X: Tensor,
    units: ColumnUnits,
    rules: list[MissingRule],
    *,
    limit: float,
    dtype: torch.dtype,
    functions: LeafFunctions | None,
    columns: Callable[[Tensor], Tensor] | None,
    learned: bool,
) -> Rows:
    """Standardise rows of a tensor by operations of torch alone: as `prepare`, with a gradient.

    Parameters
    ----------
    limit : float
        Of standardised values.
    columns : callable, optional
        φ where it stays.

    Raises
    ------
    InputError
        If the tensor does not fit the forest or its device.
    """
    n, device = how.n_features, units.center.device
    if X.ndim != 2 or X.shape[1] != n or X.device != device:
        raise InputError(
            f"`X` must be a tensor of shape (batch, {n}) on {device}, got shape {tuple(X.shape)} "
            f"on {X.device}: pass the training columns, and move either with `.to`."
        )
    x = X.to(how.dtype).contiguous()  # else a tracer compares the batch with strides
    leaves = None if functions is None else functions.standardise(x)
    if learned:
        return Rows(x.T[:0], [], leaves=leaves, x=x)
    raw = (x if columns is None else columns(x)).T
    value = feature_margins.standardise(raw, units, limit, dtype) if rules else None
    return assembled(raw, value, how, rules, leaves)


def assembled(
    raw: Tensor,
    value: Tensor | None,
    how: Reading,
    rules: list[MissingRule],
    leaves: LeafRows | None,
) -> Rows:
    """Return rows of raw columns and, if any rule reads them, standardised ones."""
    missing, known = how.missing(raw.detach()), not is_traced()
    plain = known and not any(bool(part.any()) for part in missing.values())
    plain = plain and bool((raw.detach().abs() <= LARGEST_PLAIN).all())
    standard = []
    if value is not None:
        for rule in rules:
            absent = missing[rule]
            if known and not bool(absent.any()):
                standard.append(StandardColumns(rule, value, None))
            else:
                standard.append(StandardColumns(rule, value.masked_fill(absent, 0.0), absent))
    return Rows(raw, standard, plain, leaves)


@dataclass(frozen=True, slots=True)
class Reading:
    """Width, dtype and missing rules by which a forest reads rows, without arrays, for tracers.

    Parameters
    ----------
    n_features : int
    dtype : torch.dtype
        In which the forest compares.
    rules : list of MissingRule
        Those that nodes use.
    zero, sentinel : float
        What the rules compare with, in the forest's dtype.
    """

    n_features: int
    dtype: torch.dtype
    rules: list[MissingRule]
    zero: float
    sentinel: float | None

    def missing(self, raw: Tensor) -> dict[MissingRule, Tensor]:
        """Return which values are missing, by rule."""
        return {rule: self._missing(raw, rule) for rule in self.rules}

    def _missing(self, raw: Tensor, rule: MissingRule) -> Tensor:
        missing = raw.isnan()
        if rule == MissingRule.NAN_OR_ZERO:
            return missing | (raw.abs() <= self.zero)
        if rule == MissingRule.NAN_OR_SENTINEL and self.sentinel is not None:
            return missing | (raw == self.sentinel)
        return missing


def reading(forest: Forest) -> Reading:
    """Return how a forest reads rows."""
    rules, own = np.unique(forest.tests.missing_rule), forest.tests.dtype.type
    sentinel = forest.inputs.missing_sentinel
    return Reading(
        forest.n_features,
        torch.tensor(forest.tests.b[:0]).dtype,
        [MissingRule(int(rule)) for rule in rules],
        float(own(ZERO_THRESHOLD)),
        None if sentinel is None else float(own(sentinel)),
    )
