"""Post-transforms of raw scores as operators of a graph: those of `bitvec.core.transforms`."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.graph.operators import Graph, cast, greater
from bitvec.core.output import Output, PostTransform


def columns(graph: Graph, value: str, start: int, size: int, total: int) -> str:
    if size == total:
        return value
    ends = (np.array([start]), np.array([start + size]), np.array([1]))
    return graph.add("Slice", value, *ends, name="group_raw")


def transform(graph: Graph, output: Output, raw: str) -> str:
    """Append the post-transform of all outputs; softmax goes group by group."""
    apply = TRANSFORMS[output.post_transform]
    grouped = (
        PostTransform.SOFTMAX,
        PostTransform.SOFTMAX_UNSHIFTED,
        PostTransform.SOFTMAX_ZERO,
    )
    if output.post_transform not in grouped or len(output.groups) == 1:
        return apply(graph, output, raw)
    ends = np.cumsum(output.groups).tolist()
    parts = [
        apply(graph, output, columns(graph, raw, end - size, size, output.n_outputs))
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
    counts = greater(graph, magnitude, np.array(1e-7, output.dtype), "is_not_zero")
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
    # Correct to a few units in the last place, and NaN of NaN: the operator Softplus is missing for
    # float64 in onnxruntime and loses small results in float32. log1p(u) is log(w) · u / (w − 1)
    # with w the rounded 1 + u, and u itself where w is 1.
    zero, one = np.zeros((), output.dtype), np.ones((), output.dtype)
    magnitude = graph.add("Abs", raw, name="softplus_magnitude")
    u = graph.add("Exp", graph.add("Neg", magnitude, name="softplus_negative"), name="softplus_u")
    w = graph.add("Add", u, one, name="softplus_w")
    slope = graph.add("Div", u, graph.add("Sub", w, one, name="softplus_w_1"), name="softplus_u_w")
    log1p = graph.add("Mul", graph.add("Log", w, name="softplus_log"), slope, name="softplus_log1p")
    small = graph.add("Equal", w, one, name="softplus_is_small")
    log1p = graph.add("Where", small, u, log1p, name="softplus_rest")
    above = greater(graph, raw, zero, "softplus_is_above")
    hinge = graph.add("Where", above, raw, zero, name="softplus_hinge")
    return graph.add("Add", hinge, log1p, name="softplus")


def _signed_square(graph: Graph, output: Output, raw: str) -> str:
    return graph.add("Mul", raw, graph.add("Abs", raw, name="magnitude"), name="signed_square")


def _hinge(graph: Graph, output: Output, raw: str) -> str:
    positive = greater(graph, raw, np.zeros((), output.dtype), "is_positive")
    return cast(graph, positive, output.dtype, "hinge")


def _at_most_one(graph: Graph, output: Output, raw: str) -> str:
    return graph.add("Min", raw, np.ones((), output.dtype), name="at_most_one")


TRANSFORMS = {
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
