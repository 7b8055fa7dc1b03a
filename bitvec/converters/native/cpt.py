"""CPT: the Convex Polytope Tree, whose nodes test whether x lies in a soft polytope.

A node computes f(x) = 1 − exp(−g(x)), g(x) = sum over facets k of r_k · ln(1 + exp(β_k · [x; 1])).
The set {f <= q} is convex. As f is 1 in floating point once g exceeds 37, g is compared with
τ = −ln(1 − q) instead, which is the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bitvec.converters.native.children import checked_children
from bitvec.converters.native.forest_arrays import forest_of, margin_tests
from bitvec.converters.native.leaf_values import as_columns, pi_or_mean
from bitvec.converters.native.native_tree import NativeTree
from bitvec.converters.native.plain_arrays import finite, float_dtype, floats, integers
from bitvec.converters.native.sparse_rows import sparse_rows, sum_in_order
from bitvec.core.arrays import Array, ArrayLike, put, read_only, require, require_offsets
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.core.softplus import softplus
from bitvec.errors import InvalidForestError


@dataclass(frozen=True, slots=True, eq=False)
class CPT(NativeTree):
    """A Convex Polytope Tree; `from_cpt` builds one from lists and padded arrays.

    A row goes right where g > τ, outside the convex set, except at nodes marked `inside_right`,
    where it goes left then. A g that is NaN counts as inside. A weight of 0 and a facet of r = 0
    read nothing.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`.
    beta : F, (n_facets, n_features + 1)
        β, the bias last; F is float32 or float64 and the dtype of comparison.
    r : F, (n_facets,)
        Not negative.
    facet_ptr : int64, (n_nodes + 1,)
        Node i has the facets facet_ptr[i] ... facet_ptr[i + 1].
    tau : F, (n_nodes,)
        −ln(1 − q), not negative.
    inside_right : bool, (n_nodes,)
    pi : float32 or float64, (n_leaves, n_classes), optional
        Leaf distributions; one column holds the probability of the second of two classes.
    mean : float32 or float64, (n_leaves, n_outputs), optional
        Leaf values of a regressor.
    classes : (n_classes,), optional
        Labels, 0, 1, ... if not given.

    Raises
    ------
    InvalidForestError
    """

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    beta: Float[Array, "n_facets n_features_plus_1"]
    r: Float[Array, " n_facets"]
    facet_ptr: Int64[Array, " n_nodes_plus_1"]
    tau: Float[Array, " n_nodes"]
    inside_right: Bool[Array, " n_nodes"]
    pi: Float[Array, "n_leaves n_classes"] | None = None
    mean: Float[Array, "n_leaves n_outputs"] | None = None
    classes: Array | None = None

    def __post_init__(self) -> None:
        left, right = checked_children(self.left, self.right)
        n, dtype = left.size, float_dtype("beta", self.beta)
        beta = finite("beta", self.beta, dtype, (None, None))
        require(
            beta.shape[1] >= 2,
            f"`beta` must have a column for each feature and one for the bias, got {beta.shape}.",
        )
        r = finite("r", self.r, dtype, (len(beta),))
        require(np.all(r >= 0), f"`r` must not be negative, got {r.min(initial=0)}.")
        tau = finite("tau", self.tau, dtype, (n,))
        require(np.all(tau >= 0), f"`tau` must not be negative, got {tau.min(initial=0)}.")
        facet_ptr = read_only("facet_ptr", self.facet_ptr, np.int64, (n + 1,))
        require_offsets("facet_ptr", facet_ptr, len(beta))
        pi, mean, classes = pi_or_mean(self.pi, self.mean, self.classes, n + 1)
        inside_right = read_only("inside_right", self.inside_right, np.bool_, (n,))
        put(self, left=left, right=right, beta=beta, r=r, facet_ptr=facet_ptr, tau=tau)
        put(self, inside_right=inside_right, pi=pi, mean=mean, classes=classes)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.beta.shape[1] - 1

    @property
    def dtype(self) -> np.dtype:
        """The dtype of β, in which rows are read and compared."""
        return self.beta.dtype

    @property
    def values(self) -> Float[Array, "n_leaves n_outputs"]:
        """`pi` or `mean`."""
        value = self.mean if self.pi is None else self.pi
        assert value is not None
        return value

    @property
    def q(self) -> Float[Array, " n_nodes"]:
        """The threshold of f; 1 where τ is so large that no q below 1 says it."""
        return -np.expm1(-self.tau)

    def g(self, node: int, X: Float[Array, "batch n_features"]) -> Float[Array, " batch"]:
        """Return sum over facets of r · ln(1 + exp(β · [x; 1])), left to right, each term rounded.

        f(x) = 1 − exp(−g(x)).
        """
        terms = []
        for k in range(int(self.facet_ptr[node]), int(self.facet_ptr[node + 1])):
            if self.r[k] == 0:
                continue
            reads = np.flatnonzero(self.beta[k, :-1])
            with np.errstate(over="ignore", invalid="ignore"):
                dot = sum_in_order(X[:, reads] * self.beta[k, reads]) + self.beta[k, -1]
                terms.append(self.r[k] * softplus(dot))
        if not terms:
            return np.zeros(len(X), self.dtype)
        return sum_in_order(np.stack(terms, axis=1))

    def goes_right(self, node: int, Z: Float[Array, "batch n_features"]) -> Bool[Array, " batch"]:
        """Return f > q, as g > τ; the opposite at a node marked `inside_right`."""
        outside: Array = self.g(node, Z) > self.tau[node]
        return ~outside if self.inside_right[node] else outside


def from_cpt(
    beta: ArrayLike,
    r: ArrayLike,
    *,
    left: ArrayLike,
    right: ArrayLike,
    q: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    facet_ptr: ArrayLike | None = None,
    inside_right: ArrayLike | None = None,
    pi: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> CPT:
    """Build a Convex Polytope Tree from the paper's arrays, for `bitvec.convert`.

    A node of K facets computes f(x) = 1 − exp(−sum_k r_k ln(1 + exp(β_k · [x; 1]))). A row with
    f > q goes right, one inside the convex set {f <= q} left.

    Parameters
    ----------
    beta : numbers, (n_nodes, K, n_features + 1), or (n_facets, n_features + 1) with `facet_ptr`
        The bias last. An array of float32 or float64 keeps its dtype, in which rows are compared.
    r : numbers, (n_nodes, K) or (n_facets,)
        Not negative; 0 pads a node of fewer facets.
    left, right : integers, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`, with leaves 0 ... n_nodes.
    q : numbers, (n_nodes,), optional
        Thresholds, 0 <= q < 1 (p0 in the training gate).
    tau : numbers, (n_nodes,), optional
        −ln(1 − q), instead of q: above 37 no float64 q can say it.
    facet_ptr : integers, (n_nodes + 1,), optional
        Node i has the facets facet_ptr[i] ... facet_ptr[i + 1].
    inside_right : booleans, (n_nodes,), optional
        Nodes whose convex set goes right instead, as in the authors' code.
    pi : numbers, (n_leaves, n_classes), or (n_leaves,), optional
        Leaf distributions of a classifier; one number is the probability of the second class.
    mean : numbers, (n_leaves,) or (n_leaves, n_outputs), optional
        Leaf values of a regressor.
    classes : (n_classes,), optional
        Labels, 0, 1, ... if not given.

    Returns
    -------
    CPT

    Raises
    ------
    InvalidForestError
        If an array has a wrong shape or value, or the children are not those of one tree.

    Examples
    --------
    The unit square is what two of four facets leave: x1 <= 1, x1 >= 0 and so on.

    >>> sides = [[8, 0, -8], [-8, 0, 0], [0, 8, -8], [0, -8, 0]]
    >>> square = from_cpt([sides], [[1, 1, 1, 1]], q=[0.9], left=[-1], right=[-2], pi=[0.9, 0.2])
    >>> square.predict([[0.5, 0.5], [0.5, 2.0], [-1.0, 0.5]]).tolist()
    [1, 0, 0]

    Notes
    -----
    Convex Polytope Trees (Armandpour, Sadeghian and Zhou, 2021).
    """
    beta = floats("beta", beta)
    dtype, r = beta.dtype, floats("r", r, beta.dtype)
    if facet_ptr is None:
        require(
            beta.ndim == 3 and beta.shape[:2] == r.shape,
            "`beta` must have shape (n_nodes, K, n_features + 1) and `r` (n_nodes, K), got "
            f"{beta.shape} and {r.shape}: give `facet_ptr` where nodes have different numbers.",
        )
        facet_ptr = np.arange(len(beta) + 1) * beta.shape[1]
        beta, r = beta.reshape(-1, beta.shape[2]), r.ravel()
    left = integers("left", left)
    if inside_right is None:
        inside_right = np.zeros(left.size, bool)
    return CPT(
        left=left,
        right=integers("right", right),
        beta=beta,
        r=r,
        facet_ptr=integers("facet_ptr", facet_ptr),
        tau=_tau(q, tau, dtype),
        inside_right=read_only("inside_right", inside_right, np.bool_, (left.size,)),
        pi=None if pi is None else as_columns("pi", pi),
        mean=None if mean is None else as_columns("mean", mean),
        classes=None if classes is None else np.asarray(classes),
    )


def _tau(q: ArrayLike | None, tau: ArrayLike | None, dtype: np.dtype) -> Array:
    if (q is None) == (tau is None):
        raise InvalidForestError(
            f"exactly one of `q` and `tau` must be given, got {'neither' if q is None else 'both'}."
        )
    if tau is not None:
        return floats("tau", tau, dtype)
    assert q is not None
    q = floats("q", q, dtype)
    fits = (q >= 0) & (q < 1)
    require(
        np.all(fits),
        f"`q` must lie in [0, 1), got {q.ravel()[np.argmin(fits)] if q.size else 0}: "
        "give `tau`, −ln(1 − q), where q rounds to 1.",
    )
    return -np.log1p(-q)


def convert_tree(tree: CPT) -> Forest:
    """Convert a Convex Polytope Tree: a row of S and a softplus for each facet, and b is τ.

    The children of a node marked `inside_right` change places.
    """
    swapped = tree.inside_right
    tree = replace(
        tree,
        left=np.where(swapped, tree.right, tree.left),
        right=np.where(swapped, tree.left, tree.right),
        inside_right=np.zeros_like(swapped),
    )
    used = tree.r != 0
    node = np.repeat(np.arange(tree.n_nodes), np.diff(tree.facet_ptr))
    # A node without facets has g = 0: it needs one row, of weight 0.
    bare = np.flatnonzero(np.bincount(node[used], minlength=tree.n_nodes) == 0)
    node = np.concatenate([node[used], bare])
    order = np.argsort(node, kind="stable")
    zeros = np.zeros((bare.size, tree.beta.shape[1]), tree.dtype)
    beta = np.concatenate([tree.beta[used], zeros])[order]
    tests = margin_tests(
        sparse_rows("beta", beta[:, :-1]),
        tree.tau,
        node_ptr=np.searchsorted(node[order], np.arange(tree.n_nodes + 1)).astype(np.int64),
        offset=-beta[:, -1],
        r=np.concatenate([tree.r[used], np.zeros(bare.size, tree.dtype)])[order],
        activation=Activation.SOFTPLUS,
    )
    return forest_of(tree, tests)
