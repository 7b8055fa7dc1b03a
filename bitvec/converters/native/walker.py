"""The trees of the papers, node by node, from the arrays that a native tree holds.

Independent of the conversion. A sum that is no number exceeds no threshold, so that it goes left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from bitvec.converters.native.cpt import CPT
from bitvec.converters.native.e2edt import E2EDT
from bitvec.converters.native.kddt import KDDT
from bitvec.converters.native.tao import TAO
from bitvec.converters.native.tao_boosting import TAOBoosting
from bitvec.core.arrays import Array
from bitvec.core.leaves import LinearTerms
from bitvec.core.node_tests import Activation, NodeTests, Relation, from_rows
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.shape_annotations import Bool
from bitvec.verify.source_trees import SourceTrees


class _Row(NamedTuple):
    """A row of S: r · activation(weight · x[column] − offset)."""

    column: Array
    weight: Array
    offset: float = 0.0
    r: float = 1.0
    activation: Activation = Activation.IDENTITY


def is_walked(model: Any) -> bool:
    """Tell whether the trees are tests of X: no kernel decides softly, no node reads a map of X."""
    parts = [(tree, name) for tree in _trees(model) for name in ("kernel", "phi")]
    return all(getattr(tree, name, None) is None for tree, name in parts)


def _trees(model: Any) -> tuple[Any, ...]:
    trees: tuple[Any, ...] = getattr(model, "trees", (model,))
    return trees


def source_trees(model: Any) -> SourceTrees:
    """Return the trees of a native tree or forest that `is_walked`."""
    trees = _trees(model)
    first = trees[0]
    n_nodes = np.array([tree.n_nodes for tree in trees])
    node, leaf = np.cumsum(n_nodes) - n_nodes, np.cumsum(n_nodes + 1) - n_nodes - 1

    def numbered(name: str) -> Array:
        sides = [
            np.where((s := getattr(tree, name)) >= 0, s + i, s - k)  # ~(s + k) is ~s - k
            for tree, i, k in zip(trees, node, leaf, strict=True)
        ]
        return np.concatenate(sides)

    left, right = numbered("left"), numbered("right")
    root = ~leaf
    root[n_nodes > 0] = np.setdiff1d(np.arange(left.size), [left, right])
    swapped = np.concatenate([_inside_right(tree) for tree in trees])
    values = np.concatenate([tree.values for tree in trees])
    return SourceTrees(
        tests=_tests(trees),
        left=np.where(swapped, right, left),
        right=np.where(swapped, left, right),
        root=root,
        leaf_id=np.arange(len(values)) - np.repeat(leaf, n_nodes + 1),
        v=values,
        linear=_linear(trees),
        row_dtype=first.dtype,
        n_features=first.n_features,
        stated=_stated(model, first.n_outputs, values.dtype),
    )


def _stated(model: Any, n_outputs: int, dtype: np.dtype) -> dict[str, Any]:
    """Return what the answer is made of, by the names of fields of `Output`."""
    added, link = isinstance(model, TAOBoosting), PostTransform.IDENTITY
    if added and model.classes is not None:
        link = PostTransform.SIGMOID if n_outputs == 1 else PostTransform.SOFTMAX
    return {
        "n_outputs": n_outputs,
        "dtype": dtype,
        "aggregate": Aggregate.MEAN if hasattr(model, "trees") and not added else Aggregate.SUM,
        "base_score": model.base_score if added else np.zeros(n_outputs, dtype),
        "post_transform": link,
        **dict.fromkeys(("scale", "tree_weight", "divisor")),
        "classes": None if model.classes is None else (model.classes,),
    }


def _column(tree: KDDT, node: int) -> tuple[list[_Row], float]:
    """Return x_j > τ."""
    return [_Row(tree.j[node : node + 1], np.ones(1))], tree.tau[node]


def _product(tree: TAO, node: int) -> tuple[list[_Row], float]:
    """Return w · x > −bias, which says w · x + bias > 0: only equal floats differ by 0."""
    entries = slice(tree.W.ptr[node], tree.W.ptr[node + 1])
    return [_Row(tree.W.column[entries], tree.W.weight[entries])], -tree.bias[node]


def _margin(tree: E2EDT, node: int) -> tuple[list[_Row], float]:
    """Return θ · x > −bias, in the same way."""
    column = np.flatnonzero(tree.theta[node])
    return [_Row(column, tree.theta[node, column])], -tree.bias[node]


def _facets(tree: CPT, node: int) -> tuple[list[_Row], float]:
    """Return g > τ, with a row for each facet that counts."""
    rows = []
    for k in range(tree.facet_ptr[node], tree.facet_ptr[node + 1]):
        beta, bias = tree.beta[k, :-1], tree.beta[k, -1]
        if tree.r[k] != 0:
            column = np.flatnonzero(beta)
            rows.append(_Row(column, beta[column], -bias, tree.r[k], Activation.SOFTPLUS))
    return rows, tree.tau[node]


_NODES: dict[type, Callable[[Any, int], tuple[list[_Row], float]]] = {
    KDDT: _column,
    TAO: _product,
    E2EDT: _margin,
    CPT: _facets,
}


def _tests(trees: Iterable[Any]) -> NodeTests:
    """Return the tests of all nodes, in which every row of S has an entry.

    A node that reads nothing is x_0 > inf or x_0 >= -inf; beside rows that do, a row that reads
    nothing has the entry 0 · [x_c == 0], with c the first column of the node.
    """
    rows: list[_Row] = []
    n_rows, b, always = [0], [], []
    for tree in trees:
        swapped, nothing = _inside_right(tree), np.zeros((1, tree.n_features), tree.dtype)
        for node in range(tree.n_nodes):
            own, threshold = _NODES[type(tree)](tree, node)
            read = np.concatenate([np.zeros(0, int), *(row.column for row in own)])[:1]
            right = not read.size and bool(tree.goes_right(node, nothing)[0] != swapped[node])
            if not read.size:
                own = [_Row(np.zeros(1, int), np.ones(1))]
                threshold = -np.inf if right else np.inf
            nil = np.zeros(1)
            rows += [
                row if row.column.size else row._replace(column=read, weight=nil) for row in own
            ]
            always.append(right)
            n_rows.append(len(rows))
            b.append(threshold)
    dtype = tree.dtype
    weight = np.concatenate([np.zeros(0), *(row.weight for row in rows)]).astype(dtype)
    return from_rows(
        np.cumsum([0, *(row.column.size for row in rows)]),
        np.concatenate([np.zeros(0, int), *(row.column for row in rows)]),
        weight,
        np.array(b, dtype),
        node_ptr=n_rows,
        offset=np.array([row.offset for row in rows], dtype),
        activation=np.array([row.activation for row in rows]),
        r=np.array([row.r for row in rows], dtype),
        relation=np.where(always, Relation.GREATER_EQUAL, Relation.GREATER),
        missing_right=np.array(always, bool),
        indicator=np.where(weight == 0, 0, -1).astype(np.int32) if np.any(weight == 0) else None,
    )


def _inside_right(tree: Any) -> Bool[Array, " n_nodes"]:
    """Return the nodes of a convex polytope tree whose inside goes right; g > τ is outside."""
    return getattr(tree, "inside_right", np.zeros(tree.n_nodes, bool))


def _linear(trees: Iterable[Any]) -> LinearTerms | None:
    """Return the leaves of V + U x; a column counts where a weight of any output is not 0."""
    held = [(tree, getattr(tree, "U", None)) for tree in trees]
    if all(U is None for _, U in held):
        return None
    count, columns, weights = [0], [], []
    for tree, U in held:
        for leaf in range(tree.n_leaves):
            of_leaf = np.zeros((tree.n_outputs, 0)) if U is None else U[leaf]
            column = np.flatnonzero((of_leaf != 0).any(axis=0))
            count.append(column.size)
            columns.append(column.astype(np.int32))
            weights.append(of_leaf[:, column].T.astype(tree.values.dtype))
    V = np.concatenate([tree.V for tree, _ in held])
    return LinearTerms(np.cumsum(count), np.concatenate(columns), np.concatenate(weights), V)
