"""Margins as differentiable functions of the columns that S reads, by tensor operations alone.

A node's z is the sum over its rows of r · activation(S φ(x) − offset), whatever its rows hold: one
column, several, or several rows. Missing values, set and equality tests, and a z that is not finite
pass hard, without gradient. No step depends on values, so that tracers follow it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.runtime.predict.torch.node_rules import code_sets, entry, exceeds, in_sets, select
from bitvec.runtime.predict.torch.outcomes import DeviceTests, to_device
from bitvec.runtime.predict.torch.unrounded import Unrounded
from bitvec.runtime.train.relax.tracing import sums

FAR = 50.0
"""Argument from which on softplus is x itself in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class MarginRows:
    """The rows of S of some nodes on one device, as `margins` reads them.

    Parameters
    ----------
    tests : DeviceTests
    compares : bool, (n_nodes, 1), or None where all compare z with b
    wide : WideRows, optional
        Of nodes that read more than one column as it is.
    sets : SetRows, optional
    """

    tests: DeviceTests
    compares: Tensor | None
    wide: WideRows | None
    sets: SetRows | None


@dataclass(frozen=True, slots=True, eq=False)
class WideRows:
    """The rows of S of some nodes, entry by entry.

    Parameters
    ----------
    tests : DeviceTests
        Of these nodes alone.
    place : int64, (n_nodes,)
        Where each of all nodes stands when these follow them.
    entry_row, entry_node : int64, (n_entries,)
    row_node : int64, (n_rows,)
    """

    tests: DeviceTests
    place: Tensor
    entry_row: Tensor
    entry_node: Tensor
    row_node: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class SetRows:
    """Nodes that look a code up in a set.

    Parameters
    ----------
    at : int64, (n,)
        The nodes.
    place : int64, (n_nodes,)
        Where each of all nodes stands when these follow them.
    sets : arguments of `in_sets`, (n, 1)
    """

    at: Tensor
    place: Tensor
    sets: dict[str, Tensor]


def margin_rows(tests: NodeTests, sentinel: float | None, device: torch.device) -> MarginRows:
    """Return the rows of S as `margins` reads them.

    Parameters
    ----------
    tests : NodeTests
        Of the nodes that are wanted, in the order that is wanted: see `NodeTests.take`.
    sentinel : float, optional
        The forest's `inputs.missing_sentinel`.
    """

    def put(array: Array) -> Tensor:
        return torch.tensor(array, device=device)

    def behind(at: Array) -> Tensor:
        place = np.arange(tests.n_nodes)
        place[at] = tests.n_nodes + np.arange(len(at))
        return put(place)

    held = to_device(tests, sentinel, device)
    compares = (tests.kind != Kind.SET) & (tests.kind != Kind.EQUAL)
    wide, at = None, np.flatnonzero(~tests.is_one_hot)
    if len(at):
        own = tests.take(at)
        row = np.repeat(np.arange(own.n_rows), np.diff(own.row_ptr))
        node = np.repeat(np.arange(own.n_nodes), np.diff(own.node_ptr))
        wide = WideRows(
            to_device(own, sentinel, device), behind(at), put(row), put(node[row]), put(node)
        )
    sets, at = None, np.flatnonzero(tests.kind == Kind.SET)
    if len(at):
        own_sets = {name: put(array) for name, array in code_sets(tests, at).items()}
        for name in own_sets.keys() - {"members", "bits"}:
            own_sets[name] = own_sets[name][:, None]
        sets = SetRows(put(at), behind(at), own_sets)
    return MarginRows(
        held,
        None if compares.all() else put(compares)[:, None],
        wide,
        sets,
    )


def margins(rows: MarginRows, Zt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return z (before b), where it passes hard, and h, all (n_nodes, batch).

    Parameters
    ----------
    Zt : F, (n_columns, batch)
        φ(X) by column; the result is differentiable in it, and in its dtype.

    Returns
    -------
    z, hard, right
        z is 0 where it passes hard. Cost: O(n_entries · batch).
    """
    tests = rows.tests
    z = Zt.index_select(0, tests.feature)
    undefined = tests.missing(z.detach(), slice(None))
    if rows.wide is not None:
        of_wide = _of_wide(rows.wide, Zt)
        z, undefined = (
            torch.cat(both).index_select(0, rows.wide.place)
            for both in zip((z, undefined), of_wide, strict=True)
        )
    right = _outcome(rows, z.detach())
    undefined = undefined | z.isnan()
    right = select(undefined, tests.missing_right[:, None], right)
    hard = undefined | (z.abs() == torch.inf)
    if rows.compares is not None:
        hard = hard | ~rows.compares
    return torch.where(hard, 0.0, z), hard, right


def _of_wide(rows: WideRows, Zt: Tensor) -> tuple[Tensor, Tensor]:
    """Return z, and where it is missing, of nodes that read more than one column as it is."""
    tests = rows.tests
    x = Zt.index_select(0, tests.column)
    absent = tests.missing(x.detach(), rows.entry_node)
    substitute, code = (
        None if own is None else own[:, None] for own in (tests.substitute, tests.indicator)
    )
    x, absent = entry(x, absent, substitute, code)
    # 0 · inf is NaN, in the gradient too, so that a sum with an infinite term is taken without one:
    # a softplus makes 0 of minus infinity, and what stays infinite passes hard.
    infinite = (x.abs() == torch.inf) & ~absent
    weight = tests.weight[:, None]
    n_rows, n_nodes = len(tests.offset), len(tests.b)
    value = sums(weight * torch.where(absent | infinite, 0.0, x), rows.entry_row, n_rows)
    whole = sums(torch.where(infinite, weight * x.detach(), 0.0), rows.entry_row, n_rows)
    value = torch.where(whole != 0, whole, value) - tests.offset[:, None]
    value = torch.where(tests.softplus[:, None], softplus(value), value)
    z = sums(tests.r[:, None] * value, rows.row_node, n_nodes)
    return z, sums(absent.to(z.dtype), rows.entry_node, n_nodes) > 0


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x)) to the last digits of float64."""
    return F.softplus(x, threshold=FAR)


def _outcome(rows: MarginRows, z: Tensor) -> Tensor:
    """Return h of values that are not missing."""
    tests = rows.tests
    ties, is_equal = (None if own is None else own[:, None] for own in (tests.ties, tests.is_equal))
    right = exceeds(z, tests.b[:, None], ties, is_equal)
    if rows.sets is None:
        return right
    own = in_sets(z.index_select(0, rows.sets.at), **rows.sets.sets)
    return torch.cat((right, own)).index_select(0, rows.sets.place)


class ColumnUnits(Unrounded):
    """The center and spread of columns, in float64 on every device.

    Parameters
    ----------
    center, spread : float64, (n,)
    """

    center: Tensor
    spread: Tensor

    def __init__(self, center: Array, spread: Array) -> None:
        super().__init__(center=torch.tensor(center)[:, None], spread=torch.tensor(spread)[:, None])

    def scaled(self, columns: Tensor, limit: float) -> Tensor:
        """Return columns, (n, batch), in units of their spread, float64: as they are if infinite.

        What is finite is differentiable and stays within ± limit; NaN is 0.
        """
        wide = columns.to(torch.float64)
        finite = wide.abs() < torch.inf
        scaled = (torch.where(finite, wide, self.center) - self.center) / self.spread
        other = torch.where(wide.isnan(), 0.0, wide.detach())
        return torch.where(finite, scaled.clamp(-limit, limit), other)


def standardise(Zt: Tensor, units: ColumnUnits, limit: float, dtype: torch.dtype) -> Tensor:
    """Return columns in units of their spread, differentiable: 0 where NaN, clipped to the limit.

    Parameters
    ----------
    Zt : F, (n_columns, batch)
    """
    return units.scaled(Zt, limit).clamp(-limit, limit).to(dtype)
