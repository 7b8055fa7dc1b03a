"""The nearest point of a polyhedron, or multipliers that tell why there is none.

Least-distance programming: minimise |d| such that G d >= h is one non-negative least-squares
problem, solved by an active set in finitely many steps. Where the rows of G are independent and
binding this is d = G⁺ h.

Notes
-----
Algorithms NNLS and LDP of Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64

TOLERANCE = 1e-12
"""Tolerance of gradients and residuals, for columns of norm 1 in float64."""


REFINEMENTS = 8
"""Most restarts from a point that violates a constraint; one or two are seen."""
ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""By how much a constraint may seem violated, per column, in units of the size of its terms."""


def nearest(
    G: Float64[Array, "n_rows n"], h: Float64[Array, " n_rows"]
) -> tuple[Float64[Array, " n"] | None, Float64[Array, " n_rows"]]:
    """Return the shortest d with G d >= h (None if there is none) and multipliers u >= 0.

    Without such a d, u is Farkas's certificate as far as rounding goes: u G = 0 and u h > 0, which
    no G d >= h allows. It is for the caller to verify. Numbers too large for the arithmetic give
    neither: None, and u = 0.

    >>> nearest(np.array([[2.0, 0.0]]), np.array([1.0]))[0].tolist()
    [0.5, 0.0]
    >>> nearest(np.array([[1.0], [-1.0]]), np.array([1.0, 1.0]))[0] is None
    True

    Notes
    -----
    Constraints that miss each other by far less than they lie away look met to a least-squares
    solver. A point that violates one therefore becomes the origin of the same problem, in which the
    gap is large; what is returned then meets all constraints but is no longer the shortest.
    """
    at, left = np.zeros(G.shape[1]), h
    for _ in range(REFINEMENTS):
        d, u = _shortest(G, left)
        if d is None:
            return None, u
        at = at + d
        with np.errstate(all="ignore"):
            left = h - G @ at
            size = np.abs(G) @ np.abs(at) + np.abs(h)
        if np.all(left <= ROUNDING * max(at.size, 1) * size):
            return at, u
    return None, np.zeros(len(h))


def _shortest(G: Array, h: Array) -> tuple[Array | None, Array]:
    if np.all(h <= 0):
        return np.zeros(G.shape[1]), np.zeros(len(h))
    with np.errstate(all="ignore"):
        # Constraints of norm 1, in units in which the farthest one is about 1 away.
        norm = np.linalg.norm(G, axis=1)
        norm[norm == 0] = np.abs(h[norm == 0])
        norm[norm == 0] = 1
        G, h = G / norm[:, None], h / norm
        unit = float(h.max())
        E = np.vstack([G.T, h / unit])
        size = np.linalg.norm(E, axis=0)
        size[size == 0] = 1
    if not (np.all(np.isfinite(E)) and np.all(np.isfinite(norm)) and np.all(np.isfinite(size))):
        return None, np.zeros(len(h))
    u = _nnls(E / size, np.append(np.zeros(G.shape[1]), 1.0)) / size
    left = 1 - float(E[-1] @ u)  # the squared distance of the least-squares problem
    if left <= TOLERANCE:
        return None, u / norm
    active = u > 0
    # The same point as G.T @ u / left, with its binding constraints met to full precision.
    return np.linalg.lstsq(G[active], h[active], rcond=None)[0], u / norm


def _nnls(E: Array, f: Array) -> Array:
    """Return u >= 0 that minimises |E u - f|."""
    n = E.shape[1]
    u, passive = np.zeros(n), np.zeros(n, bool)
    for _ in range(
        4 * n + 16
    ):  # far more steps than are seen; a cycle is possible only by rounding
        descent = np.where(passive, -np.inf, E.T @ (f - E @ u))
        j = int(descent.argmax())
        if descent[j] <= TOLERANCE:
            break
        passive[j] = True
        while passive.any():
            at = np.flatnonzero(passive)
            z = np.linalg.lstsq(E[:, at], f, rcond=None)[0]
            low = z <= 0
            if not low.any():
                u[:] = 0
                u[at] = z
                break
            step = u[at[low]] / (u[at[low]] - z[low] + np.finfo(np.float64).tiny)
            u[at] += float(step.min()) * (z - u[at])
            leaving = at[low][step <= step.min()]
            u[leaving], passive[leaving] = 0, False
            u[u < 0] = 0
    return u
