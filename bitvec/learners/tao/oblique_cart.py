"""Oblique CART: hyperplanes grown from the root down by coordinate descent with restarts, as OC1.

One impurity serves both kinds of target: the weighted sum of squares about the mean, which for
targets that are rows of an identity matrix is the Gini impurity. A split is as good as
‖S_L‖² / w_L + ‖S_R‖² / w_R is large, with S the weighted sum of the targets of a side.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.tao.tree import Tree, oblique_tree
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant

CYCLES = 20
"""Rounds over all coordinates; most descents end after a few."""


@inner
def quality(left, right, left_weight, right_weight):
    """Return ‖S_L‖² / w_L + ‖S_R‖² / w_R; a side without weight counts nothing."""
    total = 0.0
    for k in range(left.size):
        if left_weight > 0:
            total += left[k] * left[k] / left_weight
        if right_weight > 0:
            total += right[k] * right[k] / right_weight
    return total


@inner
def best_step(key, turned, Y, weight, left, right):
    """Return the quality and the cut t of the best rule "right where t > key", turned for some.

    A row whose `turned` is -1 goes right where t < key, one whose `turned` is 0 goes where it is:
    right where its key is positive. t lies half way between two keys.
    """
    order = np.argsort(key, kind="mergesort")
    q = Y.shape[1]
    left[:], right[:] = 0.0, 0.0
    left_weight, right_weight = 0.0, 0.0
    for k in range(key.size):
        goes_right = turned[k] < 0 or (turned[k] == 0 and key[k] > 0)
        for c in range(q):
            if goes_right:
                right[c] += weight[k] * Y[k, c]
            else:
                left[c] += weight[k] * Y[k, c]
        if goes_right:
            right_weight += weight[k]
        else:
            left_weight += weight[k]
    best, cut = -1.0, 0.0
    low, seen = 0.0, False
    for k in order:
        if turned[k] == 0:
            continue
        if seen and key[k] > low:
            value = quality(left, right, left_weight, right_weight)
            if value > best:
                best, cut = value, low / 2 + key[k] / 2
        way = turned[k] * weight[k]
        for c in range(q):
            left[c] -= way * Y[k, c]
            right[c] += way * Y[k, c]
        left_weight -= way
        right_weight += way
        low, seen = key[k], True
    return best, cut


@inner
def value_at(x, Y, weight, w, v, left, right):
    """Fill in v = w · (x, 1) and return the quality of "right where v > 0"."""
    p = x.shape[1]
    left[:], right[:] = 0.0, 0.0
    left_weight, right_weight = 0.0, 0.0
    for k in range(x.shape[0]):
        v[k] = w[p]
        for j in range(p):
            v[k] += w[j] * x[k, j]
        for c in range(Y.shape[1]):
            if v[k] > 0:
                right[c] += weight[k] * Y[k, c]
            else:
                left[c] += weight[k] * Y[k, c]
        if v[k] > 0:
            right_weight += weight[k]
        else:
            left_weight += weight[k]
    if left_weight <= 0 or right_weight <= 0:
        return -1.0
    return quality(left, right, left_weight, right_weight)


@kernel
def best_hyperplane(x, Y, weight, starts, cycles, w):
    """Fill in the weights and the offset, last, of the best split that the descents end at.

    The first descent starts from the best axis-aligned split, the others from `starts`. A
    coordinate is set to its best value given the others, which sorting the rows by the value at
    which they change sides finds; a descent ends when a round gains nothing. Returns the quality.
    Cost: O(cycles · p · n (log n + q)) for each start.
    """
    n, p = x.shape
    left, right = np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
    key, v, turned = np.empty(n), np.empty(n), np.empty(n)
    trial = np.empty(p + 1)
    best = -1.0
    for start in range(starts.shape[0] + 1):
        if start == 0:
            turned[:] = -1.0
            axis, reached, cut = -1, -1.0, 0.0
            for j in range(p):
                key[:] = x[:, j]
                value, at = best_step(key, turned, Y, weight, left, right)
                if value > reached:
                    axis, reached, cut = j, value, at
            if axis < 0:
                return best
            trial[:] = 0.0
            trial[axis], trial[p] = 1.0, -cut
        else:
            trial[:] = starts[start - 1]
        now = value_at(x, Y, weight, trial, v, left, right)
        for _ in range(cycles):
            before = now
            for j in range(p + 1):
                for k in range(n):
                    z = x[k, j] if j < p else 1.0
                    turned[k] = np.sign(z)
                    key[k] = trial[j] - v[k] / z if z != 0 else v[k]
                value, cut = best_step(key, turned, Y, weight, left, right)
                if value > now * (1 + 1e-12):
                    old = trial[j]
                    trial[j] = cut
                    moved = value_at(x, Y, weight, trial, v, left, right)
                    if moved > now:
                        now = moved
                    else:
                        trial[j] = old
                        now = value_at(x, Y, weight, trial, v, left, right)
            if not now > before * (1 + 1e-9):
                break
        if now > best * (1 + 1e-12):
            best = now
            w[:] = trial
    return best


def oblique_cart(
    Z: Float64[Array, "n_rows n_features"],
    Y: Float64[Array, "n_rows n_outputs"],
    weight: Float64[Array, " n_rows"],
    *,
    depth: int,
    restarts: int,
    seed: int,
    dtype: np.dtype,
) -> Tree:
    """Return a tree of hyperplanes of some depth, its leaves the mean targets.

    Parameters
    ----------
    Z : float64, (n_rows, n_features)
        Standardised.
    Y : float64, (n_rows, n_outputs)
        Rows of an identity matrix for classes.
    restarts : int
        Random hyperplanes through data points that descents start from, at each node.

    Returns
    -------
    Tree
        Its weights are those of the columns of Z.

    Notes
    -----
    "A system for induction of oblique decision trees" (Murthy, Kasif, Salzberg 1994): its sequence
    of coordinates is in order here, and restarts take the place of its random jumps.
    """
    rng = np.random.default_rng(seed)
    W: list[Array] = []
    left: list[int] = []
    right: list[int] = []
    leaves: list[Array] = []
    level: list[tuple[int, int, Int64[Array, " n"]]] = [(-1, 0, np.arange(len(Z)))]
    for below in range(depth + 1):
        following = []
        for parent, side, rows in level:
            w = _split(Z, Y, weight, rows, restarts, rng) if below < depth else None
            name = len(left) if w is not None else ~len(leaves)
            if parent >= 0:
                (right if side else left)[parent] = name
            if w is None:
                leaves.append(_mean(Y[rows], weight[rows]))
                continue
            left.append(0)
            right.append(0)
            W.append(w)
            goes_right = Z[rows] @ w[:-1] + w[-1] > 0
            following += [(name, 0, rows[~goes_right]), (name, 1, rows[goes_right])]
        level = following
    weights = np.array(W, np.float64).reshape(len(W), Z.shape[1] + 1)
    return oblique_tree(
        np.array(left, np.int64),
        np.array(right, np.int64),
        weights[:, :-1].astype(dtype),
        (-weights[:, -1]).astype(dtype),
        np.array(leaves),
    )


def _split(
    Z: Array, Y: Array, weight: Array, rows: Array, restarts: int, rng: np.random.Generator
) -> Array | None:
    """Return weights and offset of a hyperplane that lowers the impurity, if there is one."""
    y, w = Y[rows], weight[rows]
    total = w.sum()
    if rows.size < 2 or not total > 0 or np.all(y == y[0]):
        return None
    starts = rng.standard_normal((restarts, Z.shape[1] + 1))
    through = Z[rows[rng.integers(rows.size, size=restarts)]]
    starts[:, -1] = -(starts[:, :-1] * through).sum(axis=1)
    found = np.zeros(Z.shape[1] + 1)
    x = constant(Z[rows])
    best = best_hyperplane(x, constant(y), constant(w), constant(starts), CYCLES, found)
    whole = float(((w @ y) ** 2).sum() / total)
    right = Z[rows] @ found[:-1] + found[-1] > 0
    if not best > whole * (1 + 1e-9) or right.all() or not right.any():
        return None
    return found


def _mean(Y: Array, weight: Array) -> Array:
    total = weight.sum()
    return (weight @ Y) / total if total > 0 else np.zeros(Y.shape[1])
