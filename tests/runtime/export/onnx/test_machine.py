"""Laws of a machine's ONNX form: onnxruntime exits and answers as `bitvec.core.machine` does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, SET, forests, forests_with_rows

from bitvec.converters.onnx.session import OnnxEngine
from bitvec.core import machine as machines
from bitvec.core.feature_maps import Identity
from bitvec.core.forest import Forest
from bitvec.core.machine import ENCODINGS, from_forest, on_grid
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.machine_form import to_onnx

STANDARD = (AXIS, OBLIQUE, SET, EQUAL, KERNEL)
DTYPES = [np.float32, np.float64]


def moved(machine, seed, amount=0.3):
    """Return a machine whose B and c have all moved, and tie nowhere but by chance."""
    rng = np.random.default_rng(seed)
    dtype = machine.B.dtype
    B = machine.B + amount * rng.normal(size=machine.B.size).astype(dtype)
    c = machine.c + amount * rng.normal(size=machine.c.size).astype(dtype)
    B, c = on_grid(B.astype(dtype), c.astype(dtype), machine.leaf_ptr)
    return replace(machine, B=B, c=c)


def assert_same(machine, X):
    engine = OnnxEngine(to_onnx(machine, leaves=True))
    assert np.array_equal(engine.exit_leaves(X), machines.exit_leaves(machine, X))
    with np.errstate(all="ignore"):
        expected = machines.raw(machine, X)
    found = engine.raw(X)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25)
@given(forests_with_rows(kinds=STANDARD), st.sampled_from(list(ENCODINGS)))
def test_encoded_forests_exit_and_answer_bit_for_bit(dtype, drawn, encoding):
    forest, X = drawn
    assert_same(from_forest(forest, encoding, dtype=dtype), X)


@pytest.mark.parametrize("dtype", DTYPES)
@given(forests_with_rows(kinds=STANDARD), st.integers(0, 2**32 - 1))
def test_machines_of_any_B_exit_and_answer_bit_for_bit(dtype, drawn, seed):
    forest, X = drawn
    assert_same(moved(from_forest(forest, dtype=dtype), seed), X)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_of_fractions_stay_ties(dtype):
    """1/2 + 1/4 against 3/4: were a sum rounded, the second leaf could win."""
    stumps = Forest.from_matrices(np.eye(2), [0, 0], [[0, 0], [0, 1], [1, 1]], [1, 2, 3])
    machine = from_forest(stumps, dtype=dtype)
    third = float(on_grid(np.array([1 / 3, 1], dtype), np.zeros(2, dtype), np.array([0, 2]))[0][0])
    B = np.array([third, 1 - third, 1.0, 0.0, 0.5, 0.5], dtype)
    tied = replace(machine, B=B, c=np.zeros(3, dtype))
    X = np.array([[1.0, 1.0]])
    assert machines.scores(tied, np.ones((1, 2), bool)).tolist() == [[1.0, 1.0, 1.0]]
    assert_same(tied, X)
    assert OnnxEngine(to_onnx(tied, leaves=True)).exit_leaves(X).tolist() == [[0]]


@pytest.mark.parametrize("n_threads", [1, 4])
def test_a_large_block_is_exact_on_any_number_of_threads(n_threads):
    rng = np.random.default_rng(0)
    n = 300
    B = 1 - np.eye(n, n - 1)  # a chain: the left child of node j is leaf j
    chain = Forest.from_matrices(
        rng.normal(size=(n - 1, 4)), rng.normal(size=n - 1), B, np.arange(n)
    )
    machine = moved(from_forest(chain, dtype=np.float32), 1, amount=3.0)
    X = rng.normal(size=(200, 4))
    engine = OnnxEngine(to_onnx(machine, leaves=True), n_threads=n_threads)
    exits = machines.exit_leaves(machine, X)
    assert len(np.unique(exits)) > 10
    assert np.array_equal(engine.exit_leaves(X), exits)


@pytest.mark.parametrize("n_rows", [0, 1, 1025])
def test_any_number_of_rows_goes_through(n_rows):
    forest = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    X = np.linspace(-1, 1, n_rows)[:, None]
    assert_same(from_forest(forest), X)


def test_lone_leaves_need_no_test():
    forest = Forest.from_matrices(np.zeros((0, 1)), [], np.zeros((1, 0)), [7])
    assert_same(from_forest(forest), np.zeros((2, 1)))


@settings(max_examples=10)
@given(forests(kinds=STANDARD))
def test_the_model_is_valid_and_of_standard_operators(forest):
    model = to_onnx(from_forest(forest))
    onnx.checker.check_model(model, full_check=True)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 21)]
    assert {p.key: p.value for p in model.metadata_props}["bitvec.form"] == "tensor"


def test_what_the_form_cannot_hold_is_refused():
    forest = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1, 2])
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        to_onnx(from_forest(forest.take([])))
    with pytest.raises(UnsupportedModelError, match="feature map"):
        to_onnx(from_forest(replace(forest, feature_map=Identity(1))))
