"""Complete trees of one depth as dense arrays: from a forest, padded, and back to one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, put, read_only, require
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, MissingRule, Relation, from_rows
from bitvec.core.output import Aggregate, Output
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.core.structure import Bitvectors, children
from bitvec.errors import UnsupportedModelError

DEEPEST = 12
"""Most levels: rows at the leaves of a deeper complete tree would be few, and its arrays large."""


@dataclass(frozen=True, slots=True, eq=False)
class CompleteTrees:
    """Trees of 2 ** depth leaves each, whose leaf vectors are summed.

    A row goes right where S x > b. Nodes and leaves stand in the order of a `Forest`: one tree
    after the other, nodes breadth first, leaves left to right.

    Parameters
    ----------
    n_trees : int
    S : float64, (n_nodes, n_features)
    b : float64, (n_nodes,)
    v : float64, (n_leaves, n_outputs)
    base_score : float64, (n_outputs,)

    Raises
    ------
    InvalidForestError
        If the shapes do not fit each other.
    """

    n_trees: int
    S: Float64[Array, "n_nodes n_features"]
    b: Float64[Array, " n_nodes"]
    v: Float64[Array, "n_leaves n_outputs"]
    base_score: Float64[Array, " n_outputs"]

    def __post_init__(self) -> None:
        n_leaves, n_outputs = np.shape(self.v)
        of_tree, rest = divmod(n_leaves, self.n_trees)
        require(
            rest == 0 and of_tree >= 2 and of_tree & (of_tree - 1) == 0,
            f"`v` must hold a power of 2 of leaves, from 2 on, for each of {self.n_trees} trees, "
            f"got {n_leaves}.",
        )
        n_nodes = n_leaves - self.n_trees
        shapes = {
            "S": (n_nodes, None),
            "b": (n_nodes,),
            "v": (n_leaves, n_outputs),
            "base_score": (n_outputs,),
        }
        put(self, **{n: read_only(n, getattr(self, n), np.float64, s) for n, s in shapes.items()})

    @property
    def depth(self) -> int:
        """Levels of nodes of each tree."""
        return (len(self.v) // self.n_trees).bit_length() - 1

    def to_forest(self, output: Output, inputs: Inputs) -> Forest:
        """Return the forest of these trees; `output` says what the raw scores are.

        Weights of S that are exactly 0 are left out; a row of zeros keeps one, and its node then
        sends every row of finite numbers to one side.
        """
        reads = self.S != 0
        reads[~reads.any(axis=1), 0] = True
        node, column = np.nonzero(reads)
        row_ptr = np.searchsorted(node, np.arange(len(self.b) + 1))
        return Forest(
            from_rows(row_ptr, column, self.S[node, column], self.b),
            complete_bitvectors(self.n_trees, self.depth),
            Leaves(self.v),
            _with_base(output, self.base_score),
            inputs,
        )


def _with_base(output: Output, base_score: Array) -> Output:
    return Output(
        len(base_score),
        np.dtype(np.float64),
        base_score=base_score,
        post_transform=output.post_transform,
        parameter=output.parameter,
        classes=output.classes,
    )


def complete_bitvectors(n_trees: int, depth: int) -> Bitvectors:
    """Return the bitvectors of complete trees.

    >>> complete_bitvectors(1, 2).mid.tolist()
    [2, 1, 3]
    """
    level = np.repeat(np.arange(depth), 1 << np.arange(depth))
    width = 1 << (depth - level)
    lo = (np.arange(len(level)) - (1 << level) + 1) * width
    parts = [np.tile(part, n_trees).astype(np.int32) for part in (lo, lo + width // 2, lo + width)]
    return Bitvectors(parts[0], parts[1], parts[2], np.arange(n_trees + 1) << depth)


def unsupported_reason(forest: Forest, depth: int) -> str | None:
    """Return why a forest is no sum of complete trees of a depth, None where it is."""
    tests, output = forest.tests, forest.output
    lines = {
        "tests S x > b of finite numbers, without categories or activations": (
            np.all(tests.kind == Kind.MARGIN)
            and tests.n_rows == tests.n_nodes
            and not np.any(tests.activation)
            and not np.any(tests.offset)
            and np.all(tests.r == 1)
            and tests.substitute is None
            and tests.indicator is None
            and np.all(tests.missing_rule == MissingRule.NAN)
            and np.all(np.isfinite(tests.b))
        ),
        "no feature map and no prediction kernel": (
            forest.feature_map is None and forest.kernel is None
        ),
        "finite leaves that are constant": (
            forest.leaves.linear is None and bool(np.all(np.isfinite(forest.leaves.v)))
        ),
        "trees that are summed or averaged": output.aggregate in (Aggregate.SUM, Aggregate.MEAN),
        "at least one tree": forest.n_trees > 0,
    }
    for needed, holds in lines.items():
        if not holds:
            return f"a forest that is trained as complete trees must have {needed}, got {forest}."
    deepest = levels(forest)
    if deepest > depth:
        deep = str(deepest) if deepest <= DEEPEST else f"more than {DEEPEST}"
        return (
            f"a forest that is trained as complete trees of depth {depth} must have trees of at "
            f"most {depth} levels, got {deep}: give a larger `depth`, or a shallower forest."
        )
    return None


def levels(forest: Forest) -> int:
    """Return the levels of nodes of the deepest tree, at most one more than `DEEPEST`."""
    return int(_walked(forest, DEEPEST + 1)[3].max(initial=0))


def completed(
    forest: Forest, depth: int, X: Float64[Array, "batch n_features"], seed: int = 0
) -> CompleteTrees:
    """Return a forest as complete trees: below a leaf that is not deep enough all leaves are its.

    Its raw scores are those of the forest, but for rounding. A node that is added decides nothing;
    it compares a column, drawn at random, with its value in a row of X, also drawn.

    Parameters
    ----------
    X : float64, (batch, n_features)
        Rows that thresholds of added nodes are drawn from.

    Raises
    ------
    UnsupportedModelError
        If the forest has other tests or leaves, or trees of more levels.
    """
    reason = unsupported_reason(forest, depth)
    if reason is not None:
        raise UnsupportedModelError(reason)
    random = np.random.default_rng(seed)
    n_trees, n = forest.n_trees, (1 << depth) - 1
    node_place, _, leaf_place, leaf_width = _all_places(forest, depth)
    column = random.integers(0, forest.n_features, n_trees * n)
    S = np.zeros((n_trees * n, forest.n_features))
    S[np.arange(n_trees * n), column] = 1.0
    b = X[random.integers(0, len(X), n_trees * n), column].astype(np.float64)
    tests = forest.tests
    S[node_place] = 0.0
    entries = np.repeat(node_place, np.diff(tests.row_ptr))
    np.add.at(S, (entries, tests.column), tests.weight.astype(np.float64))
    own = tests.b.astype(np.float64)
    with np.errstate(over="ignore"):
        below = np.nextafter(tests.b, tests.dtype.type(-np.inf)).astype(np.float64)
    b[node_place] = np.where(tests.relation == Relation.GREATER_EQUAL, below, own)
    v = np.zeros((n_trees << depth, forest.n_outputs))
    places = np.repeat(leaf_place, leaf_width) + _within(leaf_width)
    v[places] = np.repeat(_summed_vectors(forest), leaf_width, axis=0)
    base = forest.output.base_score.astype(np.float64)
    return CompleteTrees(n_trees, S, b, v, base)


def _within(width: Int64[Array, " n"]) -> Int64[Array, " total"]:
    return np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)


def _summed_vectors(forest: Forest) -> Float64[Array, "n_leaves n_outputs"]:
    """Return what each leaf adds to the raw scores."""
    leaves, output = forest.leaves, forest.output
    v = leaves.v.astype(np.float64)
    if leaves.output is not None:
        v = v * np.eye(forest.n_outputs)[leaves.output]
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.bitvectors.leaf_ptr))
    if output.tree_weight is not None:
        v *= output.tree_weight[tree, None]
    if output.aggregate is Aggregate.MEAN:
        v /= forest.n_trees if output.divisor is None else output.divisor
    if output.scale is not None:
        v *= output.scale
    return v


def _walked(forest: Forest, deepest: int) -> tuple[Array, Array, Array, Array]:
    """Return the place in its level and the level of each node, and of each leaf.

    What lies below `deepest` levels has that level and no place.
    """
    left, right = children(forest.bitvectors)
    node = [np.full(forest.n_nodes, deepest), np.full(forest.n_nodes, deepest)]
    leaf = [np.full(forest.n_leaves, deepest), np.full(forest.n_leaves, deepest)]
    B = forest.bitvectors
    single = np.diff(B.leaf_ptr) == 1
    leaf[0][B.leaf_ptr[:-1][single]] = leaf[1][B.leaf_ptr[:-1][single]] = 0
    at = B.node_ptr[:-1][~single]
    place = np.zeros(len(at), np.int64)
    for level in range(deepest):
        node[0][at], node[1][at] = place, level
        child = np.concatenate([left[at], right[at]])
        below = np.concatenate([2 * place, 2 * place + 1])
        ends = child < 0
        leaf[0][~child[ends]], leaf[1][~child[ends]] = below[ends], level + 1
        at, place = child[~ends], below[~ends]
    return node[0], node[1], leaf[0], leaf[1]


def _all_places(forest: Forest, depth: int) -> tuple[Array, Array, Array, Array]:
    """Return where nodes stand among complete trees, their levels, leaves' first places, widths."""
    place, level, leaf_place, leaf_level = _walked(forest, depth)
    B = forest.bitvectors
    tree = np.repeat(np.arange(forest.n_trees), np.diff(B.leaf_ptr))
    node = B.tree_of_node * ((1 << depth) - 1) + (1 << level) - 1 + place
    width = 1 << (depth - leaf_level)
    return node, level, (tree << depth) + leaf_place * width, width
