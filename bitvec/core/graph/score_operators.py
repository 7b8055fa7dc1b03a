"""From exit leaves to raw scores, as operators of a graph.

Scores are summed by CumSum over the trees, whose definition fixes the order: so they equal the
reference bit for bit. ReduceSum would not say in which order it adds. Its attributes stand there
though they are the standard's defaults, since not every reader takes those.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.output import Aggregate, Output
from bitvec.errors import UnsupportedModelError

FORWARD: Final[dict[str, Any]] = {"exclusive": 0, "reverse": 0}
"""Attributes of CumSum: each element is the sum of those before it and of itself."""
SUMS: Final = (Aggregate.SUM, Aggregate.MEAN)
"""Aggregates that add, and so weigh, the trees' vectors."""


def require_hard(forest: Forest, who: str) -> None:
    """Refuse, in the name of `who`, what no graph here holds: no trees, soft prediction, a map.

    Raises
    ------
    UnsupportedModelError
    """
    reasons = (
        (forest.n_trees == 0, "at least one tree, got none: export a trained forest"),
        (
            forest.kernel is not None,
            "a forest that predicts hard, got a prediction kernel: drop it with "
            "dataclasses.replace(forest, kernel=None), or predict with bitvec",
        ),
        (
            forest.feature_map is not None,
            "a forest that reads X itself, got a feature map: export the map with its own "
            "library and the forest with dataclasses.replace(forest, feature_map=None, ...)",
        ),
    )
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(f"{who} needs {sentence}.")


def raw_score(graph: Graph, forest: Forest, X: str, leaf: str) -> str:
    """Append the raw score of exit leaves.

    Parameters
    ----------
    X : name of a tensor, (batch, n_features), in the forest's dtype
    leaf : name of an int64 tensor, (batch, n_trees)
        Leaves of the forest (not of a tree).

    Returns
    -------
    str
        Name of a tensor, (batch, n_outputs), in the output's dtype.
    """
    output = forest.output
    vectors = _leaf_vectors(graph, forest, X, leaf)
    if output.aggregate in (Aggregate.MIN, Aggregate.MAX):
        total = _extreme(graph, forest, vectors)
    elif output.aggregate is Aggregate.WEIGHTED_MEDIAN:
        total = _weighted_median(graph, forest, vectors)
    else:
        total = _ordered_sum(graph, forest, vectors)
    return finish(graph, forest, total)


def finish(graph: Graph, forest: Forest, total: str) -> str:
    """Append what makes the total of the trees a raw score, as `Output.finish` does."""
    output = forest.output
    if output.aggregate is Aggregate.MEAN:
        trees = np.array(forest.n_trees, output.dtype)
        divisor = trees if output.divisor is None else output.divisor
        total = graph.add("Div", total, divisor, name="mean")
    if output.scale is not None:
        total = graph.add("Mul", total, output.scale, name="sum_scaled")
    return total if output.base_first else _add_base(graph, output, total)


def _add_base(graph: Graph, output: Output, total: str) -> str:
    if output.base_score.dtype == output.dtype:
        return graph.add("Add", total, output.base_score, name="raw_score")
    wide = cast(graph, total, output.base_score.dtype, "score_wide")
    wide = graph.add("Add", wide, output.base_score, name="raw_score_wide")
    return cast(graph, wide, output.dtype, "raw_score")


def tree_output(forest: Forest) -> Array | None:
    """Return the one output that each tree adds to, or None where leaves are not such."""
    named = forest.leaves.output
    if named is None or forest.output.aggregate not in SUMS:
        return None
    first = named[forest.bitvectors.leaf_ptr[:-1]]
    same = np.array_equal(named, np.repeat(first, np.diff(forest.bitvectors.leaf_ptr)))
    return first if same else None


def weighted_leaves(forest: Forest) -> Array:
    """Return v in the output's dtype, times the tree weights, rounded as the reference does."""
    v = forest.leaves.v.astype(forest.output.dtype)
    weight = forest.output.tree_weight
    if weight is not None and forest.output.aggregate in SUMS:
        v = v * np.repeat(weight, np.diff(forest.bitvectors.leaf_ptr))[:, None]
    return v


def _leaf_vectors(graph: Graph, forest: Forest, X: str, leaf: str) -> str:
    """Append the weighted leaf vectors, (batch, n_trees, width)."""
    linear = forest.leaves.linear
    if linear is None:
        v = weighted_leaves(forest)
        named = forest.leaves.output
        if named is not None and tree_output(forest) is None:
            v = np.where(named[:, None] == np.arange(forest.n_outputs), v, v.dtype.type(0))
        return graph.add("Gather", v, leaf, name="leaf_vector")
    v = forest.leaves.v
    count = np.diff(linear.leaf_ptr)
    fallback = graph.add("Gather", v, leaf, name="leaf_fallback")
    value = graph.add("Gather", linear.constant, leaf, name="leaf_constant")
    absent = graph.add("Gather", count == 0, leaf, name="leaf_is_constant")
    x = X if forest.dtype == v.dtype else cast(graph, X, v.dtype, "X_as_leaf")
    for k in range(int(count.max(initial=0))):
        has = count > k
        term = linear.leaf_ptr[:-1][has] + k
        column = np.zeros(len(v), np.int64)
        column[has] = linear.column[term]
        weight = np.zeros(v.shape, v.dtype)
        weight[has] = linear.weight[term]
        at = graph.add("Gather", column, leaf, name="term_column")
        factor = graph.add("GatherElements", x, at, axis=1, name="term_x")
        # A leaf without this term reads some column: its value, perhaps inf, must not count.
        used = graph.add("Gather", has, leaf, name="term_used")
        factor = graph.add("Where", used, factor, np.zeros((), v.dtype), name="term_x_used")
        if linear.zero_threshold:
            size = graph.add("Abs", factor, name="term_x_size")
            bound = np.array(linear.zero_threshold, v.dtype)
            is_zero = graph.add("LessOrEqual", size, bound, name="term_x_is_zero")
            factor = graph.add("Where", is_zero, np.zeros((), v.dtype), factor, name="term_x_read")
        nan = graph.add("IsNaN", factor, name="term_missing")
        absent = graph.add("Or", absent, nan, name="leaf_falls_back")
        wide = graph.add("Unsqueeze", factor, np.array([2]), name="term_x_wide")
        slope = graph.add("Gather", weight, leaf, name="term_weight")
        product = graph.add("Mul", slope, wide, name="term")
        value = graph.add("Add", value, product, name="leaf_linear")
    absent = graph.add("Unsqueeze", absent, np.array([2]), name="leaf_falls_back_wide")
    value = graph.add("Where", absent, fallback, value, name="leaf_vector")
    output = forest.output
    if output.dtype != v.dtype:
        value = cast(graph, value, output.dtype, "leaf_vector_as_output")
    if output.tree_weight is not None and output.aggregate in SUMS:
        value = graph.add("Mul", value, output.tree_weight[:, None], name="leaf_vector_weighted")
    if forest.leaves.output is None or tree_output(forest) is not None:
        return value
    # Chosen, not multiplied by 0 and 1: a linear leaf may be infinite.
    here = forest.leaves.output[:, None] == np.arange(output.n_outputs)
    here_at_leaf = graph.add("Gather", here, leaf, name="leaf_names_output")
    zero = np.zeros((), output.dtype)
    return graph.add("Where", here_at_leaf, value, zero, name="leaf_vector_spread")


def _ordered_sum(graph: Graph, forest: Forest, vectors: str) -> str:
    """Append the sum over trees in their order; vectors, (batch, n_trees, width)."""
    output, n_terms = forest.output, forest.n_trees
    named = tree_output(forest)
    if named is not None:
        # Term i of output o is the i-th tree that names o; -0.0 pads, since x + -0.0 is x.
        trees = [np.flatnonzero(named == o) for o in range(output.n_outputs)]
        n_terms = max(1, *(len(t) for t in trees))
        pick = np.full((n_terms, output.n_outputs), forest.n_trees)
        for o, t in enumerate(trees):
            pick[: len(t), o] = t
        pads = np.array([0, 0, 0, 0, 1, 0])
        padding = np.array(-0.0, output.dtype)
        vectors = graph.add("Pad", vectors, pads, padding, name="leaf_vector_padded")
        vectors = graph.add("Squeeze", vectors, np.array([2]), name="leaf_value")
        vectors = graph.add("Gather", vectors, pick, axis=1, name="leaf_value_by_output")
    # The reference starts from 0, or from the base score: one of them is added to the first term.
    start = np.full((n_terms, output.n_outputs), -0.0, output.dtype)
    start[0] = output.base_score + 0.0 if output.base_first else 0.0
    total = graph.add("Add", vectors, start, name="term_by_tree")
    if graph.interface.plain:
        terms = [
            graph.add("Gather", total, np.array(k), axis=1, name="term_of_tree")
            for k in range(n_terms)
        ]
        sum_ = terms[0]
        for term in terms[1:]:
            sum_ = graph.add("Add", sum_, term, name="score")
        return sum_
    if n_terms > 1:
        total = graph.add("CumSum", total, np.array(1), name="running_score", **FORWARD)
    return graph.add("Gather", total, np.array(n_terms - 1), axis=1, name="score")


def _extreme(graph: Graph, forest: Forest, vectors: str) -> str:
    # One Min of many inputs, not ReduceMin: only Min says that NaN wins, as NumPy's does.
    kind = "Min" if forest.output.aggregate is Aggregate.MIN else "Max"
    names = tuple(f"tree_{t}" for t in range(forest.n_trees))
    parts = graph.split("Split", vectors, names=names, axis=1, num_outputs=forest.n_trees)
    total = graph.add(kind, *parts, name="extreme_wide")
    return graph.add("Squeeze", total, np.array([1]), name="extreme")


def _weighted_median(graph: Graph, forest: Forest, vectors: str) -> str:
    """Append the first vector in rising order at which half of all weight is reached.

    TopK puts the earlier of equal values first, as a stable sort does.
    """
    output, n_trees = forest.output, forest.n_trees
    assert output.tree_weight is not None
    rising, tree = graph.split(
        "TopK",
        vectors,
        np.array([n_trees]),
        names=("leaf_vector_rising", "tree_rising"),
        axis=1,
        largest=0,
        sorted=1,
    )
    weight = graph.add("Gather", output.tree_weight, tree, name="median_weight")
    reached = graph.add("CumSum", weight, np.array(1), name="weight_reached", **FORWARD)
    whole = graph.add("Gather", reached, np.array([n_trees - 1]), axis=1, name="weight_of_all")
    half = graph.add("Mul", whole, np.array(0.5, output.dtype), name="half_of_weight")
    enough = graph.add("LessOrEqual", half, reached, name="half_is_reached")
    enough = cast(graph, enough, np.dtype(np.int32), "half_is_reached_number")
    first = graph.add(
        "ArgMax", enough, axis=1, keepdims=1, select_last_index=0, name="median_place"
    )
    median = graph.add("GatherElements", rising, first, axis=1, name="median_wide")
    return graph.add("Squeeze", median, np.array([1]), name="median")
