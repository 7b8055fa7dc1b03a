"""The prediction kernel of a Kernel Density Decision Tree: a density around each value of x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, ArrayLike, read_only, require
from bitvec.core.shape_annotations import Float, Int32


@dataclass(frozen=True, slots=True, eq=False)
class FeatureKernel:
    """A piecewise-constant density for one feature: x' = x + bandwidth(x) · u.

    u has mass `mass[k]`, spread evenly over [edges[k], edges[k+1]]; edges need not be symmetric.
    The bandwidth is `bandwidth[i]` for x with i = number of `location` values <= x. A bandwidth
    of 0 puts all mass on x itself, and the test is then crisp.

    Parameters
    ----------
    edges : float64, (n_pieces + 1,), rising
    mass : float64, (n_pieces,), non-negative, sums to 1
    bandwidth : float64, (n_locations + 1,), non-negative
    location : float64, (n_locations,), rising
    """

    edges: Float[Array, " n_pieces_plus_1"]
    mass: Float[Array, " n_pieces"]
    bandwidth: Float[Array, " n_locations_plus_1"]
    location: Float[Array, " n_locations"]

    def __post_init__(self) -> None:
        for name in ("edges", "mass", "bandwidth", "location"):
            array = read_only(f"kernel.{name}", getattr(self, name), np.float64, (None,))
            require(np.all(np.isfinite(array)), f"`kernel.{name}` must be finite.")
            object.__setattr__(self, name, array)
        require(
            self.edges.size == self.mass.size + 1 and self.mass.size >= 1,
            f"a kernel of {self.mass.size} pieces must have one edge more, got {self.edges.size}.",
        )
        require(self.bandwidth.size == self.location.size + 1, "one bandwidth more than locations.")
        require(np.all(np.diff(self.edges) > 0), "`kernel.edges` must rise.")
        require(np.all(np.diff(self.location) > 0), "`kernel.location` must rise.")
        require(np.all(self.bandwidth >= 0), "`kernel.bandwidth` must not be negative.")
        require(
            np.all(self.mass >= 0) and abs(float(self.mass.sum()) - 1) < 1e-12,
            f"`kernel.mass` must sum to 1, got {float(self.mass.sum())}.",
        )

    def cdf(self, t: ArrayLike, x: ArrayLike) -> Float[Array, "..."]:
        """Return P(x' <= t) for values x, in float64; t and x broadcast."""
        t, x = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(x, np.float64))
        h = self.bandwidth[np.searchsorted(self.location, x, side="right")]
        cumulative = np.concatenate([[0.0], np.cumsum(self.mass)])
        cumulative[-1] = 1.0
        crisp = h == 0
        with np.errstate(invalid="ignore", over="ignore"):
            u = (t - x) / np.where(crisp, 1.0, h)
        soft = np.interp(u, self.edges, cumulative)
        inside = np.where(crisp, (x <= t).astype(np.float64), soft)
        return np.where(np.isposinf(t), 1.0, np.where(np.isneginf(t), 0.0, inside))


def box(bandwidth: float) -> FeatureKernel:
    """Return the box kernel of half-width `bandwidth`, in the feature's units.

    >>> box(0.5).cdf(0.25, 0.0).item()
    0.75
    """
    return FeatureKernel(
        np.array([-1.0, 1.0]), np.array([1.0]), np.array([bandwidth], np.float64), np.zeros(0)
    )


def require_kernels(
    kernel: tuple[FeatureKernel | None, ...], n_columns: int, used: Int32[Array, " n_used"]
) -> None:
    """Raise InvalidForestError unless each used column of `n_columns` has a kernel."""
    require(
        len(kernel) == n_columns,
        f"`kernel` must have one entry for each of {n_columns} columns.",
    )
    require(
        all(kernel[j] is not None for j in used),
        "each column that a kernel node reads must have a kernel.",
    )
