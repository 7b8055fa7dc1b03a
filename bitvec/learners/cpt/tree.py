"""The native tree of polytope nodes, from growth and from a refined forest, and its facets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.converters.native import children
from bitvec.converters.native.cpt import CPT, from_cpt
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.learners.growth.grow import GrownTree
from bitvec.learners.growth.polytope import PolytopeRule
from bitvec.learners.growth.refinement import children_of, dense_rows


@dataclass(frozen=True, slots=True, eq=False)
class NodeFacets:
    """Facets that are left of a node's K.

    Parameters
    ----------
    node : int
        Of `tree_`.
    r : float64, (n_facets,)
        The weight of each facet, largest first; none is 0.
    weight : float
        Of the training rows that reach the node.
    inside : float
        The share of it that lies in the convex set.
    """

    node: int
    r: Float64[Array, " n_facets"]
    weight: float
    inside: float

    @property
    def n_facets(self) -> int:
        """Facets that count."""
        return self.r.size


def of_growth(grown: GrownTree, leaf_values: Array, n_features: int, *, labels: bool) -> CPT:
    """Return the tree as it has grown; its classes are numbers."""
    beta, r = [np.zeros((0, n_features + 1))], [np.zeros(0)]
    for rule in grown.rules:
        assert isinstance(rule, PolytopeRule)
        beta.append(rule.beta)
        r.append(rule.r)
    return from_cpt(
        np.concatenate(beta),
        np.concatenate(r),
        tau=grown.threshold,
        facet_ptr=np.cumsum([part.size for part in r]),
        left=grown.left,
        right=grown.right,
        pi=leaf_values if labels else None,
        mean=None if labels else leaf_values,
    )


def of_forest(forest: Forest, before: CPT) -> CPT:
    """Return the tree of a forest that was converted from another one and refined.

    As g is never negative, all rows go right at a node whose τ has become negative; refinement has
    removed such nodes with the branch that no row reaches.
    """
    tests = forest.tests
    assert np.all(tests.b >= 0)
    left, right = children_of(forest)
    S = dense_rows(tests, before.n_features)
    v = forest.leaves.v
    return from_cpt(
        np.concatenate([S, -tests.offset[:, None]], axis=1),
        tests.r,
        tau=tests.b,
        facet_ptr=tests.node_ptr,
        left=left,
        right=right,
        pi=None if before.pi is None else v,
        mean=None if before.mean is None else v,
        classes=before.classes,
    )


def facets_of(tree: CPT, X: Array, weight: Array, *, exponent: int = 0) -> tuple[NodeFacets, ...]:
    """Return the facets of each node, by node; weights stand in units of 2^exponent."""
    found: dict[int, NodeFacets] = {}

    def decide(node: int, rows: Array) -> Array:
        goes_right = tree.goes_right(node, X[rows])
        at = weight[rows]
        r = tree.r[tree.facet_ptr[node] : tree.facet_ptr[node + 1]]
        r = np.sort(r[r > 0])[::-1]
        inside = at[goes_right == tree.inside_right[node]].sum() / at.sum()
        with np.errstate(over="ignore"):
            total = float(np.ldexp(at.sum(), exponent))
        found[node] = NodeFacets(node, r, total, float(inside))
        return goes_right

    children.walk(tree.left, tree.right, len(X), decide)
    return tuple(found[node] for node in sorted(found))
