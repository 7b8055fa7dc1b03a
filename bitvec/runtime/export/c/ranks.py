"""Thresholds as ranks: a value's rank among the distinct thresholds of its column, in 1 or 2 bytes.

A channel is a column with one missing rule and one direction for missing values. The rank of a
value is the number of its channel's thresholds that it passes, so that a node compares two small
integers and goes the same way: [x passes threshold r] = [rank > r]. A missing value has rank 0 or
the largest rank, which passes no threshold or all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, Kind, MissingRule, Relation
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import C_TYPES, narrow_floats, narrow_integers, number


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
    rule = tests.missing_rule[nodes].astype(np.int64)
    if forest.inputs.missing_sentinel is None:
        rule[rule == MissingRule.NAN_OR_SENTINEL] = MissingRule.NAN
    keys = np.stack([tests.feature[nodes], rule, tests.missing_right[nodes]], axis=1)
    channels, channel = np.unique(keys, axis=0, return_inverse=True)
    channel = channel.reshape(-1)
    cut, or_equal = _one_relation(tests.b[nodes], tests.relation[nodes])
    operand = np.zeros(nodes.size, np.int64)
    parts = []
    for number_, _ in enumerate(channels):
        here = channel == number_
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


def _one_relation(b: Float[Array, " n"], relation: Array) -> tuple[Array, bool]:
    """Return thresholds of one relation: of a mixture, x > b becomes x >= the number after b."""
    greater = relation == Relation.GREATER
    b = b + b.dtype.type(0)  # -0.0 and 0.0 are one threshold
    if greater.all():
        return b, False
    with np.errstate(over="ignore"):  # behind the largest number stands infinity
        after = np.nextafter(b, b.dtype.type(np.inf))
    after[np.isposinf(b)] = np.nan
    return np.where(greater, after, b), True


def add_ranks(header: Header, forest: Forest, found: Ranks) -> None:
    """Append the thresholds by channel and the function that ranks a row."""
    cuts = found.cuts if found.cuts.size else np.zeros(1, forest.dtype)
    header.table("cut", narrow_floats(cuts), "the distinct thresholds of each channel, rising")
    header.table("cut_first", narrow_integers(found.cut_ptr), "first threshold of each channel")
    header.table("channel_column", narrow_integers(found.column), "column of each channel")
    rule, right = found.rule, found.missing_right
    if len(np.unique(rule)) > 1:
        header.table(
            "channel_rule", narrow_integers(rule), "missing rule: NaN, or zero, or sentinel"
        )
    if len(np.unique(right)) > 1:
        header.table(
            "channel_missing", right.astype(np.uint8), "whether a missing value passes all"
        )
    one_rule, one_way = len(np.unique(rule)) == 1, len(np.unique(right)) == 1
    is_missing = ["v != v"]
    bound = number(ZERO_THRESHOLD, forest.dtype)
    zero = f"(v >= -{bound} && v <= {bound})"
    sentinel = f"v == {number(forest.inputs.missing_sentinel or 0.0, forest.dtype)}"
    for kind, words in ((MissingRule.NAN_OR_ZERO, zero), (MissingRule.NAN_OR_SENTINEL, sentinel)):
        if np.any(rule == kind):
            is_missing.append(
                words if one_rule else f"(@channel_rule[channel] == {int(kind)} && {words})"
            )
    largest = int(np.iinfo(found.dtype).max)
    all_or_none = f"{largest}U" if right[0] else "0U"
    header.code(
        _RANKS,
        kind=C_TYPES[found.dtype],
        n=found.n_channels,
        missing=" || ".join(is_missing),
        rank=all_or_none if one_way else f"@channel_missing[channel] ? {largest}U : 0U",
        passes=">=" if found.or_equal else ">",
    )


_RANKS = """
typedef $kind @rank;
#define @@N_RANKS $n

/* Rank a row: how many thresholds of each channel its value passes. */
static inline void @rank_row(const @input *x, @rank *rank)
{
    uint32_t channel;
    for (channel = 0; channel < $n; channel++) {
        const @input v = x[@channel_column[channel]];
        const uint32_t first = @cut_first[channel];
        uint32_t low = first;
        uint32_t size = (uint32_t)@cut_first[channel + 1U] - first;
        if ($missing) {
            rank[channel] = (@rank)($rank);
            continue;
        }
        while (size > 0) {
            const uint32_t half = size / 2U;
            if (v $passes (@input)@cut[low + half]) {
                low += half + 1U;
                size -= half + 1U;
            } else {
                size = half;
            }
        }
        rank[channel] = (@rank)(low - first);
    }
}
"""
