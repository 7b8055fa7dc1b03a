"""A proof that a forest and the trees of its source are the same function, tree by tree.

Both sides are walked from the roots, test against test, all trees at once. Where tests differ, the
subtrees there are compared on all regions of rows that both of them part: equal functions may ask
in another order, or ask what does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.float_keys import floats
from bitvec.core.forest import Forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.node_tests import Kind, Relation, set_codes
from bitvec.core.reference import turns
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.verify.certificates.column_cuts import (
    Region,
    Space,
    cuts,
    same_tests,
    shared_leaves,
    subtree,
    top_key,
)
from bitvec.verify.certificates.difference import Difference
from bitvec.verify.certificates.mapped_columns import on_columns
from bitvec.verify.certificates.stated_output import (
    BY_ROWS,
    size_differences,
    stated_differences,
)
from bitvec.verify.source_trees import SourceTrees, of_forest

EXAMPLES = 10
"""Differences that are kept; a proof stops looking once it has as many."""
STEPS = 1 << 22
"""Nodes that are passed where two trees are not aligned, over all trees; about 10 seconds."""
DRAWS = 256
"""Rows among which a witness is looked for below tests of several columns."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Outcome of a proof: it holds, it found differences, or it was refused.

    `refused` says in a sentence why nothing is proved although no difference was found; `unstated`
    names the fields of the output that the library does not state.
    """

    differences: tuple[Difference, ...] = ()
    refused: str | None = None
    unstated: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """True if the two are the same function."""
        return not self.differences and self.refused is None


def prove(
    forest: Forest,
    trees: SourceTrees,
    *,
    missing: bool,
    infinite: bool,
    leaf_ids: bool = True,
) -> Proof:
    """Decide whether a forest and its source's trees are the same function, tree by tree.

    Parameters
    ----------
    forest : Forest
    trees : SourceTrees
    missing, infinite : bool
        Whether rows may hold NaN and infinities.
    leaf_ids : bool
        Whether `trees.leaf_id` must be the forest's `source.leaf_id`, where it holds one.

    Notes
    -----
    Aligned trees cost O(nodes), in one sweep over their levels. A test of several columns is equal
    only to one of the same bits.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> prove(stump, of_forest(stump), missing=True, infinite=True).holds
    True
    >>> other = Forest.from_matrices([[0, 1]], [0.5], [[0], [1]], [10, 20])
    >>> print(prove(other, of_forest(stump), missing=True, infinite=True).differences[0])
    tree 0: expected 'node 0, x0 > 0.5; leaf 0: [10.]', got 'node 0, x1 > 0.5; leaf 1: [20.]', \
at (0, 0.5)
    """
    if forest.kernel is not None:
        return Proof(refused="a forest with a kernel is compared on rows only")
    if forest.feature_map is not None or trees.feature_map is not None:
        both = on_columns(forest, trees)
        if both is None:
            return Proof(refused="forests with other feature maps are compared on rows only")
        forest, trees = both
    own = of_forest(forest)
    found = size_differences(forest, own, trees)
    if found:
        return Proof(tuple(found))
    found = stated_differences(forest, trees)
    source = forest.source
    number = source.leaf_id if leaf_ids and source is not None else None
    comparison = _Comparison(forest, trees, own, number, missing=missing, infinite=infinite)
    more, refused = comparison.run(EXAMPLES - len(found))
    return Proof((*found, *more), refused, tuple(sorted(BY_ROWS - trees.stated.keys())))


class _Comparison:
    def __init__(
        self,
        forest: Forest,
        trees: SourceTrees,
        own: SourceTrees,
        number: Array | None,
        *,
        missing: bool,
        infinite: bool,
    ) -> None:
        self.trees, self.own, self.number = trees, own, number
        self.missing = missing
        self.top = top_key(forest.dtype, infinite=infinite)
        others: dict[bytes, int] = {}
        self.cuts = cuts(trees, self.top, others), cuts(own, self.top, others)

    def run(self, space_left: int) -> tuple[list[Difference], str | None]:
        a, c, parent, from_right, tree, open_pairs = self._aligned()
        found: list[Difference] = []
        steps = [STEPS]
        for pair in open_pairs.tolist():
            path = []
            at = pair
            while parent[at] >= 0:
                path.append((int(a[parent[at]]), bool(from_right[at])))
                at = int(parent[at])
            both_leaves = a[pair] < 0 and c[pair] < 0 and parent[pair] >= 0
            named = parent[pair] if both_leaves else pair
            at_nodes = int(a[named]), int(c[named])
            start = int(a[pair]), int(c[pair])
            most = space_left - len(found)
            found += self._differences(int(tree[pair]), start, path, steps, most, at_nodes)
            if len(found) >= space_left:
                break
            if steps[0] < 0:
                text = f"the trees are not aligned and take more than {STEPS} steps to compare"
                return found, text
        return found, None

    def _aligned(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Walk down equal tests; return all pairs, with their parents, and those that differ."""
        trees, own = self.trees, self.own
        n_trees = trees.root.size
        a, c, tree = trees.root, own.root, np.arange(n_trees)
        parent, from_right = np.full(n_trees, -1), np.zeros(n_trees, bool)
        levels: list[tuple[Array, ...]] = []
        unequal, begin = [], 0
        while a.size or not levels:
            levels.append((a, c, parent, from_right, tree))
            differs = (a >= 0) != (c >= 0)
            at = np.flatnonzero((a < 0) & (c < 0))
            differs[at] = self._leaves_differ(~a[at], ~c[at])
            at = np.flatnonzero((a >= 0) & (c >= 0))
            same, swapped = same_tests(*self.cuts, a[at], c[at], missing=self.missing)
            differs[at[~same]] = True
            unequal.append(begin + np.flatnonzero(differs))
            down, swapped = at[same], swapped[same]
            sides = own.left[c[down]], own.right[c[down]]
            parent, tree = np.tile(begin + down, 2), np.tile(tree[down], 2)
            from_right = np.repeat([False, True], down.size)
            begin += a.size
            a, c = (
                np.concatenate([trees.left[a[down]], trees.right[a[down]]]),
                np.concatenate([np.where(swapped, *sides[::-1]), np.where(swapped, *sides)]),
            )
        pairs = [np.concatenate(part) for part in zip(*levels, strict=True)]
        return *pairs, np.concatenate(unequal)  # type: ignore[return-value]

    def _leaves_differ(self, a: Int64[Array, " n"], c: Int64[Array, " n"]) -> Bool[Array, " n"]:
        """Tell which pairs of leaves hold other bits; one NaN is as good as another."""
        trees, own = self.trees, self.own
        x, y = trees.v[a].astype(np.float64), own.v[c].astype(np.float64)
        differs: Array = np.logical_not(_same_bits(x, y).all(axis=1))
        if self.number is not None:
            differs |= trees.leaf_id[a] != self.number[c]
        if trees.output is not None and own.output is not None:
            differs |= trees.output[a] != own.output[c]
        if trees.linear is not None or own.linear is not None:
            p, q = (_linear(side.linear, len(side.v)) for side in (trees, own))
            differs |= _terms_differ(p, q, a, c)
        return differs

    def _differences(
        self,
        tree: int,
        start: tuple[int, int],
        path: list[tuple[int, bool]],
        steps: list[int],
        most: int,
        named: tuple[int, int],
    ) -> list[Difference]:
        trees, own = self.trees, self.own
        below = subtree(trees, start[0]) + [node for node, _ in path]
        space = Space(
            self.cuts, (below, subtree(own, start[1])), trees.n_features, missing=self.missing
        )
        region: Region = {}
        for node, right in reversed(path):
            variable, admitted = space.admitted(region, 0, node, right=right)
            if not admitted:
                return []
            region[variable] = admitted
        found: list[Difference] = []
        batch: list[tuple[int, int, Region]] = []

        def settle() -> None:
            leaves = np.array([pair[:2] for pair in batch], np.int64).reshape(-1, 2)
            differs = self._leaves_differ(leaves[:, 0], leaves[:, 1])
            for k in np.flatnonzero(differs)[: most - len(found)].tolist():
                row = self._witness(space, tree, batch[k][2])
                ends = tuple(~leaf for leaf in batch[k][:2])
                texts = [self._text(side, named[side], ends[side]) for side in (0, 1)]
                found.append(Difference("structure", tree, texts[0], texts[1], row))
            batch.clear()

        for shared in shared_leaves(space, (trees, own), start, region, steps):
            batch.append(shared)
            if len(batch) == BATCH:
                settle()
                if len(found) == most:
                    return found
        settle()
        return found

    def _text(self, side: int, start: int, leaf: int) -> str:
        """Say where one side stands: the test that is not the other's, and the leaf below it."""
        trees = (self.trees, self.own)[side]
        v = trees.v[~leaf]
        ids = trees.leaf_id if side == 0 or self.number is None else self.number
        text = f"leaf {int(ids[~leaf])}: {v}"
        return f"node {start}, {_test_text(trees, start)}; {text}" if start >= 0 else text

    def _witness(self, space: Space, tree: int, region: Region) -> tuple[float, ...]:
        """Return a row of the region that the two sides answer differently; empty if none is."""
        trees = self.trees
        dtype, n = trees.row_dtype, trees.n_features
        plain = all(variable < n for variable in region)
        rng = np.random.default_rng(0)
        X = np.zeros((1 if plain else DRAWS, n), dtype)
        if not plain:
            X[1:] = rng.standard_normal((DRAWS - 1, n)) * np.exp2(rng.integers(-2, 4, (1, n)))
        for variable, atoms in region.items():
            if variable >= n:
                continue
            keys = []
            for atom in range(atoms.bit_length()):
                if atoms >> atom & 1:
                    ends = space.interval(variable, atom, self.top)
                    keys.append(None if ends is None else min(max(0, ends[0]), ends[1]))
            keys = sorted(keys, key=lambda key: (key is None, abs(key or 0)))[:DRAWS]
            values = np.array(
                [np.nan if k is None else floats(np.array(k), dtype) for k in keys], dtype
            )
            X[:, variable] = values[rng.integers(values.size, size=len(X))]
            X[0, variable] = values[0]
        a, c = exits(trees, X, tree), exits(self.own, X, tree)
        differs = np.flatnonzero(self._leaves_differ(a, c))
        return tuple(X[differs[0]].tolist()) if differs.size else ()


BATCH = 1 << 10
"""Pairs of leaves that are compared at a time."""


def exits(trees: SourceTrees, X: Array, tree: int) -> Int64[Array, " n_rows"]:
    """Return the leaf, in the arrays of leaves, at which each row leaves one tree."""
    rule = trees.missing_sentinel
    with np.errstate(over="ignore"):
        sentinel = None if rule is None else float(trees.row_dtype.type(rule))
    Z = X.astype(trees.tests.dtype)
    at = np.full(len(X), trees.root[tree])
    while True:
        row = np.flatnonzero(at >= 0)
        if not row.size:
            return ~at
        right = turns(trees.tests, Z, row, at[row], sentinel)
        at[row] = np.where(right, trees.right[at[row]], trees.left[at[row]])


def _same_bits(x: Array, y: Array) -> Array:
    same: Array = (x == y) & (np.signbit(x) == np.signbit(y)) | (np.isnan(x) & np.isnan(y))
    return same


def _linear(linear: LinearTerms | None, n_leaves: int) -> LinearTerms:
    if linear is not None:
        return linear
    none = np.zeros((0, 1))
    return LinearTerms(np.zeros(n_leaves + 1, np.int64), np.zeros(0, np.int32), none, none)


def _terms_differ(
    p: LinearTerms, q: LinearTerms, a: Int64[Array, " n"], c: Int64[Array, " n"]
) -> Bool[Array, " n"]:
    """Tell which pairs of leaves are linear in other ways."""
    count = p.leaf_ptr[a + 1] - p.leaf_ptr[a]
    differs: Array = count != q.leaf_ptr[c + 1] - q.leaf_ptr[c]
    at = np.flatnonzero(~differs & (count > 0))
    if not at.size:
        return differs
    pair = np.repeat(at, count[at])
    i, j = (ranges(s.leaf_ptr[k[at]], count[at]) for s, k in ((p, a), (q, c)))
    terms = (p.column[i] == q.column[j]) & _same_bits(p.weight[i], q.weight[j]).all(axis=1)
    differs[pair[~terms]] = True
    differs[at] |= ~_same_bits(p.constant[a[at]], q.constant[c[at]]).all(axis=1)
    differs[at] |= p.zero_threshold != q.zero_threshold
    return differs


def _test_text(trees: SourceTrees, node: int) -> str:
    tests = trees.tests
    column = int(tests.column[tests.row_ptr[tests.node_ptr[node]]])
    if not tests.take(np.array([node])).is_one_hot[0]:
        return "a test of several columns"
    missing = "" if not tests.missing_right[node] else " or missing"
    words: dict[Kind, Callable[[], str]] = {
        Kind.SET: lambda: f"in {_first(set_codes(tests, node).tolist())}",
        Kind.EQUAL: lambda: f"== {tests.b[node]}",
    }
    sign = ">" if tests.relation[node] == Relation.GREATER else ">="
    word = words.get(Kind(tests.kind[node]), lambda: f"{sign} {tests.b[node]}")
    return f"x{column} {word()}{missing}"


def _first(codes: list[int]) -> str:
    shown = ", ".join(map(str, codes[:6]))
    return "{" + shown + (", ...}" if len(codes) > 6 else "}")
