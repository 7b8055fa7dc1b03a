"""Code from a row to the exit leaf of a tree: by tables of nodes, or unrolled into if and else.

In the tables a node is its condition and the number of leaves on its left, and nothing else: nodes
stand in preorder, so that the left child is the next node and the right child comes after as many
nodes as there are leaves on the left (a tree of k leaves has k - 1 nodes). The number of the leaf
grows by the same number at every turn to the right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import narrow_integers, number, unsigned
from bitvec.runtime.export.c.multiples import numbers
from bitvec.runtime.export.c.node_conditions import RANK, ROW, Condition, Conditions
from bitvec.runtime.export.ranks import Ranks

PARAMETERS = {False: "const @input *x", True: "const @input *x, const @rank *rank"}
ARGUMENTS = {False: "x", True: "x, rank"}
"""Arguments of a walk, without and with ranks."""


@dataclass(frozen=True, slots=True)
class Route:
    """Expressions by which functions of a header find the exit leaves of a row.

    Parameters
    ----------
    declare, prepare : str
        Lines in front of the loop over trees.
    leaf : str
        The expression of the exit leaf of `tree`, counted from its left.
    place : str
        The expression of its place in tables of leaves.
    leaf_of_place : int64, (n_places,), optional
        The leaf at each place, counted over all trees, where these are not the leaves in order.
    stack_bytes, most_comparisons : int
        Of what is declared and prepared.
    """

    declare: str = ""
    prepare: str = ""
    leaf: str = ""
    place: str = ""
    leaf_of_place: Array | None = None
    stack_bytes: int = 0
    most_comparisons: int = 0


def tree_by_tree(found: Ranks | None) -> Route:
    """Return the route of `exit_leaf`, which takes a row down one tree."""
    leaf = f"@exit_leaf(tree, {ARGUMENTS[found is not None]})"
    place = f"(uint32_t)@first_leaf[tree] + {leaf}"
    if found is None:
        return Route(leaf=leaf, place=place)
    return Route(
        declare="    @rank rank[@@N_RANKS];\n",
        prepare="    @rank_row(x, rank);\n",
        leaf=leaf,
        place=place,
        stack_bytes=found.n_channels * found.dtype.itemsize,
        most_comparisons=found.most_comparisons,
    )


def add_first_leaves(header: Header, forest: Forest) -> None:
    """Append where the leaves of each tree begin."""
    ptr = narrow_integers(forest.bitvectors.leaf_ptr)
    header.table("first_leaf", ptr, "first leaf of each tree; its nodes begin as many trees before")


def add_tables(header: Header, forest: Forest, conditions: Conditions) -> None:
    """Append `exit_leaf` as a walk through tables."""
    ranked = RANK in conditions.families
    values = {"parameters": PARAMETERS[ranked], "arguments": ARGUMENTS[ranked]}
    if not forest.n_nodes:
        header.code(_ALONE, **values)
        return
    B = forest.bitvectors
    order = tree_paths.preorder(B)
    left = narrow_integers((B.mid - B.lo)[order])
    header.table("left_leaves", left, "leaves on the left of each node; nodes are in preorder")
    shift = int(conditions.column.max()).bit_length()
    coded = conditions.column + (conditions.which << shift)
    many = len(conditions.distinct) > 1
    meaning = f"column of each node{f', and from bit {shift} on its condition' if many else ''}"
    rows_alone = conditions.families == {ROW}
    if many or not rows_alone:
        header.table("condition", narrow_integers(coded[order]), meaning)
    if many:
        values["column"] = f"@condition[node] & {(1 << shift) - 1}U"
    else:
        values["column"] = "@condition[node]"
    threshold = _add_operands(header, conditions, order)
    reads = [_reading(conditions, condition, threshold) for condition in conditions.distinct]
    returns = [
        f"return {condition.expression('v', 'b', 'node' if rows_alone else '@operand[node]')};"
        for condition in conditions.distinct
    ]
    if many:
        cases = [f"    case {i}: {{\n" for i in range(len(reads) - 1)] + ["    default: {\n"]
        body = "".join(
            f"{case}{_indented(read, 8)}        {line}\n    }}\n"
            for case, read, line in zip(cases, reads, returns, strict=True)
        )
        values["body"] = f"    switch (@condition[node] >> {shift}) {{\n{body}    }}\n"
    else:
        values["body"] = f"{_indented(reads[0], 4)}    {returns[0]}\n"
    values["unused"] = _unused(conditions)
    body = header.filled(values["body"], column=values["column"])
    header.code(_GOES_RIGHT, **{**values, "body": body})
    header.code(_WALK, **values)


def _add_operands(header: Header, conditions: Conditions, order: Array) -> str:
    """Append operands and thresholds, and return the expression of a node's threshold."""
    compares = any(condition.reads_threshold for condition in conditions.distinct)
    only = all(condition.reads_threshold for condition in conditions.distinct)
    direct, shared = numbers(conditions.threshold[order]), numbers(conditions.thresholds)
    if conditions.families == {ROW}:
        return ""  # rows are numbered as nodes stand
    operand = narrow_integers(conditions.operand[order])
    if only and direct.nbytes <= shared.nbytes + operand.nbytes:
        direct.add(header, "threshold", "threshold of each node")
        return direct.reading("@threshold[node]", "@input")
    meanings = {"set": "its set", "row": "its row of S", "rank": "the rank it compares with"}
    words = [meanings[family] for family in sorted(conditions.families & set(meanings))]
    words += ["its threshold"] if compares else []
    header.table("operand", operand, f"of each node {' or '.join(words)}")
    if compares:
        shared.add(header, "threshold", "the distinct thresholds")
    return shared.reading("@threshold[@operand[node]]", "@input")


def _reading(conditions: Conditions, condition: Condition, threshold: str) -> list[str]:
    """Return the lines that read what a condition needs."""
    lines = []
    if condition.family == RANK:
        lines.append("const @rank v = rank[$column];")
    elif condition.family != ROW:
        lines.append("const @input v = x[$column];")
    if condition.reads_threshold:
        lines.append(f"const @input b = {threshold};")
    return lines


def _indented(lines: list[str], spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in lines)


def _unused(conditions: Conditions) -> str:
    return "    (void)x;\n" if conditions.families <= {RANK} else ""


_ALONE = """
/* The exit leaf of a tree, counted from its left: every tree is one leaf. */
static inline uint32_t @exit_leaf(const uint32_t tree, $parameters)
{
    (void)tree;
    (void)x;
    return 0;
}
"""
_GOES_RIGHT = """
/* The test of a node: 1 goes right. */
static inline int @goes_right(const uint32_t node, $parameters)
{
$unused$body}
"""
_WALK = """
/* The exit leaf of a tree, counted from its left. */
static inline uint32_t @exit_leaf(const uint32_t tree, $parameters)
{
    uint32_t leaf = 0;
    uint32_t node = (uint32_t)@first_leaf[tree] - tree;
    uint32_t size = (uint32_t)@first_leaf[tree + 1U] - (uint32_t)@first_leaf[tree];
    while (size > 1U) {
        const uint32_t left = @left_leaves[node];
        if (@goes_right(node, $arguments)) {
            node += left;
            leaf += left;
            size -= left;
        } else {
            node += 1U;
            size = left;
        }
    }
    return leaf;
}
"""


def add_unrolled(header: Header, forest: Forest, conditions: Conditions) -> None:
    """Append `exit_leaf` as one function of nested if and else for each tree."""
    ranked = RANK in conditions.families
    values = {"parameters": PARAMETERS[ranked], "arguments": ARGUMENTS[ranked]}
    children = structure.children(forest.bitvectors)
    B = forest.bitvectors
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1]).tolist()
    unused = "    (void)x;\n" + ("    (void)rank;\n" if ranked else "")
    for tree, root in enumerate(roots):
        lines: list[str] = []
        _nest(forest, conditions, children, root, int(B.leaf_ptr[tree]), 1, lines)
        body = header.filled(unused + "\n".join(lines))
        header.code(_TREE, tree=tree, body=body, **values)
    header.constant_bytes += _literal_bytes(forest, conditions)
    cases = [
        f"    case {tree}:\n        return @tree_{tree}({values['arguments']});"
        for tree in range(forest.n_trees - 1)
    ]
    last = f"    default:\n        return @tree_{forest.n_trees - 1}({values['arguments']});"
    header.code(_CHOOSE, cases=header.filled("\n".join([*cases, last])), **values)


def _literal_bytes(forest: Forest, conditions: Conditions) -> int:
    """Return the bytes of the thresholds that stand in the code."""
    compares = np.array([condition.reads_threshold for condition in conditions.distinct] or [False])
    ranked = np.array([condition.family == RANK for condition in conditions.distinct] or [False])
    rank_bytes = unsigned(int(conditions.operand.max(initial=0))).itemsize
    n_compared, n_ranked = (
        int(compares[conditions.which].sum()),
        int(ranked[conditions.which].sum()),
    )
    return conditions.threshold.itemsize * n_compared + rank_bytes * n_ranked


def _nest(
    forest: Forest,
    conditions: Conditions,
    children: tuple[Array, Array],
    node: int,
    first_leaf: int,
    level: int,
    lines: list[str],
) -> None:
    """Append the lines of a subtree; a negative node is the leaf `~node` of the forest."""
    indent = "    " * level
    if node < 0:
        lines.append(f"{indent}return {~node - first_leaf};")
        return
    condition = conditions.distinct[int(conditions.which[node])]
    source = "rank" if condition.family == RANK else "x"
    test = condition.expression(
        f"{source}[{int(conditions.column[node])}]",
        number(conditions.threshold[node], conditions.threshold.dtype)
        if condition.reads_threshold
        else "",
        str(int(conditions.operand[node])),
    )
    left, right = (int(side[node]) for side in children)
    lines.append(f"{indent}if ({test}) {{")
    _nest(forest, conditions, children, right, first_leaf, level + 1, lines)
    lines.append(f"{indent}}} else {{")
    _nest(forest, conditions, children, left, first_leaf, level + 1, lines)
    lines.append(f"{indent}}}")


_TREE = """
static inline uint32_t @tree_$tree($parameters)
{
$body
}
"""
_CHOOSE = """
/* The exit leaf of a tree, counted from its left. */
static inline uint32_t @exit_leaf(const uint32_t tree, $parameters)
{
    switch (tree) {
$cases
    }
}
"""
