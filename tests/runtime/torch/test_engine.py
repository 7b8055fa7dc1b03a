"""The torch engine is the reference, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import forests, rows

from bitvec import reference
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.engine import Engine  # noqa: E402
from bitvec.runtime.torch.engine import TorchEngine  # noqa: E402

GEMM_LEAVES = st.sampled_from([0, 4, 4096])
"""All walked, both, all as products with B."""


def assert_same_bits(got, expected):
    assert got.dtype == expected.dtype
    # A NaN's payload is nobody's promise; every other value is compared by its bits.
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(got), nan)
    assert got[~nan].tobytes() == expected[~nan].tobytes()


@settings(max_examples=60)
@given(st.data(), GEMM_LEAVES)
def test_exit_leaves_are_those_of_the_reference(data, gemm_leaves):
    forest = data.draw(forests())
    X = data.draw(rows(forest))
    exits = TorchEngine(forest, gemm_leaves=gemm_leaves).exit_leaves(X)
    assert exits.dtype == np.int32
    assert np.array_equal(exits, reference.exit_leaves(forest, X))


@settings(max_examples=60)
@given(st.data(), GEMM_LEAVES)
def test_raw_scores_have_the_bits_of_the_reference(data, gemm_leaves):
    forest = data.draw(forests(soft=data.draw(st.booleans())))
    X = data.draw(rows(forest))
    got = TorchEngine(forest, gemm_leaves=gemm_leaves).raw(X)
    with np.errstate(invalid="ignore"):
        assert_same_bits(got, reference.raw(forest, X))


@settings(max_examples=60)
@given(st.data())
def test_blocks_do_not_change_the_answer(data):
    forest = data.draw(forests(max_leaves=8))
    X = data.draw(rows(forest))
    engine = TorchEngine(forest)
    whole = engine.exit_leaves(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bitvec.runtime.torch.engine.BLOCK", 100)
        assert np.array_equal(engine.exit_leaves(X), whole)


@settings(max_examples=60)
@given(st.data())
def test_the_layout_of_X_does_not_matter(data):
    forest = data.draw(forests())
    X = data.draw(rows(forest))
    engine = TorchEngine(forest)
    assert np.array_equal(engine.exit_leaves(np.asfortranarray(X)), engine.exit_leaves(X))
    assert engine.exit_leaves(X[:0]).shape == (0, forest.n_trees)
    assert engine.raw(X[:0]).shape == (0, forest.n_outputs)


@settings(max_examples=60)
@given(forests(max_leaves=70))
def test_info_tells_products_from_walks(forest):
    engine = TorchEngine(forest, gemm_leaves=8)
    n_leaves = np.diff(forest.bitvectors.leaf_ptr)
    assert engine.info["gemm_trees"] == np.count_nonzero((n_leaves > 1) & (n_leaves <= 8))
    assert engine.info["traversal_trees"] == np.count_nonzero(n_leaves > 8)
    assert isinstance(engine, Engine)


@settings(max_examples=60)
@given(forests(max_leaves=4))
def test_a_wrong_number_of_columns_is_refused(forest):
    with pytest.raises(InputError, match="must have"):
        TorchEngine(forest).raw(np.zeros((2, forest.n_features + 1)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@settings(max_examples=60)
@given(st.data(), GEMM_LEAVES)
def test_a_gpu_has_the_bits_of_the_reference(data, gemm_leaves):
    forest = data.draw(forests())
    X = data.draw(rows(forest))
    engine = TorchEngine(forest, "cuda", gemm_leaves=gemm_leaves)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    with np.errstate(invalid="ignore"):
        assert_same_bits(engine.raw(X), reference.raw(forest, X))
