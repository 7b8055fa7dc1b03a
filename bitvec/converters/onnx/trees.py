"""The trees of an ONNX operator as S, b and B: orientation, equality chains, and sets.

A test that holds takes the true branch. `<=` and `<` are true on the left here, everything else is
true on the right, except a set whose true branch the file numbers first.

The operator has one value per equality, so converters write `x is one of a, b, c` as a chain of
equality nodes that share their true child. Such a chain becomes one set node; any other subtree
with two parents is refused, since a tree would have to repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.converters.category_sets import pack
from bitvec.converters.onnx.operator import Operator
from bitvec.converters.onnx.operator_schema import Mode
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.node_tests import CodeRule, Kind, NodeTests, Relation, axis_aligned
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.core.structure import Bitvectors
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError

CODE_LIMIT = 1 << 24
"""Codes in sets are below this, where float32 still holds every whole number."""
SMALL_SET = 30
"""onnxruntime 1.31 tests sets of at most 30 members, all in 0 ... 30, by comparing with each; for
any other set it truncates x toward zero first, so that 40.5 is member 40."""


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """S, b and B of an operator.

    Parameters
    ----------
    tests : NodeTests
    bitvectors : Bitvectors
    node : int64, (n_nodes,)
        Where each node stood in the operator (a chain: its first node).
    leaf : int64, (n_leaves,)
        Where each leaf stood in the operator; a leaf with several parents occurs several times.
    """

    tests: NodeTests
    bitvectors: Bitvectors
    node: Int64[Array, " n_nodes"]
    leaf: Int64[Array, " n_leaves"]


@dataclass(frozen=True, slots=True, eq=False)
class _Tests:
    """The operator's nodes with `!=` turned around and chains folded into their first node, `head`.

    `code` and `code_node` are the members of sets; `truncates` tells those that truncate x first.
    """

    mode: Array
    true: Array
    false: Array
    missing_true: Array
    is_set: Array
    truncates: Array
    code: Array
    code_node: Array
    head: Array


def trees_of(operator: Operator, dtype: np.dtype, *, whole: bool) -> Trees:
    """Return the trees with thresholds in `dtype`, the dtype of the graph's narrowest value.

    `whole` says whether each node and leaf must be reached from a root.

    Raises
    ------
    UnsupportedModelError
        If a subtree is shared, a set has members that are no codes, or a node is not reached.
    FileFormatError
        If branches run in a cycle.
    """
    tests = _folded(operator)
    side = np.isin(tests.mode, (Mode.BRANCH_LEQ, Mode.BRANCH_LT))
    trees, node, leaf = _arranged(operator, tests, side)
    reached = np.zeros(operator.mode.size, bool)
    reached[node] = True
    if whole and not (
        np.all(reached[tests.head]) and np.all(np.bincount(leaf, minlength=operator.n_leaves))
    ):
        raise UnsupportedModelError(
            "each node must be reached from the root of its tree, got some that are not: "
            "onnxruntime then mixes up the weights of leaves."
        )
    either = (tests.mode == Mode.BRANCH_MEMBER) | (
        (tests.mode == Mode.BRANCH_LEQ) & (operator.value == np.inf)
    )
    if np.any(either[node]):
        first = _true_comes_first(trees, node, leaf, side)
        side[node[first]] |= either[node[first]]
        side[node[~first]] &= ~either[node[~first]]
        trees, node, leaf = _arranged(operator, tests, side)
    return Trees(_node_tests(operator, tests, side, node, dtype), trees, node, leaf)


def _folded(operator: Operator) -> _Tests:
    mode, true, false = operator.mode.copy(), operator.true.copy(), operator.false.copy()
    missing_true = operator.missing_true.copy()
    unequal = mode == Mode.BRANCH_NEQ
    # NaN differs from everything, so it takes the true branch of `!=` whatever the flag says.
    mode[unequal], missing_true[unequal] = Mode.BRANCH_EQ, False
    true[unequal], false[unequal] = operator.false[unequal], operator.true[unequal]
    is_code = (operator.value >= 0) & (operator.value < CODE_LIMIT)
    is_code[is_code] = operator.value[is_code] == np.trunc(operator.value[is_code])
    next_node = _chain_links(operator, mode, true, false, missing_true, is_code)
    head = _heads(next_node)
    tail = np.flatnonzero(next_node < 0)
    ends = false[tail]
    false[head[tail]] = ends
    folded = (next_node >= 0) | (head != np.arange(head.size))
    chain = np.flatnonzero(folded)
    is_set = (mode == Mode.BRANCH_MEMBER) | folded
    code, code_node, truncates, lone = _member_codes(operator)
    mode[lone], is_set[lone] = Mode.BRANCH_EQ, False
    return _Tests(
        mode,
        true,
        false,
        missing_true,
        is_set,
        truncates,
        np.concatenate([operator.value[chain].astype(np.int64), code]),
        np.concatenate([head[chain], code_node]),
        head,
    )


def _chain_links(
    operator: Operator, mode: Array, true: Array, false: Array, missing: Array, is_code: Array
) -> Int64[Array, " n_nodes"]:
    """Return the node that continues the chain of each node, or -1."""
    n = mode.size
    child = np.concatenate([true, false, operator.roots])
    parents = np.bincount(child[child >= 0], minlength=n)
    is_equal = mode == Mode.BRANCH_EQ
    at = np.flatnonzero(is_equal & (false >= 0))
    after = false[at]
    same = (
        is_equal[after]
        & (operator.feature[at] == operator.feature[after])
        & (true[at] == true[after])
        & (parents[after] == 1)
    )
    at, after = at[same], after[same]
    if np.any(missing[at] != missing[after]):
        raise UnsupportedModelError(
            "the equalities of a chain must send a missing value the same way, got several ways: "
            "runtimes disagree on the meaning."
        )
    both = is_code[at] & is_code[after]
    link = np.full(n, -1)
    link[at[both]] = after[both]
    return link


def _heads(next_node: Int64[Array, " n_nodes"]) -> Int64[Array, " n_nodes"]:
    """Return the first node of each node's chain, in log n steps."""
    n = next_node.size
    head = np.arange(n)
    linked = np.flatnonzero(next_node >= 0)
    head[next_node[linked]] = linked
    for _ in range(n.bit_length() + 1):
        head = head[head]
    if np.any(np.isin(head, next_node[linked])):
        raise FileFormatError("branches must lead to leaves, got a chain that runs in a circle.")
    return head


def _member_codes(operator: Operator) -> tuple[Array, Array, Array, Array]:
    """Return the codes of the file's sets, their nodes, which sets truncate, and lone values.

    A set of one value that is no code is an equality.
    """
    n = operator.mode.size
    value, node = operator.member, operator.member_node
    count = np.bincount(node, minlength=n)
    outside = (value < 0) | (value > SMALL_SET)
    large = (count > SMALL_SET) | (np.bincount(node, outside, minlength=n) > 0)
    code = np.zeros(value.size, bool)
    in_range = (value >= 0) & (value < CODE_LIMIT)
    code[in_range] = value[in_range] == np.trunc(value[in_range])
    lone = (count == 1) & ~large & (np.bincount(node, ~code, minlength=n) > 0)
    strange = ~code & ~lone[node]
    if np.any(strange):
        raise UnsupportedModelError(
            f"the members of a set must be whole numbers from 0 to {CODE_LIMIT - 1}, got "
            f"{value[strange][0]}: encode the categories as 0, 1, 2, ..."
        )
    kept = ~lone[node]
    return value[kept].astype(np.int64), node[kept], large, np.flatnonzero(lone)


def _arranged(
    operator: Operator, tests: _Tests, true_left: Bool[Array, " n_nodes"]
) -> tuple[Bitvectors, Array, Array]:
    n = operator.mode.size
    left = np.where(true_left, tests.true, tests.false)
    right = np.where(true_left, tests.false, tests.true)
    # Each mention of a leaf gets a name of its own, so that a leaf may have several parents.
    mentions = np.concatenate([left, right, operator.roots])
    named = np.where(mentions < 0, ~np.arange(mentions.size), mentions)
    try:
        trees, order = structure.arrange(named[:n], named[n : 2 * n], named[2 * n :])
    except InvalidForestError as error:
        raise UnsupportedModelError(
            "each node must have one parent, or stand on a chain of equalities that share their "
            "true child, got another shared subtree or a cycle: a tree would have to repeat it."
        ) from error
    return trees, order.node, ~mentions[~order.leaf]


def _true_comes_first(trees: Bitvectors, node: Array, leaf: Array, true_left: Array) -> Array:
    """Return, per node, whether the first leaf of its true branch has the lower number."""
    offset = trees.leaf_ptr[:-1][trees.tree_of_node]
    bounds = np.stack([trees.lo + offset, trees.mid + offset, trees.hi + offset], axis=1)
    # An index at the very end is out of reduceat's range; a number above all others stands there.
    padded = np.append(leaf, np.iinfo(np.int64).max)
    lowest = np.minimum.reduceat(padded, bounds.ravel()).reshape(-1, 3)
    left_first = lowest[:, 0] < lowest[:, 1]
    first: Array = left_first == true_left[node]
    return first


def _node_tests(
    operator: Operator, tests: _Tests, true_left: Array, node: Array, dtype: np.dtype
) -> NodeTests:
    place = np.full(operator.mode.size, -1)
    place[node] = np.arange(node.size)
    reached = place[tests.code_node] >= 0
    set_ptr, set_words = pack(tests.code[reached], place[tests.code_node[reached]], node.size)
    mode, is_set, left = tests.mode[node], tests.is_set[node], true_left[node]
    # A set that is true on the left goes right on every other code, in its range or out of it.
    turned = is_set & left
    set_words[np.repeat(turned, np.diff(set_ptr))] ^= np.uint32(0xFFFFFFFF)
    b, never = _thresholds(operator, mode, is_set, node, dtype)
    strict = np.isin(mode, (Mode.BRANCH_LEQ, Mode.BRANCH_GT)) | is_set | never
    always_right = (mode == Mode.BRANCH_LEQ) & ~left
    b[always_right] = -np.inf  # x <= inf, true on the right: x >= -inf
    kind = np.where(mode == Mode.BRANCH_EQ, Kind.EQUAL, Kind.MARGIN)
    kind[never], kind[is_set] = Kind.MARGIN, Kind.SET
    is_equal = kind == Kind.EQUAL
    return axis_aligned(
        operator.feature[node],
        b,
        relation=np.where(
            (strict & ~always_right) | is_equal, Relation.GREATER, Relation.GREATER_EQUAL
        ),
        missing_right=tests.missing_true[node] != left,
        kind=kind,
        code_rule=np.where(tests.truncates[node], CodeRule.TRUNCATE, CodeRule.EXACT),
        other_right=turned,
        set_ptr=set_ptr,
        set_words=set_words,
    )


def _thresholds(
    operator: Operator, mode: Array, is_set: Array, node: Array, dtype: np.dtype
) -> tuple[Array, Array]:
    """Return b in `dtype`, and the equalities that no value of `dtype` meets.

    A float32 value x meets x <= t for a float64 t where it meets x <= t rounded down, and x < t
    where it meets x < t rounded up. A node that no value meets compares with +inf.
    """
    value = operator.value[node].copy()
    lone = np.zeros(operator.mode.size, operator.member.dtype)
    lone[operator.member_node] = operator.member
    was_set = operator.mode[node] == Mode.BRANCH_MEMBER
    value[was_set] = lone[node][was_set]
    value[is_set] = 0
    with np.errstate(over="ignore"):
        b = value.astype(dtype)
    down = np.isin(mode, (Mode.BRANCH_LEQ, Mode.BRANCH_GT))
    up = np.isin(mode, (Mode.BRANCH_LT, Mode.BRANCH_GTE))
    too_high, too_low = down & (b > value), up & (b < value)
    b[too_high] = np.nextafter(b[too_high], dtype.type(-np.inf))
    b[too_low] = np.nextafter(b[too_low], dtype.type(np.inf))
    never = (mode == Mode.BRANCH_EQ) & ~is_set & (b != value)
    b[never] = np.inf
    return b, never
