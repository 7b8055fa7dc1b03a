"""Where the density of each training row changes: the events that a split scan walks along.

Around each value x_ij lies a law of x'_ij = x_ij + H_ij · u, where u has the piecewise-constant
density of the feature's kernel. Its density changes at x_ij + H_ij · edge, for each edge. These
positions, sorted once per feature, are all that the scan of every node needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int32, Int64

from bitvec.arrays import Array
from bitvec.kernels import FeatureKernel


@dataclass(frozen=True, slots=True)
class Laws:
    """The law of each training value: the shape of each feature's kernel, and each bandwidth.

    Parameters
    ----------
    x, width : float64, (n_features, n_rows)
        Values, and the bandwidths H around them; 0 where a value is crisp.
    edges, share : float64, (n_features, n_edges)
        Edges of the kernel of bandwidth 1, and the mass left of each: 0 first and 1 last. Kernels
        of fewer edges repeat their last.
    last : int64, (n_features,)
        The last edge of each kernel.
    """

    x: Float[Array, "n_features n_rows"]
    width: Float[Array, "n_features n_rows"]
    edges: Float[Array, "n_features n_edges"]
    share: Float[Array, "n_features n_edges"]
    last: Int64[Array, " n_features"]

    def take(self, rows: Int64[Array, " n"]) -> Laws:
        """Return the laws of some rows."""
        return Laws(
            np.ascontiguousarray(self.x[:, rows]),
            np.ascontiguousarray(self.width[:, rows]),
            self.edges,
            self.share,
            self.last,
        )


@dataclass(frozen=True, slots=True)
class Events:
    """The changes of density of all rows, sorted by position, one line for each feature.

    Event i · n_edges + k is the edge k of row i. A crisp value has one event, its jump, at edge 0.

    Parameters
    ----------
    order : int32, (n_features, n_events)
        Events by position, jumps before other changes at the same; the first `count` of each.
    count : int64, (n_features,)
    at : float64, (n_features, n_rows * n_edges)
        Position of each event.
    change : float64, (n_features, n_rows * n_edges)
        By how much the density of a row of mass 1 grows there; infinite for a jump.
    """

    order: Int32[Array, "n_features n_events"]
    count: Int64[Array, " n_features"]
    at: Float[Array, "n_features n_positions"]
    change: Float[Array, "n_features n_positions"]


def laws_of(
    X: Float[Array, "n_rows n_features"],
    kernels: Sequence[FeatureKernel],
    uncertainty: Float[Array, "n_rows n_features"] | None = None,
) -> Laws:
    """Return the law of each training value.

    Parameters
    ----------
    X : float64, (n_rows, n_features)
    kernels : sequence of FeatureKernel, one per feature
    uncertainty : float64, (n_rows, n_features), optional
        Bandwidth of each value, in place of the kernels' own.
    """
    x = np.ascontiguousarray(X.T, np.float64)
    if uncertainty is None:
        width = np.stack(
            [
                kernel.bandwidth[np.searchsorted(kernel.location, column, side="right")]
                for kernel, column in zip(kernels, x, strict=True)
            ]
        )
    else:
        width = np.ascontiguousarray(uncertainty.T, np.float64)
    shapes = [_shape(kernel) for kernel in kernels]
    n_edges = max(own.size for own, _ in shapes)
    edges, share = np.empty((2, len(kernels), n_edges))
    for feature, (own, cumulative) in enumerate(shapes):
        fill = n_edges - own.size
        edges[feature] = np.pad(own, (0, fill), mode="edge")
        share[feature] = np.pad(cumulative, (0, fill), mode="edge")
    # Too narrow to hold a number besides x: crisp.
    reach = x + width * edges[:, -1:]
    width = np.where(reach > x + width * edges[:, :1], width, 0.0)
    last = np.array([own.size - 1 for own, _ in shapes], np.int64)
    return Laws(x, width, edges, share, last)


def _shape(kernel: FeatureKernel) -> tuple[Array, Array]:
    """Return edges and the mass left of each, without outer pieces that have none."""
    held = np.flatnonzero(kernel.mass)
    cumulative = np.concatenate([[0.0], np.cumsum(kernel.mass)])
    cumulative[-1] = 1.0
    own = slice(held[0], held[-1] + 2)
    return kernel.edges[own], np.where(np.arange(cumulative.size) > held[-1], 1.0, cumulative)[own]


def ascending(X: Float[Array, "n_rows n_features"]) -> Int64[Array, "n_features n_rows"]:
    """Return the rows by the values of each feature, equal ones as they stand."""
    return np.argsort(X.T, axis=1, kind="stable")


def events_of(laws: Laws, by_value: Int64[Array, "n_features n_rows"] | None = None) -> Events:
    """Return the sorted events of all rows; `by_value` is their `ascending` order, if known.

    Each edge's positions rise with x where bandwidths are constant: a stable sort, by merging,
    finds these runs and takes linear time.
    """
    n_features, n_rows = laws.x.shape
    n_edges = laws.edges.shape[1]
    at = laws.x[:, :, None] + laws.width[:, :, None] * laws.edges[:, None, :]
    crisp = laws.width == 0
    at[crisp] = laws.x[crisp][:, None]
    density = np.zeros((n_features, n_edges + 1))
    span = np.diff(laws.edges, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        density[:, 1:-1] = np.where(span > 0, np.diff(laws.share, axis=1) / span, 0.0)
        change = np.diff(density, axis=1)[:, None, :] / laws.width[:, :, None]
    # A repeated edge changes nothing; the one before it takes the density back to 0.
    change[crisp] = 0.0
    change[crisp, 0] = np.inf
    if by_value is None:
        by_value = ascending(laws.x.T)
    order = np.zeros((n_features, n_rows * n_edges), np.int32)
    count = np.zeros(n_features, np.int64)
    for feature in range(n_features):
        listed = (by_value[feature][None, :] * n_edges + np.arange(n_edges)[:, None]).ravel()
        flat = change[feature].ravel()
        listed = listed[flat[listed] != 0]
        position = at[feature].ravel()[listed]
        kept = (
            listed[np.lexsort((~np.isinf(flat[listed]), position))]
            if np.any(crisp[feature])
            else listed[np.argsort(position, kind="stable")]
        )
        order[feature, : kept.size] = kept
        count[feature] = kept.size
    return Events(
        order[:, : max(int(count.max()), 1)].copy(),
        count,
        at.reshape(n_features, -1),
        change.reshape(n_features, -1),
    )
