"""Binned columns of thresholds at the ends of the floats: exact, and made without a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bitvec.core import reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, Relation, axis_aligned
from bitvec.core.output import Output
from bitvec.runtime.predict.cpu.engine import NumbaEngine

DTYPES = (np.float32, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("forest_dtype", DTYPES)
@pytest.mark.parametrize("kernel", ["chain", "perfect"])
def test_thresholds_that_no_value_reaches_give_no_warning(kernel, forest_dtype, dtype):
    greatest = np.finfo(forest_dtype).max
    above, from_here = Relation.GREATER, Relation.GREATER_EQUAL
    nodes = [
        (np.inf, above, Kind.MARGIN),
        (np.inf, from_here, Kind.MARGIN),
        (greatest, above, Kind.MARGIN),
        (-np.inf, above, Kind.MARGIN),
        (-np.inf, from_here, Kind.MARGIN),
        (np.inf, above, Kind.EQUAL),
        (0.1, above, Kind.EQUAL),
    ]
    b, relation, kind = (np.array(part) for part in zip(*nodes, strict=True))
    n = b.size
    every = np.arange(n)
    for missing_right in (False, True):
        forest = Forest(
            axis_aligned(
                np.zeros(n, int),
                b.astype(forest_dtype),
                relation=relation,
                kind=kind,
                missing_right=missing_right,
            ),
            structure.from_children(~(2 * every), ~(2 * every + 1), every),
            Leaves(2.0 ** np.arange(2 * n)[:, None]),
            Output(1, np.dtype(np.float64)),
            Inputs(1),
        )
        most = np.finfo(dtype).max
        with np.errstate(over="ignore"):
            ends = np.array([greatest, -greatest, 0.1], np.float64).astype(dtype)
        X = np.append(ends, np.array([-np.inf, -most, 0, most, np.inf, np.nan], dtype))[:, None]
        expected = reference.raw(forest, X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = NumbaEngine(forest, kernel=kernel).raw(X)
        assert np.array_equal(answer, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("forest_dtype", DTYPES)
@pytest.mark.parametrize("kernel", ["chain", "perfect"])
@pytest.mark.parametrize("apart", [1, 3, 9])
def test_columns_of_every_number_of_thresholds(kernel, forest_dtype, dtype, apart):
    # Stumps; columns side by side are read by whole windows, those far apart one by one.
    rng = np.random.default_rng(0)
    sizes = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 31, 32, 63, 64, 127, 128, 255])
    column = np.repeat(apart * np.arange(sizes.size), sizes)
    b = rng.permutation(column.size).astype(forest_dtype) / 7 - 40
    every = np.arange(b.size)
    forest = Forest(
        axis_aligned(
            column,
            b,
            relation=rng.integers(0, 2, b.size),
            missing_right=rng.random(b.size) < 0.5,
        ),
        structure.from_children(~(2 * every), ~(2 * every + 1), every),
        Leaves(rng.integers(-99, 99, (2 * b.size, 1)).astype(float)),
        Output(1, np.dtype(np.float64)),
        Inputs(apart * sizes.size),
    )
    X = rng.choice(b, (300, forest.n_features)).astype(dtype)
    X = np.where(rng.random(X.shape) < 0.2, np.nextafter(X, np.inf, dtype=dtype), X)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.1] = np.inf
    expected = reference.raw(forest, X)
    engine = NumbaEngine(forest, kernel=kernel)
    for n in (1, 15, 16, 63, 64, 65, 300):
        for rows in (X[:n], np.asfortranarray(X[:n]), np.repeat(X[:n], 2, axis=1)[:, ::2]):
            assert np.array_equal(engine.raw(rows), expected[:n])
