"""The trees of a LightGBM Booster as its own text states them, for proofs.

`dump_model` replaces infinite thresholds; `model_to_string` keeps all bits. A row goes left where
x <= threshold in float64, or where the code that x truncates to is in the node's set; any other
code and NaN go right of a set. The reader of dense rows takes |x| <= 1e-35 for 0.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.leaves import LinearTerms
from bitvec.core.node_tests import (
    ZERO_THRESHOLD,
    CodeRule,
    Kind,
    MissingRule,
    Relation,
    axis_aligned,
)
from bitvec.core.output import PostTransform, SoftmaxSum
from bitvec.verify.source_trees import SourceTrees

CATEGORICAL: Final = 1
DEFAULT_LEFT: Final = 2
NOTHING_MISSING: Final = 0
ZERO_MISSING: Final = 1
"""Two flags of `decision_type`, and two values of its bits from the third on."""


def source_trees(booster: Any, model: Any) -> SourceTrees:
    """Return the trees that answer.

    Parameters
    ----------
    booster : Booster
    model : path, Booster or scikit-learn wrapper
        Where it came from; a wrapper has the labels.
    """
    head, *blocks = booster.model_to_string().partition("\nend of trees")[0].split("\nTree=")
    header, trees = _lines(head), [_lines(block) for block in blocks]

    def joined(name: str, dtype: type = np.int64) -> Array:
        parse = float if dtype is np.float64 else int
        text = " ".join(tree.get(name, "") for tree in trees)
        return np.array(list(map(parse, text.split())), dtype)

    n_leaves = joined("num_leaves")
    n_nodes = n_leaves - 1
    first_node, first_leaf = np.cumsum(n_nodes) - n_nodes, np.cumsum(n_leaves) - n_leaves
    tree = np.repeat(np.arange(len(trees)), n_nodes)

    def children(name: str) -> Array:
        child = joined(name)
        return np.where(child < 0, child - first_leaf[tree], child + first_node[tree])

    threshold, decision = joined("threshold", np.float64), joined("decision_type")
    is_set, missing = decision & CATEGORICAL != 0, decision >> 2
    b = np.where(is_set, 0.0, threshold)
    # All of |x| <= k reads as 0: left of b >= 0 where x <= k, left of b < 0 where x < -k.
    is_tiny = ~is_set & (np.abs(b) <= ZERO_THRESHOLD)
    below = is_tiny & (b < 0)
    missing_right = np.where(missing == NOTHING_MISSING, b < 0, decision & DEFAULT_LEFT == 0)
    set_ptr, left_words = _sets(joined, threshold, is_set, tree)
    n_outputs = int(header.get("num_tree_per_iteration", "1"))
    tree_of_leaf = np.repeat(np.arange(len(trees)), n_leaves)
    v, linear = _leaves(joined, tree_of_leaf)
    return SourceTrees(
        tests=axis_aligned(
            joined("split_feature"),
            np.where(is_tiny, np.where(below, -ZERO_THRESHOLD, ZERO_THRESHOLD), b),
            relation=np.where(below, Relation.GREATER_EQUAL, Relation.GREATER),
            missing_right=is_set | missing_right,
            missing_rule=np.where(
                ~is_set & (missing == ZERO_MISSING), MissingRule.NAN_OR_ZERO, MissingRule.NAN
            ),
            kind=np.where(is_set, Kind.SET, Kind.MARGIN),
            code_rule=CodeRule.TRUNCATE,
            other_right=is_set,
            set_ptr=set_ptr,
            set_words=~left_words,
        ),
        left=children("left_child"),
        right=children("right_child"),
        root=np.where(n_leaves > 1, first_node, ~first_leaf),
        leaf_id=np.arange(tree_of_leaf.size) - first_leaf[tree_of_leaf],
        v=v,
        output=None if n_outputs == 1 else (tree_of_leaf % n_outputs).astype(np.int32),
        linear=linear,
        row_dtype=np.dtype(np.float64),
        n_features=int(header["max_feature_idx"]) + 1,
        stated=_stated(header, len(trees) // n_outputs, n_outputs, model),
    )


def _lines(block: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in block.splitlines())


def _sets(joined: Any, threshold: Array, is_set: Array, tree: Array) -> tuple[Array, Array]:
    """Return the words of codes that go left; a set's threshold is its number within the tree."""
    n_sets = joined("num_cat")
    bound, words = joined("cat_boundaries"), joined("cat_threshold").astype(np.uint32)
    size = np.where(n_sets > 0, n_sets + 1, 0)  # of a tree's boundaries, which begin with 0
    first = np.cumsum(size) - size
    total = np.zeros(n_sets.size, np.int64)
    total[n_sets > 0] = bound[(first + size - 1)[n_sets > 0]]
    at = first[tree[is_set]] + threshold[is_set].astype(np.int64)
    begin = (np.cumsum(total) - total)[tree[is_set]] + bound[at]
    count = np.zeros(tree.size, np.int64)
    count[is_set] = bound[at + 1] - bound[at]
    set_ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return set_ptr, words[ranges(begin, count[is_set])]


def _leaves(joined: Any, tree_of_leaf: Array) -> tuple[Array, LinearTerms | None]:
    v = joined("leaf_value", np.float64)
    is_linear = joined("is_linear") != 0
    if not np.any(is_linear):
        return v[:, None], None
    at = is_linear[tree_of_leaf]
    constant, count = v.copy(), np.zeros(v.size, np.int64)
    constant[at], count[at] = joined("leaf_const", np.float64), joined("num_features")
    linear = LinearTerms(
        np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        joined("leaf_features").astype(np.int32),
        joined("leaf_coeff", np.float64)[:, None],
        constant[:, None],
        ZERO_THRESHOLD,
    )
    return np.where(count > 0, v, constant)[:, None], linear


_LINKS = {
    **dict.fromkeys(
        (
            "regression",
            "regression_l1",
            "huber",
            "fair",
            "quantile",
            "mape",
            "lambdarank",
            "rank_xendcg",
        ),
        PostTransform.IDENTITY,
    ),
    **dict.fromkeys(("binary", "multiclassova", "cross_entropy"), PostTransform.SIGMOID),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), PostTransform.EXPONENTIAL),
    "multiclass": PostTransform.SOFTMAX,
    "cross_entropy_lambda": PostTransform.LOGARITHM_ONE_PLUS_EXP,
}
"""Functions of raw scores by objective."""


def _stated(
    header: dict[str, str], n_iterations: int, n_outputs: int, model: Any
) -> dict[str, Any]:
    averages = "average_output" in header
    stated: dict[str, Any] = {
        "dtype": np.float64,
        "aggregate": "mean" if averages else "sum",
        "base_score": np.zeros(n_outputs),
        "base_first": False,
        "boundary": None,
        "tree_weight": None,
        "scale": None,
        "divisor": np.full(n_outputs, float(max(n_iterations, 1))) if averages else None,
    }
    name, *options = header.get("objective", "custom").split()
    if name in _LINKS:
        link = PostTransform.SIGNED_SQUARE if "sqrt" in options else _LINKS[name]
        stated |= {"post_transform": link, "softmax_sum": SoftmaxSum.IN_ORDER_C}
    for option in options:
        if option.startswith("sigmoid:"):
            stated["parameter"] = float(option.removeprefix("sigmoid:"))
    if hasattr(type(model), "booster_"):
        labels = None if name == "custom" else getattr(model, "classes_", None)
        stated["classes"] = None if labels is None else (np.asarray(labels),)
    elif name in ("binary", "multiclass", "multiclassova"):  # a Booster numbers its classes
        stated["classes"] = (np.arange(max(2, n_outputs)),)
    else:
        stated["classes"] = None
    return stated
