"""TAO: trees from Tree Alternating Optimization, axis-aligned or oblique, of any leaf function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.converters.native.children import checked_children
from bitvec.converters.native.forest_arrays import forest_of, margin_tests, trees_of
from bitvec.converters.native.leaf_values import as_columns, checked_classes, checked_vectors
from bitvec.converters.native.native_forest import NativeForest
from bitvec.converters.native.native_tree import NativeTree
from bitvec.converters.native.plain_arrays import finite, floats, integers
from bitvec.converters.native.sparse_rows import SparseRows, sparse_rows, sum_in_order
from bitvec.core.arrays import Array, ArrayLike, put, require, require_codes
from bitvec.core.forest import Forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.errors import InvalidForestError


@dataclass(frozen=True, slots=True, eq=False)
class TAO(NativeTree):
    """A tree as TAO trains it; `from_tao` builds one from lists, thresholds and dense matrices.

    A row goes right where w · x + bias > 0. Its answer is V at its leaf, or V + U x where the leaf
    is linear. A weight of 0 reads nothing.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`.
    W : SparseRows, n_nodes rows of n_features columns
        Its dtype F is the dtype of comparison.
    bias : F, (n_nodes,)
    V : float32 or float64, (n_leaves, n_outputs)
    U : dtype of V, (n_leaves, n_outputs, n_features), optional
        Of linear leaves; a leaf whose weights are all 0 is constant.
    fallback : dtype of V, (n_leaves, n_outputs), optional
        With `U`: the answer where a column that a linear leaf reads is NaN; V if not given.
    classes : (n_outputs,), optional
        Labels, which make this a classifier.

    Raises
    ------
    InvalidForestError
    """

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    W: SparseRows
    bias: Float[Array, " n_nodes"]
    V: Float[Array, "n_leaves n_outputs"]
    U: Float[Array, "n_leaves n_outputs n_features"] | None = None
    fallback: Float[Array, "n_leaves n_outputs"] | None = None
    classes: Array | None = None

    def __post_init__(self) -> None:
        left, right = checked_children(self.left, self.right)
        n = left.size
        put(self, left=left, right=right)
        W: Any = self.W
        require(
            isinstance(W, SparseRows) and W.n_rows == n,
            f"`W` must be SparseRows of one row for each of the {n} nodes, got "
            f"{getattr(W, 'n_rows', type(W).__name__)}: see from_tao.",
        )
        put(self, bias=finite("bias", self.bias, self.W.dtype, (n,)))
        put(self, V=checked_vectors("V", self.V, n + 1))
        if self.U is not None:
            shape = (*self.V.shape, self.W.n_columns)
            put(self, U=finite("U", self.U, self.V.dtype, shape))
        if self.fallback is not None:
            require(self.U is not None, "`fallback` must come with `U`, got it alone.")
            put(self, fallback=finite("fallback", self.fallback, self.V.dtype, self.V.shape))
        if self.classes is not None:
            put(self, classes=checked_classes(self.classes, self.V.shape[1]))

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.W.n_columns

    @property
    def dtype(self) -> np.dtype:
        """The dtype of W, in which rows are read and compared."""
        return self.W.dtype

    @property
    def values(self) -> Float[Array, "n_leaves n_outputs"]:
        """V; at a linear leaf `fallback`, if there is one, which answers where x is NaN."""
        if self.U is None:
            return self.V
        linear = np.any(self.U != 0, axis=(1, 2))
        other = self.V if self.fallback is None else self.fallback
        return np.where(linear[:, None], other, self.V)

    def goes_right(self, node: int, Z: Float[Array, "batch n_features"]) -> Bool[Array, " batch"]:
        """Return w · x + bias > 0, added from left to right, each sum rounded."""
        with np.errstate(over="ignore", invalid="ignore"):
            right: Array = self.W.times(node, Z) + self.bias[node] > 0
        return right

    def raw(self, X: ArrayLike) -> Float[Array, "batch n_outputs"]:
        """Return V + U x at the leaf of each row, added from left to right, in the dtype of V."""
        leaf = self.decide(X)
        result = self.values[leaf]
        if self.U is None:
            return result
        Z = self.columns(X)
        for number in np.unique(leaf):
            reads = np.flatnonzero(np.any(self.U[number] != 0, axis=0))
            at = np.flatnonzero(leaf == number)
            at = at[~np.isnan(Z[np.ix_(at, reads)]).any(axis=1)]
            with np.errstate(over="ignore"):
                x = Z[np.ix_(at, reads)].astype(self.V.dtype)
            for output in range(self.n_outputs if reads.size else 0):
                with np.errstate(over="ignore", invalid="ignore"):
                    terms = x * self.U[number, output, reads]
                start = np.full((at.size, 1), self.V[number, output])
                result[at, output] = sum_in_order(np.concatenate([start, terms], axis=1))
        return result


def from_tao(
    *,
    left: ArrayLike,
    right: ArrayLike,
    V: ArrayLike,
    feature: ArrayLike | None = None,
    threshold: ArrayLike | None = None,
    n_features: int | None = None,
    W: Any = None,
    bias: ArrayLike | None = None,
    U: ArrayLike | None = None,
    fallback: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> TAO:
    """Build a tree as TAO trains it from plain arrays, for `bitvec.convert`.

    Its nodes are axis-aligned, given by `feature`, `threshold` and `n_features`, or oblique, given
    by `W` and `bias`. A row goes right where x_feature > threshold, or where w · x + bias > 0.

    Parameters
    ----------
    left, right : integers, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`, with leaves 0 ... n_nodes.
    V : numbers, (n_leaves,) or (n_leaves, n_outputs)
        Leaf values; np.eye(n_classes)[label] for leaves that hold a label.
    feature : integers, (n_nodes,), optional
    threshold : numbers, (n_nodes,), optional
    n_features : int, optional
        Needed with `feature`.
    W : numbers, (n_nodes, n_features), or a SciPy sparse matrix of them, optional
        A weight of 0 reads nothing. An array of float32 or float64 keeps its dtype, in which rows
        are compared; so does `threshold`.
    bias : numbers, (n_nodes,), optional
    U : numbers, (n_leaves, n_outputs, n_features), or (n_leaves, n_features) for one output
        Weights of linear leaves, whose answer is V + U x.
    fallback : numbers, like V, optional
        The answer of a linear leaf where a column that it reads is NaN; V if not given.
    classes : (n_outputs,), optional
        Labels, which make this a classifier.

    Returns
    -------
    TAO

    Raises
    ------
    InvalidForestError
        If an array has a wrong shape or value, or the children are not those of one tree.

    Examples
    --------
    >>> tree = from_tao(W=[[1, 1], [1, 0]], bias=[-1, 0], left=[1, -1], right=[-3, -2], V=[7, 8, 9])
    >>> tree.predict([[2.0, 0.0], [0.5, 0.0], [-1.0, 0.0]]).tolist()
    [9.0, 8.0, 7.0]
    >>> stump = from_tao(feature=[1], threshold=[0.5], n_features=2, left=[-1], right=[-2],
    ...                  V=[[1, 0], [0, 1]], classes=["no", "yes"])
    >>> stump.predict([[0.0, 0.5], [0.0, 0.75]]).tolist()
    ['no', 'yes']

    Notes
    -----
    "Alternating optimization of decision trees" (Carreira-Perpiñán and Tavallali, 2018).
    """
    rows, bias = _oblique(feature, threshold, n_features, W, bias)
    values = as_columns("V", V)
    dtype = values.dtype
    return TAO(
        left=integers("left", left),
        right=integers("right", right),
        W=rows,
        bias=bias,
        V=values,
        U=None if U is None else _three_axes(floats("U", U, dtype)),
        fallback=None if fallback is None else as_columns("fallback", fallback, dtype),
        classes=None if classes is None else np.asarray(classes),
    )


def _three_axes(U: Array) -> Array:
    """Return weights of one output, (n_leaves, n_features), with an axis of that output."""
    return U[:, None, :] if U.ndim == 2 else U


def _oblique(
    feature: ArrayLike | None,
    threshold: ArrayLike | None,
    n_features: int | None,
    W: Any,
    bias: ArrayLike | None,
) -> tuple[SparseRows, Array]:
    """Return W and bias; an axis-aligned node has a weight of 1, and its threshold negated."""
    given: dict[str, Any] = {"W": W, "bias": bias}
    given |= {"feature": feature, "threshold": threshold, "n_features": n_features}
    names = [name for name, value in given.items() if value is not None]
    if names == ["W", "bias"]:
        rows = sparse_rows("W", W)
        return rows, floats("bias", given["bias"], rows.dtype)
    if names != ["feature", "threshold", "n_features"]:
        raise InvalidForestError(
            "nodes must be given either by `W` and `bias`, or by `feature`, `threshold` and "
            f"`n_features`, got {', '.join(names) or 'none of them'}."
        )
    column, n_columns = integers("feature", given["feature"]), int(given["n_features"])
    t = floats("threshold", given["threshold"])
    finite("threshold", t, t.dtype, (column.size,))
    require_codes("feature", column, n_columns)
    ptr = np.arange(column.size + 1, dtype=np.int64)
    one = np.ones(column.size, t.dtype)
    return SparseRows(ptr, column.astype(np.int32), one, n_columns), -t


@dataclass(frozen=True, slots=True, eq=False)
class TAOForest(NativeForest[TAO]):
    """A forest of trees of TAO, which averages their answers."""

    kind = TAO


def from_tao_forest(trees: Sequence[TAO]) -> TAOForest:
    """Build a forest of trees of TAO, which averages their answers.

    Parameters
    ----------
    trees : sequence of TAO
        As `from_tao` returns them.

    Returns
    -------
    TAOForest

    Raises
    ------
    InvalidForestError
        If the trees do not fit each other.

    Examples
    --------
    >>> stump = from_tao(W=[[1, 1]], bias=[-1], left=[-1], right=[-2], V=[3, 4])
    >>> other = from_tao(W=[[1, 0]], bias=[-2], left=[-1], right=[-2], V=[3, 8])
    >>> from_tao_forest([stump, other]).predict([[1, 1], [3, 0]]).tolist()
    [3.5, 6.0]
    """
    return TAOForest(tuple(trees))


def convert_trees(model: TAO | NativeForest[TAO]) -> Forest:
    """Convert trees of TAO: S is W and b is −bias.

    z > −bias says z + bias > 0 for every sum that is not NaN: a difference of floats is 0 only
    where they are equal. So one-hot rows are compared with their threshold.
    """
    trees = trees_of(model)
    rows = [tree.W for tree in trees]
    W = SparseRows(
        np.cumsum(np.concatenate([[0], *(np.diff(part.ptr) for part in rows)])).astype(np.int64),
        np.concatenate([part.column for part in rows]),
        np.concatenate([part.weight for part in rows]),
        trees[0].n_features,
    )
    tests = margin_tests(W, -np.concatenate([tree.bias for tree in trees]))
    if all(tree.U is None for tree in trees):
        return forest_of(model, tests)
    U = np.concatenate([_coefficients(tree) for tree in trees])
    V = np.concatenate([tree.V for tree in trees])
    return forest_of(model, tests, linear=_linear_terms(U, V))


def _coefficients(tree: TAO) -> Float[Array, "n_leaves n_outputs n_features"]:
    return np.zeros((*tree.V.shape, tree.n_features), tree.V.dtype) if tree.U is None else tree.U


def _linear_terms(
    U: Float[Array, "n_leaves n_outputs n_features"], V: Float[Array, "n_leaves n_outputs"]
) -> LinearTerms:
    leaf, column = np.nonzero(np.any(U != 0, axis=1))
    ptr = np.searchsorted(leaf, np.arange(len(V) + 1)).astype(np.int64)
    return LinearTerms(ptr, column.astype(np.int32), U[leaf, :, column], V)
