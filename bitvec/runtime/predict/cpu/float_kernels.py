"""Loops over float32 that compilers turn into vector instructions: exponentials, sums, AdamW.

exp and log of a compiled loop are calls of the C library, one for each number. Those here are made
of products, sums and whole numbers, and good to a few units in the last place.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np
from numba import njit

from bitvec.runtime.predict.cpu.compiling import inner

F = np.float32
LOWEST = F(-87.0)
"""exp of less would be a subnormal number."""
FARTHEST = F(-46.0)
"""Least of −|gamma · margin|; the lesser share is then 1e-20. Products of less would be subnormal
numbers, which take a hundred times as long."""
LOG2_E, LN2_HIGH, LN2_LOW = F(1.44269504), F(0.693359375), F(-2.12194440e-4)
"""Products of whole numbers up to 127 and LN2_HIGH are exact."""
HALF, ONE, TWO, ZERO = F(0.5), F(1), F(2), F(0)
E2, E3, E4, E5, E6, E7 = (F(1 / math.factorial(n)) for n in range(2, 8))
A1, A2, A3, A4, A5, A6, A7 = (F(1 / (2 * n + 1)) for n in range(1, 8))


@inner
def fill_exp(x, filled, bits):
    """Fill exp(x) of float32 that are at most 0.

    Parameters
    ----------
    x, filled : float32, (n,)
        Apart from each other: where they might overlap, no vectors are used.
    bits : int32, (n,)
        Scratch.
    """
    for i in range(x.size):
        u = max(x[i], LOWEST)
        k = np.floor(u * LOG2_E + HALF)
        r = (u - k * LN2_HIGH) - k * LN2_LOW
        series = ((((E7 * r + E6) * r + E5) * r + E4) * r + E3) * r + E2
        filled[i] = (series * r) * r + r + ONE
        bits[i] = (np.int32(k) + np.int32(127)) << np.int32(23)  # the float32 2^k
    scale = bits.view(np.float32)
    for i in range(x.size):
        filled[i] *= scale[i]


@inner
def fill_log1p(t, filled):
    """Fill log(1 + t) of float32 from 0 to 1: 2 artanh(s), with s = t / (2 + t) up to 1 / 3."""
    for i in range(t.size):
        s = t[i] / (TWO + t[i])
        q = s * s
        series = (((((A7 * q + A6) * q + A5) * q + A4) * q + A3) * q + A2) * q + A1
        filled[i] = TWO * (s + s * q * series)


@inner
def fill_softplus(value, slope, far, small, bits):
    """Turn values into their softplus log(1 + exp z), and fill in its slope σ(z).

    Parameters
    ----------
    value, slope : float32, (n,)
    far, small : float32, (n,)
        Scratch, as is `bits`, int32.
    """
    for i in range(value.size):
        far[i] = -abs(value[i])
    fill_exp(far, small, bits)
    fill_log1p(small, slope)
    for i in range(value.size):
        positive = max(value[i], ZERO) + slope[i]
        slope[i] = (ONE if value[i] > ZERO else small[i]) / (ONE + small[i])
        value[i] = positive


@inner
def fill_turns(margin, gamma, to_left, to_right, far, small, bits):
    """Fill the shares that turn left and right, σ(∓ gamma · margin).

    Parameters
    ----------
    margin, to_left, to_right : float32, (n,)
    far, small : float32, (n,)
        Scratch, as is `bits`, int32.
    """
    for i in range(margin.size):
        far[i] = max(-abs(gamma * margin[i]), FARTHEST)
    fill_exp(far, small, bits)
    for i in range(margin.size):
        to_right[i] = (ONE if margin[i] > ZERO else small[i]) / (ONE + small[i])
    for i in range(margin.size):  # which 1 less the other would round
        to_left[i] = (small[i] if margin[i] > ZERO else ONE) / (ONE + small[i])


@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def dot(a, b):
    """Return the inner product of two arrays, summed in as many parts as a vector has places."""
    total = ZERO
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def total(a):
    """Return the sum of an array, summed likewise."""
    result = ZERO
    for i in range(a.size):
        result += a[i]
    return result


@njit(error_model="numpy", fastmath={"contract"})
def add_scaled(target, factor, a):
    """Add factor · a to a target, both (n,)."""
    for i in range(a.size):
        target[i] += factor * a[i]


@njit(error_model="numpy", fastmath={"contract"})
def add_products(target, factors, columns):
    """Add the sum over j of factors[j] · columns[j] to a target, four columns in each pass.

    Parameters
    ----------
    target : (n,)
    factors : (n_columns,)
    columns : (n_columns, n)
    """
    n_columns = factors.size
    for j in range(0, n_columns - 3, 4):
        f, g, h, k = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        a, b, c, d = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        for i in range(target.size):
            target[i] += f * a[i] + g * b[i] + h * c[i] + k * d[i]
    for j in range(n_columns - n_columns % 4, n_columns):
        add_scaled(target, factors[j], columns[j])


@inner
def adamw(parameter, gradient, mean, square, rate, decay, step, first, second, epsilon):
    """Move float32 by a step of AdamW, the step-th from 1, and its moments.

    Parameters
    ----------
    parameter, gradient, mean, square : float32, (n,)
    rate, decay, first, second, epsilon : float64
        The decay is decoupled, and times the rate (Loshchilov and Hutter, 2019, Algorithm 2).
    """
    kept, a, b = F(1 - rate * decay), F(first), F(second)
    unbiased, root = F(rate / (1 - first**step)), F(1 / math.sqrt(1 - second**step))
    least = F(epsilon)
    for i in range(parameter.size):
        g = gradient[i]
        m = a * mean[i] + (ONE - a) * g
        s = b * square[i] + (ONE - b) * g * g
        mean[i], square[i] = m, s
        parameter[i] = kept * parameter[i] - unbiased * m / (np.sqrt(s) * root + least)
