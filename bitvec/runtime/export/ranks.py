"""Thresholds as ranks: a value's rank among the distinct thresholds of its column, in 1 or 2 bytes.

A channel is a column with one missing rule and one direction for missing values. The rank of a
value is the number of its channel's thresholds that it passes, so that a node compares two small
integers and goes the same way: [x passes threshold r] = [rank > r]. A missing value has rank 0 or
the largest rank, which passes no threshold or all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, Relation
from bitvec.core.shape_annotations import Bool, Float, Int
from bitvec.errors import UnsupportedModelError


@dataclass(frozen=True, slots=True)
class Ranks:
    """The thresholds of a forest's comparisons, by channel.

    Parameters
    ----------
    column, rule : int64, (n_channels,)
    missing_right : bool, (n_channels,)
    cut_ptr : int64, (n_channels + 1,)
    cuts : F, (n_cuts,)
        Rising within a channel.
    or_equal : bool
        Whether a value passes a cut that it equals.
    dtype : numpy dtype
        Of a rank: uint8 or uint16.
    channel, operand : int64, (n_compared,)
        For each node that compares: it goes right if the channel's rank is above the operand.
    """

    column: Int[Array, " n_channels"]
    rule: Int[Array, " n_channels"]
    missing_right: Bool[Array, " n_channels"]
    cut_ptr: Int[Array, " n_channels_plus_1"]
    cuts: Float[Array, " n_cuts"]
    or_equal: bool
    dtype: np.dtype
    channel: Int[Array, " n_compared"]
    operand: Int[Array, " n_compared"]

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return self.column.size

    @property
    def most_comparisons(self) -> int:
        """Comparisons of the search for all ranks of a row, at most."""
        return sum(int(size).bit_length() for size in np.diff(self.cut_ptr))


def compared(forest: Forest) -> Bool[Array, " n_nodes"]:
    """Return whether a node compares one column with its threshold."""
    tests = forest.tests
    return tests.is_one_hot & ((tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL))


def ranks(forest: Forest) -> Ranks | None:
    """Return the ranks of a forest's thresholds, None if no node compares.

    Raises
    ------
    UnsupportedModelError
        If a column has more thresholds than 2 bytes can count.
    """
    tests = forest.tests
    nodes = np.flatnonzero(compared(forest))
    if not nodes.size:
        return None
    rule = tests.missing_rules(forest.inputs.missing_sentinel)[nodes]
    keys = np.stack([tests.feature[nodes], rule, tests.missing_right[nodes]], axis=1)
    channels, channel = np.unique(keys, axis=0, return_inverse=True)
    channel = channel.reshape(-1)
    cut, or_equal = one_relation(tests.b[nodes], tests.relation[nodes])
    operand = np.zeros(nodes.size, np.int64)
    parts = []
    for number in range(len(channels)):
        here = channel == number
        # NaN stands for a threshold that nothing passes: it is no cut, and ranks behind all.
        part = np.unique(cut[here & ~np.isnan(cut)])
        operand[here] = np.searchsorted(part, cut[here])
        parts.append(part)
    sizes = np.array([part.size for part in parts])
    largest = int(sizes.max())
    if largest + 1 > np.iinfo(np.uint16).max:
        raise UnsupportedModelError(
            f"ranks need at most {np.iinfo(np.uint16).max - 1} thresholds of a column, got "
            f'{largest}: use thresholds="exact".'
        )
    return Ranks(
        column=channels[:, 0],
        rule=channels[:, 1],
        missing_right=channels[:, 2].astype(bool),
        cut_ptr=np.concatenate([[0], np.cumsum(sizes)]),
        cuts=np.concatenate(parts),
        or_equal=or_equal,
        dtype=np.dtype(np.uint8 if largest + 1 <= np.iinfo(np.uint8).max else np.uint16),
        channel=channel,
        operand=operand,
    )


def one_relation(b: Float[Array, " n"], relation: Array) -> tuple[Array, bool]:
    """Return thresholds of one relation: of a mixture, x > b becomes x >= the number after b."""
    greater = relation == Relation.GREATER
    b = b + b.dtype.type(0)  # -0.0 and 0.0 are one threshold
    if greater.all():
        return b, False
    with np.errstate(over="ignore"):  # behind the largest number stands infinity
        after = np.nextafter(b, b.dtype.type(np.inf))
    after[np.isposinf(b)] = np.nan
    return np.where(greater, after, b), True
