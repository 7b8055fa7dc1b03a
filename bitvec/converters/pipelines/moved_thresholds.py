"""Thresholds moved to the raw column, many at once: the usual case of a fold.

Where every operation rises, or fills in what is missing, a threshold comes from one threshold, so
that no sets are needed; `fold` does the rest, and both give the same nodes.
"""

from __future__ import annotations

import numpy as np

from bitvec.converters.pipelines.node_forms import Form
from bitvec.converters.pipelines.operations import Operation, Replace, Require, Rising
from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, key_of, keys
from bitvec.core.key_intervals import Values
from bitvec.core.node_tests import Kind, MissingRule, NodeTests, Relation
from bitvec.core.shape_annotations import Int64


def moved(
    tests: NodeTests,
    at: Int64[Array, " n"],
    operations: tuple[Operation, ...],
    domain: Values,
    dtype: np.dtype,
) -> list[tuple[Form, Values]] | None:
    """Return the form of each node and the numbers that go right, None where sets are needed.

    Parameters
    ----------
    tests, at
        Nodes of one derived column.
    operations : tuple
        From the raw column on.
    domain : Values
        Of the raw column, and its dtype.
    """
    is_plain = (tests.kind[at] == Kind.MARGIN) & (tests.missing_rule[at] == MissingRule.NAN)
    if not is_plain.all() or len(domain.intervals) != 1 or not all(map(_moves, operations)):
        return None
    key = keys(tests.b[at]) + (tests.relation[at] == Relation.GREATER)
    nan_right = tests.missing_right[at].copy()
    for operation in reversed(operations):
        if isinstance(operation, Rising):
            key = operation.first_at_least(key)
        elif isinstance(operation, Replace):
            nan_right = key_of(operation.value, operation.target) >= key
    ((low, high),) = domain.intervals
    nan_right &= domain.nan
    key = np.maximum(key, low)
    is_strict = (tests.relation[at] == Relation.GREATER) & (key > -key_of(np.inf, dtype))
    never = key > high
    b = floats(np.where(never, 0, key - is_strict), dtype)
    b[never] = np.inf
    is_strict |= never
    return [
        (
            Form(
                Kind.MARGIN,
                threshold,
                Relation.GREATER if strict else Relation.GREATER_EQUAL,
                missing_right=nan,
            ),
            Values(((first, high),) if first <= high else (), nan),
        )
        for threshold, strict, nan, first in zip(
            b.tolist(), is_strict.tolist(), nan_right.tolist(), key.tolist(), strict=True
        )
    ]


def _moves(operation: Operation) -> bool:
    """Return whether an operation brings thresholds from thresholds."""
    if isinstance(operation, Replace):
        is_nan = operation.missing != operation.missing
        return bool(is_nan) and operation.other is None and operation.labels is None
    if isinstance(operation, Rising):
        return not any(np.isnan(operand).any() for operand in operation.operands)
    return isinstance(operation, Require)
