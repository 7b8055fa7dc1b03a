"""The native tree of linear nodes, from growth and from a refined forest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from bitvec.arrays import Array
from bitvec.converters.native import children
from bitvec.converters.native.e2edt import E2EDT, from_e2edt
from bitvec.forest import Forest
from bitvec.learners.growth.grow import GrownTree
from bitvec.learners.growth.linear import LinearRule
from bitvec.learners.growth.refinement import children_of, dense_rows


def of_growth(grown: GrownTree, leaf_values: Array, n_features: int, *, labels: bool) -> E2EDT:
    """Return the tree as it has grown; its classes are numbers.

    θ · x > threshold says θ · x + bias > 0 for bias = −threshold: a difference of floats is 0 only
    where they are equal.
    """
    theta = np.zeros((len(grown.rules), n_features))
    for node, rule in enumerate(grown.rules):
        assert isinstance(rule, LinearRule)
        theta[node] = rule.theta
    return from_e2edt(
        theta,
        -grown.threshold,
        left=grown.left,
        right=grown.right,
        pi=leaf_values if labels else None,
        mean=None if labels else leaf_values,
    )


def of_forest(forest: Forest, before: E2EDT) -> E2EDT:
    """Return the tree of a forest that was lifted from another one and refined."""
    tests = forest.tests
    left, right = children_of(forest)
    v = forest.leaves.v
    return from_e2edt(
        dense_rows(tests, before.n_features),
        -tests.b,
        left=left,
        right=right,
        pi=None if before.pi is None else v,
        mean=None if before.mean is None else v,
        classes=before.classes,
    )


def with_unit_margins(tree: E2EDT, X: Array, weight: Array) -> E2EDT:
    """Return the tree with θ and bias of each node multiplied by a power of two.

    The margins of the rows that reach a node then deviate by about 1, so that one γ means the same
    at all nodes. A power of two changes no decision, as long as nothing underflows, where it is
    left out.
    """
    theta, bias = tree.theta.copy(), tree.bias.copy()

    def decide(node: int, rows: Array) -> Array:
        margin = tree.margin(node, X[rows])
        scale = _power(margin, weight[rows])
        numbers = np.append(theta[node], bias[node])
        scaled = numbers * scale
        normal = np.abs(scaled[numbers != 0])
        if np.all(normal > 1e-150) and np.all(normal < 1e150):
            theta[node], bias[node] = scaled[:-1], scaled[-1]
        goes_right: Array = margin > 0
        return goes_right

    children.walk(tree.left, tree.right, len(X), decide)
    return replace(tree, theta=theta, bias=bias)


def _power(margin: Float64[Array, " n"], weight: Float64[Array, " n"]) -> float:
    """Return the power of two next to 1 / deviation."""
    mean = margin @ weight / weight.sum()
    spread = float(np.sqrt(np.square(margin - mean) @ weight / weight.sum()))
    if not 0 < spread < np.inf:
        return 1.0
    return float(2.0 ** -np.round(np.log2(spread)))
