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
from bitvec.core.node_tests import WORD_BITS, Kind, NodeTests
from bitvec.runtime.predict.torch.outcomes import DeviceTests, is_missing, to_device
from bitvec.runtime.train.relax.tracing import Unrounded, select, sums

BYTE = 8
FAR = 50.0
"""Where softplus is x itself in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class MarginRows:
    """The rows of S of some nodes on one device, as `margins` reads them.

    Parameters
    ----------
    tests : DeviceTests
    ties : bool, (n_nodes, 1), or None where z = b goes left of all
    compares : bool, (n_nodes, 1), or None where all compare z with b
    wide : WideRows, optional
        Of nodes that read more than one column as it is.
    sets : SetRows, optional
    """

    tests: DeviceTests
    ties: Tensor | None
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
    """Nodes that look a code up in a set, whose codes are bits.

    Parameters
    ----------
    at : int64, (n,)
        The nodes.
    place : int64, (n_nodes,)
        Where each of all nodes stands when these follow them.
    first, n_codes : int64, (n, 1)
        The first byte of each set, and how many codes it holds.
    codes, bit : uint8
        The bytes of all sets, and the bits of one.
    """

    at: Tensor
    place: Tensor
    first: Tensor
    n_codes: Tensor
    codes: Tensor
    bit: Tensor


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
    ties, compares = held.accepts_equal | held.is_equal, ~(held.is_equal | held.is_set)
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
        words = np.append(tests.set_words, 0).astype("<u4")
        sets = SetRows(
            put(at),
            behind(at),
            put(tests.set_ptr[at] * (WORD_BITS // BYTE))[:, None],
            put(np.diff(tests.set_ptr)[at] * WORD_BITS)[:, None],
            put(words.view(np.uint8)),
            put((1 << np.arange(BYTE)).astype(np.uint8)),
        )
    return MarginRows(
        held,
        ties[:, None] if bool(ties.any()) else None,
        None if bool(compares.all()) else compares[:, None],
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
    undefined = is_missing(tests, z.detach(), tests.missing_rule[:, None])
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
    absent = is_missing(tests, x.detach(), tests.missing_rule[rows.entry_node][:, None])
    if tests.substitute is not None:
        substitute = tests.substitute[:, None]
        replaced = absent & ~torch.isnan(substitute)
        x = torch.where(replaced, substitute, x)
        absent = absent & ~replaced
    if tests.indicator is not None:
        code = tests.indicator[:, None]
        x = torch.where(code >= 0, (x.detach() == code.to(x.dtype)).to(x.dtype), x)
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
    tests, b = rows.tests, rows.tests.b[:, None]
    right = z > b
    if tests.has_equals:
        right = right & ~tests.is_equal[:, None]
    if rows.ties is not None:
        right = right | ((z == b) & rows.ties)
    if rows.sets is None:
        return right
    sets = rows.sets
    x = z.index_select(0, sets.at)
    whole = x.trunc()
    exact, truncates, other = (
        flag.index_select(0, sets.at)[:, None]
        for flag in (tests.exact_code, tests.truncated_code, tests.other_right)
    )
    readable = (x > -1) & (truncates | (x >= 0)) & (~exact | (x == whole))
    readable = readable & (whole < sets.n_codes.to(x.dtype))
    code = torch.where(readable, whole, 0.0).to(torch.int64)
    byte = torch.where(readable, sets.first + code // BYTE, 0)
    held = (sets.codes[byte] & sets.bit[code % BYTE]) != 0
    own = select(readable, held, other)
    return torch.cat((right, own)).index_select(0, sets.place)


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
