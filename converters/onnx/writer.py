"""The ONNX form `tree_ensemble`: ai.onnx.ml TreeEnsemble (version 5).

The operator walks the trees; two ways lead from leaves to scores, and the forest decides:

* A leaf that adds one number to one output goes into the operator itself, which sums. On
  one thread onnxruntime 1.31 adds the trees in order, and raw scores equal the reference; on more
  it adds partial sums, and the last places may differ.
* Otherwise (vector leaves, minimum, maximum, linear leaves, or sums narrower than comparisons) the
  operator yields leaf numbers, one output per tree, and standard operators look the vectors up
  and sum them in the source's order. The operator's leaves hold one number each, so a forest of
  vectors would have to be repeated per output.

Version 5 alone is written: it compares and sums in float64 where the source does, and knows set
membership, which version 3 does not.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec import structure, tree_paths
from bitvec.arrays import Array
from bitvec.converters.onnx.schema import (
    AGGREGATE_SUM,
    DOMAIN,
    ENSEMBLE,
    POST_TRANSFORM_NONE,
    Mode,
)
from bitvec.errors import MissingLibraryError, UnsupportedModelError
from bitvec.forest import Forest
from bitvec.graph.answers import add_answers
from bitvec.graph.operators import Graph, cast
from bitvec.graph.scores import finish, raw_score, require_hard, tree_output, weighted_leaves
from bitvec.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    CodeRule,
    Kind,
    MissingRule,
    Relation,
    set_codes,
)
from bitvec.output import Aggregate

try:
    import onnx
except ImportError as error:
    raise MissingLibraryError("onnx", "onnx", "Writing ONNX files") from error

FORM = "tree_ensemble"
LARGEST_DEPTH = 1024
"""onnxruntime 1.31 loads trees by recursion: 5,000 levels pass, 50,000 end the process."""
LARGEST_TREE = 1 << 24
"""Leaf numbers up to this are exact in float32."""


def to_onnx(forest: Forest, *, name: str = "bitvec", leaves: bool = False) -> Any:
    """Return a forest as an ONNX model around one TreeEnsemble operator.

    Parameters
    ----------
    forest : Forest
        Axis-aligned, set and equality nodes; any leaves, constant or linear.
    name : str
        Name of the graph.
    leaves : bool
        Whether the model also has an output `leaves`, int64, (batch, n_trees): the exit leaves.

    Returns
    -------
    onnx.ModelProto
        Input `X`, (batch, n_features), in the forest's dtype; outputs as in
        `bitvec.graph.answers`.

    Raises
    ------
    UnsupportedModelError
        If the form cannot hold the forest.
    """
    require_hard(forest, FORM)
    _require_one_column_tests(forest)
    graph = Graph()
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    columns, feature = _treated_columns(graph, forest, X)
    sums = _sums_in_operator(forest)
    local = ""
    if leaves or not sums:
        local = _leaf_numbers(graph, forest, columns, feature)
    if sums:
        raw = _summed_in_operator(graph, forest, columns, feature)
    else:
        leaf = graph.add("Add", local, forest.bitvectors.leaf_ptr[:-1], name="leaf")
        raw = raw_score(graph, forest, X, leaf)
    add_answers(graph, forest, raw)
    if leaves:
        graph.output("leaves", local, np.dtype(np.int64), ("batch", forest.n_trees))
    return graph.model(onnx, forest, name=name, form=FORM)


def _require_one_column_tests(forest: Forest) -> None:
    wide = np.flatnonzero(~forest.tests.is_one_hot)
    if wide.size:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs nodes that test one column, got {wide.size} nodes that "
            "combine columns (oblique or polytope): use the form `tensor`."
        )
    if forest.n_features == 0:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs at least one column, got none: use the form `tensor`."
        )
    deepest = int(tree_paths.leaf_depth(forest.bitvectors).max())
    if deepest > LARGEST_DEPTH:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs trees of depth {LARGEST_DEPTH} at most, got {deepest}: "
            "onnxruntime descends by recursion when it loads; use the form `tensor` for small "
            "trees, or predict with bitvec."
        )
    largest = int(np.diff(forest.bitvectors.leaf_ptr).max())
    if largest > LARGEST_TREE:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs trees of at most {LARGEST_TREE} leaves, got {largest}: "
            "predict with bitvec."
        )


def _sums_in_operator(forest: Forest) -> bool:
    output, leaves = forest.output, forest.leaves
    return (
        leaves.linear is None
        and leaves.v.shape[1] == 1
        and (leaves.output is None or tree_output(forest) is not None)
        and output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        # The operator has one type; comparing in float64 and summing in float32 are two.
        and (forest.dtype == np.float32 or output.dtype == np.float64)
    )


def _summed_in_operator(graph: Graph, forest: Forest, columns: str, feature: Array) -> str:
    """Append the raw score, (batch, n_outputs), summed by the operator."""
    output = forest.output
    weights = weighted_leaves(forest)[:, 0]
    named = tree_output(forest)
    per_tree = np.zeros(forest.n_trees, np.int64) if named is None else named
    targets = np.repeat(per_tree, np.diff(forest.bitvectors.leaf_ptr))
    if forest.dtype != output.dtype:  # float32 comparisons stay exact in float64
        columns = cast(graph, columns, output.dtype, "X_as_output")
    base = output.base_score if output.base_first else None
    total = _ensemble(
        graph, forest, columns, feature, weights, targets, output.n_outputs, base, "score"
    )
    return finish(graph, forest, total)


def _leaf_numbers(graph: Graph, forest: Forest, columns: str, feature: Array) -> str:
    """Append the exit leaves as numbers within each tree, int64, (batch, n_trees)."""
    sizes = np.diff(forest.bitvectors.leaf_ptr)
    number = np.arange(forest.n_leaves) - np.repeat(forest.bitvectors.leaf_ptr[:-1], sizes)
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    weights = number.astype(forest.dtype)
    found = _ensemble(
        graph, forest, columns, feature, weights, tree, forest.n_trees, None, "leaf_number"
    )
    return cast(graph, found, np.dtype(np.int64), "exit_leaf")


def _ensemble(
    graph: Graph,
    forest: Forest,
    columns: str,
    feature: Array,
    weights: Array,
    targets: Array,
    n_targets: int,
    base: Array | None,
    name: str,
) -> str:
    """Append one TreeEnsemble; `base` becomes single-leaf trees ahead of the others."""
    dtype = weights.dtype
    B = forest.bitvectors
    nodes = _branches(forest, feature)
    left, right = structure.children(B)
    true = np.where(nodes.true_right, right, left)
    false = np.where(nodes.true_right, left, right)
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    if base is not None:
        added = B.n_leaves + np.arange(n_targets)
        roots = np.concatenate([~added, roots])
        weights = np.concatenate([weights, base])
        targets = np.concatenate([targets, np.arange(n_targets)])
    # A tree of one leaf is a node whose two branches are that leaf.
    alone = np.flatnonzero(roots < 0)
    true = np.concatenate([true, roots[alone]])
    false = np.concatenate([false, roots[alone]])
    roots[alone] = B.n_nodes + np.arange(alone.size)
    zeros = np.zeros(alone.size, np.int64)
    unused = _leaf_shift(true[roots], false[roots])

    def child(side: Array) -> list[int]:
        numbers: list[int] = np.where(side < 0, ~side + unused, side).tolist()
        return numbers

    attributes: dict[str, Any] = {
        "n_targets": n_targets,
        "aggregate_function": AGGREGATE_SUM,
        "post_transform": POST_TRANSFORM_NONE,
        "tree_roots": roots.tolist(),
        "nodes_modes": np.concatenate([nodes.mode, zeros]).astype(np.uint8),
        "nodes_featureids": np.concatenate([nodes.feature, zeros]).tolist(),
        "nodes_splits": np.concatenate([nodes.split, zeros]).astype(dtype),
        "nodes_missing_value_tracks_true": np.concatenate([nodes.missing_true, zeros]).tolist(),
        "nodes_truenodeids": child(true),
        "nodes_trueleafs": (true < 0).astype(np.int64).tolist(),
        "nodes_falsenodeids": child(false),
        "nodes_falseleafs": (false < 0).astype(np.int64).tolist(),
        "leaf_weights": np.concatenate([np.zeros(unused, dtype), weights]),
        "leaf_targetids": [0] * unused + targets.tolist(),
    }
    if nodes.members.size:
        attributes["membership_values"] = nodes.members.astype(dtype)
    return graph.add(ENSEMBLE, columns, name=name, domain=DOMAIN, **attributes)


def _leaf_shift(true: Array, false: Array) -> int:
    """Return how many unused leaves to put first so that no root's leaf has its node's number.

    Some onnxruntime versions take a root for a tree of one leaf if its two children, a node and a
    leaf, have the same number (microsoft/onnxruntime#24679).
    """
    one_leaf = (true < 0) != (false < 0)
    node = np.where(true < 0, false, true)[one_leaf]
    leaf = ~np.where(true < 0, true, false)[one_leaf]
    taken = set((node - leaf).tolist())
    return next(shift for shift in itertools.count() if shift not in taken)


@dataclass(frozen=True, slots=True)
class _Branches:
    """The tests in the operator's terms; `true_right` says which child its true branch is."""

    mode: Array
    feature: Array
    split: Array
    missing_true: Array
    true_right: Array
    members: Array


def _branches(forest: Forest, feature: Array) -> _Branches:
    """Translate the nodes: z <= b and z < b are true on the left, equality and sets on the right.

    A set whose codes out of range go right becomes the set of its left-going codes, true on the
    left; a set without members, which the operator cannot hold, becomes x <= inf.
    """
    tests = forest.tests
    mode = np.where(tests.relation == Relation.GREATER, Mode.BRANCH_LEQ, Mode.BRANCH_LT)
    mode[tests.kind == Kind.EQUAL] = Mode.BRANCH_EQ
    true_right = tests.kind == Kind.EQUAL
    split = tests.b.copy()
    members = []
    for node in np.flatnonzero(tests.kind == Kind.SET):
        codes = set_codes(tests, int(node))
        beyond = bool(tests.other_right[node])
        if beyond:
            n_codes = int(tests.set_ptr[node + 1] - tests.set_ptr[node]) * WORD_BITS
            codes = np.setdiff1d(np.arange(n_codes), codes)
        if codes.size:
            mode[node], split[node], true_right[node] = Mode.BRANCH_MEMBER, 0, not beyond
            members += [*codes.tolist(), np.nan]
        else:
            mode[node], split[node], true_right[node] = Mode.BRANCH_LEQ, np.inf, beyond
    missing_true = tests.missing_right == true_right
    return _Branches(mode, feature, split, missing_true, true_right, np.array(members))


_AS_IT_IS = 0
"""A column that no set reads; a set's is 1 + its CodeRule."""


def _treated_columns(graph: Graph, forest: Forest, X: str) -> tuple[str, Array]:
    """Append what the operator reads, (batch, n_columns), and return the column of each node.

    The operator knows NaN as missing. A column that a node reads by another rule, and the column
    of every set, is read from a copy behind X: NaN where the rule says missing, and for a set the
    code, -1 where the value is none. Sets would not need that by the standard, but onnxruntime
    1.31 truncates 2.5 to member 2.
    """
    tests, dtype = forest.tests, forest.dtype
    sentinel = forest.inputs.missing_sentinel
    rule = tests.missing_rule.astype(np.int64)
    if sentinel is None:
        rule[rule == MissingRule.NAN_OR_SENTINEL] = MissingRule.NAN
    is_set = tests.kind == Kind.SET
    reading = np.where(is_set, 1 + tests.code_rule.astype(np.int64), _AS_IT_IS)
    feature = tests.feature.astype(np.int64)
    wanted = np.stack([rule, reading, feature], axis=1)
    copied = (rule != MissingRule.NAN) | is_set
    copies, which = np.unique(wanted[copied], axis=0, return_inverse=True)
    feature[copied] = forest.n_features + which.ravel()
    if not len(copies):
        return X, feature
    x = graph.add("Gather", X, copies[:, 2], axis=1, name="column_copy")
    nan, zero = np.array(np.nan, dtype), np.zeros((), dtype)
    if np.any(copies[:, 0] == MissingRule.NAN_OR_ZERO):
        size = graph.add("Abs", x, name="magnitude")
        small = graph.add("LessOrEqual", size, np.array(ZERO_THRESHOLD, dtype), name="small")
        small = graph.add("And", small, copies[:, 0] == MissingRule.NAN_OR_ZERO, name="is_zero")
        x = graph.add("Where", small, nan, x, name="zero_as_missing")
    if np.any(copies[:, 0] == MissingRule.NAN_OR_SENTINEL):
        equal = graph.add("Equal", x, np.array(sentinel, dtype), name="equals_sentinel")
        marked = copies[:, 0] == MissingRule.NAN_OR_SENTINEL
        equal = graph.add("And", equal, marked, name="is_sentinel")
        x = graph.add("Where", equal, nan, x, name="sentinel_as_missing")
    if np.any(copies[:, 1] != _AS_IT_IS):
        negative = graph.add("Less", x, zero, name="is_negative")
        up, down = graph.add("Ceil", x, name="ceiling"), graph.add("Floor", x, name="floor")
        whole = graph.add("Where", negative, up, down, name="truncated")
        same = graph.add("Equal", x, whole, name="is_whole")
        nan_too = graph.add("IsNaN", x, name="is_missing")
        kept = graph.add("Or", same, nan_too, name="is_code_or_missing")
        exact = graph.add("Where", kept, x, np.array(-1, dtype), name="exact_code")
        truncating = copies[:, 1] == 1 + CodeRule.TRUNCATE
        code = graph.add("Where", truncating, whole, exact, name="code_or_truncated")
        flooring = copies[:, 1] == 1 + CodeRule.FLOOR
        code = graph.add("Where", flooring, down, code, name="code")
        x = graph.add("Where", copies[:, 1] != _AS_IT_IS, code, x, name="column_treated")
    return graph.add("Concat", X, x, axis=1, name="X_treated"), feature
