"""Code that takes a row down all trees at once, level by level and without a branch.

Each tree of depth d is filled up to 2**d - 1 nodes, of which node p has the children 2 p and
2 p + 1, so that a node is its column and its threshold alone. Filled nodes test anything, for all
leaves below them are the same. In pseudo-Python, for a row x:

    at = [1] * n_trees
    for level in range(depth):
        for tree in range(n_trees):
            column, operand = node[tree, at[tree]]
            at[tree] = 2 * at[tree] + (x[column] > threshold[operand])

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
from bitvec.runtime.export.c.literals import C_TYPES, narrow_integers, unsigned
from bitvec.runtime.export.c.multiples import numbers
from bitvec.runtime.export.c.tree_code import Route
from bitvec.runtime.export.ranks import compared, one_relation

MOST_LEVELS = 8


@dataclass(frozen=True, slots=True)
class _Filled:
    """Trees filled up to one depth.

    Parameters
    ----------
    depth : int
    nodes : int64, (n_trees, 2**depth)
        The node at each position from 1 on, and -1 where a tree was filled.
    leaves : int64, (n_trees, 2**depth)
        The leaf, counted over all trees, that each position of the last level stands for.
    """

    depth: int
    nodes: Array
    leaves: Array


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


def _filled(forest: Forest) -> _Filled:
    B = forest.bitvectors
    depth = int(tree_paths.leaf_depth(B).max())
    sides = structure.children(B)
    place = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])[:, None]
    levels = [np.full_like(place, -1)]
    for _ in range(depth):
        levels.append(np.maximum(place, -1))
        below = [np.where(place >= 0, side[np.maximum(place, 0)], place) for side in sides]
        place = np.stack(below, axis=-1).reshape(len(place), -1)
    return _Filled(depth, np.concatenate(levels, axis=1), ~place)


def add_levels(header: Header, forest: Forest, reads: np.dtype, *, finite: bool) -> Route:
    """Append `descend`, for rows of the dtype `reads`, and return how it is called."""
    filled = _filled(forest)
    nodes, depth = filled.nodes.ravel(), filled.depth
    threshold, or_equal = one_relation(forest.tests.b, forest.tests.relation)
    column = np.where(nodes < 0, 0, forest.tests.feature[nodes])
    threshold = np.where(nodes < 0, 0, threshold[nodes]).astype(reads)
    right = forest.tests.missing_right
    mixed = bool(right.any() and not right.all())
    way = np.where(nodes < 0, 0, right[nodes]) if mixed else np.zeros_like(nodes)
    read = _add_nodes(header, column, threshold, way, mixed=mixed)
    above, below = (">=", "<") if or_equal else (">", "<=")
    test = f"!(v {below} b)" if right.all() else f"v {above} b"
    if mixed:
        test = f"({test}) | ((v != v) & {read['way']})"
    whole = _whole_test(threshold[nodes >= 0], or_equal=or_equal) if finite else ""
    if reads.kind == "u":
        whole = "(uint32_t)((int32_t)b - (int32_t)v) >> 31"
    elif whole:
        header.code(_BITS)
    local = filled.leaves - forest.bitvectors.leaf_ptr[:-1, None]
    n, size = forest.n_trees, 1 << depth
    is_complete = bool((local == np.arange(size)).all())
    if not is_complete:
        meaning = "the leaf of each place of the last level"
        header.table("place_leaf", narrow_integers(local.ravel()), meaning, of_leaves=True)
    place_in_tree = f"(at[tree] - {size}U)"

    def step(place: str, base: int, kind: str, test: str) -> str:
        text = Template(_STEP).safe_substitute(read, test=test)
        return header.filled(text, place=place, base=base, type=kind)

    tables = [name for name in ("node", "threshold") if read[name]]
    first, second = (step(f"at[tree + {k}U]", k * size, "@place", test) for k in range(2))
    nexts, next_ = (
        "".join(f"            {name} += {n_trees * size}U;\n" for name in tables)
        for n_trees in (2, 1)
    )
    place = unsigned(2 * size - 1)
    header.code(
        _DESCEND,
        kind=C_TYPES[place],
        depth=depth,
        pairs=_PAIRS.format(pairs=n // 2 * 2, steps=first + second, nexts=nexts) if n > 1 else "",
        starts="".join(f"        const {read[name]} *{name} = @{name};\n" for name in tables),
        last="        tree = @@N_TREES - 1U;\n" + first if n % 2 else "",
        single=step("p", 0, "size_t", whole or test) * depth,
        next=next_,
    )
    return Route(
        declare="    @place at[@@N_TREES];\n",
        prepare="    @descend(x, at);\n",
        leaf=place_in_tree if is_complete else f"@place_leaf[tree * {size}U + {place_in_tree}]",
        place=f"tree * {size}U + {place_in_tree}",
        leaf_of_place=filled.leaves.ravel(),
        stack_bytes=n * place.itemsize,
        most_comparisons=n * depth,
    )


def _add_nodes(
    header: Header, column: Array, threshold: Array, way: Array, *, mixed: bool
) -> dict[str, str]:
    """Append the nodes, in one integer each or in two tables: whichever takes fewer bytes.

    Returns the types of the tables that are read node by node, and the expressions of a node's
    column, threshold and way of missing values.
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
            "node": C_TYPES[record.dtype],
            "threshold": "",
            "column": f"r & {(1 << low) - 1}U",
            "cut": values.reading(f"@threshold[{number}]", "@input"),
            "way": f"(int)(r >> {low + for_operand})",
        }
    header.table("node", coded, "column of each node")
    direct.add(header, "threshold", "threshold of each node")
    return {
        "node": C_TYPES[coded.dtype],
        "threshold": C_TYPES[direct.table.dtype],
        "column": f"r & {(1 << for_column) - 1}U" if mixed else "r",
        "cut": direct.reading("threshold[${base}U + p_]", "@input"),
        "way": f"(int)(r >> {for_column})",
    }


def _whole_test(threshold: Array, *, or_equal: bool) -> str:
    """Return the test on bits of float32, in the order of numbers from 0 on; else nothing."""
    fits = threshold.dtype == np.float32 and bool(
        (threshold > 0 if or_equal else threshold >= 0).all()
    )
    if not fits:
        return ""
    if or_equal:
        return "1U - ((uint32_t)(@from_zero(v) - @bits(b)) >> 31)"
    return "(uint32_t)(@bits(b) - @from_zero(v)) >> 31"


_BITS = """
static inline int32_t @bits(const @input v)
{
    union {
        @input value;
        int32_t bits;
    } number;
    number.value = v;
    return number.bits;
}

/* The bits of a number, 0 of those below 0: they are in the order of numbers. */
static inline int32_t @from_zero(const @input v)
{
    return @bits(v) < 0 ? 0 : @bits(v);
}
"""
_STEP = """            {
                const size_t p_ = $place;
                const uint32_t r = node[${base}U + p_];
                const @input v = x[$column];
                const @input b = $cut;
                $place = ($type)(p_ + p_ + (size_t)($test));
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

/* Take a row down all trees: node p has the children 2 p and 2 p + 1. */
static inline void @descend(const @input *x, @place *at)
{
    size_t tree;
#if @@IN_ORDER
$starts    for (tree = 0; tree < @@N_TREES; tree++) {
        size_t p = 1;
$single        at[tree] = (@place)p;
$next    }
#else
    uint32_t level;
    for (tree = 0; tree < @@N_TREES; tree++) {
        at[tree] = 1;
    }
    for (level = 0; level < $depth; level++) {
$starts$pairs$last    }
#endif
}
"""
_PAIRS = """        for (tree = 0; tree < {pairs}U; tree += 2U) {{
{steps}{nexts}        }}
"""
