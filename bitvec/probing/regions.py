"""What the path to each node admits: per column a set of values, and whether it may be missing.

The usual test sends one upper interval of values right, so its paths admit one interval per node
and column. Every other axis-aligned test (set, equal, a missing rule beyond NaN) cuts its column
into atoms on which all of these tests are constant, and a path admits some of the atoms. Emptiness
is thus computed, not searched for. A test of several columns bounds no column: what is computed
below it is necessary for a row to come by, not sufficient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int64

from bitvec import tree_paths
from bitvec.arrays import Array, ranges
from bitvec.forest import Forest
from bitvec.node_tests import Kind, MissingRule, Relation
from bitvec.probing.float_keys import key_of, keys
from bitvec.probing.value_sets import contains, right_values

MASK_LIMIT = 1 << 25
"""Most elements of a mask over atoms; regions of more nodes are computed in two halves."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is known of a forest's nodes before any path is looked at.

    `first_right` is the smallest key that goes right, where `is_split` marks a node that sends one
    upper interval right; `feature` is -1 at a node of several columns, and `is_below_mixed` marks
    the nodes that have such a node above them or are one. Rows hold keys from -top to top, and NaN
    only if `missing`.
    """

    forest: Forest
    parent: Int64[Array, " n_nodes"]
    from_right: Bool[Array, " n_nodes"]
    tree: Int64[Array, " n_nodes"]
    feature: Int[Array, " n_nodes"]
    is_split: Bool[Array, " n_nodes"]
    first_right: Int64[Array, " n_nodes"]
    is_below_mixed: Bool[Array, " n_nodes"]
    top: int
    missing: bool


def plan(forest: Forest, *, missing: bool = True, infinite: bool = True) -> Plan:
    """Read the tests of a forest; `missing` and `infinite` say what rows may hold."""
    tests, B = forest.tests, forest.bitvectors
    feature = tests.feature
    plain_rule = tests.missing_rule == MissingRule.NAN
    if forest.inputs.missing_sentinel is None:
        plain_rule = tests.missing_rule != MissingRule.NAN_OR_ZERO
    ordered = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    is_split = (feature >= 0) & ordered & plain_rule
    strict = tests.relation == Relation.GREATER
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
        is_split,
        np.where(is_split, keys(tests.b) + strict, 0),
        mixed,
        key_of(np.inf, forest.dtype) - (not infinite),
        missing,
    )


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
    of the region.
    """

    first: Int64[Array, " n_atoms"]
    last: Int64[Array, " n_atoms"]
    node: Int64[Array, " n_tests"]
    goes_right: Bool[Array, "n_tests n_atoms"]
    admitted: Bool[Array, "n_nodes n_atoms"]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """What the paths to `nodes` admit in each column that they or their ancestors read.

    A value of column `columns[j]` comes by as far as node i if its key lies between `low[i, j]` and
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
        """Whether a row can come by."""
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
        atoms = self.atoms[j]
        key, exists = np.empty(at.size, np.int64), np.empty(at.size, bool)
        step = max(1, MASK_LIMIT // 8 // atoms.first.size)
        for start in range(0, at.size, step):
            part = slice(start, start + step)
            first = np.maximum(atoms.first, low[part, None])
            last = np.minimum(atoms.last, high[part, None])
            fits = atoms.admitted[at[part]] & (first <= last)
            if side is not None:
                asked = np.flatnonzero(side[part] >= 0)
                test = np.searchsorted(atoms.node, self.nodes[at[part][asked]])
                fits[asked] &= atoms.goes_right[test] == (side[part][asked, None] == 1)
            nearest = np.clip(wish[part, None], first, last)
            # A distance of int64 keys may overflow; as floats the nearest is near enough.
            distance = np.abs(nearest.astype(np.float64) - wish[part, None])
            chosen = np.where(fits, distance, np.inf).argmin(axis=1)
            every = np.arange(chosen.size)
            key[part], exists[part] = nearest[every, chosen], fits[every, chosen]
        return key, exists

    def admitted_values(self, i: int, j: int) -> tuple[Array, Array]:
        """Return the admitted values of node i in column j as rising disjoint intervals."""
        low, high = self.low[i, j], self.high[i, j]
        if j not in self.atoms:
            return (np.array([low]), np.array([high])) if low <= high else (low[:0], high[:0])
        atoms = self.atoms[j]
        first, last = np.maximum(atoms.first, low), np.minimum(atoms.last, high)
        fits = atoms.admitted[i] & (first <= last)
        return first[fits], last[fits]


def regions(plan: Plan, nodes: Int64[Array, " n"]) -> Iterator[Region]:
    """Yield the regions of some nodes, in order, in parts that fit in memory."""
    involved = np.zeros(plan.parent.size, bool)
    involved[nodes] = True
    for _, above, _ in ancestors(plan, nodes):
        involved[above] = True
    involved_nodes = np.flatnonzero(involved)
    irregular = involved_nodes[~plan.is_split[involved_nodes] & (plan.feature[involved_nodes] >= 0)]
    columns = np.unique(entries(plan, involved_nodes)[1]).astype(np.int64)
    empty = {
        int(np.searchsorted(columns, column)): _cut(
            plan, irregular[plan.feature[irregular] == column]
        )
        for column in np.unique(plan.feature[irregular])
    }
    n_atoms = sum(first.size for first, *_ in empty.values())
    if nodes.size > 1 and nodes.size * n_atoms > MASK_LIMIT:
        half = nodes.size // 2
        yield from regions(plan, nodes[:half])
        yield from regions(plan, nodes[half:])
        return
    yield _region(plan, nodes, columns, empty)


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


def _cut(plan: Plan, nodes: Array) -> tuple[Array, Array, Array, Array]:
    """Return (first, last, nodes, goes_right) of the atoms of some tests of one column."""
    sets = [right_values(plan.forest, int(node)) for node in nodes]
    cuts = [np.array([-plan.top])]
    for first, last in sets:
        cuts += [first, last + 1]
    first = np.unique(np.concatenate(cuts))
    first = first[(first >= -plan.top) & (first <= plan.top)]
    last = np.append(first[1:] - 1, plan.top)
    return first, last, nodes, np.stack([contains(right, first) for right in sets])


def _region(
    plan: Plan, nodes: Array, columns: Array, cuts: dict[int, tuple[Array, Array, Array, Array]]
) -> Region:
    shape = (nodes.size, columns.size)
    low, high = np.full(shape, -plan.top), np.full(shape, plan.top)
    may_miss = np.full(shape, plan.missing)
    atoms = {j: Atoms(*cut, np.ones((nodes.size, cut[0].size), bool)) for j, cut in cuts.items()}
    missing_right = plan.forest.tests.missing_right
    for position, above, right in ancestors(plan, nodes):
        strays = missing_right[above] != right
        at, column = entries(plan, above[strays], without_substitute=True)
        may_miss[position[strays][at], np.searchsorted(columns, column)] = False
        j = np.searchsorted(columns, plan.feature[above])
        for turn, bound, best, shift in ((True, low, np.maximum, 0), (False, high, np.minimum, -1)):
            k = np.flatnonzero(plan.is_split[above] & (right == turn))
            where = position[k], j[k]
            bound[where] = best(bound[where], plan.first_right[above[k]] + shift)
        irregular = np.flatnonzero(~plan.is_split[above] & (plan.feature[above] >= 0))
        for column in np.unique(j[irregular]):
            k = irregular[j[irregular] == column]
            table = atoms[int(column)]
            test = np.searchsorted(table.node, above[k])
            table.admitted[position[k]] &= table.goes_right[test] == right[k, None]
    has_value = low <= high
    for at_column, table in atoms.items():
        first = np.maximum(table.first, low[:, at_column, None])
        last = np.minimum(table.last, high[:, at_column, None])
        has_value[:, at_column] = np.any(table.admitted & (first <= last), axis=1)
    return Region(nodes, columns, low, high, may_miss, has_value, atoms)
