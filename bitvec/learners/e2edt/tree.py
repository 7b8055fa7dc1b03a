"""The native tree of linear or network nodes, from growth and from a refined forest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.converters.native import children
from bitvec.converters.native.e2edt import E2EDT, from_e2edt
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.learners.growth.grow import GrownTree
from bitvec.learners.growth.linear import LinearRule
from bitvec.learners.growth.networks import ROWS_AT_ONCE, NetworkRule
from bitvec.learners.growth.refinement import children_of, dense_rows
from bitvec.learners.growth.stump_test import Rule


def of_growth(grown: GrownTree, leaf_values: Array, n_features: int, *, labels: bool) -> E2EDT:
    """Return the tree as it has grown; its classes are numbers.

    θ · x > threshold says θ · x + bias > 0 for bias = −threshold: a difference of floats is 0 only
    where they are equal.
    """
    theta, phi = np.zeros((0, n_features)), []
    if grown.rules:
        theta = np.stack([_rule(rule).theta for rule in grown.rules])
        phi = [rule.phi for rule in grown.rules if isinstance(rule, NetworkRule)]
    return from_e2edt(
        theta,
        -grown.threshold,
        phi=phi or None,
        left=grown.left,
        right=grown.right,
        pi=leaf_values if labels else None,
        mean=None if labels else leaf_values,
    )


def _rule(rule: Rule) -> LinearRule | NetworkRule:
    assert isinstance(rule, LinearRule | NetworkRule)
    return rule


def of_forest(forest: Forest, before: E2EDT) -> E2EDT:
    """Return the tree of a forest that was converted from another one and refined.

    Each node of it reads the columns of one part of φ, as it did before.
    """
    tests = forest.tests
    left, right = children_of(forest)
    v = forest.leaves.v
    if forest.feature_map is not None and len(left):
        theta, phi = _by_node(forest)
    else:
        theta, phi = dense_rows(tests, forest.n_features), None
    return from_e2edt(
        theta,
        -tests.b,
        phi=phi,
        left=left,
        right=right,
        pi=None if before.pi is None else v,
        mean=None if before.mean is None else v,
        classes=before.classes,
    )


def _by_node(forest: Forest) -> tuple[Array, list[FeatureMap]]:
    """Return θ and φ of each node, from S over the columns of all parts side by side."""
    joined = forest.feature_map
    assert isinstance(joined, Concatenate)
    end = np.cumsum([part.n_features for part in joined.maps])
    theta, phi = [], []
    for row in dense_rows(forest.tests, joined.n_features):
        read = np.flatnonzero(row)
        last = int(read[-1]) if read.size else int(end[-1]) - 1
        at = int(np.searchsorted(end, last, side="right"))
        part = joined.maps[at]
        theta.append(row[end[at] - part.n_features : end[at]])
        phi.append(part)
    return np.stack(theta), phi


def with_unit_margins(tree: E2EDT, X: Array, weight: Array) -> E2EDT:
    """Return the tree with θ and bias of each node multiplied by a power of two.

    The margins of the rows that reach a node then deviate by about 1, so that one γ means the same
    at all nodes. A power of two changes no decision, as long as nothing underflows, where it is
    left out.
    """
    theta, bias = tree.theta.copy(), tree.bias.copy()

    def decide(node: int, rows: Array) -> Array:
        margin = _margin(tree, node, X[rows])
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


def _margin(tree: E2EDT, node: int, X: Array) -> Array:
    step = len(X) if tree.phi is None else ROWS_AT_ONCE
    return np.concatenate([tree.margin(node, X[at : at + step]) for at in range(0, len(X), step)])


def _power(margin: Float64[Array, " n"], weight: Float64[Array, " n"]) -> float:
    """Return the power of two next to 1 / deviation."""
    mean = margin @ weight / weight.sum()
    spread = float(np.sqrt(np.square(margin - mean) @ weight / weight.sum()))
    if not 0 < spread < np.inf:
        return 1.0
    return float(2.0 ** -np.round(np.log2(spread)))
