"""Trees to start from: CART, oblique CART, random complete trees, and given trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.converters.native import tao
from bitvec.converters.native.fitted_estimators import is_estimator, is_fitted
from bitvec.converters.native.native_tree import NativeTree
from bitvec.converters.native.read import convert as convert_native
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.learners.tao.forest_trees import tree_of
from bitvec.learners.tao.oblique_cart import oblique_cart
from bitvec.learners.tao.training_rows import Rows
from bitvec.learners.tao.tree import NodeKind, Tree, as_oblique, axis_tree, oblique_tree

STARTS = ("cart", "oblique_cart", "random")


def start_tree(
    start: Any,
    rows: Rows,
    y: Array,
    weight: Float64[Array, " n_rows"],
    n_classes: int | None,
    *,
    depth: int,
    is_oblique: bool,
    restarts: int,
    seed: int,
) -> Tree:
    """Return the tree that passes start from, its tests those of a native tree: `>`, NaN left.

    Parameters
    ----------
    start : "cart", "oblique_cart" or "random", or a tree
        A TAO tree, a forest of one tree, a fitted scikit-learn tree, or an estimator that holds a
        forest of one tree.
    y : int64, (n_rows,), or float64, (n_rows, n_outputs)
    n_classes : int, optional
        Of class numbers; None for values.
    """
    width = y.shape[1] if n_classes is None else n_classes
    if isinstance(start, Tree):
        tree = start
    elif isinstance(start, str):
        tree = _named(start, rows, y, weight, n_classes, depth, is_oblique, restarts, seed)
    else:
        tree = _given(start, rows, width)
    if np.any(tree.kind == NodeKind.OBLIQUE) or is_oblique:
        if not is_oblique:
            raise InputError(
                "`start` must be axis-aligned unless `oblique`, got oblique nodes: pass "
                "oblique=True."
            )
        tree = as_oblique(tree, np.ones(tree.n_nodes, bool))
    return strict(tree)


def _named(
    start: str,
    rows: Rows,
    y: Array,
    weight: Array,
    n_classes: int | None,
    depth: int,
    is_oblique: bool,
    restarts: int,
    seed: int,
) -> Tree:
    if start not in STARTS or (start == "oblique_cart" and not is_oblique):
        allowed = STARTS if is_oblique else ("cart", "random")
        raise InputError(
            f"`start` must be one of auto, {', '.join(allowed)}, or a tree, got {start!r}: see "
            "`oblique`."
        )
    width = y.shape[1] if n_classes is None else n_classes
    if start == "random":
        return random_tree(rows, depth, width, is_oblique=is_oblique, seed=seed)
    if start == "cart":
        from bitvec.learners.tao.sklearn_cart import cart

        return cart(rows.Z, y, weight, n_classes, depth=depth, seed=seed)
    Y = y if n_classes is None else np.eye(n_classes)[y]
    Z = (rows.Z - rows.mean) / rows.scale
    dtype = rows.Z.dtype
    grown = oblique_cart(Z, Y, weight, depth=depth, restarts=restarts, seed=seed, dtype=dtype)
    return unscaled(grown, rows)


def unscaled(tree: Tree, rows: Rows) -> Tree:
    """Return a tree whose weights are of standardised columns with weights of the columns."""
    W = tree.W.astype(np.float64) / rows.scale
    threshold = tree.threshold.astype(np.float64) + W @ rows.mean
    return replace(tree, W=W.astype(tree.dtype), threshold=threshold.astype(tree.dtype))


def random_tree(rows: Rows, depth: int, width: int, *, is_oblique: bool, seed: int) -> Tree:
    """Return a complete tree of random tests, each through a row that comes to its node.

    Oblique nodes have normal weights in standardised columns; axis-aligned ones a random column.
    A node that no row comes to takes any row.
    """
    rng = np.random.default_rng(seed)
    n = 2**depth - 1
    child = np.arange(1, 2 * n + 1).reshape(n, 2)
    child = np.where(child < n, child, ~(child - n))
    Z = (rows.Z - rows.mean) / rows.scale
    feature, W = np.zeros(n, np.int64), np.zeros((n, rows.Z.shape[1]))
    threshold = np.zeros(n)
    at: dict[int, Array] = {0: np.arange(rows.n_rows)}
    for node in range(n):
        mine = at.pop(node)
        row = rng.choice(mine) if mine.size else rng.integers(rows.n_rows)
        if is_oblique:
            W[node] = rng.standard_normal(Z.shape[1])
        else:
            feature[node] = rng.integers(Z.shape[1])
            W[node, feature[node]] = 1.0
        z = Z[mine] @ W[node]
        threshold[node] = Z[row] @ W[node]
        for side, part in enumerate((z <= threshold[node], z > threshold[node])):
            if child[node, side] >= 0:
                at[int(child[node, side])] = mine[part]
    dtype = rows.Z.dtype
    left, right = (np.ascontiguousarray(side) for side in child.T)
    V = np.zeros((n + 1, width))
    tree = unscaled(oblique_tree(left, right, W.astype(dtype), threshold.astype(dtype), V), rows)
    if is_oblique:
        return tree
    cut = (threshold * rows.scale[feature] + rows.mean[feature]).astype(dtype)
    return axis_tree(left, right, feature, cut, rows.Z.shape[1], V)


def _given(start: Any, rows: Rows, width: int) -> Tree:
    """Return a tree that is there, in the dtype of the rows."""
    forest = _forest_of(start)
    _require_plain(forest, rows.Z.shape[1], width)
    tree = tree_of(forest)
    V = forest.leaves.v.astype(np.float64)
    if V.shape[1] == 1 and width == 2 and forest.output.is_classifier:
        second = (forest.output.second_above < V).astype(np.float64)
        V = np.concatenate([1 - second, second], axis=1)
    U = None
    linear = forest.leaves.linear
    if linear is not None:
        U = np.zeros((tree.n_leaves, width, rows.Z.shape[1]))
        leaf = np.repeat(np.arange(tree.n_leaves), np.diff(linear.leaf_ptr))
        U[leaf, :, linear.column] = linear.weight
        V = np.where(np.any(U != 0, axis=(1, 2))[:, None], linear.constant, V)
    dtype = rows.Z.dtype
    with np.errstate(over="ignore"):
        threshold, W = tree.threshold.astype(dtype), tree.W.astype(dtype)
    if not (np.all(np.isfinite(threshold)) and np.all(np.isfinite(W))):
        raise InputError(f"`start` must have finite numbers in {dtype}, got others.")
    return replace(tree, threshold=threshold, W=W, V=V, U=U)


def _forest_of(start: Any) -> Forest:
    if isinstance(start, Forest):
        return start
    if isinstance(start, tao.TAO):
        return tao.convert_trees(start)
    if isinstance(start, NativeTree):
        return convert_native(start)
    if is_estimator(start):
        if not is_fitted(start):
            raise InputError(
                f"`start` must be a fitted tree, got a {type(start).__name__} that is not fitted: "
                "fit it first and pass its `forest_`, since clones of an estimator are not fitted."
            )
        held: Forest = start.forest_
        return held
    if type(start).__module__.startswith("sklearn."):
        from bitvec.converters.sklearn.read import convert

        converted: Forest = convert(start)
        return converted
    raise InputError(
        f"`start` must be one of {', '.join(STARTS)}, a TAO tree, a Forest or a fitted "
        f"scikit-learn tree, got {type(start).__name__}: convert other models with bitvec.convert."
    )


def _require_plain(forest: Forest, n_features: int, width: int) -> None:
    """Refuse what is not one axis-aligned or oblique tree that reads X."""
    if forest.n_trees != 1 or forest.kernel is not None or forest.feature_map is not None:
        raise UnsupportedModelError(
            f"`start` must be one tree that reads X and predicts hard, got {forest!r}: pass "
            "forest[i], or refine the forest with tao_refine."
        )
    if np.any(tree_of(forest).kind == NodeKind.FIXED) or forest.leaves.output is not None:
        raise UnsupportedModelError(
            "`start` must have axis-aligned or oblique nodes and a vector at each leaf, got other "
            "tests or leaves: refine it with tao_refine, which leaves such nodes as they are."
        )
    fits = forest.n_outputs == width or (width == 2 and forest.output.is_classifier)
    if forest.n_features != n_features or not fits:
        raise InputError(
            f"`start` must read {n_features} columns and answer with {width} numbers, got "
            f"{forest.n_features} and {forest.n_outputs}: start from a tree of the same data."
        )


def with_unit_margins(tree: Tree, rows: Rows) -> Tree:
    """Return the tree with the weights of each oblique node of the size that hinges look at.

    The mean size of its margins over all rows becomes about 1, by a power of two, so that no row
    takes another way.
    """
    W, threshold = tree.W.copy(), tree.threshold.copy()
    for node in np.flatnonzero(tree.kind == NodeKind.OBLIQUE):
        margin = rows.Z @ W[node].astype(np.float64) - float(threshold[node])
        size = float(np.abs(margin).mean())
        if 0 < size < np.inf:
            exponent = -int(np.rint(np.log2(size)))
            W[node], threshold[node] = (
                np.ldexp(W[node], exponent),
                np.ldexp(threshold[node], exponent),
            )
    return replace(tree, W=W, threshold=threshold)


def strict(tree: Tree) -> Tree:
    """Return the tree with tests `>` alone: z >= t is z > the float before t."""
    with np.errstate(over="ignore"):
        before = np.nextafter(tree.threshold, tree.dtype.type(-np.inf))
    threshold = np.where(tree.at_least, before, tree.threshold)
    none = np.zeros(tree.n_nodes, bool)
    return replace(
        tree,
        threshold=threshold,
        at_least=none,
        missing_right=none,
        missing_rule=np.zeros(tree.n_nodes, np.uint8),
        sentinel=float("nan"),
    )
