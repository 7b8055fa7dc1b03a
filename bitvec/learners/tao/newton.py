"""A linear support vector machine of few columns by Newton's method, from the present weights on.

    minimise  ½ ‖(w, β)‖² + C Σ c_n max(0, 1 − s_n (w · x_n + β))²,   s_n = ±1,

the problem that LIBLINEAR solves for L2 regularisation and squared hinges, the offset regularised.
For the tens of columns and hundreds of rows of a node it takes microseconds where LIBLINEAR's
wrapper takes milliseconds, starts from the node's own weights, and shares no random state between
threads.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel


@inner
def margins_of(Z, rows, mean, scale, w, m):
    """Fill in w · x + β of rows, whose columns are standardised."""
    p = Z.shape[1]
    for k in range(rows.size):
        total = w[p]
        for j in range(p):
            total += w[j] * ((Z[rows[k], j] - mean[j]) / scale[j])
        m[k] = total


@inner
def value_of(w, m, s, weight, C):
    """Return the objective."""
    value = 0.0
    for j in range(w.size):
        value += 0.5 * w[j] * w[j]
    for k in range(m.size):
        short = 1.0 - s[k] * m[k]
        if short > 0:
            value += C * weight[k] * short * short
    return value


@inner
def solve(H, g):
    """Overwrite g with H⁻¹ g, and H with its Cholesky factor; H is positive definite."""
    n = g.size
    for i in range(n):
        for j in range(i + 1):
            total = H[i, j]
            for k in range(j):
                total -= H[i, k] * H[j, k]
            H[i, j] = np.sqrt(total) if i == j else total / H[j, j]
    for i in range(n):
        for k in range(i):
            g[i] -= H[i, k] * g[k]
        g[i] /= H[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            g[i] -= H[k, i] * g[k]
        g[i] /= H[i, i]


@inner
def derivatives(Z, rows, mean, scale, s, weight, C, w, m, H, g, x):
    """Fill in the gradient and the lower half of the generalised Hessian: O(n p²)."""
    p = Z.shape[1]
    H[:] = 0.0
    for j in range(p + 1):
        g[j], H[j, j] = w[j], 1.0
    x[p] = 1.0
    for k in range(rows.size):
        short = 1.0 - s[k] * m[k]
        if short <= 0:
            continue
        for j in range(p):
            x[j] = (Z[rows[k], j] - mean[j]) / scale[j]
        slope, bend = 2.0 * C * weight[k] * s[k] * short, 2.0 * C * weight[k]
        for i in range(p + 1):
            g[i] -= slope * x[i]
            bent = bend * x[i]
            for j in range(i + 1):
                H[i, j] += bent * x[j]


@kernel
def newton_svm(Z, rows, mean, scale, s, weight, C, tol, max_iter, w):
    """Move w, (n_features + 1,) with β last, to the minimum; return the number of steps.

    Newton's method for a piecewise quadratic, with step halving; it ends at the minimum itself once
    the rows within the margin no longer change. Cost of a step: O(n p² + p³).
    """
    p = Z.shape[1]
    m, new_m = np.empty(rows.size), np.empty(rows.size)
    H, g, x = np.empty((p + 1, p + 1)), np.empty(p + 1), np.empty(p + 1)
    new = np.empty(p + 1)
    margins_of(Z, rows, mean, scale, w, m)
    value = value_of(w, m, s, weight, C)
    for step in range(max_iter):
        derivatives(Z, rows, mean, scale, s, weight, C, w, m, H, g, x)
        new[:] = g
        solve(H, g)
        gain = 0.0
        for j in range(p + 1):
            gain += new[j] * g[j]
        if not gain > tol * value:
            return step
        size = 1.0
        for _ in range(30):
            for j in range(p + 1):
                new[j] = w[j] - size * g[j]
            margins_of(Z, rows, mean, scale, new, new_m)
            moved = value_of(new, new_m, s, weight, C)
            if moved <= value - 1e-4 * size * gain:
                break
            size *= 0.5
        else:
            return step
        w[:] = new
        m[:] = new_m
        value = moved
    return max_iter
