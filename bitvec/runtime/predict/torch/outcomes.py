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
from bitvec.core.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    Activation,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
)
from bitvec.core.softplus import softplus


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTests:
    """The arrays of `NodeTests` as tensors of one device."""

    node_ptr: Tensor
    row_ptr: Tensor
    column: Tensor
    weight: Tensor
    offset: Tensor
    softplus: Tensor
    r: Tensor
    b: Tensor
    is_set: Tensor
    is_equal: Tensor
    accepts_equal: Tensor
    missing_rule: Tensor
    exact_code: Tensor
    truncated_code: Tensor
    missing_right: Tensor
    other_right: Tensor
    set_ptr: Tensor
    set_words: Tensor
    one_hot: Tensor
    feature: Tensor
    substitute: Tensor | None
    indicator: Tensor | None
    sentinel: Tensor | None
    zero_threshold: Tensor
    zero_is_missing: bool
    sentinel_is_missing: bool
    has_sets: bool
    has_equals: bool
    only_one_hot: bool


def to_device(tests: NodeTests, sentinel: float | None, device: torch.device) -> DeviceTests:
    """Copy the tests to a device; `sentinel` is the forest's `inputs.missing_sentinel`."""

    def put(array: Array) -> Tensor:
        return torch.tensor(array, device=device)

    def scalar(value: float) -> Tensor:
        return put(tests.dtype.type(value))

    one_hot = tests.is_one_hot
    rules = tests.missing_rule
    return DeviceTests(
        node_ptr=put(tests.node_ptr),
        row_ptr=put(tests.row_ptr),
        column=put(tests.column.astype(np.int64)),
        weight=put(tests.weight),
        offset=put(tests.offset),
        softplus=put(tests.activation == Activation.SOFTPLUS),
        r=put(tests.r),
        b=put(tests.b),
        is_set=put(tests.kind == Kind.SET),
        is_equal=put(tests.kind == Kind.EQUAL),
        accepts_equal=put(tests.relation == Relation.GREATER_EQUAL),
        missing_rule=put(rules),
        exact_code=put(tests.code_rule == CodeRule.EXACT),
        truncated_code=put(tests.code_rule == CodeRule.TRUNCATE),
        missing_right=put(tests.missing_right),
        other_right=put(tests.other_right),
        set_ptr=put(tests.set_ptr),
        set_words=put(tests.set_words.astype(np.int64)),
        one_hot=put(one_hot),
        feature=put(np.where(one_hot, tests.feature, 0).astype(np.int64)),
        substitute=None if tests.substitute is None else put(tests.substitute),
        indicator=None if tests.indicator is None else put(tests.indicator.astype(np.int64)),
        sentinel=None if sentinel is None else scalar(sentinel),
        zero_threshold=scalar(ZERO_THRESHOLD),
        zero_is_missing=bool(np.any(rules == MissingRule.NAN_OR_ZERO)),
        sentinel_is_missing=sentinel is not None
        and bool(np.any(rules == MissingRule.NAN_OR_SENTINEL)),
        has_sets=bool(np.any(tests.kind == Kind.SET)),
        has_equals=bool(np.any(tests.kind == Kind.EQUAL)),
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
    b = _along(tests.b[node], row)
    right = torch.where(_along(tests.accepts_equal[node], row), z >= b, z > b)
    if tests.has_equals:
        right = torch.where(_along(tests.is_equal[node], row), z == b, right)
    undefined = missing | torch.isnan(z)
    if tests.has_sets:
        at = torch.nonzero(tests.is_set[node])[:, 0]
        right[at] = _set_outcome(tests, z[at], node[at], row)
    return z, torch.where(undefined, _along(tests.missing_right[node], row), right), undefined


def _along(values: Tensor, row: Tensor | None) -> Tensor:
    """Shape per-node values to broadcast over the batch, unless each has its own row."""
    return values[:, None] if row is None else values


def _read(Zt: Tensor, column: Tensor, row: Tensor | None) -> Tensor:
    return Zt[column] if row is None else Zt[column, row]


def is_missing(tests: DeviceTests, x: Tensor, rule: Tensor) -> Tensor:
    """Return which values count as missing; `rule` broadcasts over `x`."""
    missing = torch.isnan(x)
    if tests.zero_is_missing:
        missing |= (rule == MissingRule.NAN_OR_ZERO) & (x.abs() <= tests.zero_threshold)
    if tests.sentinel_is_missing:
        assert tests.sentinel is not None
        missing |= (rule == MissingRule.NAN_OR_SENTINEL) & (x == tests.sentinel)
    return missing


def _values(
    tests: DeviceTests, Zt: Tensor, node: Tensor, row: Tensor | None
) -> tuple[Tensor, Tensor]:
    z = _read(Zt, tests.feature[node], row)
    missing = is_missing(tests, z, _along(tests.missing_rule[node], row))
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
        value, absent = _row_sums(tests, Zt, s_row, part, tests.missing_rule[node[:count]])
        value = value - _along(tests.offset[s_row], row)
        soft = torch.nonzero(tests.softplus[s_row])[:, 0]
        if soft.numel():
            value[soft] = _softplus(value[soft])
        term = _along(tests.r[s_row], row) * value
        # The first row starts the sum: 0 + z would turn -0.0 into 0.0.
        total[:count] = term if k == 0 else total[:count] + term
        missing[:count] |= absent
    back = torch.argsort(order)
    return total[back], missing[back]


def _row_sums(
    tests: DeviceTests, Zt: Tensor, s_row: Tensor, row: Tensor | None, rule: Tensor
) -> tuple[Tensor, Tensor]:
    n_entries = tests.row_ptr[s_row + 1] - tests.row_ptr[s_row]
    shape = (len(s_row),) if row is not None else (len(s_row), Zt.shape[1])
    total = Zt.new_zeros(shape)
    missing = torch.zeros(shape, dtype=torch.bool, device=Zt.device)
    n_entries, order = torch.sort(n_entries, descending=True, stable=True)
    s_row, rule = s_row[order], rule[order]
    row = None if row is None else row[order]
    for k, count in enumerate(_prefixes(n_entries)):
        part = None if row is None else row[:count]
        entry = tests.row_ptr[s_row[:count]] + k
        x = _read(Zt, tests.column[entry], part)
        absent = is_missing(tests, x, _along(rule[:count], row))
        if tests.substitute is not None:
            substitute = _along(tests.substitute[entry], row)
            replaced = absent & ~torch.isnan(substitute)
            x = torch.where(replaced, substitute, x)
            absent &= ~replaced
        if tests.indicator is not None:
            code = _along(tests.indicator[entry], row)
            x = torch.where(code >= 0, (x == code.to(x.dtype)).to(x.dtype), x)
        # Two operations, never a fused multiply-add, so that bits equal the reference's.
        term = _along(tests.weight[entry], row) * x
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


def _set_outcome(tests: DeviceTests, x: Tensor, node: Tensor, row: Tensor | None) -> Tensor:
    exact = _along(tests.exact_code[node], row)
    truncates = _along(tests.truncated_code[node], row)
    first = _along(tests.set_ptr[node], row)
    n_codes = (_along(tests.set_ptr[node + 1], row) - first) * WORD_BITS
    whole = torch.trunc(x)
    readable = (x > -1) & (truncates | (x >= 0)) & (~exact | (x == whole)) & (whole < n_codes)
    code = torch.where(readable, whole, torch.zeros_like(whole)).to(torch.int64)
    if tests.set_words.numel() == 0:
        return _along(tests.other_right[node], row).expand(x.shape)
    at = torch.where(readable, first + code // WORD_BITS, torch.zeros_like(code))
    bit = (tests.set_words[at] >> (code % WORD_BITS)) & 1
    return torch.where(readable, bit == 1, _along(tests.other_right[node], row))
