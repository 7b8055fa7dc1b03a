"""A grown tree: what is asked of its growth, its nodes with their weights, and the KDDT it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bitvec.converters.native import KDDT
from bitvec.core.arrays import Array
from bitvec.core.kernels import FeatureKernel
from bitvec.core.shape_annotations import Bool, Float, Int8, Int32, Int64
from bitvec.learners.kddt.events import Data, Densities, Events
from bitvec.learners.kddt.growth import NODE, grow
from bitvec.learners.kddt.scan import ENTROPY, LABELS, VECTORS

DEEPEST = np.iinfo(np.int64).max


class Targets(NamedTuple):
    """Targets of a tree: a class or a vector for each row.

    Parameters
    ----------
    criterion : int
        `LABELS`, `VECTORS` or `ENTROPY`, see `scan`.
    codes : int32, (n_rows,)
        The class of each row, where the criterion is `LABELS`.
    Y : float64, (n_rows, n_outputs)
        Distributions over classes, or vectors from which `centre` was taken.
    centre : float64, (n_outputs,)
        What is added to the leaves' means.
    """

    criterion: int
    codes: Int32[Array, " n_rows"]
    Y: Float[Array, "n_rows n_outputs"]
    centre: Float[Array, " n_outputs"]

    @property
    def n_outputs(self) -> int:
        """Classes, or numbers to predict."""
        return self.centre.size

    def take(self, rows: Int64[Array, " n"]) -> Targets:
        """Return the targets of some rows."""
        Y = self.Y if self.criterion == LABELS else self.Y[rows]
        codes = self.codes[rows] if self.criterion == LABELS else self.codes
        return self._replace(codes=codes, Y=Y)


def class_targets(codes: Int64[Array, " n_rows"], n_classes: int, criterion: str) -> Targets:
    """Return the targets of rows of one class each; `criterion` is "gini" or "entropy"."""
    centre = np.zeros(n_classes)
    if criterion == "gini":
        return Targets(LABELS, codes.astype(np.int32), np.zeros((1, n_classes)), centre)
    one_hot = np.zeros((codes.size, n_classes))
    one_hot[np.arange(codes.size), codes] = 1
    return Targets(ENTROPY, np.zeros(1, np.int32), one_hot, centre)


def share_targets(share: Float[Array, "n_rows n_classes"], criterion: str) -> Targets:
    """Return the targets of rows that are distributions over classes."""
    mode = VECTORS if criterion == "gini" else ENTROPY
    Y = np.ascontiguousarray(share, np.float64)
    return Targets(mode, np.zeros(1, np.int32), Y, np.zeros(share.shape[1]))


def mean_targets(
    Y: Float[Array, "n_rows n_outputs"], weight: Float[Array, " n_rows"] | None = None
) -> Targets:
    """Return the targets of a regression: vectors around their mean, which rounds least."""
    centre = np.average(Y, axis=0, weights=weight)
    return Targets(VECTORS, np.zeros(1, np.int32), np.ascontiguousarray(Y - centre), centre)


class Limits(NamedTuple):
    """Limits of growth, and the columns that a split may use.

    Parameters
    ----------
    max_depth : int
    min_weight : float
        Least weight of a leaf, in rows of weight 1.
    min_gain : float
        Least decrease of the tree's loss, for each unit of weight of all rows, by a split.
    max_features : int, optional
        Features to look at in each node, drawn anew; all if not given.
    random_thresholds : bool
        Draw one threshold for each of these features rather than find the best.
    """

    max_depth: int = DEEPEST
    min_weight: float = 1.0
    min_gain: float = 0.0
    max_features: int | None = None
    random_thresholds: bool = False


@dataclass(frozen=True, slots=True)
class GrownTree:
    """The nodes of a tree, leaves among them, each before its children.

    Parameters
    ----------
    left, right : int64, (n,)
        Children; −1 at a leaf.
    feature : int64, (n,)
        −1 at a leaf.
    threshold : float64, (n,)
    weight, loss : float64, (n,)
        Weight of the rows that reach the node, and it times the node's impurity: 1 − sum p², or the
        entropy in nats, or the variance summed over outputs.
    total : float64, (n, n_outputs)
        Weight of each class, or the sum of the vectors around `centre`.
    centre : float64, (n_outputs,)
    """

    left: Int64[Array, " n"]
    right: Int64[Array, " n"]
    feature: Int64[Array, " n"]
    threshold: Float[Array, " n"]
    weight: Float[Array, " n"]
    loss: Float[Array, " n"]
    total: Float[Array, "n n_outputs"]
    centre: Float[Array, " n_outputs"]

    @property
    def is_leaf(self) -> Bool[Array, " n"]:
        """Flags of the nodes that are leaves."""
        return self.left < 0

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.is_leaf))

    @property
    def value(self) -> Float[Array, "n n_outputs"]:
        """The weighted mean of the targets of each node's rows."""
        return self.total / self.weight[:, None] + self.centre

    def cut(self, at: Bool[Array, " n"]) -> GrownTree:
        """Return the tree in which these nodes are leaves, and what hung under them is gone."""
        left, right = np.where(at, -1, self.left), np.where(at, -1, self.right)
        kept = np.zeros(left.size, bool)
        kept[0] = True
        for node in range(left.size):  # parents come first
            if kept[node] and left[node] >= 0:
                kept[left[node]] = kept[right[node]] = True
        number = np.cumsum(kept) - 1
        left = np.where(left < 0, -1, number[left])[kept]
        right = np.where(right < 0, -1, number[right])[kept]
        return GrownTree(
            left,
            right,
            np.where(left < 0, -1, self.feature[kept]),
            np.where(left < 0, 0.0, self.threshold[kept]),
            self.weight[kept],
            self.loss[kept],
            self.total[kept],
            self.centre,
        )


@contextmanager
def stopping() -> Iterator[Int8[Array, " 1"]]:
    """Yield a flag that ends the growth of trees in other threads where this block is left early.

    An interrupt reaches the main thread alone, which then would wait for trees that nobody wants.
    """
    stop = np.zeros(1, np.int8)
    try:
        yield stop
    except BaseException:
        stop[0] = 1
        raise


def grow_tree(
    densities: Densities,
    events: Events | None,
    targets: Targets,
    weight: Float[Array, " n_rows"],
    limits: Limits,
    seed: int = 0,
    stop: Int8[Array, " 1"] | None = None,
) -> GrownTree:
    """Grow a tree on the density of weighted rows.

    Parameters
    ----------
    densities : Densities
    events : Events, optional
        Of `densities`; not needed where thresholds are drawn.
    weight : float64, (n_rows,)
        Weight of each row, with a positive sum; a row of none counts as not there.
    seed : int
        Of the features and thresholds that are drawn.
    stop : int8, (1,), optional
        Growth ends, with part of a tree, when this becomes 1: see `stopping`.
    """
    n_features = len(densities.share)
    if events is None:
        none, no = np.zeros((n_features, 0)), np.zeros(n_features, np.int64)
        whole = none.astype(np.int32)
        events = Events(whole, no, none, none.astype(np.int8), none, no, whole)
    data = Data(*densities.flat, events, np.ascontiguousarray(weight, np.float64))
    asked = Limits(
        limits.max_depth,
        float(limits.min_weight),
        float(limits.min_gain),
        limits.max_features or n_features,
        limits.random_thresholds,
    )
    stopped = np.zeros(1, np.int8) if stop is None else stop
    nodes, total = grow(data, targets, asked, np.uint64(seed), stopped)
    fields = {name: np.ascontiguousarray(nodes[name]) for name in NODE.names or ()}
    return GrownTree(**fields, total=total, centre=targets.centre)


def native(
    tree: GrownTree,
    n_features: int,
    *,
    kernel: Sequence[FeatureKernel] | None = None,
    classes: Array | None = None,
) -> KDDT:
    """Return a grown tree in the paper's symbols, its leaves numbered from left to right."""
    inner = np.flatnonzero(~tree.is_leaf)
    leaf = np.flatnonzero(tree.is_leaf)
    number = np.empty(tree.left.size, np.int64)
    number[inner] = np.arange(inner.size)
    number[leaf] = ~np.arange(leaf.size)
    return KDDT(
        left=number[tree.left[inner]],
        right=number[tree.right[inner]],
        j=tree.feature[inner],
        tau=tree.threshold[inner],
        V=tree.value[leaf],
        n_features=n_features,
        classes=classes,
        kernel=None if kernel is None else tuple(kernel),
    )


def importances(tree: GrownTree, n_features: int) -> Float[Array, " n_features"]:
    """Return how much of the loss each feature's splits remove, by shares that sum to 1."""
    inner = np.flatnonzero(~tree.is_leaf)
    gain = tree.loss[inner] - tree.loss[tree.left[inner]] - tree.loss[tree.right[inner]]
    total = np.bincount(tree.feature[inner], np.maximum(gain, 0.0), minlength=n_features)
    return total / total.sum() if total.any() else total
