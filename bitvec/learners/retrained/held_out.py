"""Which rows are held out to choose by, and how rows are taken from what holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from bitvec.core.arrays import Array
from bitvec.runtime.predict.frames import as_frame


def held_out(
    n_rows: int, share: float, random: Any, classes: Int64[Array, " n_rows"] | None = None
) -> Bool[Array, " n_rows"]:
    """Draw the rows to hold out: a share of all rows, and of each class as nearly as can be.

    Of each class at least one row is not held out, so that what is fitted knows them all.

    Parameters
    ----------
    random : numpy.random.RandomState
    classes : int64, (n_rows,), optional
        The number of each row's class, from 0.

    Examples
    --------
    >>> drawn = held_out(8, 0.25, np.random.RandomState(0), np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    >>> int(drawn[:4].sum()), int(drawn[4:].sum())
    (1, 1)
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
    return drawn


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame, whose columns have names and may hold categories."""
    if isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "tocsr"):
        return False
    return as_frame(X) is not None


def take_rows(X: Any, rows: Int64[Array, " n"]) -> Any:
    """Return some rows of an array, a CSR matrix or a data frame, in a container of its kind."""
    if is_frame(X):
        return as_frame(X)[rows].to_native()
    return X[rows]
