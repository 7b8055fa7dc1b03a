"""E2EDT and E2EDF: the End-to-End Decision Tree, whose nodes are linear in φ(x), and its forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bitvec.converters.native.children import checked_children, root
from bitvec.converters.native.forest_arrays import forest_of, margin_tests, trees_of
from bitvec.converters.native.leaf_values import as_columns, pi_or_mean
from bitvec.converters.native.native_forest import NativeForest
from bitvec.converters.native.native_tree import NativeTree, rows
from bitvec.converters.native.plain_arrays import finite, float_dtype, floats, integers
from bitvec.converters.native.sparse_rows import SparseRows, sparse_rows, sum_in_order
from bitvec.core.arrays import Array, ArrayLike, put, require
from bitvec.core.feature_maps import Concatenate, Identity
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool, Float, Int64


@dataclass(frozen=True, slots=True, eq=False)
class E2EDT(NativeTree):
    """An End-to-End Decision Tree; `from_e2edt` builds one from lists.

    A row goes right where θ · φ(x) + bias > 0; with its steepness γ, P(right) is the logistic
    function of γ times that. A weight of 0 reads nothing.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`.
    theta : F, (n_nodes, n_columns)
        θ; F is float32 or float64 and the dtype of comparison.
    bias : F, (n_nodes,)
    gamma : float
        γ, positive. The hard tree does not depend on it.
    phi : FeatureMap or tuple of FeatureMap, optional
        φ of all nodes, or one of as many columns for each node; x itself if not given.
    pi : float32 or float64, (n_leaves, n_classes), optional
        Leaf distributions; one column holds the probability of the second of two classes.
    mean : float32 or float64, (n_leaves, n_outputs), optional
        Means of Gaussian leaves.
    classes : (n_classes,), optional
        Labels, 0, 1, ... if not given.

    Raises
    ------
    InvalidForestError
    """

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    theta: Float[Array, "n_nodes n_columns"]
    bias: Float[Array, " n_nodes"]
    gamma: float = 1.0
    phi: FeatureMap | tuple[FeatureMap, ...] | None = None
    pi: Float[Array, "n_leaves n_classes"] | None = None
    mean: Float[Array, "n_leaves n_outputs"] | None = None
    classes: Array | None = None

    def __post_init__(self) -> None:
        left, right = checked_children(self.left, self.right)
        n, dtype = left.size, float_dtype("theta", self.theta)
        theta = finite("theta", self.theta, dtype, (n, None))
        require(theta.shape[1] >= 1, f"`theta` must have a column at least, got {theta.shape}.")
        require(0 < self.gamma < np.inf, f"`gamma` must be positive and finite, got {self.gamma}.")
        self._check_maps(n, theta.shape[1])
        pi, mean, classes = pi_or_mean(self.pi, self.mean, self.classes, n + 1)
        bias = finite("bias", self.bias, dtype, (n,))
        put(self, left=left, right=right, theta=theta, bias=bias, gamma=float(self.gamma))
        put(self, pi=pi, mean=mean, classes=classes)

    def _check_maps(self, n_nodes: int, n_columns: int) -> None:
        if self.phi is None:
            return
        maps = self.phi if isinstance(self.phi, tuple) else (self.phi,)
        for each in maps:
            require(
                isinstance(each, FeatureMap),
                f"`phi` must be a feature map, or one for each node, got {type(each).__name__}.",
            )
            require(
                each.n_features == n_columns,
                f"`theta` must have a column for each of the {each.n_features} columns of `phi`, "
                f"got {n_columns}.",
            )
        require(
            not isinstance(self.phi, tuple) or len(maps) == n_nodes >= 1,
            f"`phi` must hold one feature map for each of {n_nodes} nodes, got {len(maps)}.",
        )
        sizes = sorted({each.n_inputs for each in maps})
        require(len(sizes) == 1, f"the maps of `phi` must read as many columns, got {sizes}.")

    @property
    def n_features(self) -> int:
        """Columns of X."""
        if self.phi is None:
            return self.theta.shape[1]
        return (self.phi[0] if isinstance(self.phi, tuple) else self.phi).n_inputs

    @property
    def dtype(self) -> np.dtype:
        """The dtype of θ, in which rows are read and compared."""
        return self.theta.dtype

    @property
    def values(self) -> Float[Array, "n_leaves n_outputs"]:
        """`pi` or `mean`."""
        value = self.mean if self.pi is None else self.pi
        assert value is not None
        return value

    def columns(self, X: ArrayLike) -> Float[Array, "batch n_columns"]:
        """Return φ(X) if all nodes read the same, else X."""
        X = rows(X, self.n_features, self.dtype)
        return X if self.phi is None or isinstance(self.phi, tuple) else self.phi(X)

    def margin(self, node: int, Z: Float[Array, "batch n_columns"]) -> Float[Array, " batch"]:
        """Return θ · φ(x) + bias, added from left to right, each sum rounded."""
        if isinstance(self.phi, tuple):
            Z = self.phi[node](Z)
        reads = np.flatnonzero(self.theta[node])
        with np.errstate(over="ignore", invalid="ignore"):
            return sum_in_order(Z[:, reads] * self.theta[node, reads]) + self.bias[node]

    def goes_right(self, node: int, Z: Float[Array, "batch n_columns"]) -> Bool[Array, " batch"]:
        """Return θ · φ(x) + bias > 0."""
        return self.margin(node, Z) > 0

    def memberships(self, X: ArrayLike) -> Float[Array, "batch n_leaves"]:
        """Return μ_l(x), the probability of each leaf while every node decides softly, in float64.

        The product along the leaf's path of s or 1 − s, with s = 1 / (1 + exp(−γ · margin)).
        """
        Z = self.columns(X)
        mu = np.zeros((len(Z), self.n_leaves))
        todo = [(root(self.left, self.right), np.zeros(len(Z)))]
        while todo:
            at, log_mu = todo.pop()
            if at < 0:
                mu[:, ~at] = np.exp(log_mu)
                continue
            steep = self.gamma * self.margin(at, Z).astype(np.float64)
            todo.append((int(self.left[at]), log_mu - np.logaddexp(0, steep)))
            todo.append((int(self.right[at]), log_mu - np.logaddexp(0, -steep)))
        return mu


@dataclass(frozen=True, slots=True, eq=False)
class E2EDF(NativeForest[E2EDT]):
    """A forest of End-to-End Decision Trees, which averages their leaf vectors."""

    kind = E2EDT


def from_e2edt(
    theta: ArrayLike,
    bias: ArrayLike,
    *,
    left: ArrayLike,
    right: ArrayLike,
    gamma: float = 1.0,
    phi: FeatureMap | Sequence[FeatureMap] | None = None,
    pi: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> E2EDT:
    """Build an End-to-End Decision Tree from the paper's arrays, for `bitvec.convert`.

    A row goes right at a node where θ · φ(x) + bias > 0.

    Parameters
    ----------
    theta : numbers, (n_nodes, n_columns)
        θ; an array of float32 or float64 keeps its dtype, in which rows are compared.
    bias : numbers, (n_nodes,)
    left, right : integers, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`, with leaves 0 ... n_nodes.
    gamma : float
        γ, the steepness at which the soft tree was left; for `memberships` only.
    phi : FeatureMap, or a sequence of one for each node, optional
        φ, see `bitvec.core.feature_maps`: the hidden layers of a CNN or MLP. `theta` and `bias` are
        then its last layer.
    pi : numbers, (n_leaves, n_classes), or (n_leaves,), optional
        Leaf distributions of a classifier; one number is the probability of the second class.
    mean : numbers, (n_leaves,) or (n_leaves, n_outputs), optional
        Means of the Gaussian leaves of a regressor.
    classes : (n_classes,), optional
        Labels, 0, 1, ... if not given.

    Returns
    -------
    E2EDT

    Raises
    ------
    InvalidForestError
        If an array has a wrong shape or value, or the children are not those of one tree.

    Examples
    --------
    >>> pi = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]
    >>> tree = from_e2edt([[1, -1], [0, 2]], [0, -1], left=[1, -1], right=[-3, -2], pi=pi)
    >>> tree.decide([[2.0, 1.0], [0.0, 1.0], [0.0, 0.5]]).tolist()
    [2, 1, 0]
    >>> tree.predict([[2.0, 1.0], [0.0, 1.0], [0.0, 0.5]]).tolist()
    [0, 1, 0]

    Notes
    -----
    "End-to-end Learning of Decision Trees and Forests" (Hehn, Kooij and Hamprecht, 2020).
    """
    theta = floats("theta", theta)
    return E2EDT(
        left=integers("left", left),
        right=integers("right", right),
        theta=theta,
        bias=floats("bias", bias, theta.dtype),
        gamma=gamma,
        phi=phi if phi is None or isinstance(phi, FeatureMap) else tuple(phi),
        pi=None if pi is None else as_columns("pi", pi),
        mean=None if mean is None else as_columns("mean", mean),
        classes=None if classes is None else np.asarray(classes),
    )


def from_e2edf(trees: Sequence[E2EDT]) -> E2EDF:
    """Build a forest of End-to-End Decision Trees, which averages their leaf distributions.

    Parameters
    ----------
    trees : sequence of E2EDT
        As `from_e2edt` returns them. A split that reads some of the features has a θ of 0 at the
        others.

    Returns
    -------
    E2EDF

    Raises
    ------
    InvalidForestError
        If the trees do not fit each other.

    Examples
    --------
    >>> stump = from_e2edt([[1.0]], [0.0], left=[-1], right=[-2], pi=[[1, 0], [0, 1]])
    >>> other = from_e2edt([[1.0]], [-2.0], left=[-1], right=[-2], pi=[[0.75, 0.25], [0, 1]])
    >>> from_e2edf([stump, other]).raw([[1.0], [3.0]]).tolist()
    [[0.375, 0.625], [0.0, 1.0]]
    """
    return E2EDF(tuple(trees))


def _joined_map(
    trees: Sequence[E2EDT],
) -> tuple[FeatureMap | None, list[Int64[Array, " n_nodes"]]]:
    """Return one feature map for all nodes, and per tree where each node's columns begin in it."""
    shared = trees[0].phi
    if not isinstance(shared, tuple) and all(tree.phi is shared for tree in trees):
        return shared, [np.zeros(tree.n_nodes, np.int64) for tree in trees]
    parts: list[FeatureMap] = []
    starts: list[Array] = []
    at = 0
    for tree in trees:
        maps = tree.phi if isinstance(tree.phi, tuple) else (tree.phi or Identity(tree.n_features),)
        width = maps[0].n_features
        first = at + width * np.arange(len(maps), dtype=np.int64)
        starts.append(np.ascontiguousarray(np.broadcast_to(first, tree.n_nodes)))
        parts += maps
        at += width * len(maps)
    return Concatenate(tuple(parts)), starts


def convert_trees(model: E2EDT | E2EDF) -> Forest:
    """Convert End-to-End Decision Trees: S is θ and b is −bias.

    z > −bias says z + bias > 0 for every sum that is not NaN: a difference of floats is 0 only
    where they are equal.
    """
    trees = trees_of(model)
    phi, starts = _joined_map(trees)
    S = [sparse_rows("theta", tree.theta) for tree in trees]
    n_entries = np.concatenate([[0], *(np.diff(part.ptr) for part in S)])
    column = [
        part.column + np.repeat(start, np.diff(part.ptr)).astype(np.int32)
        for part, start in zip(S, starts, strict=True)
    ]
    joined = SparseRows(
        np.cumsum(n_entries).astype(np.int64),
        np.concatenate(column),
        np.concatenate([part.weight for part in S]),
        trees[0].n_features if phi is None else phi.n_features,
    )
    tests = margin_tests(joined, -np.concatenate([tree.bias for tree in trees]))
    forest = forest_of(model, tests, feature_map=phi)
    assert forest.source is not None
    gammas = {"gamma": [tree.gamma for tree in trees]}
    return replace(forest, source=replace(forest.source, metadata=gammas))
