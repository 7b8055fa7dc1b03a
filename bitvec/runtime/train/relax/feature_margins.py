"""Margins as differentiable functions of φ(x): what S reads of columns that are learned.

A node's z is the sum over its rows of r · activation(S φ(x) − offset), whatever its rows hold: one
column, several, or several rows. Missing values, set and equality tests, and a z that is not finite
pass hard, without gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.runtime.predict.torch.outcomes import DeviceTests, is_missing, to_device
from bitvec.runtime.train.relax.scaling import Scaling


@dataclass(frozen=True, slots=True, eq=False)
class MarginRows:
    """The rows of S of some nodes, entry by entry, on one device.

    Parameters
    ----------
    tests : DeviceTests
    entry_row, entry_node : int64, (n_entries,)
    row_node : int64, (n_rows,)
    compares : bool, (n_nodes,)
        Whether the node compares z with b: margin and kernel nodes.
    """

    tests: DeviceTests
    entry_row: Tensor
    entry_node: Tensor
    row_node: Tensor
    compares: Tensor


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

    entry_row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    row_node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    return MarginRows(
        to_device(tests, sentinel, device),
        put(entry_row),
        put(row_node[entry_row]),
        put(row_node),
        put((tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)),
    )


def margins(rows: MarginRows, Zt: Tensor) -> tuple[Tensor, Tensor]:
    """Return z (before b), and where it passes hard, both (n_nodes, batch).

    Parameters
    ----------
    Zt : F, (n_columns, batch)
        φ(X) by column; the result is differentiable in it, and in its dtype.

    Returns
    -------
    z, hard
        z is 0 where it passes hard. Cost: O(n_entries · batch).
    """
    tests = rows.tests
    x = Zt[tests.column]
    absent = is_missing(tests, x.detach(), tests.missing_rule[rows.entry_node][:, None])
    if tests.substitute is not None:
        substitute = tests.substitute.to(x.dtype)[:, None]
        replaced = absent & ~torch.isnan(substitute)
        x = torch.where(replaced, torch.nan_to_num(substitute), x)
        absent = absent & ~replaced
    if tests.indicator is not None:
        code = tests.indicator[:, None]
        x = torch.where(code >= 0, (x.detach() == code.to(x.dtype)).to(x.dtype), x)
    # 0 · inf is NaN, in the gradient too, so that a sum with an infinite term is taken without one:
    # a softplus makes 0 of minus infinity, and what stays infinite passes hard.
    infinite = x.isinf() & ~absent
    weight = tests.weight.to(x.dtype)[:, None]
    terms = weight * torch.where(absent | infinite, 0.0, x)
    shape = (len(rows.row_node), Zt.shape[1])
    value = terms.new_zeros(shape).index_add(0, rows.entry_row, terms)
    with torch.no_grad():
        whole = torch.where(infinite, weight * x, 0.0)
        whole = whole.new_zeros(shape).index_add(0, rows.entry_row, whole)
    value = torch.where(whole != 0, whole, value)
    value = value - tests.offset.to(x.dtype)[:, None]
    # torch's softplus is x itself above 20: off by 2e-9, which is much in float64.
    softplus = torch.logaddexp(value, value.new_zeros(()))
    value = torch.where(tests.softplus[:, None], softplus, value)
    value = tests.r.to(x.dtype)[:, None] * value
    shape = (len(rows.compares), Zt.shape[1])
    z = value.new_zeros(shape).index_add(0, rows.row_node, value)
    n_absent = value.new_zeros(shape).index_add(0, rows.entry_node, absent.to(value.dtype))
    hard = (n_absent > 0) | ~rows.compares[:, None] | ~z.isfinite()
    return torch.where(hard, 0.0, z), hard


def standardise(Zt: Tensor, units: Scaling, dtype: torch.dtype) -> Tensor:
    """Return columns in units of their spread, differentiable: 0 where NaN, clipped to the limit.

    Parameters
    ----------
    Zt : F, (n_columns, batch)
    """
    center = torch.tensor(units.center, device=Zt.device)[:, None]
    spread = torch.tensor(units.spread, device=Zt.device)[:, None]
    finite = Zt.isfinite()
    scaled = (torch.where(finite, Zt.to(torch.float64), center) - center) / spread
    edge = torch.nan_to_num(Zt.detach().to(torch.float64), nan=0.0) * units.limit
    scaled = torch.where(finite, scaled, edge)
    return scaled.clamp(-units.limit, units.limit).to(dtype)
