"""Rules of single tests on tensors: missing values, entries of S, codes of sets and the side of b.

No step depends on values or writes into a tensor, so that compilers and exporters follow them. All
arguments broadcast: tables of nodes, whichever axis the rows are, and (node, row) pairs share them.
A flag that no node has is None, and truth values are combined, not selected, as onnxruntime cannot.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.node_tests import WORD_BITS, ZERO_THRESHOLD, CodeRule, MissingRule, NodeTests
from bitvec.core.softplus import ARTANH, EXP, FAR, LN2_HIGH, LN2_LOW, LOG2_E
from bitvec.runtime.predict.torch.call_modes import is_compiled

BYTE = 8
BITS = (1 << np.arange(BYTE)).astype(np.uint8)
"""The bits of a byte."""


def select(condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return `torch.where` of truth values."""
    return (condition & one) | (~condition & other)


def is_missing(
    x: Tensor, by_zero: Tensor | None, by_sentinel: Tensor | None, sentinel: float | None
) -> Tensor:
    """Return which values count as missing: NaN, and zeros or the sentinel where flags say so."""
    # Inductor compares many values at a time, and looks for a NaN one by one.
    missing = x != x if is_compiled() else torch.isnan(x)
    if by_zero is not None:
        missing = missing | (by_zero & (x.abs() <= ZERO_THRESHOLD))
    if by_sentinel is not None and sentinel is not None:
        missing = missing | (by_sentinel & (x == sentinel))
    return missing


def missing_flags(rules: Array) -> dict[str, Array | None]:
    """Return `by_zero` and `by_sentinel` of `is_missing` for nodes of some rules."""
    zero, marked = rules == MissingRule.NAN_OR_ZERO, rules == MissingRule.NAN_OR_SENTINEL
    return {
        "by_zero": zero if zero.any() else None,
        "by_sentinel": marked if marked.any() else None,
    }


def entry(
    x: Tensor, absent: Tensor, substitute: Tensor | None, indicator: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the φ(x) that an entry of S multiplies, and whether it is missing.

    Parameters
    ----------
    absent : bool
        Where x is missing.
    substitute : F, optional
        In place of what is missing, unless NaN.
    indicator : F or int, optional
        An entry of a code that is at least 0 reads 1 where x is the code, and 0 elsewhere.
    """
    if substitute is not None:
        replaced = absent & ~torch.isnan(substitute)
        x, absent = torch.where(replaced, substitute, x), absent & ~replaced
    if indicator is not None:
        is_code = x.detach() == indicator.to(x.dtype)
        x = torch.where(indicator >= 0, is_code.to(x.dtype), x)
    return x, absent


def exceeds(z: Tensor, b: Tensor, ties: Tensor | None, is_equal: Tensor | None) -> Tensor:
    """Return z > b; z = b is right too where `ties` says so, and alone where `is_equal` does."""
    right = z > b
    if is_equal is not None:
        right = right & ~is_equal
    return right if ties is None else right | (ties & (z == b))


def code_sets(tests: NodeTests, nodes: Array) -> dict[str, Array]:
    """Return the arguments of `in_sets` for some nodes."""
    return {
        "first": tests.set_ptr[nodes] * (WORD_BITS // BYTE),
        "n_codes": np.diff(tests.set_ptr)[nodes] * WORD_BITS,
        "truncates": tests.code_rule[nodes] == CodeRule.TRUNCATE,
        "is_exact": tests.code_rule[nodes] == CodeRule.EXACT,
        "other_right": tests.other_right[nodes],
        "members": np.append(tests.set_words, 0).astype("<u4").view(np.uint8),
        "bits": BITS,
    }


def in_sets(
    x: Tensor,
    *,
    first: Tensor,
    n_codes: Tensor,
    truncates: Tensor,
    is_exact: Tensor,
    other_right: Tensor,
    members: Tensor,
    bits: Tensor,
) -> Tensor:
    """Return h of codes that are looked up in sets, whose members are bits of bytes.

    Parameters
    ----------
    first, n_codes : int64
        The first byte of each set, of `members`, and how many codes it holds.
    truncates, is_exact, other_right : bool
        Whether a code is truncated or must be whole, and the side of what is no code of the set.
    members, bits : uint8
        The bytes of all sets, and `BITS`.
    """
    whole = x.trunc()
    readable = (x > -1) & (truncates | (x >= 0)) & (~is_exact | (x == whole))
    readable = readable & (whole < n_codes.to(x.dtype))
    code = torch.where(readable, whole, 0.0)
    eighth = torch.floor(code / BYTE)  # exact, as the difference is, and cheaper than of integers
    byte, place = first + eighth.to(torch.int64), (code - BYTE * eighth).to(torch.int64)
    return select(readable, (_at(members, byte) & _at(bits, place)) != 0, other_right)


def _at(table: Tensor, place: Tensor) -> Tensor:
    """Return `table[place]`, flat, which exporters write as the fastest gathering."""
    return table.index_select(0, place.reshape(-1)).reshape(place.shape)


def softplus(x: Tensor, powers: Tensor) -> Tensor:
    """Return `bitvec.core.softplus.softplus`, the same operations in the same order.

    Parameters
    ----------
    powers : float64
        `POWERS` of that module.
    """
    wide = x.to(torch.float64)
    magnitude = wide.abs()
    u = torch.where(magnitude < FAR, magnitude, FAR)
    k = torch.floor(u * LOG2_E + 0.5)
    r = (k * LN2_HIGH - u) + k * LN2_LOW
    t = _polynomial(EXP, r) * powers[k.to(torch.int64)]
    s = t / (2.0 + t)
    tail = (s + s) * _polynomial(ARTANH, s * s)
    return (torch.where(wide < 0, 0.0, wide) + tail).to(x.dtype)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = x * coefficients[-1] + coefficients[-2]
    for one in reversed(coefficients[:-2]):
        value = value * x + one
    return value
