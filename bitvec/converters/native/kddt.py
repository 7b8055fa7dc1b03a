"""KDDT: the Kernel Density Decision Tree, axis-aligned, predicting softly under a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bitvec.converters.native.children import checked_children, root
from bitvec.converters.native.forest_arrays import forest_of, trees_of
from bitvec.converters.native.leaf_values import as_columns, checked_classes, checked_vectors
from bitvec.converters.native.native_forest import NativeForest
from bitvec.converters.native.native_tree import NativeTree
from bitvec.converters.native.plain_arrays import finite, float_dtype, floats, integers
from bitvec.core.arrays import Array, ArrayLike, put, put_array, require, require_codes
from bitvec.core.forest import Forest
from bitvec.core.kernels import FeatureKernel
from bitvec.core.node_tests import Kind, axis_aligned
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.errors import InvalidForestError

Kernels = tuple[FeatureKernel | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KDDT(NativeTree):
    """A Kernel Density Decision Tree; `from_kddt` builds one from lists and bandwidths.

    A row goes right where x_j > τ, and NaN goes left. With a prediction kernel the answer is the
    expectation of V at the leaf that x' reaches, where each x'_j follows its kernel around x_j;
    `decide` is the crisp route.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`.
    j : int64, (n_nodes,)
        Feature that each node reads.
    tau : F, (n_nodes,)
        Thresholds; F is float32 or float64 and the dtype of comparison.
    V : float32 or float64, (n_leaves, n_outputs)
        Leaf values.
    n_features : int
    classes : (n_outputs,), optional
        Labels, which make this a classifier.
    kernel : tuple of FeatureKernel or None, one per feature, optional
        The prediction kernel; crisp prediction if not given. Each feature that a node reads must
        have one.

    Raises
    ------
    InvalidForestError
    """

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    j: Int64[Array, " n_nodes"]
    tau: Float[Array, " n_nodes"]
    V: Float[Array, "n_leaves n_outputs"]
    n_features: int
    classes: Array | None = None
    kernel: Kernels | None = None

    def __post_init__(self) -> None:
        left, right = checked_children(self.left, self.right)
        n = left.size
        put(self, left=left, right=right)
        require(self.n_features >= 1, f"`n_features` must be positive, got {self.n_features}.")
        put_array(self, "j", np.int64, (n,))
        require_codes("j", self.j, self.n_features)
        put(self, tau=finite("tau", self.tau, float_dtype("tau", self.tau), (n,)))
        put(self, V=checked_vectors("V", self.V, n + 1))
        if self.classes is not None:
            put(self, classes=checked_classes(self.classes, self.V.shape[1]))
        if self.kernel is not None:
            put(self, kernel=tuple(self.kernel))
            require(
                len(self.kernel) == self.n_features,
                f"`kernel` must have one entry for each of the {self.n_features} features, got "
                f"{len(self.kernel)}.",
            )
            for column in np.unique(self.j):
                require(
                    isinstance(self.kernel[column], FeatureKernel),
                    f"each feature that a node reads must have a kernel, got none for {column}: "
                    "a bandwidth of 0 makes it crisp.",
                )

    @property
    def dtype(self) -> np.dtype:
        """The dtype of τ, in which rows are read and compared."""
        return self.tau.dtype

    @property
    def values(self) -> Float[Array, "n_leaves n_outputs"]:
        """V."""
        return self.V

    def goes_right(self, node: int, Z: Float[Array, "batch n_features"]) -> Bool[Array, " batch"]:
        """Return x_j > τ."""
        right: Array = Z[:, self.j[node]] > self.tau[node]
        return right

    def raw(self, X: ArrayLike) -> Float[Array, "batch n_outputs"]:
        """Return V at the leaf of each row, or with a kernel its expectation.

        The expectation is summed over leaves from left to right, in float64.
        """
        if self.kernel is None:
            return self.V[self.decide(X)]
        u = self.memberships(X)
        total = np.zeros((len(u), self.n_outputs))
        for leaf in _left_to_right(self):
            # A leaf out of reach adds nothing.
            total += np.where(u[:, leaf, None] > 0, u[:, leaf, None] * self.V[leaf], 0)
        return total.astype(self.V.dtype)

    def memberships(self, X: ArrayLike) -> Float[Array, "batch n_leaves"]:
        """Return u_l(x), the probability that x' reaches each leaf, in float64.

        The walk of Algorithm 2: it narrows, for each feature, the interval (lo, hi] in which x'_j
        must lie; u is the product of F_j(hi) − F_j(lo) over the features met on the way.

        Raises
        ------
        InvalidForestError
            If the tree has no kernel.
        """
        if self.kernel is None:
            raise InvalidForestError("a tree must have a `kernel` to have memberships, got none.")
        Z = self.columns(X)
        u = np.zeros((len(Z), self.n_leaves))
        everywhere = (np.full(len(Z), -np.inf), np.full(len(Z), np.inf))
        todo: list[tuple[int, Array, dict[int, tuple[Array, Array]]]] = [
            (root(self.left, self.right), np.ones(len(Z), bool), {})
        ]
        while todo:
            at, alive, met = todo.pop()
            if at < 0:
                u[:, ~at] = self._mass(Z, alive, met)
                continue
            j, tau = int(self.j[at]), float(self.tau[at])
            low, high = met.get(j, everywhere)
            missing = np.isnan(Z[:, j])  # it goes left, and its interval stays as it is
            below = np.where(missing, high, np.minimum(high, tau))
            above = np.where(missing, low, np.maximum(low, tau))
            todo.append((int(self.right[at]), alive & ~missing, {**met, j: (above, high)}))
            todo.append((int(self.left[at]), alive, {**met, j: (low, below)}))
        return u

    def _mass(
        self, Z: Array, alive: Bool[Array, " batch"], met: dict[int, tuple[Array, Array]]
    ) -> Float[Array, " batch"]:
        assert self.kernel is not None
        u = alive.astype(np.float64)
        for j, (low, high) in met.items():
            kernel = self.kernel[j]
            assert kernel is not None
            x = Z[:, j].astype(np.float64)
            mass = np.maximum(0.0, kernel.cdf(high, x) - kernel.cdf(low, x))
            u *= np.where(np.isnan(x), 1.0, mass)
        return u


@dataclass(frozen=True, slots=True, eq=False)
class KDDTForest(NativeForest[KDDT]):
    """A forest of Kernel Density Decision Trees of one prediction kernel, or of none."""

    kind = KDDT

    def __post_init__(self) -> None:
        # A dataclass with slots is another class than the one that `super()` would see.
        NativeForest.__post_init__(self)
        kernel = self.trees[0].kernel
        for number, tree in enumerate(self.trees):
            require(
                _is_same(tree.kernel, kernel),
                f"all `trees` must have the same `kernel`, got another at tree {number}.",
            )


def _is_same(one: Kernels | None, other: Kernels | None) -> bool:
    if one is other or one is None or other is None:
        return one is other
    return all(a is b or _has_same_arrays(a, b) for a, b in zip(one, other, strict=True))


def _has_same_arrays(one: FeatureKernel | None, other: FeatureKernel | None) -> bool:
    if one is None or other is None:
        return False
    names = ("edges", "mass", "bandwidth", "location")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _left_to_right(tree: KDDT) -> list[int]:
    """Return the leaves in the order in which they hang from left to right."""
    leaves, todo = [], [root(tree.left, tree.right)]
    while todo:
        at = todo.pop()
        if at < 0:
            leaves.append(~at)
        else:
            todo += [int(tree.right[at]), int(tree.left[at])]
    return leaves


def gaussian_pieces(n_pieces: int = 24, reach: float = 3.0) -> tuple[Array, Array]:
    """Return a normal density, cut at `reach` standard deviations, in pieces of equal width.

    Each piece has the mass that the normal has there. What `from_kddt` takes by "gaussian".

    Returns
    -------
    edges, mass : float64, (n_pieces + 1,) and (n_pieces,)

    Examples
    --------
    >>> edges, mass = gaussian_pieces(4, 2.0)
    >>> edges.tolist(), mass.round(3).tolist()
    ([-2.0, -1.0, 0.0, 1.0, 2.0], [0.142, 0.358, 0.358, 0.142])
    """
    require(n_pieces >= 1, f"`n_pieces` must be positive, got {n_pieces}.")
    require(0 < reach < np.inf, f"`reach` must be positive and finite, got {reach}.")
    edges = np.linspace(-reach, reach, n_pieces + 1)
    normal = NormalDist()
    mass = np.diff([normal.cdf(edge) for edge in edges])
    return edges, mass / mass.sum()


def from_kddt(
    j: ArrayLike,
    tau: ArrayLike,
    *,
    left: ArrayLike,
    right: ArrayLike,
    V: ArrayLike,
    n_features: int,
    h: ArrayLike | None = None,
    kernel: str | Sequence[FeatureKernel | None] = "box",
    classes: ArrayLike | None = None,
) -> KDDT:
    """Build a Kernel Density Decision Tree from the paper's arrays, for `bitvec.convert`.

    A row goes right at a node where x_j > τ. With bandwidths, the answer is the expectation of the
    tree at x', which lies around x by the kernel.

    Parameters
    ----------
    j : integers, (n_nodes,)
        Feature that each node reads.
    tau : numbers, (n_nodes,)
        Thresholds; an array of float32 or float64 keeps its dtype, in which rows are compared.
    left, right : integers, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`, with leaves 0 ... n_nodes.
    V : numbers, (n_leaves,) or (n_leaves, n_outputs)
        Leaf values: class shares, or means.
    n_features : int
    h : number or numbers, (n_features,), optional
        Bandwidth of each feature: half the width of a box, the standard deviation of a Gaussian. 0
        makes a feature crisp. Prediction is crisp if neither this nor a sequence of kernels is
        given.
    kernel : "box", "gaussian", or a sequence of FeatureKernel or None per feature
        A Gaussian is cut at 3 standard deviations and held as 24 pieces: see `gaussian_pieces`.
    classes : (n_outputs,), optional
        Labels, which make this a classifier.

    Returns
    -------
    KDDT

    Raises
    ------
    InvalidForestError
        If an array has a wrong shape or value, or the children are not those of one tree.

    Examples
    --------
    At 0.25 above a threshold, a box of half-width 0.5 has a quarter of its mass below it.

    >>> tree = from_kddt([0], [1.0], left=[-1], right=[-2], V=[0, 8], n_features=1, h=0.5)
    >>> tree.predict([[1.25], [2.0]]).tolist()
    [6.0, 8.0]

    Notes
    -----
    "Kernel Density Decision Trees" (Good et al., 2022). Where the paper's text gives the left
    mass for the right, as in its section 3.2.1, this follows its Algorithm 2.
    """
    return KDDT(
        left=integers("left", left),
        right=integers("right", right),
        j=integers("j", j),
        tau=floats("tau", tau),
        V=as_columns("V", V),
        n_features=int(n_features),
        classes=None if classes is None else np.asarray(classes),
        kernel=_kernels(h, kernel, int(n_features)),
    )


def _kernels(
    h: ArrayLike | None, kernel: str | Sequence[FeatureKernel | None], n_features: int
) -> Kernels | None:
    if not isinstance(kernel, str):
        require(h is None, "`h` must be left out where `kernel` holds a kernel for each feature.")
        return tuple(kernel)
    families = {"box": (np.array([-1.0, 1.0]), np.ones(1)), "gaussian": gaussian_pieces()}
    require(
        kernel in families,
        f"`kernel` must be one of {', '.join(families)}, or FeatureKernels, got {kernel!r}.",
    )
    if h is None:
        return None
    bandwidth = floats("h", h).astype(np.float64)
    require(
        bandwidth.shape in ((), (n_features,)),
        f"`h` must be one number or one for each of the {n_features} features, got shape "
        f"{bandwidth.shape}.",
    )
    require(
        np.all(np.isfinite(bandwidth)) and np.all(bandwidth >= 0),
        f"`h` must be finite and not negative, got {bandwidth.tolist()}.",
    )
    edges, mass = families[kernel]
    each = np.broadcast_to(bandwidth, n_features)
    return tuple(FeatureKernel(edges, mass, np.array([width]), np.zeros(0)) for width in each)


def from_kddt_forest(trees: Sequence[KDDT]) -> KDDTForest:
    """Build a forest of Kernel Density Decision Trees, which averages their answers.

    Parameters
    ----------
    trees : sequence of KDDT
        As `from_kddt` returns them, of one kernel.

    Returns
    -------
    KDDTForest

    Raises
    ------
    InvalidForestError
        If the trees do not fit each other.

    Examples
    --------
    >>> stump = from_kddt([0], [1.0], left=[-1], right=[-2], V=[0, 8], n_features=1, h=0.5)
    >>> other = from_kddt([0], [1.5], left=[-1], right=[-2], V=[0, 8], n_features=1, h=0.5)
    >>> from_kddt_forest([stump, other]).predict([[1.25]]).tolist()
    [4.0]
    """
    return KDDTForest(tuple(trees))


def convert_trees(model: KDDT | KDDTForest) -> Forest:
    """Convert Kernel Density Decision Trees, of one kernel: S is one-hot and b is τ."""
    trees = trees_of(model)
    kernel = trees[0].kernel
    tests = axis_aligned(
        np.concatenate([tree.j for tree in trees]),
        np.concatenate([tree.tau for tree in trees]),
        kind=Kind.MARGIN if kernel is None else Kind.KERNEL,
    )
    return forest_of(model, tests, kernel=kernel)
