"""Events, where the density of a training row changes: a split scan passes over them.

Around each value x_ij lies a density of x'_ij = x_ij + H_ij · u, where u has the piecewise-constant
density of the feature's kernel. Its density changes at x_ij + H_ij · edge, for each edge. These
positions, sorted once per feature, are all that the scan of every node needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.kernels import FeatureKernel
from bitvec.core.shape_annotations import Float, Int8, Int32, Int64

NARROWEST = 1e-100
"""A piece below this counts as too narrow: the square of its density must be a finite number."""
FEWEST_STEPS = 4
"""So is a piece that spans fewer floating-point numbers: a cut within it could not be told from its
ends."""
FLAT = 1e4
"""Bound on a density times the range of all positions, up to which changes are summed by position:
the sums then round by this many units of the last place of a weight."""


class Densities(NamedTuple):
    """The density of each training value: its kernel's edges, and the weight left of each.

    Parameters
    ----------
    at : float64, (n_features, n_rows, n_edges)
        Positions, rising; all the same where a value is crisp. A kernel of fewer edges repeats its
        last.
    share : float64, (n_features, n_edges)
        Weight left of each edge: 0 first and 1 last.
    """

    at: Float[Array, "n_features n_rows n_edges"]
    share: Float[Array, "n_features n_edges"]

    def take(self, rows: Int64[Array, " n"]) -> Densities:
        """Return the densities of some rows."""
        return Densities(np.ascontiguousarray(self.at[:, rows]), self.share)

    @property
    def flat(self) -> Densities:
        """The same with `at` as kernels read it: (n_features, n_rows * n_edges)."""
        return Densities(self.at.reshape(len(self.at), -1), self.share)


class Events(NamedTuple):
    """The changes of density of all rows, sorted by position, one line for each feature.

    Event i · n_edges + k is the edge k of row i. A crisp value has one event, its jump, at edge 0.

    Parameters
    ----------
    order : int32, (n_features, n_events)
        Events by position, jumps before other changes at the same; the first `n_events` of
        each.
    n_events : int64, (n_features,)
    change : float64, (n_features, n_rows * n_edges)
        By how much the density of a row of weight 1 grows there; infinite for a jump.
    turn : int8, (n_features, n_rows * n_edges)
        1 where the density was 0 before, −1 where it is 0 afterwards, else 0.
    position : float64, (n_features, n)
        Where events lie, rising; the first `n_positions` of each, if these are few.
    n_positions : int64, (n_features,)
        0 of a feature whose events are to be walked along one by one.
    place : int32, (n_features, n_rows * n_edges)
        The number of each event's position; not filled where `n_positions` is 0.
    """

    order: Int32[Array, "n_features n_events"]
    n_events: Int64[Array, " n_features"]
    change: Float[Array, "n_features n_positions"]
    turn: Int8[Array, "n_features n_positions"]
    position: Float[Array, "n_features n"]
    n_positions: Int64[Array, " n_features"]
    place: Int32[Array, "n_features n_positions"]


class Data(NamedTuple):
    """Rows as growth reads them: `Densities.flat`, their events, and the weight of each row.

    Rows of no weight are left out.
    """

    at: Float[Array, "n_features n_positions"]
    share: Float[Array, "n_features n_edges"]
    events: Events
    weight: Float[Array, " n_rows"]


def densities_of(
    X: Float[Array, "n_rows n_features"],
    kernels: Sequence[FeatureKernel],
    uncertainty: Float[Array, "n_rows n_features"] | None = None,
) -> Densities:
    """Return the density of each training value.

    A density with a piece too narrow to hold two numbers counts as crisp.

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
    at = x[:, :, None] + width[:, :, None] * edges[:, None, :]
    narrowest = np.maximum(NARROWEST, FEWEST_STEPS * np.spacing(np.abs(at).max(axis=2)))
    narrow = (np.diff(at, axis=2) < narrowest[:, :, None]) & (np.diff(edges) > 0)[:, None, :]
    crisp = narrow.any(axis=2)
    at[crisp] = x[crisp][:, None]
    return Densities(at, share)


def _shape(kernel: FeatureKernel) -> tuple[Array, Array]:
    """Return edges and the weight left of each, without outer pieces that have none."""
    held = np.flatnonzero(kernel.mass)
    cumulative = np.concatenate([[0.0], np.cumsum(kernel.mass)])
    cumulative[held[-1] + 1 :] = 1.0
    own = slice(held[0], held[-1] + 2)
    return kernel.edges[own], cumulative[own]


def ascending(X: Float[Array, "n_rows n_features"]) -> Int64[Array, "n_features n_rows"]:
    """Return the rows by the values of each feature, equal ones as they stand."""
    return np.argsort(X.T, axis=1, kind="stable")


def events_of(
    densities: Densities, by_value: Int64[Array, "n_features n_rows"] | None = None
) -> Events:
    """Return the sorted events of all rows; `by_value` is their `ascending` order, if known.

    Each edge's positions rise with x where bandwidths are constant: a stable sort, by merging,
    finds these runs and takes linear time.
    """
    n_features, n_rows, n_edges = densities.at.shape
    if by_value is None:
        by_value = ascending(densities.at[:, :, 0].T)
    gap = np.diff(densities.at, axis=2)
    # By the positions as they are rounded, so that the pieces hold all of a row's weight.
    density = np.zeros((n_features, n_rows, n_edges + 1))
    np.divide(
        np.diff(densities.share, axis=1)[:, None, :], gap, out=density[:, :, 1:-1], where=gap > 0
    )
    change = np.diff(density, axis=2)
    turn = (density[:, :, :-1] == 0).astype(np.int8) - (density[:, :, 1:] == 0)
    turn[change == 0] = 0
    crisp = densities.at[:, :, 0] == densities.at[:, :, -1]
    change[crisp, 0] = np.inf
    order = np.zeros((n_features, n_rows * n_edges), np.int32)
    n_events = np.zeros(n_features, np.int64)
    place = np.zeros((n_features, n_rows * n_edges), np.int32)
    positions = [np.zeros(0)] * n_features
    for feature in range(n_features):
        listed = (by_value[feature][None, :] * n_edges + np.arange(n_edges)[:, None]).ravel()
        flat = change[feature].ravel()
        listed = listed[flat[listed] != 0]
        if crisp[feature].any():  # jumps come first
            listed = listed[np.argsort(~np.isinf(flat[listed]), kind="stable")]
        kept = listed[np.argsort(densities.at[feature].ravel()[listed], kind="stable")]
        order[feature, : kept.size] = kept
        n_events[feature] = kept.size
        at = densities.at[feature].ravel()[kept]
        number = np.cumsum(np.diff(at, prepend=at[:1]) > 0)
        if kept.size and 2 * (number[-1] + 1) < kept.size and _is_flat(flat[kept], at):
            place[feature, kept] = number
            positions[feature] = at[np.flatnonzero(np.diff(number, prepend=-1))]
    n_positions = np.array([own.size for own in positions])
    position = np.zeros((n_features, max(int(n_positions.max()), 1)))
    for feature, own in enumerate(positions):
        position[feature, : own.size] = own
    return Events(
        order[:, : max(int(n_events.max()), 1)].copy(),
        n_events,
        change.reshape(n_features, -1),
        turn.reshape(n_features, -1),
        position,
        n_positions,
        place,
    )


def _is_flat(change: Float[Array, " n_events"], at: Float[Array, " n_events"]) -> bool:
    """Return whether no density is large for the range of positions."""
    steep = np.abs(change[np.isfinite(change)]).max(initial=0.0)
    return bool(steep * (at[-1] - at[0]) <= FLAT)
