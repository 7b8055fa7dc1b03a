"""Hold-out split: a share of the rows, and of each class, drawn to choose a model by."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Int64

LEAST_ROWS = 2
"""Rows that each part needs, to train on and to choose by."""


def held_out(
    n_rows: int,
    share: float,
    random: np.random.Generator | np.random.RandomState,
    classes: Int64[Array, " n_rows"] | None = None,
    *,
    least: int = LEAST_ROWS,
) -> Bool[Array, " n_rows"]:
    """Draw the rows to hold out: a share of all rows, and of each class as nearly as can be.

    Of each class at least one row is not held out, so that what is fitted knows them all. No row is
    held out where one of the two parts would have fewer than `least`. Rows are drawn one by
    one, whatever their weight or group: pass rows of your own as `validation` where rows belong
    together.

    Parameters
    ----------
    share : float
        Above 0; the number of rows is rounded, halves to the even number.
    random : numpy.random.Generator or numpy.random.RandomState
    classes : int64, (n_rows,), optional
        The number of each row's class, from 0, to hold out a share of each.
    least : int
        Rows of each part.

    Returns
    -------
    bool, (n_rows,)
        Whether a row is held out.

    Examples
    --------
    >>> drawn = held_out(8, 0.25, np.random.default_rng(0), np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    >>> int(drawn[:4].sum()), int(drawn[4:].sum())
    (1, 1)
    >>> int(held_out(100, 0.15, np.random.default_rng(0)).sum())
    15
    >>> int(held_out(3, 0.5, np.random.default_rng(0)).sum())
    0
    """
    group = np.zeros(n_rows, np.int64) if classes is None else classes
    count = np.bincount(group, minlength=1)
    quota = share * count
    take = np.floor(quota).astype(np.int64)
    # The largest remainders get one row more each; among equal ones it is drawn which.
    order = random.permutation(count.size)
    order = order[np.argsort((take - quota)[order], kind="stable")]
    take[order[: max(round(share * n_rows) - int(take.sum()), 0)]] += 1
    take = np.minimum(take, np.maximum(count - 1, 0))
    shuffled = random.permutation(n_rows)
    shuffled = shuffled[np.argsort(group[shuffled], kind="stable")]
    place = np.arange(n_rows) - np.repeat(np.cumsum(count) - count, count)
    drawn = np.zeros(n_rows, bool)
    drawn[shuffled] = place < np.repeat(take, count)
    n_drawn = int(take.sum())
    return drawn if min(n_drawn, n_rows - n_drawn) >= least else np.zeros(n_rows, bool)
