"""Boosting by TAO: each tree is fitted to the Newton targets that the trees before it leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bitvec.converters.native.tao import TAO, from_tao
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64

LARGEST = 4.0
"""Newton targets of classes are held within it, as LogitBoost's (Friedman et al., 2000) are."""
SMALLEST = 1e-12
"""Class shares and second derivatives below it, of leaves times the largest weight, count as it."""
HALVINGS = 20
"""Times that a tree's leaves are halved at most until it lowers the training loss."""


class Sample(NamedTuple):
    """Rows to learn from or to judge by.

    `target` holds values, or class shares: one column for the second of two classes, else one a
    class; (n_rows, n_outputs).
    """

    X: Float64[Array, "n_rows n_features"]
    target: Float64[Array, "n_rows n_outputs"]
    weight: Float64[Array, " n_rows"]

    def take(self, which: Int64[Array, " n"]) -> Sample:
        """Return some of the rows."""
        return Sample(*(part[which] for part in self))


@dataclass(frozen=True, slots=True)
class Boosting:
    """Options of boosting.

    Parameters
    ----------
    classes : bool
        Whether scores are log odds or logits of classes, by log loss, or values, by squared error.
    n_trees : int
        Rounds at most.
    rate : float
        Factor of each tree's leaves.
    l2 : float
        Added to the second derivatives of a leaf.
    patience : int
        Rounds in a row without a smaller loss after which it ends.
    """

    classes: bool
    n_trees: int
    rate: float
    l2: float
    patience: int


class Boosted(NamedTuple):
    """Trees up to the round of least loss, one that adds nothing if there are none.

    `kept` is the number of rounds whose trees they are. `losses` and `judged` hold the mean loss of
    the rows learned from and of those held out, of the base score and after each tree that
    lowered the former.
    """

    trees: tuple[TAO, ...]
    kept: int
    base_score: Float64[Array, " n_outputs"]
    losses: tuple[float, ...]
    judged: tuple[float, ...]


def boost(
    rows: Sample,
    held_out: Sample | None,
    how: Boosting,
    fitted: Callable[[int, Array, Array], TAO],
    told: Callable[[int, int], None],
) -> Boosted:
    """Add trees, each lowering the training loss, and keep those up to the round of least loss.

    Parameters
    ----------
    held_out : Sample, optional
        Rows that the round is chosen by; the training rows if not given.
    fitted : callable
        From the number of a round, targets, (n_rows, n_outputs), and weights, (n_rows,), to a tree.
    told : callable
        Called with the rounds done, and their number.

    Notes
    -----
    A round lowers Σ w Σ_k (−r_k v_k + ½ h_k v_k²), with r and h the negative first and the second
    derivatives of the loss at the present scores, and v the leaf's vector. A tree of vectors has
    one weight a row, so it is fitted to r / H by squared errors of weight w · H, with H the largest
    h_k of the row, which bounds that sum from above; its leaves then are Σ w r_k / (Σ w h_k + l2)
    (Eq. (5) of XGBoost, Chen and Guestrin, 2016). One output is exact.
    """
    base = _base_score(rows, how.classes)
    scores = np.tile(base, (len(rows.X), 1))
    judged_by = rows if held_out is None else held_out
    other = np.tile(base, (len(judged_by.X), 1))
    trees: list[TAO] = []
    losses = [loss_of(rows, scores, how.classes)]
    judged = [loss_of(judged_by, other, how.classes)]
    best, kept, since = judged[0], 0, 0
    for number in range(how.n_trees):
        targets, weight = _newton_targets(rows, scores, how.classes)
        found = _added(fitted(number, targets, weight), rows, scores, losses[-1], how)
        if found is not None:
            tree, scores, loss = found
            trees.append(tree)
            losses.append(loss)
            other = scores if held_out is None else other + tree.raw(held_out.X)
            judged.append(loss_of(judged_by, other, how.classes))
        told(number + 1, how.n_trees)
        if found is not None and judged[-1] < best:
            best, kept, since = judged[-1], len(trees), 0
        else:
            since += 1
        if since >= how.patience:
            break
    W, V = np.zeros((0, rows.X.shape[1])), np.zeros((1, base.size))
    nothing = from_tao(left=[], right=[], W=W, bias=[], V=V)
    return Boosted(tuple(trees[:kept] or [nothing]), kept, base, tuple(losses), tuple(judged))


def loss_of(rows: Sample, scores: Float64[Array, "n_rows n_outputs"], classes: bool) -> float:
    """Return the mean log loss, or the mean squared error summed over outputs."""
    y = rows.target
    if not classes:
        loss = np.square(y - scores).sum(axis=1)
    elif y.shape[1] == 1:
        loss = (np.logaddexp(0.0, scores) - y * scores)[:, 0]
    else:
        top = scores.max(axis=1, keepdims=True)
        loss = top[:, 0] + np.log(np.exp(scores - top).sum(axis=1)) - (y * scores).sum(axis=1)
    return float(np.average(loss, weights=rows.weight))


def _base_score(rows: Sample, classes: bool) -> Float64[Array, " n_outputs"]:
    """Return the mean of values, or the log odds or the logarithms of class shares."""
    mean: Array = np.average(rows.target, axis=0, weights=rows.weight)
    if not classes:
        return mean
    share = np.clip(mean, SMALLEST, 1 - SMALLEST)
    base: Array = np.log(share)
    return base - np.log1p(-share) if share.size == 1 else base


def _slopes(rows: Sample, scores: Array, classes: bool) -> tuple[Array, Array]:
    """Return r and h of each row and output, those of half the squared error for values.

    Of a softmax h = C / (C − 1) · p (1 − p), Friedman's factor.
    """
    if not classes:
        return rows.target - scores, np.ones(scores.shape)
    if scores.shape[1] == 1:
        p = np.exp(-np.logaddexp(0.0, -scores))
        return rows.target - p, p * (1 - p)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    n = scores.shape[1]
    return rows.target - p, n / (n - 1) * p * (1 - p)


def _newton_targets(rows: Sample, scores: Array, classes: bool) -> tuple[Array, Array]:
    """Return r / H of each row and output, and w · H of each row."""
    r, h = _slopes(rows, scores, classes)
    if not classes:
        return r, rows.weight
    H = np.maximum(h.max(axis=1), SMALLEST)
    return np.clip(r / H[:, None], -LARGEST, LARGEST), rows.weight * H


def _added(
    tree: TAO, rows: Sample, scores: Array, loss: float, how: Boosting
) -> tuple[TAO, Array, float] | None:
    """Return a tree with the leaves of a Newton step, scores with it and their loss.

    A step is halved until the loss falls; None where it does not. A linear leaf is as it was
    fitted.
    """
    V, U = tree.V, tree.U
    if U is None:
        leaf = tree.decide(rows.X)
        r, h = (rows.weight[:, None] * part for part in _slopes(rows, scores, how.classes))
        down, bend = (
            np.stack([np.bincount(leaf, column, tree.n_leaves) for column in part.T], axis=1)
            for part in (r, h)
        )
        V = down / np.maximum(bend + how.l2, SMALLEST * rows.weight.max())
    for halving in range(HALVINGS):
        size = how.rate * 0.5**halving
        shrunk = replace(tree, V=size * V, U=None if U is None else size * U)
        new = scores + shrunk.raw(rows.X)
        fallen = loss_of(rows, new, how.classes)
        if fallen < loss:
            return shrunk, new, fallen
    return None
