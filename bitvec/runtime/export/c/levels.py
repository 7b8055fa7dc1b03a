"""Code that takes a row down trees of one depth, without a branch.

Each tree of depth d is filled up to 2**d - 1 nodes, and all n trees stand in one heap: the roots
are the nodes n to 2 n - 1, and node p has the children 2 p and 2 p + 1, so that a node is its
column and its threshold alone. Filled nodes test anything, for all leaves below them are the same.
In pseudo-Python, for a row x:

    for tree in range(n_trees):
        p = n_trees + tree
        for level in range(depth):
            p = 2 * p + (x[column[p]] > threshold[p])
        place[tree] = p - n_trees * 2**depth

Steps of different trees wait for nothing, so that a processor that runs instructions out of order
does several at once; it never guesses a branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

import numpy as np

from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import MissingRule
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.leaf_shares import LeafShares
from bitvec.runtime.export.c.literals import C_TYPES, narrow_integers, unsigned
from bitvec.runtime.export.c.multiples import numbers
from bitvec.runtime.export.c.tree_code import Route
from bitvec.runtime.export.c.whole_cuts import STEP, add_keys, whole_cuts
from bitvec.runtime.export.ranks import compared, one_relation

MOST_LEVELS = 8


@dataclass(frozen=True, slots=True)
class Filled:
    """Trees filled up to one depth.

    Parameters
    ----------
    depth : int
    nodes : int64, (n_trees * (2**depth - 1),)
        The node at each place of the heap from the first root on, and -1 where a tree was filled.
    leaves : int64, (n_trees, 2**depth)
        The leaf, counted over all trees, that each place of the last level stands for.
    """

    depth: int
    nodes: Array
    leaves: Array


@dataclass(frozen=True, slots=True)
class Levels:
    """Lines and expressions by which functions of a header take a row down trees.

    Parameters
    ----------
    route : Route
        Places of all trees, before a loop over these.
    declare, prepare : str
        Lines in front of a loop over trees that takes the row down each, or reads its place.
    start, end : int
        Where the loop's counter `tree` starts and ends.
    place : str
        Lines that declare p, and take it to the row's place in the heap.
    next : str
        Lines by which the counter grows.
    vector, leaf_vector : str
        The expressions of where in the table of shares the vector of place p begins, and that of a
        `leaf` counted among the places below the last level.
    """

    route: Route
    declare: str
    prepare: str
    start: int
    end: int
    place: str
    next: str
    vector: str
    leaf_vector: str


def require_levels(forest: Forest) -> None:
    """Refuse a forest whose trees the form `levels` cannot hold.

    Raises
    ------
    UnsupportedModelError
    """
    others = int((~compared(forest)).sum())
    deepest = int(tree_paths.leaf_depth(forest.bitvectors).max())
    rule = forest.tests.missing_rules(forest.inputs.missing_sentinel)
    reasons = (
        (not forest.n_nodes, "a node that tests, got trees of one leaf"),
        (others, f"nodes that compare one column, got {others} others"),
        ((rule != MissingRule.NAN).any(), "nodes for which NaN alone is missing, got others"),
        (forest.leaves.linear is not None, "constant leaves, got leaves that are linear in x"),
        (deepest > MOST_LEVELS, f"trees of depth {MOST_LEVELS} at most, got {deepest}"),
    )  # fmt: skip
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(
                f"the form `levels` needs {sentence}: use the form `tables`."
            )


def fill(forest: Forest) -> Filled:
    """Return the trees of a forest that `require_levels` lets pass, filled."""
    B = forest.bitvectors
    depth = int(tree_paths.leaf_depth(B).max())
    sides = structure.children(B)
    place = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    levels = []
    for _ in range(depth):
        levels.append(np.maximum(place, -1))
        below = [np.where(place >= 0, side[np.maximum(place, 0)], place) for side in sides]
        place = np.stack(below, axis=-1).ravel()
    return Filled(depth, np.concatenate(levels), ~place.reshape(forest.n_trees, -1))


def add_levels(
    header: Header,
    forest: Forest,
    filled: Filled,
    reads: np.dtype,
    *,
    finite: bool,
    shares: LeafShares | None,
) -> Levels:
    """Append `descend`, for rows of the dtype `reads`, and return how it is called."""
    n, depth = forest.n_trees, filled.depth
    n_places = n << depth
    first = shares.first if shares else np.zeros(0, np.int64)
    by_keys, of_row = finite and reads == np.float32, False
    if by_keys:
        step, of_row = _add_whole_nodes(header, forest, filled, first)
        vectors = "@node[p]", f"@node[{n_places}U + leaf]"
    else:
        step = _add_float_nodes(header, forest, filled, reads)
        vectors = f"@leaf_first[p - {n_places}U]", "@leaf_first[leaf]"
        if shares:
            header.table("leaf_first", first, "where the vector of each place begins")
    keys = ("    uint32_t key[@@N_FEATURES];\n", "    @keys(x, key);\n") if of_row else ("", "")
    _add_descend(header, step, depth=depth, n_trees=n, row="key" if of_row else "x")
    at = f"at[tree] - {n_places}U"
    route = Route(
        declare=f"{keys[0]}    @place at[@@N_TREES];\n",
        prepare=f"{keys[1]}    @descend({'key' if of_row else 'x'}, at);\n",
        leaf=_add_leaf_of_place(header, forest, filled, at),
        place=at,
        leaf_of_place=filled.leaves.ravel(),
        stack_bytes=n * unsigned(2 * n_places - 1).itemsize + 4 * forest.n_features * of_row,
        most_comparisons=n * depth,
    )
    if not by_keys:
        place = "        const uint32_t p = at[tree];\n"
        return Levels(route, route.declare, route.prepare, 0, n, place, _NEXT, *vectors)
    place = f"        uint32_t p = tree;\n{step * depth}"
    next_ = _NEXT_IN_ORDER.format(depth=depth, next=_NEXT)
    return Levels(route, *keys, n, 2 * n, place, next_, *vectors)


def _add_descend(header: Header, step: str, *, depth: int, n_trees: int, row: str) -> None:
    """Append the function that writes the places in the heap that a row reaches in all trees."""
    one = _ONE.replace("$step", step)
    two = one + one.replace("at[tree]", "at[tree + 1U]")
    header.code(
        _DESCEND,
        kind=C_TYPES[unsigned((2 * n_trees << depth) - 1)],
        row="const uint32_t *key" if row == "key" else "const @input *x",
        depth=depth,
        descent=step * depth,
        pairs=_PAIRS.format(pairs=n_trees // 2 * 2, steps=two) if n_trees > 1 else "",
        last=f"        tree = {n_trees - 1}U;\n{one}" if n_trees % 2 else "",
    )


def _add_leaf_of_place(header: Header, forest: Forest, filled: Filled, at: str) -> str:
    """Return the expression of a leaf, counted in its tree; append a table of them if need be."""
    local = filled.leaves - forest.bitvectors.leaf_ptr[:-1, None]
    size = 1 << filled.depth
    if (local == np.arange(size)).all():
        return f"(at[tree] & {size - 1}U)"
    meaning = "the leaf of each place below the last level"
    header.table("place_leaf", narrow_integers(local.ravel()), meaning, of_leaves=True)
    return f"@place_leaf[{at}]"


def _add_whole_nodes(
    header: Header, forest: Forest, filled: Filled, first: Array
) -> tuple[str, bool]:
    """Append nodes whose thresholds are whole numbers, and behind them `first` of each place.

    Returns the lines of a step, and whether these read keys that a row gets beforehand.
    """
    n, nodes = forest.n_trees, filled.nodes
    threshold, or_equal = one_relation(forest.tests.b, forest.tests.relation)
    column = np.where(nodes < 0, 0, forest.tests.feature[nodes])
    cuts, positive = whole_cuts(threshold.astype(np.float32), or_equal=or_equal)
    cut = np.where(nodes < 0, np.uint32(0), cuts[nodes])
    meaning = "column of each node of the heap"
    meaning += ", and behind them where the vector of each place begins" if first.size else ""
    rows = np.concatenate([np.zeros(n, np.int64), column, first])
    header.table("node", narrow_integers(rows), meaning)
    header.table("cut", np.append(np.zeros(n, np.uint32), cut), "threshold of each node")
    n_steps = n * filled.depth
    of_row = add_keys(header, positive=positive, n_steps=n_steps, n_features=forest.n_features)
    return STEP.replace("$key", "key[@node[p]]" if of_row else "@key(x[@node[p]])"), of_row


def _add_float_nodes(header: Header, forest: Forest, filled: Filled, reads: np.dtype) -> str:
    """Append nodes whose thresholds have the dtype of x, and return the lines of a step."""
    nodes = filled.nodes
    threshold, or_equal = one_relation(forest.tests.b, forest.tests.relation)
    column = np.where(nodes < 0, 0, forest.tests.feature[nodes])
    threshold = np.where(nodes < 0, 0, threshold[nodes]).astype(reads)
    right = forest.tests.missing_right
    mixed = bool(right.any() and not right.all())
    way = np.where(nodes < 0, 0, right[nodes]) if mixed else np.zeros_like(nodes)
    read = _add_nodes(header, column, threshold, way, forest.n_trees, mixed=mixed)
    above, below = (">=", "<") if or_equal else (">", "<=")
    test = f"!(v {below} b)" if right.all() else f"v {above} b"
    if mixed:
        test = f"({test}) | ((v != v) & {read['way']})"
    test = f"(uint32_t)({test})"
    if reads.kind == "u":
        test = "((uint32_t)((int32_t)b - (int32_t)v) >> 31)"
    return Template(_STEP).safe_substitute(read, test=test, n=forest.n_trees)


def _add_nodes(
    header: Header, column: Array, threshold: Array, way: Array, n_trees: int, *, mixed: bool
) -> dict[str, str]:
    """Append the nodes, in one integer each or in two tables: whichever takes fewer bytes.

    Returns the expressions of a node's column, threshold and way of missing values.
    """
    direct = numbers(threshold)
    bits, operand = np.unique(threshold.view(f"u{threshold.itemsize}"), return_inverse=True)
    values = numbers(bits.view(threshold.dtype))
    for_column = max(int(column.max()).bit_length(), 1)
    for_operand = max(int(operand.max()).bit_length(), 1)
    coded = narrow_integers(column + (way << for_column))
    low = for_column
    if 8 + for_operand + mixed <= 16:
        low = max(low, 8)  # a byte is read without a mask
    record = column + (operand.ravel() << low) + (way << low + for_operand)
    fits = low + for_operand + mixed <= 32
    if fits and narrow_integers(record).nbytes + values.nbytes <= coded.nbytes + direct.nbytes:
        record = narrow_integers(record)
        header.table("node", record, "column and number of the threshold of each node")
        values.add(header, "threshold", "the distinct thresholds")
        number = f"(r >> {low}) & {(1 << for_operand) - 1}U" if mixed else f"r >> {low}"
        return {
            "column": f"r & {(1 << low) - 1}U",
            "cut": values.reading(f"@threshold[{number}]", "@input"),
            "way": f"(int)(r >> {low + for_operand})",
        }
    header.table("node", coded, "column of each node")
    direct.add(header, "threshold", "threshold of each node")
    return {
        "column": f"r & {(1 << for_column) - 1}U" if mixed else "r",
        "cut": direct.reading(f"@threshold[p - {n_trees}U]", "@input"),
        "way": f"(int)(r >> {for_column})",
    }


_STEP = """        {
            const uint32_t r = @node[p - ${n}U];
            const @input v = x[$column];
            const @input b = $cut;
            p = p + p + $test;
        }
"""
_NEXT = "        tree++;\n"
_NEXT_IN_ORDER = """#if @@IN_ORDER
        tree = (p >> {depth}) + 1U; /* frees a register; but trees wait for one another */
#else
{next}#endif
"""
_ONE = """            {
                uint32_t p = at[tree];
$step                at[tree] = (@place)p;
            }
"""
_DESCEND = """
typedef $kind @place;

/* Whether the processor starts one instruction at a time, as a Cortex-M does: define it for others.
   It takes a row down tree by tree, where another has steps of several trees under way. */
#ifndef @@IN_ORDER
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define @@IN_ORDER 1
#else
#define @@IN_ORDER 0
#endif
#endif

/* Take a row down all trees. These stand in one heap: their roots are the nodes from @@N_TREES on,
   and node p has the children 2 p and 2 p + 1. */
static inline void @descend($row, @place *at)
{
    uint32_t tree;
#if @@IN_ORDER
    for (tree = 0; tree < @@N_TREES; tree++) {
        uint32_t p = @@N_TREES + tree;
$descent        at[tree] = (@place)p;
    }
#else
    uint32_t level;
    for (tree = 0; tree < @@N_TREES; tree++) {
        at[tree] = (@place)(@@N_TREES + tree);
    }
    for (level = 0; level < $depth; level++) {
$pairs$last    }
#endif
}
"""
_PAIRS = """        for (tree = 0; tree < {pairs}U; tree += 2U) {{
{steps}        }}
"""
