"""Tests that compare one and the same margin, and paths that ask it for values it cannot have.

Two tests whose rows of S, offsets, weights and rules for missing values are equal see the same
margin, bit for bit; one that negates the other's rows sees its negative, and one that takes them
by a power of two sees that multiple. Their turns on a path bound the margin from both sides; where
the bounds cross, no row comes by. Ties are decided with the rest, since nothing is rounded here.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import key_of, keys
from bitvec.core.node_tests import Activation, NodeTests, Relation
from bitvec.core.shape_annotations import Bool, Float64, Int64


def margin_classes(
    tests: NodeTests, nodes: Int64[Array, " n"]
) -> tuple[Int64[Array, " n_nodes"], Float64[Array, " n_nodes"]]:
    """Return a number per node, equal for margins that differ by a factor only, and that factor.

    Nodes that are not in `nodes` have number -1.
    """
    number, factor = np.full(tests.n_nodes, -1), np.ones(tests.n_nodes)
    seen: dict[tuple[bytes, ...], int] = {}
    for node in nodes.tolist():
        form, factor[node] = _form(tests, node)
        number[node] = seen.setdefault(form, len(seen))
    return number, factor


def _form(tests: NodeTests, node: int) -> tuple[tuple[bytes, ...], float]:
    row, entry = tests.part_of(node)
    ends = tests.row_ptr[row.start : row.stop + 1] - entry.start
    weight, offset, activation = tests.weight[entry], tests.offset[row], tests.activation[row]
    factor = 1.0
    # Softplus keeps no factor.
    if np.any(weight) and np.all(activation == Activation.IDENTITY):
        lead = float(weight[np.flatnonzero(weight)[0]])
        factor = float(np.sign(lead))
        is_bare = not np.any(offset) and np.array_equal(tests.r[row], [1])
        if is_bare and _scales(tests, node, weight, lead):
            factor *= _power_of_two(lead)
    parts = [ends, tests.column[entry], weight / factor + 0, offset / factor + 0, tests.r[row] + 0]
    parts += [activation, tests.missing_rule[node : node + 1]]
    if tests.substitute is not None:
        parts.append(tests.substitute[entry])
    if tests.indicator is not None:
        parts.append(tests.indicator[entry])
    return tuple(np.ascontiguousarray(part).tobytes() for part in parts), factor


def _power_of_two(x: float) -> float:
    return float(np.ldexp(0.5, np.frexp(abs(x))[1]))


def _scales(tests: NodeTests, node: int, weight: Array, lead: float) -> bool:
    """Return whether a margin of one row may be divided by a power of two without a difference.

    Unless products underflow, a power of two goes through all rounding. A product that underflows
    is lost in a sum 2**(bits + 2) times as large, and makes one of up to so much uncertain, with
    which the same may happen again; a threshold far beyond all this is compared as before.
    """
    info = np.finfo(tests.dtype)
    b, power = tests.b[node], tests.dtype.type(_power_of_two(lead))
    with np.errstate(all="ignore"):
        exact = [np.array_equal(x / power * power, x) for x in (weight, b)]
        uncertain = np.ldexp(float(info.tiny), (info.nmant + 4) * weight.size)
    return all(exact) and bool(min(abs(b), abs(b / power)) > uncertain)


def contradict(
    tests: NodeTests,
    number: Int64[Array, " n"],
    factor: Float64[Array, " n"],
    test: Int64[Array, " n"],
    right: Bool[Array, " n"],
) -> bool:
    """Return whether no row whose sums are finite turns right or left as told at each test.

    `number` and `factor` are the tests' `margin_classes`. Where no margin is a multiple of another,
    that holds for all rows.
    """
    top = key_of(np.inf, tests.dtype)
    b = keys((tests.b[test] / np.abs(factor)).astype(tests.dtype))
    strict = tests.relation[test] == Relation.GREATER
    low = np.where(right, b + strict, -top)
    high = np.where(right, top, b + strict - 1)
    low, high = np.where(factor < 0, -high, low), np.where(factor < 0, -low, high)
    # A missing value, or infinities that have no sum, passes if all of a class send it this way.
    astray = tests.missing_right[test] != right
    for of_class in np.unique(number):
        at = number == of_class
        if astray[at].any() and low[at].max() > high[at].min():
            return True
    return False
