"""Leaves as functions of x, F_l(x), and their sum under soft memberships (Eq. 10, Zhang 2021).

A leaf with linear terms is `constant + sum of weight · x[column]`, and its constant vector v where
one of its columns is missing; a leaf without terms is its v. Numbers that move are held in units of
each column's spread once `calibrate` has measured it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array
from bitvec.core.leaves import Leaves
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError
from bitvec.runtime.train.relax.dtypes import OfDtype
from bitvec.runtime.train.relax.feature_margins import ColumnUnits
from bitvec.runtime.train.relax.leaf_sums import sum_of_leaves
from bitvec.runtime.train.relax.moments import deviation
from bitvec.runtime.train.relax.tracing import is_traced, sums


@dataclass(frozen=True, slots=True, eq=False)
class LeafRows:
    """The columns that leaves read, (n_used, batch): standardised, 0 where missing.

    `missing` is None where nothing is; `finite` says whether every value is.
    """

    value: Tensor
    missing: Tensor | None
    finite: bool

    def __len__(self) -> int:
        return self.value.shape[1]

    def take(self, rows: Tensor) -> LeafRows:
        """Return some rows of the batch."""
        missing = None if self.missing is None else self.missing[:, rows]
        return LeafRows(self.value[:, rows], missing, self.finite)


class LeafFunctions(OfDtype):
    """F_l(x) of all leaves of a forest, differentiable in its numbers.

    Cost of `combine` is one multiplication per row and linear term, beside those of constant
    leaves: no matrix of leaves and features is ever made.

    Parameters
    ----------
    leaves : Leaves
        With or without linear terms, and with or without named outputs.
    n_outputs : int
        Outputs of the raw score.
    moves : bool
        Whether the parameters `v`, `constant` and `weight` require a gradient.
    dtype : torch.dtype
        In which the module computes.

    Attributes
    ----------
    v, constant : Parameter, (n_leaves, width)
    weight : Parameter, (n_terms, width)

    Raises
    ------
    UnsupportedModelError
        If a weight of a linear term is not finite.
    InputError
        If a finite number that may move overflows in `dtype`.
    """

    v: nn.Parameter
    constant: nn.Parameter
    weight: nn.Parameter
    column: Tensor
    term_leaf: Tensor
    term_column: Tensor
    has_terms: Tensor
    output: Tensor | None
    infinite: Tensor | None

    def __init__(
        self, leaves: Leaves, n_outputs: int, *, moves: bool, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(dtype)
        self.leaves, self.n_outputs, self.moves = leaves, n_outputs, moves
        linear = leaves.linear
        self._read_dtype = torch.tensor(leaves.v[:0]).dtype
        threshold = 0.0 if linear is None else linear.zero_threshold
        self._zero = float(leaves.v.dtype.type(threshold))
        count = np.zeros(leaves.n_leaves, np.int64)
        column = np.zeros(0, np.int64)
        if linear is not None:
            count, column = np.diff(linear.leaf_ptr), linear.column.astype(np.int64)
            if not np.all(np.isfinite(linear.weight)):
                raise UnsupportedModelError(
                    "linear leaves that are relaxed must have finite weights, got others: drop "
                    "them."
                )
        self.columns, term_column = np.unique(column, return_inverse=True)
        self.center, self.spread = np.zeros(self.columns.size), np.ones(self.columns.size)
        tables = {
            "column": self.columns.astype(np.int64),
            "term_leaf": np.repeat(np.arange(leaves.n_leaves), count),
            "term_column": term_column.astype(np.int64),
            "has_terms": count > 0,
            "output": None if leaves.output is None else leaves.output.astype(np.int64),
        }
        for name, table in tables.items():
            tensor = None if table is None else torch.tensor(table)
            self.register_buffer(name, tensor, persistent=False)
        self._begin(torch.device("cpu"))

    def _begin(self, device: torch.device) -> None:
        for name, values in self.start().items():
            self.register_parameter(name, nn.Parameter(values.to(device), self.moves))
        self.units = ColumnUnits(self.center, self.spread).to(device)
        self._find_infinite()

    def _find_infinite(self) -> None:
        infinite = ~(self.v.isfinite() & self.constant.isfinite()).all(dim=1)
        at = torch.nonzero(infinite)[:, 0] if bool(infinite.any()) else None
        self.register_buffer("infinite", at, persistent=False)

    def starts(self) -> dict[str, Tensor]:
        """Return the exact numbers that the parameters started from."""
        return {name: torch.tensor(values) for name, values in self._exact().items()}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before = self.dtype
        super()._apply(fn, recurse)
        if self.dtype != before:
            self._find_infinite()
        return self

    def start(self) -> dict[str, Tensor]:
        """Return where the parameters start, on the CPU.

        Raises
        ------
        InputError
            If a finite number that may move overflows in the module's dtype.
        """
        found = {}
        for name, values in self._exact().items():
            found[name] = torch.tensor(values, dtype=self.dtype)
            if self.moves and np.any(np.isfinite(values) & ~np.isfinite(found[name].numpy())):
                raise InputError(
                    f"the numbers of leaves must fit {self.dtype} while they may move, got `{name}`"
                    f" up to {np.abs(values[np.isfinite(values)]).max():.3g}: scale the targets, "
                    "or relax in torch.float64."
                )
        return found

    def _exact(self) -> dict[str, Array]:
        v, linear = self.leaves.v.astype(np.float64), self.leaves.linear
        width = v.shape[1]
        weight, constant = np.zeros((0, width)), np.zeros_like(v)
        if linear is not None:
            at = self.term_column.cpu().numpy()
            weight = linear.weight * self.spread[at, None]
            constant = linear.constant.astype(np.float64)
            np.add.at(constant, self.term_leaf.cpu().numpy(), linear.weight * self.center[at, None])
        return {"v": v, "constant": constant, "weight": weight}

    def calibrate(self, X: Array) -> LeafFunctions:
        """Measure the columns that leaves read, and start the parameters from the leaves.

        To be called before training: what the parameters learned is given up.

        Parameters
        ----------
        X : F, (batch, n_features)
            In the forest's dtype; what the leaves read, not φ(x).
        """
        x = self._read(X)
        self.center, self.spread = deviation(x)
        self._begin(self.v.device)
        return self

    def _read(self, X: Array) -> Array:
        """Return the columns that leaves read, (batch, n_used) in float64, small values as 0."""
        linear, dtype = self.leaves.linear, self.leaves.v.dtype
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.asarray(X)[:, self.columns].astype(dtype)
        if linear is not None and linear.zero_threshold:
            x[np.abs(x) <= dtype.type(linear.zero_threshold)] = 0
        return x.astype(np.float64)

    def prepare(self, X: Array) -> LeafRows:
        """Standardise the columns that leaves read.

        Parameters
        ----------
        X : F, (batch, n_features)
            In the forest's dtype.
        """
        x = self._read(X)
        largest = torch.finfo(self.dtype).max
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (x - self.center) / self.spread
        scaled = np.where(np.isfinite(x), np.clip(scaled, -largest, largest), scaled)
        device = self.v.device
        missing = torch.tensor(np.isnan(x).T, device=device) if np.isnan(x).any() else None
        value = torch.tensor(np.nan_to_num(scaled, nan=0.0, posinf=np.inf, neginf=-np.inf).T)
        return LeafRows(value.to(device, self.dtype), missing, not bool(np.isinf(x).any()))

    def standardise(self, x: Tensor) -> LeafRows:
        """Return what `prepare` does of a tensor, (batch, n_features), differentiable in it."""
        own = x.T.index_select(0, self.column)
        own = own.to(self._read_dtype)
        if self._zero:
            own = torch.where(own.detach().abs() <= self._zero, 0.0, own)
        value = self.units.scaled(own, torch.finfo(self.dtype).max).to(self.dtype)
        missing, known = own.isnan(), not is_traced()
        finite = known and not bool((own.abs() == torch.inf).any())
        return LeafRows(value, None if known and not bool(missing.any()) else missing, finite)

    def forward(self, rows: LeafRows) -> Tensor:
        """Return F_l(x), (n_leaves, batch, width): for reading, as large as it says."""
        shape = (self.leaves.n_leaves, len(rows), self.v.shape[1])
        terms = self.weight[:, None, :] * rows.value[self.term_column][:, :, None]
        value = self.constant[:, None, :].expand(shape)
        value = value.index_add(0, self.term_leaf, terms)
        return torch.where(self._linear(rows)[:, :, None], value, self.v[:, None, :])

    def combine(self, u: Tensor, rows: LeafRows) -> Tensor:
        """Return the sum over leaves of u · F_l(x), (batch, n_outputs).

        A leaf of membership 0 adds nothing, not even where it is infinite.

        Parameters
        ----------
        u : float, (n_leaves, batch)
            Memberships, times the weights of the trees if they have any.
        """
        if rows.missing is None:
            base = torch.where(self.has_terms[:, None], self.constant, self.v)
            total, reached = self._sum(u, base), u
        else:
            linear = self._linear(rows)
            reached = torch.where(linear, u, 0.0)
            total = self._sum(reached, self.constant)
            total = total + self._sum(torch.where(linear, 0.0, u), self.v)
        if not len(self.term_leaf):
            return total.T
        x, share = rows.value[self.term_column], reached[self.term_leaf]
        if not rows.finite:
            x = torch.where((share == 0) & (x.abs() == torch.inf), 0.0, x)
        terms = share * x
        if self.output is None:
            return (total + self.weight.T @ terms).T
        return (total + sums(self.weight * terms, self.output[self.term_leaf], self.n_outputs)).T

    def _sum(self, share: Tensor, vectors: Tensor) -> Tensor:
        return sum_of_leaves(share, vectors, self.output, self.n_outputs, self.infinite)

    def _linear(self, rows: LeafRows) -> Tensor:
        """Return which leaves are linear for which rows, (n_leaves, batch)."""
        has_terms = self.has_terms[:, None]
        if rows.missing is None:
            return has_terms.expand(-1, len(rows))
        absent = rows.missing[self.term_column].to(self.dtype)
        return has_terms & (sums(absent, self.term_leaf, self.leaves.n_leaves) == 0)


def to_leaves(functions: LeafFunctions) -> Leaves:
    """Return the leaves with the numbers that have moved, rounded to the leaves' dtype.

    A number that has not moved since the module was made or calibrated keeps its bits. The constant
    of a linear leaf moves with its weights where their columns have a center.

    Raises
    ------
    InvalidForestError
        If a number that has moved is not finite.
    """
    leaves, linear = functions.leaves, functions.leaves.linear
    start = functions.start()
    now = {name: getattr(functions, name).detach().cpu() for name in start}
    moved = {
        name: ((now[name] != old) & ~(now[name].isnan() & old.isnan())).numpy()
        for name, old in start.items()
    }
    if not any(part.any() for part in moved.values()):
        return leaves
    new = {name: tensor.numpy().astype(np.float64) for name, tensor in now.items()}
    v = _moved("v", leaves.v, new["v"], moved["v"])
    if linear is None:
        return replace(leaves, v=v)
    at, leaf = functions.term_column.cpu().numpy(), functions.term_leaf.cpu().numpy()
    slope = new["weight"] / functions.spread[at, None]
    weight = _moved("weight", linear.weight, slope, moved["weight"])
    center = functions.center[at, None]
    constant = new["constant"]
    np.add.at(constant, leaf, -np.where(moved["weight"], slope, linear.weight) * center)
    shifted = moved["constant"]
    np.logical_or.at(shifted, leaf, moved["weight"] & (center != 0))
    constant = _moved("constant", linear.constant, constant, shifted)
    return replace(leaves, v=v, linear=replace(linear, weight=weight, constant=constant))


def _moved(name: str, old: Array, new: Array, moved: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = new.astype(old.dtype)
    if not np.all(np.isfinite(rounded[moved])):
        raise InvalidForestError(
            f"what has moved in `{name}` of the leaves must be finite in {old.dtype} to be "
            "hardened, got NaN or infinity: lower the learning rate."
        )
    return np.where(moved, rounded, old)
