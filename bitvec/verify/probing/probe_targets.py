"""Targets of probing at each node: outcomes of its test, and values at which it could err."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntFlag

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import first_at_least, floats, key_of, keys
from bitvec.core.node_tests import ZERO_THRESHOLD, CodeRule, Kind
from bitvec.core.shape_annotations import Bool, Float, Int8, Int32, Int64
from bitvec.core.value_sets import code_values, missing_values, n_codes
from bitvec.verify.probing.code_runs import shown_codes
from bitvec.verify.probing.regions import Plan, Region, entries


class Outcome(IntFlag):
    """Observations at a node; `LEFT`, `RIGHT` and `MISSING` are the outcomes of its test."""

    LEFT = 1
    RIGHT = 2
    MISSING = 4
    """NaN."""
    TIE = 8
    """x == b."""
    BELOW = 16
    """One ulp below b."""
    ABOVE = 32
    """One ulp above b."""
    PLUS_INF = 64
    MINUS_INF = 128
    PLUS_ZERO = 256
    MINUS_ZERO = 512
    SPECIAL = 1024
    """A value besides NaN that counts as missing (a sentinel, zero), at both ends of its range."""
    BESIDE_SPECIAL = 2048
    """One ulp outside that range."""
    CODE_IN = 4096
    """Every code of a set node that goes right (of a long run of them some, see `LONG_RUN`)."""
    CODE_OUT = 8192
    """Every code within the range of a set node that goes left (likewise)."""
    UNSEEN = 16384
    """A code past the range of a set node."""
    NEGATIVE = 32768
    FRACTION = 65536
    """A value between codes."""
    EDGE = 131072
    """One of two near rows on both sides of a node of several columns, found by bisection; at a
    node that weighs one column, its two neighbouring values on both sides."""


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Rows to be made: one per target, for the node at position `at` of a region.

    `column` is a position in the region's columns, -1 where the row is free. The value there lies
    in [low, high] near `wish`, goes to `side` (0 left, 1 right, -1 either), or is NaN, or is -0.0.
    A needed target belongs to the node's coverage.
    """

    at: Int64[Array, " n"]
    outcome: Int32[Array, " n"]
    column: Int64[Array, " n"]
    low: Int64[Array, " n"]
    high: Int64[Array, " n"]
    wish: Int64[Array, " n"]
    side: Int8[Array, " n"]
    missing: Bool[Array, " n"]
    minus_zero: Bool[Array, " n"]
    needed: Bool[Array, " n"]

    def take(self, index: Array) -> Targets:
        """Return some targets."""
        return Targets(*(getattr(self, field.name)[index] for field in fields(self)))


def _targets(
    at: Array,
    outcome: Outcome | Array,
    column: Array | int,
    low: Array | int,
    high: Array | int,
    *,
    wish: Array | int = 0,
    side: Array | int = -1,
    missing: bool = False,
    minus_zero: bool = False,
    needed: Array | bool = True,
) -> Targets:
    values = (at, outcome, column, low, high, wish, side, missing, minus_zero, needed)
    dtypes = (np.int64, np.int32, *[np.int64] * 4, np.int8, np.bool_, np.bool_, np.bool_)
    return Targets(
        *(
            np.broadcast_to(value, at.shape).astype(d)
            for value, d in zip(values, dtypes, strict=True)
        )
    )


def sides(wanted: Targets) -> Int64[Array, " n"]:
    """Return the side on which a row must leave the node: 0 left, 1 right, -1 either."""
    side: Array = np.where(wanted.outcome == Outcome.LEFT, 0, -1)
    side[wanted.outcome == Outcome.RIGHT] = 1
    return side


def targets(
    plan: Plan,
    region: Region,
    X: Float[Array, "n_nodes n_columns"],
    reachable: Bool[Array, " n_nodes"],
) -> Targets:
    """Return the targets of a region's reachable nodes, those that no row can meet left out.

    Values that a target leaves open are taken as near as may be to those of X, one row per node.

    Which axis-aligned targets can be met is exact unless the path has a test of several columns;
    below such a test only the sides are needed, and they may prove out of reach.
    """
    tests = plan.forest.tests
    at = np.flatnonzero(reachable)
    feature, kind = plan.feature[region.nodes], tests.kind[region.nodes]
    single = at[feature[at] >= 0]
    ordered = single[kind[single] != Kind.SET]
    is_weighted = plan.is_weighted[region.nodes[ordered]]
    parts = [*_sides(plan, region, single, X), *_values(plan, region, ordered)]
    parts += _thresholds(plan, region, ordered[~is_weighted])
    parts += _turning_points(plan, region, ordered[is_weighted])
    parts += _several_columns(plan, region, at[feature[at] < 0])
    parts += _suspects(plan, region, single)
    parts += _codes(plan, region, single[kind[single] == Kind.SET])
    parts += _special(plan, region, single)
    if not parts:
        return _targets(np.zeros(0, np.int64), Outcome(0), 0, 0, 0)
    merged = Targets(
        *(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(Targets))
    )
    return _possible(plan, region, merged)


def _own_column(plan: Plan, region: Region, at: Array) -> Array:
    return np.searchsorted(region.columns, plan.feature[region.nodes[at]])


def _sides(plan: Plan, region: Region, at: Array, X: Array) -> list[Targets]:
    node, column = region.nodes[at], _own_column(plan, region, at)
    split, first, top = plan.is_split[node], plan.first_upper[node], plan.top
    x = X[at, plan.feature[node]]
    wish = np.where(np.isnan(x), 0, keys(x))
    parts = []
    for outcome, right in ((Outcome.LEFT, False), (Outcome.RIGHT, True)):
        is_upper = right != plan.falls[node]
        low = np.where(split & is_upper, first, -top)
        high = np.where(split & ~is_upper, first - 1, top)
        side = np.where(split, -1, int(right))
        parts.append(_targets(at, outcome, column, low, high, wish=wish, side=side))
    return [*parts, _targets(at, Outcome.MISSING, column, 0, 0, missing=True)]


def _thresholds(plan: Plan, region: Region, at: Array) -> list[Targets]:
    b = keys(plan.forest.tests.b[region.nodes[at]])
    points = [(Outcome.TIE, b), (Outcome.BELOW, b - 1), (Outcome.ABOVE, b + 1)]
    return [_at_node(plan, region, at, outcome, key, key) for outcome, key in points]


def _turning_points(plan: Plan, region: Region, at: Array) -> list[Targets]:
    first, infinity = plan.first_upper[region.nodes[at]], key_of(np.inf, plan.forest.dtype)
    turns = (-infinity < first) & (first <= infinity)
    at, first = at[turns], first[turns]
    return [_at_node(plan, region, at, Outcome.EDGE, key, key) for key in (first - 1, first)]


def _values(plan: Plan, region: Region, at: Array) -> list[Targets]:
    infinity, zero = key_of(np.inf, plan.forest.dtype), np.zeros(at.size, np.int64)
    points = [
        (Outcome.PLUS_INF, zero + infinity),
        (Outcome.MINUS_INF, zero - infinity),
        (Outcome.PLUS_ZERO, zero),
        (Outcome.MINUS_ZERO, zero),
    ]
    return [_at_node(plan, region, at, outcome, key, key) for outcome, key in points]


def _suspects(plan: Plan, region: Region, at: Array) -> list[Targets]:
    """Values that another missing rule than the node's own would take for missing.

    No outcome of this node; they show a rule that was lost or changed on the way.
    """
    column, dtype = _own_column(plan, region, at), plan.forest.dtype
    zero, sentinel = key_of(ZERO_THRESHOLD, dtype), plan.forest.inputs.missing_sentinel
    # Zero itself is shown wherever a path admits it; these paths end just beside it.
    beside = (region.low[at, column] > 0) | (region.high[at, column] < 0)
    near, near_column = at[beside], column[beside]
    parts = [_targets(near, Outcome(0), near_column, -zero, zero, needed=False)]
    if sentinel is not None and not np.isnan(sentinel):
        key = key_of(sentinel, dtype)
        parts.append(_targets(at, Outcome(0), column, key, key, needed=False))
    return parts


def _several_columns(plan: Plan, region: Region, at: Array) -> list[Targets]:
    node = region.nodes[at]
    # A column counts once, in however many rows of S it stands.
    which, column = np.unique(entries(plan, node, without_substitute=True), axis=1)
    return [
        _targets(at, Outcome.LEFT, -1, 0, 0, side=0),
        _targets(at, Outcome.RIGHT, -1, 0, 0, side=1),
        _targets(
            at[which],
            Outcome.MISSING,
            np.searchsorted(region.columns, column),
            0,
            0,
            missing=True,
            # A substitute above may turn a missing value into any side.
            needed=plan.forest.tests.substitute is None,
        ),
    ]


def _at_node(
    plan: Plan, region: Region, at: Array, outcome: Outcome | Array, low: Array, high: Array
) -> Targets:
    return _targets(
        at,
        outcome,
        _own_column(plan, region, at),
        low,
        high,
        wish=low,
        minus_zero=outcome is Outcome.MINUS_ZERO,
        needed=~plan.is_below_mixed[region.nodes[at]],
    )


def _codes(plan: Plan, region: Region, at: Array) -> list[Targets]:
    forest, tests, node = plan.forest, plan.forest.tests, region.nodes[at]
    dtype, infinity = forest.dtype, key_of(np.inf, forest.dtype)
    which, code, right = shown_codes(tests, node)
    first, last = code_values(tests, node[which], dtype, code)
    held = first <= last
    which, code, right, first, last = (a[held] for a in (which, code, right, first, last))
    outcome = np.where(right, int(Outcome.CODE_IN), int(Outcome.CODE_OUT))
    past = keys(n_codes(tests, node).astype(dtype))
    minus_one, zero = key_of(-1.0, dtype), np.zeros(at.size, np.int64)
    fixed: list[tuple[Outcome, Array | int, Array | int]] = [
        (Outcome.UNSEEN, past, infinity - 1),
        (Outcome.NEGATIVE, -infinity + 1, minus_one),
        (Outcome.PLUS_INF, infinity, infinity),
        (Outcome.MINUS_INF, -infinity, -infinity),
        (Outcome.PLUS_ZERO, 0, 0),
        (Outcome.MINUS_ZERO, 0, 0),
        # The first value past truncation to 0 and the last before it.
        (Outcome.FRACTION, minus_one + 1, -1),
    ]
    # Between codes of which truncation, unlike the exact rule, would make a difference.
    telling = right != tests.other_right[node[which]]
    wide = np.flatnonzero(tests.code_rule[node[which]] != CodeRule.EXACT)
    # Every code counts by itself, so the choice within a code's values is left to the region; of
    # the values that are read as one code both ends are shown besides.
    return [
        *(_at_node(plan, region, at, kind, zero + low, zero + high) for kind, low, high in fixed),
        _at_node(plan, region, at[which], outcome, first, last),
        _at_node(plan, region, at[which[wide]], outcome[wide], last[wide], last[wide]),
        _at_node(plan, region, at[which[wide]], outcome[wide], first[wide], first[wide]),
        _fractions(plan, region, at, past - 1),
        _gaps(plan, region, at[which[telling]], code[telling]),
    ]


def _fractions(plan: Plan, region: Region, at: Array, high: Array) -> Targets:
    """Aim at the first admitted value between codes in [0, high], if there is one."""
    column, dtype = _own_column(plan, region, at), plan.forest.dtype
    found_at, found = [at[:0]], [high[:0]]
    for j in np.unique(column).tolist():
        own = np.full(region.nodes.size, -1)  # the last value to look at
        own[at[column == j]] = high[column == j]
        i, atom = np.divmod(region.atoms[j].places, region.atoms[j].first.size)
        first = np.maximum(np.maximum(region.atoms[j].first[atom], region.low[i, j]), 0)
        last = np.minimum(np.minimum(region.atoms[j].last[atom], region.high[i, j]), own[i])
        some = np.flatnonzero(first <= last)
        i, first, last = i[some], first[some], last[some]
        # Where the first value is a code, the next float is not, if any is.
        first += floats(first, dtype) % 1 == 0
        hit = np.flatnonzero((first <= last) & (floats(first, dtype) % 1 != 0))
        hit = hit[np.unique(i[hit], return_index=True)[1]]
        found_at.append(i[hit])
        found.append(first[hit])
    key = np.concatenate(found)
    return _at_node(plan, region, np.concatenate(found_at), Outcome.FRACTION, key, key)


def _gaps(plan: Plan, region: Region, at: Array, code: Array) -> Targets:
    """Aim between a node's first code and the next that its path admits; both rise per node."""
    first = first_at_least(code.astype(np.float64), plan.forest.dtype) + 1
    last = first_at_least(code + 1.0, plan.forest.dtype) - 1
    column, key, exists = _own_column(plan, region, at), first.copy(), first <= last
    for j in np.unique(column).tolist():
        own = np.flatnonzero(exists & (column == j))
        key[own], exists[own] = region.fit(at[own], j, first[own], last[own], first[own])
    hit = np.flatnonzero(exists)
    hit = hit[np.unique(at[hit], return_index=True)[1]]
    return _at_node(plan, region, at[hit], Outcome.FRACTION, key[hit], key[hit])


def _special(plan: Plan, region: Region, at: Array) -> list[Targets]:
    forest = plan.forest
    which, first, last = missing_values(
        forest.tests, region.nodes[at], forest.dtype, forest.inputs.missing_sentinel
    )
    special = [(first, last), (first, first), (last, last)]
    beside = [(first - 1, first - 1), (last + 1, last + 1)]
    return [
        _at_node(plan, region, at[which], outcome, low, high)
        for outcome, pairs in ((Outcome.SPECIAL, special), (Outcome.BESIDE_SPECIAL, beside))
        for low, high in pairs
    ]


def _possible(plan: Plan, region: Region, wanted: Targets) -> Targets:
    """Drop the targets that the path does not admit and settle each value as `wish`."""
    exists = np.ones(wanted.at.size, bool)
    wish = wanted.wish.copy()
    gap = np.flatnonzero(wanted.missing)
    exists[gap] = region.may_miss[wanted.at[gap], wanted.column[gap]]
    valued = ~wanted.missing & (wanted.column >= 0)
    has_atoms = np.zeros(region.columns.size + 1, bool)  # the last for column -1
    has_atoms[list(region.atoms)] = True
    plain = np.flatnonzero(valued & ~has_atoms[wanted.column])
    settled = np.flatnonzero(valued & has_atoms[wanted.column])
    settled = settled[np.argsort(wanted.column[settled], kind="stable")]
    own, start = np.unique(wanted.column[settled], return_index=True)
    groups: list[tuple[Array, Array | int]] = [(plain, wanted.column[plain])]
    groups += zip(np.split(settled, start[1:]), own.tolist(), strict=False)
    for index, column in groups:
        wish[index], exists[index] = region.fit(
            wanted.at[index],
            column,
            wanted.low[index],
            wanted.high[index],
            wanted.wish[index],
            wanted.side[index],
        )
    low, high = np.where(valued, wish, wanted.low), np.where(valued, wish, wanted.high)
    # A plain interval stays one: a search below tests of several columns may move within it. So
    # does a side's: that no row holds the one value wished for would not prove it out of reach.
    whole = np.append(plain, settled[sides(wanted)[settled] >= 0])
    low[whole] = np.maximum(wanted.low, region.low[wanted.at, wanted.column])[whole]
    high[whole] = np.minimum(wanted.high, region.high[wanted.at, wanted.column])[whole]
    # One value of a column may be the choice for several targets of one outcome.
    order = np.lexsort([x[settled] for x in (wish, wanted.minus_zero, wanted.outcome, wanted.at)])
    order = settled[order]
    again = np.ones(max(order.size - 1, 0), bool)
    for x in (wish, wanted.minus_zero, wanted.outcome, wanted.at):
        again &= x[order[1:]] == x[order[:-1]]
    exists[order[1:][again & exists[order[:-1]] & exists[order[1:]]]] = False
    return replace(wanted, low=low, high=high, wish=wish).take(np.flatnonzero(exists))
