"""Compiled post-transforms have the bits of the reference's."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import raw_scores

from bitvec.core import transforms
from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.runtime.predict.cpu import exponentials
from bitvec.runtime.predict.cpu.few_rows import row_answers, row_links
from bitvec.runtime.predict.cpu.few_rows.calls import ScoresCall

EXPONENTIALS = (
    PostTransform.SIGMOID,
    PostTransform.LOGISTIC,
    PostTransform.SOFTMAX,
    PostTransform.EXPONENTIAL,
)
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]


def transformed(output, raw, out, *, n_threads=1):
    """Fill `out`; return how many rows the reference answered."""
    left = []

    def otherwise(raw, out):
        left.append(len(raw))
        transforms.transform(output, raw, out)

    fields = partial(row_answers.fields_of, output, None)
    n_bytes = output.n_outputs * output.dtype.itemsize
    ScoresCall(fields, output.dtype, n_bytes, n_threads).fill(raw, out, otherwise)
    return sum(left)


def same(output, raw, **options):
    expected = transforms.transform(output, raw)
    for out in (np.empty_like(expected), np.empty_like(expected.T).T):  # by rows, and by columns
        left = transformed(output, raw, out, **options)
        # Bits, but for those of NaN.
        assert np.array_equal(out, expected, equal_nan=True)
        assert np.array_equal(np.signbit(out[out == 0]), np.signbit(expected[expected == 0]))
    return left


@st.composite
def outputs_and_scores(draw):
    dtype = draw(st.sampled_from(DTYPES))
    groups = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    output = Output(
        sum(groups),
        dtype,
        post_transform=draw(st.sampled_from(list(PostTransform))),
        parameter=draw(st.sampled_from([1.0, 0.3, 2.5])),
        softmax_sum=draw(st.sampled_from(list(SoftmaxSum))),
        groups=groups,
    )
    return output, draw(raw_scores(dtype, sum(groups), least=0))


@given(outputs_and_scores())
def test_every_post_transform_has_the_bits_of_the_reference(drawn):
    same(*drawn)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", list(SoftmaxSum))
@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 15, 16, 17, 63, 100, 127, 128, 129, 300])
def test_sums_of_every_width_are_numpys(dtype, order, width):
    # So many rows that NumPy casts them in several buffers.
    raw = np.random.default_rng(width).normal(size=(20_000 // width + 3, width)) * 5
    output = Output(width, dtype, post_transform=PostTransform.SOFTMAX, softmax_sum=order)
    same(output, raw.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", EXPONENTIALS)
def test_the_number_of_threads_does_not_change_a_bit(dtype, kind):
    raw = np.random.default_rng(0).normal(size=(30_000, 3)).astype(dtype)
    raw[20_000] = np.nan
    same(Output(3, dtype, post_transform=kind), raw, n_threads=2)


@pytest.mark.parametrize("kind", EXPONENTIALS)
def test_scores_that_are_not_contiguous_are_left_to_the_reference(kind):
    raw = np.random.default_rng(0).normal(size=(9, 3))
    output = Output(3, DTYPES[1], post_transform=kind)
    same(output, np.asfortranarray(raw))
    same(output, np.repeat(raw, 2, axis=0)[::2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_the_c_librarys_exponentials_the_reference_answers(dtype, monkeypatch):
    monkeypatch.setattr(exponentials, "has_exponentials", lambda dtype: False)
    raw = np.random.default_rng(0).normal(size=(9, 3)).astype(dtype)
    for kind, order in itertools.product(EXPONENTIALS, SoftmaxSum):
        output = Output(3, dtype, post_transform=kind, softmax_sum=order)
        fields = row_links.fields_of(output)
        assert fields is None or "expf" not in fields
        same(output, raw)


def test_few_rows_around_a_score_that_is_left_to_the_reference_are_left_to_it():
    raw = np.zeros((30_000, 3))
    raw[20_000] = np.nan
    output = Output(3, DTYPES[1], post_transform=PostTransform.SOFTMAX)
    out = np.empty_like(raw)
    assert 0 < transformed(output, raw, out) < 10_000


def test_the_exponentials_agree_on_this_machine():
    # Not promised everywhere; where it fails, this module only costs time.
    if not all(map(exponentials.has_exponentials, DTYPES)):
        pytest.skip("NumPy's complex exponential is not the C library's here")
    assert 0 not in exponentials.c_exponentials()


def c_exp(x):
    """Return what a link makes of numbers."""
    kind, order = PostTransform.EXPONENTIAL, SoftmaxSum.IN_ORDER_C
    output = Output(1, x.dtype, post_transform=kind, softmax_sum=order)
    out = np.empty((x.size, 1), x.dtype)
    assert transformed(output, x[:, None], out) == 0
    return out[:, 0]


def float32_of(bits):
    return np.arange(*bits, dtype=np.uint32).view(np.float32)


def largest_bits(value):
    return int(np.float32(value).view(np.uint32))


@pytest.mark.parametrize("stride", [50_021, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("sign", [0, 1 << 31])
def test_exponentials_of_float32_have_the_reference_s_bits(stride, sign):
    # Every float32 up to where the result overflows or is 0, in strides or one by one.
    end = largest_bits(89.0 if sign == 0 else 105.0)
    step = 1 << 22
    for start in range(0, end, step * stride):
        last = min(start + step * stride, end)
        x = float32_of((sign + start, sign + last, stride))
        with np.errstate(over="ignore"):
            assert np.array_equal(c_exp(x), transforms.c_exp(x))


def test_every_float32_above_88_has_the_reference_s_bits():
    x = float32_of((largest_bits(88.0), largest_bits(88.8)))
    with np.errstate(over="ignore"):
        assert np.array_equal(c_exp(x), transforms.c_exp(x))


def test_exponentials_of_float64_have_the_reference_s_bits():
    x = np.random.default_rng(0).uniform(-750, 709, 200_000)
    assert np.array_equal(c_exp(x), transforms.c_exp(x))
