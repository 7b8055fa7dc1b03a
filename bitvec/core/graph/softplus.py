"""`bitvec.core.softplus` as operators of a graph, bit for bit."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.softplus import ARTANH, EXP, FAR, LN2_HIGH, LN2_LOW, LOG2_E, POWERS


def softplus(graph: Graph, x: str, dtype: np.dtype) -> str:
    """Append log(1 + exp(x)): additions, products, quotients and comparisons of float64 alone."""

    def add(kind: str, *inputs: str | Array, name: str) -> str:
        return graph.add(kind, *inputs, name=f"softplus_{name}")

    def polynomial(coefficients: tuple[float, ...], at: str, name: str) -> str:
        value = add("Mul", at, np.array(coefficients[-1]), name=name)
        for one in reversed(coefficients[1:-1]):
            value = add("Mul", add("Add", value, np.array(one), name=name), at, name=name)
        return add("Add", value, np.array(coefficients[0]), name=name)

    wide = np.dtype(np.float64)
    value = x if dtype == wide else cast(graph, x, wide, "softplus_x")
    size = add("Abs", value, name="size")
    u = add(
        "Where", add("Less", size, np.array(FAR), name="is_near"), size, np.array(FAR), name="u"
    )
    k = add("Mul", u, np.array(LOG2_E), name="ratio")
    k = add("Floor", add("Add", k, np.array(0.5), name="ratio_half"), name="k")
    r = add("Sub", add("Mul", k, np.array(LN2_HIGH), name="high"), u, name="rest_high")
    r = add("Add", r, add("Mul", k, np.array(LN2_LOW), name="low"), name="rest")
    whole = cast(graph, k, np.dtype(np.int64), "softplus_exponent")
    power = add("Gather", np.array(POWERS), whole, name="power")
    t = add("Mul", polynomial(EXP, r, "exp"), power, name="t")
    s = add("Div", t, add("Add", t, np.array(2.0), name="t_2"), name="s")
    series = polynomial(ARTANH, add("Mul", s, s, name="s2"), "artanh")
    tail = add("Mul", add("Add", s, s, name="twice_s"), series, name="tail")
    is_below = add("Less", value, np.array(0.0), name="is_below")
    hinge = add("Where", is_below, np.array(0.0), value, name="hinge")
    found = add("Add", hinge, tail, name="wide")
    return found if dtype == wide else cast(graph, found, dtype, "softplus")
