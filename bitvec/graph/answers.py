"""From exit leaves to raw scores, probabilities and labels, as operators of a graph.

All ONNX forms answer alike, with tensors only (no ZipMap):

* `raw`, (batch, n_outputs), in the output's dtype;
* a regressor: `prediction`, (batch, n_outputs), the post-transform of `raw`;
* a classifier: `label`, (batch,) or (batch, n_groups), and `probabilities`, (batch, n_classes), or
  `probabilities_0`, `probabilities_1` ... where it has several output groups. Labels are int64,
  float, bool or string;
* on request `leaves`, int64, (batch, n_trees), the exit leaves as numbers within each tree.

Scores are summed by CumSum over the trees, whose definition fixes the order: so they equal the
reference bit for bit. ReduceSum would not say in which order it adds.
"""

from __future__ import annotations

import numpy as np

from bitvec.arrays import Array
from bitvec.errors import UnsupportedModelError
from bitvec.forest import Forest
from bitvec.graph.operators import Graph
from bitvec.output import Aggregate, Output, PostTransform

TENSOR_TYPE = {"float32": 1, "int64": 7, "bool": 9, "float64": 11}
"""Numbers of the ONNX standard for the element types that Cast is asked for here."""


def cast(graph: Graph, value: str, dtype: np.dtype, name: str) -> str:
    """Append a Cast to a dtype."""
    return graph.add("Cast", value, name=name, to=TENSOR_TYPE[dtype.name])


def softplus(graph: Graph, x: str, dtype: np.dtype) -> str:
    """Append log(1 + exp(x)), correct to a few units in the last place; NaN stays NaN.

    The operator Softplus is missing for float64 in onnxruntime and loses small results in float32.
    log1p(u) is log(w) · u / (w − 1) with w the rounded 1 + u, and u itself where w is 1.
    """
    zero, one = np.zeros((), dtype), np.ones((), dtype)
    magnitude = graph.add("Abs", x, name="softplus_magnitude")
    u = graph.add("Exp", graph.add("Neg", magnitude, name="softplus_negative"), name="softplus_u")
    w = graph.add("Add", u, one, name="softplus_w")
    slope = graph.add("Div", u, graph.add("Sub", w, one, name="softplus_w_1"), name="softplus_u_w")
    log1p = graph.add("Mul", graph.add("Log", w, name="softplus_log"), slope, name="softplus_log1p")
    small = graph.add("Equal", w, one, name="softplus_is_small")
    log1p = graph.add("Where", small, u, log1p, name="softplus_rest")
    above = graph.add("Greater", x, zero, name="softplus_is_above")
    hinge = graph.add("Where", above, x, zero, name="softplus_hinge")
    return graph.add("Add", hinge, log1p, name="softplus")


def require_hard(forest: Forest, form: str) -> None:
    """Refuse what no ONNX form here holds: soft prediction, a feature map, a weighted median.

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
        (
            forest.output.aggregate is Aggregate.WEIGHTED_MEDIAN,
            "a sum, mean, minimum or maximum over trees, got a weighted median: "
            "predict with bitvec",
        ),
    )
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(f"the ONNX form `{form}` needs {sentence}.")


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
    assert output.base_score is not None
    if output.base_score.dtype == output.dtype:
        return graph.add("Add", total, output.base_score, name="raw_score")
    wide = cast(graph, total, output.base_score.dtype, "score_wide")
    wide = graph.add("Add", wide, output.base_score, name="raw_score_wide")
    return cast(graph, wide, output.dtype, "raw_score")


def tree_output(forest: Forest) -> Array | None:
    """Return the one output that each tree adds to, or None where leaves are not such."""
    named = forest.leaves.output
    if named is None or forest.output.aggregate in (Aggregate.MIN, Aggregate.MAX):
        return None
    first = named[forest.bitvectors.leaf_ptr[:-1]]
    same = np.array_equal(named, np.repeat(first, np.diff(forest.bitvectors.leaf_ptr)))
    return first if same else None


def weighted_leaves(forest: Forest) -> Array:
    """Return v in the output's dtype, times the tree weights, rounded as the reference does."""
    v = forest.leaves.v.astype(forest.output.dtype)
    weight = forest.output.tree_weight
    if weight is not None and forest.output.aggregate not in (Aggregate.MIN, Aggregate.MAX):
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
    if output.tree_weight is not None and output.aggregate not in (Aggregate.MIN, Aggregate.MAX):
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
    assert output.base_score is not None
    start = np.full((n_terms, output.n_outputs), -0.0, output.dtype)
    start[0] = output.base_score + 0.0 if output.base_first else 0.0
    total = graph.add("Add", vectors, start, name="term_by_tree")
    if n_terms > 1:
        total = graph.add("CumSum", total, np.array(1), name="running_score")
    return graph.add("Gather", total, np.array(n_terms - 1), axis=1, name="score")


def _extreme(graph: Graph, forest: Forest, vectors: str) -> str:
    # One Min of many inputs, not ReduceMin: only Min says that NaN wins, as NumPy's does.
    kind = "Min" if forest.output.aggregate is Aggregate.MIN else "Max"
    names = tuple(f"tree_{t}" for t in range(forest.n_trees))
    parts = graph.split("Split", vectors, names=names, axis=1, num_outputs=forest.n_trees)
    total = graph.add(kind, *parts, name="extreme_wide")
    return graph.add("Squeeze", total, np.array([1]), name="extreme")


def add_answers(graph: Graph, forest: Forest, raw: str) -> None:
    """Append the outputs of the contract that this module states."""
    output = forest.output
    graph.output("raw", raw, output.dtype, ("batch", output.n_outputs))
    if output.classes is None:
        value = _transform(graph, output, raw)
        graph.output("prediction", value, output.dtype, ("batch", output.n_outputs))
        return
    common = _label_type(np.concatenate(output.classes))
    labels, start = [], 0
    for group, (names, size) in enumerate(zip(output.classes, output.groups, strict=True)):
        part = _columns(graph, raw, start, size, output.n_outputs)
        start += size
        probability = _TRANSFORMS[output.post_transform](graph, output, part)
        if size == 1 and names.size == 2:
            score = part if output.labels_from_raw else probability
            boundary = _boundary(output)
            comparison = "GreaterOrEqual" if output.tie_to_second else "Greater"
            above = graph.add(comparison, score, boundary, name="is_second_class")
            index = cast(graph, above, np.dtype(np.int64), "class_index_wide")
            index = graph.add("Squeeze", index, np.array([1]), name="class_index")
            one = np.ones((), output.dtype)
            first = graph.add("Sub", one, probability, name="first_probability")
            probability = graph.add("Concat", first, probability, axis=1, name="class_probability")
        else:
            score = part if output.labels_from_raw else probability
            index = graph.add(
                "ArgMax", score, axis=1, keepdims=0, select_last_index=0, name="class_index"
            )
        labels.append(graph.add("Gather", names.astype(common), index, name="class_label"))
        suffix = f"_{group}" if len(output.groups) > 1 else ""
        graph.output(
            f"probabilities{suffix}", probability, output.dtype, ("batch", int(names.size))
        )
    if len(labels) == 1:
        graph.output("label", labels[0], common, ("batch",))
        return
    wide = [graph.add("Unsqueeze", a, np.array([1]), name="class_label_wide") for a in labels]
    stacked = graph.add("Concat", *wide, axis=1, name="class_labels")
    graph.output("label", stacked, common, ("batch", len(labels)))


def _boundary(output: Output) -> Array:
    boundary = np.array(output.second_above, output.dtype)
    if float(boundary) != output.second_above:
        raise UnsupportedModelError(
            f"the boundary of the classes must be a number of {output.dtype}, got "
            f"{output.second_above}: an ONNX graph compares in the dtype of the scores."
        )
    return boundary


def _label_type(labels: Array) -> np.dtype:
    if labels.dtype.kind in "iu":
        if labels.dtype.kind == "u" and labels.size and int(labels.max()) > np.iinfo(np.int64).max:
            raise UnsupportedModelError(
                f"class labels must fit in int64, got {int(labels.max())}: relabel the classes."
            )
        return np.dtype(np.int64)
    if labels.dtype.kind == "f":
        return np.dtype(np.float64) if labels.dtype.itemsize > 4 else np.dtype(np.float32)
    return labels.dtype


def _columns(graph: Graph, value: str, start: int, size: int, total: int) -> str:
    if size == total:
        return value
    ends = (np.array([start]), np.array([start + size]), np.array([1]))
    return graph.add("Slice", value, *ends, name="group_raw")


def _transform(graph: Graph, output: Output, raw: str) -> str:
    """Append the post-transform of all outputs; softmax goes group by group."""
    apply = _TRANSFORMS[output.post_transform]
    grouped = (
        PostTransform.SOFTMAX,
        PostTransform.SOFTMAX_UNSHIFTED,
        PostTransform.SOFTMAX_ZERO,
    )
    if output.post_transform not in grouped or len(output.groups) == 1:
        return apply(graph, output, raw)
    ends = np.cumsum(output.groups).tolist()
    parts = [
        apply(graph, output, _columns(graph, raw, end - size, size, output.n_outputs))
        for end, size in zip(ends, output.groups, strict=True)
    ]
    return graph.add("Concat", *parts, axis=1, name="transformed")


def _identity(graph: Graph, output: Output, raw: str) -> str:
    return raw


def _sigmoid(graph: Graph, output: Output, raw: str) -> str:
    one = np.ones((), output.dtype)
    if output.parameter != 1.0:
        raw = graph.add("Mul", raw, np.array(output.parameter, output.dtype), name="scaled")
    negative = graph.add("Neg", raw, name="negative")
    exp = graph.add("Exp", negative, name="exp_negative")
    return graph.add("Div", one, graph.add("Add", exp, one, name="one_plus_exp"), name="sigmoid")


def _logistic(graph: Graph, output: Output, raw: str) -> str:
    # As onnxruntime's operator does: in float32, also of scores in float64.
    one, wide = np.ones((), np.float32), output.dtype != np.float32
    if wide:
        raw = cast(graph, raw, np.dtype(np.float32), "logistic_score")
    negative = graph.add("Neg", graph.add("Abs", raw, name="magnitude"), name="negative")
    exp = graph.add("Exp", negative, name="exp_negative")
    above = graph.add("Div", one, graph.add("Add", one, exp, name="one_plus_exp"), name="larger")
    below = graph.add("Sub", one, above, name="smaller")
    is_below = graph.add("Less", raw, np.zeros((), np.float32), name="is_below_zero")
    name = "logistic_narrow" if wide else "logistic"
    share = graph.add("Where", is_below, below, above, name=name)
    return cast(graph, share, output.dtype, "logistic") if wide else share


def _softmax(graph: Graph, output: Output, raw: str) -> str:
    if output.parameter != 1.0:
        raw = graph.add("Div", raw, np.array(output.parameter, output.dtype), name="ratio")
    return graph.add("Softmax", raw, axis=1, name="softmax")


def _softmax_of_halves(graph: Graph, output: Output, raw: str) -> str:
    one = np.ones((), output.dtype)
    negative = graph.add("Neg", graph.add("Abs", raw, name="magnitude"), name="negative")
    exp = graph.add("Exp", negative, name="exp_negative")
    total = graph.add("Add", exp, one, name="one_plus_exp")
    is_below = graph.add("Less", raw, np.zeros((), output.dtype), name="is_below_zero")
    top = graph.add("Where", is_below, exp, one, name="larger_or_exp")
    return graph.add("Div", top, total, name="softmax_of_halves")


def _softmax_unshifted(graph: Graph, output: Output, raw: str) -> str:
    exp = graph.add("Exp", raw, name="exp_score")
    total = graph.add("ReduceSum", exp, np.array([1]), keepdims=1, name="normaliser")
    share = graph.add("Div", np.ones((), output.dtype), total, name="share_of_one")
    return graph.add("Mul", exp, share, name="softmax_unshifted")


def _softmax_zero(graph: Graph, output: Output, raw: str) -> str:
    top = graph.add("ReduceMax", raw, np.array([1]), keepdims=1, name="top_score")
    magnitude = graph.add("Abs", raw, name="magnitude")
    counts = graph.add("Greater", magnitude, np.array(1e-7, output.dtype), name="is_not_zero")
    exp = graph.add("Exp", graph.add("Sub", raw, top, name="below_top"), name="exp_below_top")
    rest = graph.add("Exp", graph.add("Neg", top, name="negative_top"), name="exp_negative_top")
    small = graph.add("Mul", raw, rest, name="small_score")
    zero = np.zeros((), output.dtype)
    counted = graph.add("Where", counts, exp, zero, name="counted")
    total = graph.add("ReduceSum", counted, np.array([1]), keepdims=1, name="normaliser")
    share = graph.add("Where", counts, exp, small, name="share")
    return graph.add("Div", share, total, name="softmax_zero")


def _probit(graph: Graph, output: Output, raw: str) -> str:
    # onnxruntime's approximation is in float32, also of scores in float64.
    def number(value: float) -> Array:
        return np.array(value, np.float32)

    wide = output.dtype != np.float32
    if wide:
        raw = cast(graph, raw, np.dtype(np.float32), "probit_score")
    one = number(1.0)
    slope = np.asarray(number(2.0) / (number(np.pi) * number(0.147)))
    inverse_a = np.asarray(one / number(0.147))
    x = graph.add("Mul", raw, number(2.0), name="probit_doubled")
    x = graph.add("Sub", x, one, name="probit_x")
    below, above = (
        graph.add("Sub", one, x, name="probit_below"),
        graph.add("Add", one, x, name="probit_above"),
    )
    log = graph.add("Log", graph.add("Mul", below, above, name="probit_gap"), name="probit_log")
    v = graph.add("Mul", log, number(0.5), name="probit_half_log")
    v = graph.add("Add", v, slope, name="probit_v")
    rest = graph.add("Mul", log, inverse_a, name="probit_rest")
    radicand = graph.add("Sub", graph.add("Mul", v, v, name="probit_v2"), rest, name="probit_v3")
    root = graph.add("Sqrt", radicand, name="probit_root")
    size = graph.add("Sqrt", graph.add("Sub", root, v, name="probit_v4"), name="probit_size")
    inverse = graph.add("Mul", graph.add("Sign", x, name="probit_sign"), size, name="probit_erfinv")
    name = "probit_narrow" if wide else "probit"
    quantile = graph.add("Mul", inverse, number(1.41421356), name=name)
    return cast(graph, quantile, output.dtype, "probit") if wide else quantile


def _exponential(graph: Graph, output: Output, raw: str) -> str:
    return graph.add("Exp", raw, name="exponential")


def _exponential_standard_ratio(graph: Graph, output: Output, raw: str) -> str:
    negative = graph.add("Neg", raw, name="negative")
    ratio = graph.add("Div", negative, np.array(output.parameter, output.dtype), name="ratio")
    return graph.add("Pow", np.array(2.0, output.dtype), ratio, name="power_of_two")


def _logarithm_one_plus_exp(graph: Graph, output: Output, raw: str) -> str:
    return softplus(graph, raw, output.dtype)


def _signed_square(graph: Graph, output: Output, raw: str) -> str:
    return graph.add("Mul", raw, graph.add("Abs", raw, name="magnitude"), name="signed_square")


def _hinge(graph: Graph, output: Output, raw: str) -> str:
    positive = graph.add("Greater", raw, np.zeros((), output.dtype), name="is_positive")
    return cast(graph, positive, output.dtype, "hinge")


def _at_most_one(graph: Graph, output: Output, raw: str) -> str:
    return graph.add("Min", raw, np.ones((), output.dtype), name="at_most_one")


_TRANSFORMS = {
    PostTransform.IDENTITY: _identity,
    PostTransform.SIGMOID: _sigmoid,
    PostTransform.LOGISTIC: _logistic,
    PostTransform.SOFTMAX: _softmax,
    PostTransform.SOFTMAX_OF_HALVES: _softmax_of_halves,
    PostTransform.SOFTMAX_UNSHIFTED: _softmax_unshifted,
    PostTransform.SOFTMAX_ZERO: _softmax_zero,
    PostTransform.PROBIT: _probit,
    PostTransform.EXPONENTIAL: _exponential,
    PostTransform.EXPONENTIAL_STANDARD_RATIO: _exponential_standard_ratio,
    PostTransform.LOGARITHM_ONE_PLUS_EXP: _logarithm_one_plus_exp,
    PostTransform.SIGNED_SQUARE: _signed_square,
    PostTransform.HINGE: _hinge,
    PostTransform.AT_MOST_ONE: _at_most_one,
}
