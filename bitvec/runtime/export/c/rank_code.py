"""Code that ranks a row among the thresholds of each column, by binary search."""

from __future__ import annotations

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, MissingRule
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import C_TYPES, narrow_integers, number
from bitvec.runtime.export.c.multiples import numbers
from bitvec.runtime.export.ranks import Ranks


def add_ranks(header: Header, forest: Forest, found: Ranks) -> None:
    """Append the thresholds by channel and the function that ranks a row."""
    cuts = found.cuts if found.cuts.size else np.zeros(1, forest.dtype)
    table = numbers(cuts)
    table.add(header, "cut", "the distinct thresholds of each channel, rising")
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
        cut=header.filled(table.reading("@cut[low + half]", "@input")),
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
            if (v $passes $cut) {
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
