"""σ(Sx − b) on a device, bit for bit as the reference decides it.

Everything is node-major: Zt is (n_columns, batch), so that a one-hot row of S is one contiguous
copy, and results are (n_nodes, batch). The same code also decides (node, row) pairs, for traversal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Activation, Kind, NodeTests, Relation
from bitvec.core.softplus import softplus
from bitvec.runtime.predict.torch.node_rules import (
    code_sets,
    entry,
    exceeds,
    in_sets,
    is_missing,
    missing_flags,
)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTests:
    """The arrays of `NodeTests` as tensors of one device, each flag None where no node has it."""

    node_ptr: Tensor
    row_ptr: Tensor
    column: Tensor
    weight: Tensor
    offset: Tensor
    softplus: Tensor
    r: Tensor
    b: Tensor
    ties: Tensor | None
    is_equal: Tensor | None
    is_set: Tensor | None
    sets: dict[str, Tensor]
    by_zero: Tensor | None
    by_sentinel: Tensor | None
    sentinel: float | None
    missing_right: Tensor
    one_hot: Tensor
    feature: Tensor
    substitute: Tensor | None
    indicator: Tensor | None
    only_one_hot: bool

    def missing(self, x: Tensor, node: Tensor | slice, row: Tensor | None = None) -> Tensor:
        """Return which values of nodes are missing, (n, batch), or (n,) with a row for each."""
        zero, marked = _along(self.by_zero, node, row), _along(self.by_sentinel, node, row)
        return is_missing(x, zero, marked, self.sentinel)


def to_device(tests: NodeTests, sentinel: float | None, device: torch.device) -> DeviceTests:
    """Copy the tests to a device; `sentinel` is the forest's `inputs.missing_sentinel`."""

    def put(array: Array) -> Tensor:
        return torch.tensor(array, device=device)

    def put_any(flag: Array | None) -> Tensor | None:
        return None if flag is None or not flag.any() else put(flag)

    one_hot, is_equal, is_set = tests.is_one_hot, tests.kind == Kind.EQUAL, tests.kind == Kind.SET
    flags = missing_flags(tests.missing_rule)
    return DeviceTests(
        node_ptr=put(tests.node_ptr),
        row_ptr=put(tests.row_ptr),
        column=put(tests.column.astype(np.int64)),
        weight=put(tests.weight),
        offset=put(tests.offset),
        softplus=put(tests.activation == Activation.SOFTPLUS),
        r=put(tests.r),
        b=put(tests.b),
        ties=put_any(is_equal | (tests.relation == Relation.GREATER_EQUAL)),
        is_equal=put_any(is_equal),
        is_set=put_any(is_set),
        sets={
            name: put(array) for name, array in code_sets(tests, np.arange(tests.n_nodes)).items()
        }
        if is_set.any()
        else {},
        by_zero=put_any(flags["by_zero"]),
        by_sentinel=put_any(flags["by_sentinel"]),
        sentinel=None if sentinel is None else float(tests.dtype.type(sentinel)),
        missing_right=put(tests.missing_right),
        one_hot=put(one_hot),
        feature=put(np.where(one_hot, tests.feature, 0).astype(np.int64)),
        substitute=None if tests.substitute is None else put(tests.substitute),
        indicator=None if tests.indicator is None else put(tests.indicator.astype(np.int64)),
        only_one_hot=bool(np.all(one_hot)),
    )


@torch.no_grad()
def decide(
    tests: DeviceTests, Zt: Tensor, node: Tensor, row: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return z, h and whether h is the node's own direction for a missing value.

    Parameters
    ----------
    Zt : F, (n_columns, batch)
    node : int64, (n,)
    row : int64, (n,), optional
        With it, element i of the results is node[i] for row[i]; without it, the results are
        (n, batch).
    """
    z, missing = _values(tests, Zt, node, row)
    ties, is_equal = _along(tests.ties, node, row), _along(tests.is_equal, node, row)
    right = exceeds(z, _at(tests.b, node, row), ties, is_equal)
    if tests.is_set is not None:
        at = torch.nonzero(tests.is_set[node])[:, 0]
        right[at] = _of_sets(tests, z[at], node[at], row)
    undefined = missing | torch.isnan(z)
    return z, torch.where(undefined, _at(tests.missing_right, node, row), right), undefined


def _at(values: Tensor, node: Tensor | slice, row: Tensor | None) -> Tensor:
    """Return values of nodes that broadcast over the batch, unless each has its own row."""
    return values[node][:, None] if row is None else values[node]


def _along(flag: Tensor | None, node: Tensor | slice, row: Tensor | None) -> Tensor | None:
    return None if flag is None else _at(flag, node, row)


def _of_sets(tests: DeviceTests, x: Tensor, node: Tensor, row: Tensor | None) -> Tensor:
    shared = ("members", "bits")
    own = {k: v if k in shared else _at(v, node, row) for k, v in tests.sets.items()}
    return in_sets(x, **own)


def _read(Zt: Tensor, column: Tensor, row: Tensor | None) -> Tensor:
    return Zt[column] if row is None else Zt[column, row]


def _values(
    tests: DeviceTests, Zt: Tensor, node: Tensor, row: Tensor | None
) -> tuple[Tensor, Tensor]:
    z = _read(Zt, tests.feature[node], row)
    missing = tests.missing(z, node, row)
    if not tests.only_one_hot:
        at = torch.nonzero(~tests.one_hot[node])[:, 0]
        if at.numel():
            z[at], missing[at] = _sums(tests, Zt, node[at], None if row is None else row[at])
    return z, missing


def _sums(
    tests: DeviceTests, Zt: Tensor, node: Tensor, row: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Sum the rows of S of nodes, in the order of storage."""
    n_rows = tests.node_ptr[node + 1] - tests.node_ptr[node]
    shape = (len(node),) if row is not None else (len(node), Zt.shape[1])
    total = Zt.new_zeros(shape)
    missing = torch.zeros(shape, dtype=torch.bool, device=Zt.device)
    # Longest first, so that the members that still have a k-th term are always a prefix.
    n_rows, order = torch.sort(n_rows, descending=True, stable=True)
    node, row = node[order], None if row is None else row[order]
    for k, count in enumerate(_prefixes(n_rows)):
        part = None if row is None else row[:count]
        s_row = tests.node_ptr[node[:count]] + k
        value, absent = _row_sums(tests, Zt, s_row, part, node[:count])
        value = value - _at(tests.offset, s_row, row)
        soft = torch.nonzero(tests.softplus[s_row])[:, 0]
        if soft.numel():
            value[soft] = _softplus(value[soft])
        term = _at(tests.r, s_row, row) * value
        # The first row starts the sum: 0 + z would turn -0.0 into 0.0.
        total[:count] = term if k == 0 else total[:count] + term
        missing[:count] |= absent
    back = torch.argsort(order)
    return total[back], missing[back]


def _row_sums(
    tests: DeviceTests, Zt: Tensor, s_row: Tensor, row: Tensor | None, node: Tensor
) -> tuple[Tensor, Tensor]:
    n_entries = tests.row_ptr[s_row + 1] - tests.row_ptr[s_row]
    shape = (len(s_row),) if row is not None else (len(s_row), Zt.shape[1])
    total = Zt.new_zeros(shape)
    missing = torch.zeros(shape, dtype=torch.bool, device=Zt.device)
    n_entries, order = torch.sort(n_entries, descending=True, stable=True)
    s_row, node = s_row[order], node[order]
    row = None if row is None else row[order]
    for k, count in enumerate(_prefixes(n_entries)):
        part = None if row is None else row[:count]
        at = tests.row_ptr[s_row[:count]] + k
        x = _read(Zt, tests.column[at], part)
        absent = tests.missing(x, node[:count], row)
        substitute, code = _along(tests.substitute, at, row), _along(tests.indicator, at, row)
        x, absent = entry(x, absent, substitute, code)
        # Two operations, never a fused multiply-add, so that bits equal the reference's.
        term = _at(tests.weight, at, row) * x
        total[:count] = term if k == 0 else total[:count] + term
        missing[:count] |= absent
    back = torch.argsort(order)
    return total[back], missing[back]


def _prefixes(descending: Tensor) -> list[int]:
    """Return how many of the counts exceed 0, 1, 2 ...

    >>> _prefixes(torch.tensor([3, 1, 1]))
    [3, 1, 1]
    """
    counts = descending.cpu().numpy()
    steps = np.arange(int(counts.max(initial=0)))
    prefixes: list[int] = np.searchsorted(-counts, -steps, side="left").tolist()
    return prefixes


def _softplus(value: Tensor) -> Tensor:
    # On the host: no device's softplus has the same last bits, not every device has float64, and a
    # margin one ulp off may fall on the other side of b.
    return torch.from_numpy(softplus(value.cpu().numpy())).to(value.device)
