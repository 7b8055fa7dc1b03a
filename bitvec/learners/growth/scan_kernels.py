"""The exact search for the threshold of least impurity, over all cuts between margins."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel


@inner
def entropy(left, total):
    """Return Σ −n ln(n / N) over both sides of a cut, by classes, in nats times weight."""
    n_left, n_right = 0.0, 0.0
    result = 0.0
    for k in range(left.size):
        a = left[k]
        b = max(total[k] - a, 0.0)
        n_left += a
        n_right += b
        if a > 0:
            result -= a * np.log(a)
        if b > 0:
            result -= b * np.log(b)
    if n_left > 0:
        result += n_left * np.log(n_left)
    if n_right > 0:
        result += n_right * np.log(n_right)
    return max(result, 0.0)


@inner
def squared_error(left, total, square):
    """Return the squared errors of both sides of a cut about their means, all outputs together.

    `left` and `total` hold the weight, then Σ w y by output; `square` is Σ w y².
    """
    result = square
    n_right = total[0] - left[0]
    for k in range(1, left.size):
        if left[0] > 0:
            result -= left[k] * left[k] / left[0]
        if n_right > 0:
            right = total[k] - left[k]
            result -= right * right / n_right
    return max(result, 0.0)


@kernel
def best_entropy(margin, start, code, weight, n_classes, cost, low, high):
    """Find, for each node, the cut between two distinct margins of least weighted entropy.

    Parameters
    ----------
    margin, code, weight : (n_rows,)
        Rows sorted by node: node j has start[j] ... start[j + 1].
    cost, low, high : float64, (n_nodes,)
        Filled with the entropy of both sides together, in nats times weight, and the margins that
        the cut lies between; the first cut of several that are best. Infinity where there is none.

    Notes
    -----
    O(n log n + n · n_classes) for a node of n rows.
    """
    left, total = np.zeros(n_classes), np.zeros(n_classes)
    for j in range(start.size - 1):
        first = start[j]
        x = margin[first : start[j + 1]]
        cost[j], low[j], high[j] = np.inf, np.inf, np.inf
        if not np.all(np.isfinite(x)):
            continue
        order = np.argsort(x)
        left[:] = 0
        total[:] = 0
        for k in range(x.size):
            total[code[first + k]] += weight[first + k]
        for k in range(x.size - 1):
            row = first + order[k]
            left[code[row]] += weight[row]
            a, b = x[order[k]], x[order[k + 1]]
            if a < b:
                found = entropy(left, total)
                if found < cost[j]:
                    cost[j], low[j], high[j] = found, a, b


@kernel
def best_squared_error(margin, start, Y, weight, cost, low, high):
    """Find, for each node, the cut between two distinct margins of least squared error.

    Parameters
    ----------
    Y : float64, (n_rows, n_outputs)
        Values less some constant near their mean in each node, which keeps digits.

    Notes
    -----
    As `best_entropy` in all else.
    """
    n_outputs = Y.shape[1]
    left, total = np.zeros(n_outputs + 1), np.zeros(n_outputs + 1)
    for j in range(start.size - 1):
        first = start[j]
        x = margin[first : start[j + 1]]
        cost[j], low[j], high[j] = np.inf, np.inf, np.inf
        if not np.all(np.isfinite(x)):
            continue
        order = np.argsort(x)
        left[:] = 0
        total[:] = 0
        square = 0.0
        for k in range(x.size):
            w = weight[first + k]
            total[0] += w
            for o in range(n_outputs):
                y = Y[first + k, o]
                total[o + 1] += w * y
                square += w * y * y
        for k in range(x.size - 1):
            row = first + order[k]
            left[0] += weight[row]
            for o in range(n_outputs):
                left[o + 1] += weight[row] * Y[row, o]
            a, b = x[order[k]], x[order[k + 1]]
            if a < b:
                found = squared_error(left, total, square)
                if found < cost[j]:
                    cost[j], low[j], high[j] = found, a, b
