"""Regions of nodes: per column a set of values on the path, and whether it may be missing.

The usual test sends one upper interval of values right (with a negative weight, left), so its paths
admit one interval per node and column. Every other axis-aligned test (set, equal, a missing rule
beyond NaN) cuts its column into atoms on which all of these tests are constant, and a path admits
some of the atoms. Emptiness is thus computed, not searched for. A test of several columns bounds no
column: what is computed below it is necessary for a row to come by, not sufficient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array, ranges
from bitvec.core.float_keys import first_at_least, key_of, keys, neighbours
from bitvec.core.forest import Forest
from bitvec.core.inputs import Domain
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Bool, Float64, Int, Int64
from bitvec.core.value_sets import atoms as cut_atoms
from bitvec.verify.probing.one_column import first_upper, weighted
from bitvec.verify.probing.same_margins import margin_classes

MASK_LIMIT = 1 << 24
"""Most elements of a mask over atoms; regions of more nodes are computed in two halves."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Properties of a forest's nodes that hold on any path.

    `is_split` marks a node that parts the values of `feature` in two intervals; the upper one
    begins at the key `first_upper` and goes right, or left where the test `falls`. `is_weighted`
    marks the splits whose b is no value of the column. `feature` is -1 at a node of several
    columns; margins that differ by a `factor` share a number in `margin`. `is_below_mixed` marks
    the nodes that have such a node above them or are one. Rows hold keys from -top to top, within
    the column's `domains`, and NaN only if `missing`.
    """

    forest: Forest
    parent: Int64[Array, " n_nodes"]
    from_right: Bool[Array, " n_nodes"]
    tree: Int64[Array, " n_nodes"]
    feature: Int[Array, " n_nodes"]
    is_split: Bool[Array, " n_nodes"]
    is_weighted: Bool[Array, " n_nodes"]
    falls: Bool[Array, " n_nodes"]
    first_upper: Int64[Array, " n_nodes"]
    margin: Int64[Array, " n_nodes"]
    factor: Float64[Array, " n_nodes"]
    is_below_mixed: Bool[Array, " n_nodes"]
    top: int
    missing: bool
    domains: dict[int, ColumnDomain]


class ColumnDomain(NamedTuple):
    """Keys [first, last] of the values that a column may hold, rising, and whether NaN is one."""

    first: Int64[Array, " n_intervals"]
    last: Int64[Array, " n_intervals"]
    missing: bool


def plan(forest: Forest, *, missing: bool = True, infinite: bool = True) -> Plan:
    """Read the tests of a forest; `missing` and `infinite` say what rows may hold."""
    tests, B = forest.tests, forest.bitvectors
    feature = tests.feature.copy()
    plain_rule = tests.missing_rules(forest.inputs.missing_sentinel) == MissingRule.NAN
    ordered = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    is_split = (feature >= 0) & ordered & plain_rule
    strict = tests.relation == Relation.GREATER
    upper = np.where(is_split, keys(tests.b) + strict, 0)
    is_weighted, falls = weighted(tests)
    at = np.flatnonzero(is_weighted)
    feature[at] = tests.column[tests.row_ptr[tests.node_ptr[at]]]
    upper[at] = first_upper(tests, at, falls[at])
    parent, from_right = tree_paths.parents(B)
    mixed = feature < 0
    if mixed.any():
        depth = tree_paths.node_depth(B)
        for level in range(1, int(depth.max()) + 1):
            at = np.flatnonzero(depth == level)
            mixed[at] |= mixed[parent[at]]
    return Plan(
        forest,
        parent,
        from_right,
        B.tree_of_node,
        feature,
        is_split | is_weighted,
        is_weighted,
        falls,
        upper,
        *margin_classes(tests, np.flatnonzero(feature < 0)),
        mixed,
        key_of(np.inf, forest.dtype) - (not infinite),
        missing,
        {
            column: ColumnDomain(*_keys_of(domain, forest.dtype), domain.missing and missing)
            for column, domain in enumerate(forest.inputs.domains or ())
            if not domain.is_everything
        },
    )


def _keys_of(domain: Domain, dtype: np.dtype) -> tuple[Array, Array]:
    ends = np.array(domain.intervals, np.float64).reshape(-1, 2)
    return first_at_least(ends[:, 0], dtype), neighbours(ends[:, 1], dtype)[0]


def ancestors(
    plan: Plan, nodes: Int64[Array, " n"]
) -> Iterator[tuple[Int64[Array, " k"], Int64[Array, " k"], Bool[Array, " k"]]]:
    """Yield (position in `nodes`, ancestor, whether the path turns right there), nearest first."""
    position = np.arange(nodes.size)
    current = nodes
    while current.size:
        right = plan.from_right[current]
        current = plan.parent[current]
        on = np.flatnonzero(current >= 0)
        position, current, right = position[on], current[on], right[on]
        if current.size:
            yield position, current, right


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """The atoms of one column: intervals [first, last] on which its irregular tests are constant.

    `goes_right` has one row for each irregular test in `node` (ascending); `admitted` one per node
    of the region, true for the atoms of which the path admits a value, and `places` lists its true
    elements, as i * n_atoms + atom.
    """

    first: Int64[Array, " n_atoms"]
    last: Int64[Array, " n_atoms"]
    node: Int64[Array, " n_tests"]
    goes_right: Bool[Array, "n_tests n_atoms"]
    admitted: Bool[Array, "n_nodes n_atoms"]
    places: Int64[Array, " n_places"]

    def nearest(
        self,
        places: Int64[Array, " n_places"],
        at: Int64[Array, " n"],
        low: Int64[Array, " n"],
        high: Int64[Array, " n"],
        wish: Int64[Array, " n"],
    ) -> tuple[Int64[Array, " n"], Bool[Array, " n"]]:
        """Return the key in [low, high] nearest to a wish there, in atoms that `places` lists.

        The second array tells whether there is one. O(log(n_places)) each.
        """
        row, (begin, end) = at * self.first.size, _span(self.first, low, high)
        atom = np.searchsorted(self.first, wish, side="right") - 1
        behind = np.searchsorted(places, row + atom, side="right")
        listed = np.append(places, -1)  # of no row, before the first place and behind the last
        below = listed[behind - 1] - row
        above = np.where(behind < places.size, listed[behind] - row, self.first.size)
        is_below, is_above = (below >= begin) & (low <= high), (above <= end) & (low <= high)
        down = np.minimum(wish, self.last[np.where(is_below, below, 0)])
        up = np.maximum(wish, self.first[np.where(is_above, above, 0)])
        # A distance of int64 keys may overflow; as floats the nearest is near enough.
        far_down, far_up = (np.abs(key.astype(np.float64) - wish) for key in (down, up))
        goes_down = is_below & (~is_above | (far_down <= far_up))
        key = np.clip(np.where(goes_down, down, up), low, np.maximum(low, high))
        return key, is_below | is_above


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Values that the paths to `nodes` admit in each column that they or their ancestors read.

    A value of column `columns[j]` reaches node i if its key lies between `low[i, j]` and
    `high[i, j]` and, where `atoms` has j, in an admitted atom; NaN does if `may_miss[i, j]`.
    """

    nodes: Int64[Array, " n_nodes"]
    columns: Int64[Array, " n_columns"]
    low: Int64[Array, "n_nodes n_columns"]
    high: Int64[Array, "n_nodes n_columns"]
    may_miss: Bool[Array, "n_nodes n_columns"]
    has_value: Bool[Array, "n_nodes n_columns"]
    atoms: dict[int, Atoms]

    @property
    def reachable(self) -> Bool[Array, " n_nodes"]:
        """True at a node that a row can reach."""
        reachable: Array = np.all(self.has_value | self.may_miss, axis=1)
        return reachable

    def fit(
        self,
        at: Int64[Array, " n"],
        j: int | Int64[Array, " n"],
        low: Int64[Array, " n"],
        high: Int64[Array, " n"],
        wish: Int64[Array, " n"],
        side: Int[Array, " n"] | None = None,
    ) -> tuple[Int64[Array, " n"], Bool[Array, " n"]]:
        """Choose admitted keys within [low, high] near `wish`, for positions `at` of the nodes.

        Returns
        -------
        key, exists
            `exists` is exact: where it is false, no admitted value lies there. `j` is one column,
            or one per position if none of these has atoms.

        Notes
        -----
        `side` 0 or 1 asks besides for a value that goes left or right at an irregular node itself;
        -1 asks for neither. A value in the atom of the wish is preferred, then the nearest atom.
        """
        low = np.maximum(low, self.low[at, j])
        high = np.minimum(high, self.high[at, j])
        if not isinstance(j, int) or j not in self.atoms:
            return np.clip(wish, low, np.maximum(low, high)), low <= high
        atoms, wish = self.atoms[j], np.clip(wish, low, np.maximum(low, high))
        key, exists = atoms.nearest(atoms.places, at, low, high, wish)
        if side is None:
            return key, exists
        asked = np.flatnonzero(side >= 0)
        step = max(1, MASK_LIMIT // atoms.first.size)
        for start in range(0, asked.size, step):
            part = asked[start : start + step]
            right = atoms.goes_right[np.searchsorted(atoms.node, self.nodes[at[part]])]
            fits = atoms.admitted[at[part]] & (right == (side[part, None] == 1))
            key[part], exists[part] = atoms.nearest(
                np.flatnonzero(fits), np.arange(part.size), low[part], high[part], wish[part]
            )
        return key, exists

    def runs(
        self, i: int, j: int, low: int, high: int, side: int
    ) -> tuple[Int64[Array, " n_runs"], Int64[Array, " n_runs"]]:
        """Return the first and last keys of all admitted intervals of [low, high], rising.

        Of node i and a column j that has atoms, neighbours among which make one interval; `side` as
        in `fit`.
        """
        atoms, low, high = self.atoms[j], max(low, self.low[i, j]), min(high, self.high[i, j])
        fits = atoms.admitted[i] & (atoms.first <= high) & (atoms.last >= low)
        if side >= 0:
            own = np.searchsorted(atoms.node, self.nodes[i])
            fits &= atoms.goes_right[own] == (side == 1)
        turns = np.flatnonzero(np.diff(fits.astype(np.int8), prepend=0, append=0))
        begin, end = turns[::2], turns[1::2] - 1
        return np.maximum(atoms.first[begin], low), np.minimum(atoms.last[end], high)


def regions(plan: Plan, nodes: Int64[Array, " n"]) -> Iterator[Region]:
    """Yield the regions of some nodes, in order, in parts that fit in memory."""
    involved = np.zeros(plan.parent.size, bool)
    involved[nodes] = True
    for _, above, _ in ancestors(plan, nodes):
        involved[above] = True
    involved_nodes = np.flatnonzero(involved)
    irregular = involved_nodes[~plan.is_split[involved_nodes] & (plan.feature[involved_nodes] >= 0)]
    columns = np.unique(entries(plan, involved_nodes)[1]).astype(np.int64)
    cuts = {}
    for column in np.unique(plan.feature[irregular]):
        tests = irregular[plan.feature[irregular] == column]
        first, last, goes_right = cut_atoms(
            plan.forest.tests, tests, plan.top, plan.forest.inputs.missing_sentinel
        )
        cuts[int(np.searchsorted(columns, column))] = first, last, tests, goes_right
    for j, column in enumerate(columns.tolist()):
        domain = plan.domains.get(column)
        if domain is not None and domain.first.size > 1:
            cuts[j] = _cut_further(cuts.get(j), domain, plan.top)
    n_atoms = sum(first.size for first, *_ in cuts.values())
    if nodes.size > 1 and nodes.size * n_atoms > MASK_LIMIT:
        half = nodes.size // 2
        yield from regions(plan, nodes[:half])
        yield from regions(plan, nodes[half:])
        return
    yield _region(plan, nodes, columns, cuts)


def _cut_further(
    cut: tuple[Array, Array, Array, Array] | None, domain: ColumnDomain, top: int
) -> tuple[Array, Array, Array, Array]:
    """Cut the atoms of a column at the ends of its domain, too."""
    if cut is None:
        cut = np.array([-top]), np.array([top]), np.zeros(0, np.int64), np.zeros((0, 1), bool)
    first, _, tests, goes_right = cut
    ends = np.concatenate([first, domain.first, domain.last + 1])
    finer = np.unique(ends[(ends >= -top) & (ends <= top)])
    at = np.searchsorted(first, finer, side="right") - 1
    return finer, np.append(finer[1:] - 1, top), tests, goes_right[:, at]


def entries(plan: Plan, nodes: Array, *, without_substitute: bool = False) -> tuple[Array, Array]:
    """Return (position in `nodes`, column) for every entry of the nodes' rows of S."""
    tests = plan.forest.tests
    start = tests.row_ptr[tests.node_ptr[nodes]]
    count = tests.row_ptr[tests.node_ptr[nodes + 1]] - start
    at, entry = np.repeat(np.arange(nodes.size), count), ranges(start, count)
    if without_substitute and tests.substitute is not None:
        bare = np.isnan(tests.substitute[entry])
        at, entry = at[bare], entry[bare]
    return at, tests.column[entry]


def _region(
    plan: Plan, nodes: Array, columns: Array, cuts: dict[int, tuple[Array, Array, Array, Array]]
) -> Region:
    shape = (nodes.size, columns.size)
    low, high = np.full(shape, -plan.top), np.full(shape, plan.top)
    may_miss = np.full(shape, plan.missing)
    admitted = {j: np.ones((nodes.size, cut[0].size), bool) for j, cut in cuts.items()}
    for place, name in enumerate(columns.tolist()):
        domain = plan.domains.get(name)
        if domain is None:
            continue
        may_miss[:, place] = domain.missing
        low[:, place] = max(-plan.top, int(domain.first[0])) if domain.first.size else plan.top + 1
        high[:, place] = min(plan.top, int(domain.last[-1])) if domain.last.size else -plan.top - 1
        if domain.first.size > 1:
            atom = cuts[place][0]
            within = np.searchsorted(domain.first, atom, side="right") - 1
            admitted[place] &= (within >= 0) & (atom <= domain.last[within])
    missing_right = plan.forest.tests.missing_right
    for position, above, right in ancestors(plan, nodes):
        strays = missing_right[above] != right
        at, column = entries(plan, above[strays], without_substitute=True)
        may_miss[position[strays][at], np.searchsorted(columns, column)] = False
        j = np.searchsorted(columns, plan.feature[above])
        is_upper = right != plan.falls[above]
        for turn, bound, best, shift in ((True, low, np.maximum, 0), (False, high, np.minimum, -1)):
            k = np.flatnonzero(plan.is_split[above] & (is_upper == turn))
            where = position[k], j[k]
            bound[where] = best(bound[where], plan.first_upper[above[k]] + shift)
        irregular = np.flatnonzero(~plan.is_split[above] & (plan.feature[above] >= 0))
        for column in np.unique(j[irregular]):
            k = irregular[j[irregular] == column]
            _, _, tests, goes_right = cuts[int(column)]
            test = np.searchsorted(tests, above[k])
            admitted[int(column)][position[k]] &= goes_right[test] == right[k, None]
    has_value = low <= high
    atoms = {}
    for at_column, fits in admitted.items():
        first = cuts[at_column][0]
        begin, end = _span(first, low[:, at_column], high[:, at_column])
        atom = np.arange(first.size)
        fits &= (begin[:, None] <= atom) & (atom <= end[:, None]) & has_value[:, at_column, None]
        has_value[:, at_column] = fits.any(axis=1)
        atoms[at_column] = Atoms(*cuts[at_column], fits, np.flatnonzero(fits))
    return Region(nodes, columns, low, high, may_miss, has_value, atoms)


def _span(first: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the first and the last of the atoms that begin at `first` to meet [low, high]."""
    begin, end = (np.searchsorted(first, x, side="right") - 1 for x in (low, high))
    return np.maximum(begin, 0), end
