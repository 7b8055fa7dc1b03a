"""Answers are written into the caller's array, whatever its strides, or it is refused."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import forests_with_rows

from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.errors import InputError
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.predictor import compile

ENGINES = ["numba", "reference"]
VERBS = (
    "raw",
    "scores",
    "predict",
    "predict_proba",
    "decision_function",
    "exit_leaves",
    "apply",
    "per_tree",
    "tree_contributions",
)


def stump():
    """x0 > 0.5 ? 20 : 10, with one more column that is not read."""
    return Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


def classifier(labels=("a", "b", "c")):
    output = Output(
        3,
        np.dtype(np.float32),
        post_transform=PostTransform.SOFTMAX,
        softmax_sum=SoftmaxSum.IN_ORDER,
        classes=(np.array(labels),),
    )
    v = np.array([[1.0, 0.0, 3.0], [-1.0, 2.0, 0.5]], np.float32)
    return replace(stump(), leaves=Leaves(v), output=output)


X = np.array([[0.0, 9.0], [1.0, 8.0], [0.5, 7.0], [np.nan, 6.0], [np.inf, 5.0]])


def layouts(answer):
    """Arrays of an answer's shape and dtype: C- and F-ordered, strided and reversed."""
    rows, *rest = answer.shape
    wide = np.empty((2 * rows, *rest), answer.dtype)
    return [
        np.empty(answer.shape, answer.dtype),
        np.empty(answer.shape, answer.dtype, order="F"),
        wide[::2],
        wide[::-2],
        np.empty((*answer.shape, 2), answer.dtype)[..., 1],
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_method_fills_an_array_of_any_strides_and_returns_it(engine, verb):
    answer = getattr(compile(classifier(), engine=engine), verb)
    expected = answer(X)
    for out in layouts(expected):
        assert answer(X, out=out) is out
        assert np.array_equal(out, expected)


@settings(max_examples=25)
@given(forests_with_rows())
def test_a_filled_array_holds_the_bits_of_a_new_one(drawn):
    forest, rows = drawn
    predictor = compile(forest, n_jobs=1)
    with np.errstate(all="ignore"):
        for verb in ("raw", "predict", "exit_leaves", "per_tree"):
            expected = getattr(predictor, verb)(rows)
            out = np.empty(expected.shape, expected.dtype, order="F")
            getattr(predictor, verb)(rows, out=out)
            assert np.array_equal(out, expected, equal_nan=expected.dtype.kind == "f")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda out: out.tolist(), "got list"),
        (lambda out: out.astype("O"), "got dtype object"),
        (lambda out: out[:, None], "got shape"),
        (lambda out: out[1:], "5 rows of `X`, got 4"),
        (lambda out: np.repeat(out, 2, axis=0), "5 rows of `X`, got 10"),
        (lambda out: np.broadcast_to(out, out.shape), "read-only"),
    ],
)
def test_an_array_that_cannot_hold_the_answer_is_refused_in_one_sentence(verb, spoil, match):
    answer = getattr(compile(classifier()), verb)
    with pytest.raises(InputError, match=match) as caught:
        answer(X, out=spoil(answer(X)))
    assert "`out`" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_byte_order_or_width_is_another_dtype():
    predictor = compile(stump())
    for dtype in (">f8", "f4", "i8"):
        with pytest.raises(InputError, match="must be a writeable array of dtype float64"):
            predictor.raw(X, out=np.empty((5, 1), dtype))


def test_elements_that_share_memory_are_refused():
    one = np.empty((1, 1))
    repeated = np.lib.stride_tricks.as_strided(one, (5, 1), (0, 8))
    with pytest.raises(InputError, match="elements share memory"):
        compile(stump()).raw(X, out=repeated)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_array_that_overlaps_the_rows_is_refused(n_jobs):
    predictor = compile(stump(), n_jobs=n_jobs)
    both = np.zeros((6, 3))
    with pytest.raises(InputError, match="share no memory with `X`"):
        predictor.raw(both[:, :2], out=both[:, 1:2])
    with pytest.raises(InputError, match="share no memory with `X`"):
        predictor.predict(both[::-1, :2], out=both[:, 0])
    assert predictor.raw(both[:, :2], out=both[:, 2:]).tolist() == [[10.0]] * 6
    assert both[:, 2].tolist() == [10.0] * 6, "columns beside those of X are apart from it"


def test_an_array_that_overlaps_a_frame_or_a_sparse_matrix_is_refused():
    pd, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    predictor = compile(stump())
    memory = np.zeros((4, 2))
    with pytest.raises(InputError, match="share no memory"):
        predictor.predict(pd.DataFrame(memory, copy=False), out=memory[:, 0])
    csr = sparse.csr_matrix(np.ones((4, 2)))
    with pytest.raises(InputError, match="share no memory"):
        predictor.predict(csr, out=csr.data[::2])


def test_an_array_may_overlap_rows_that_were_read_before():
    # A list becomes an array of its own.
    column = np.zeros(2)
    assert compile(stump()).predict([[1, 0], [0, 0]], out=column) is column
    assert column.tolist() == [20.0, 10.0]


def test_probabilities_of_several_targets_go_into_a_list_of_arrays():
    output = Output(
        5,
        np.dtype(np.float64),
        classes=(np.array([4, 5]), np.array([7, 8, 9])),
        groups=(2, 3),
    )
    v = np.array([[1.0, 0, 0, 0.25, 0.75], [0.25, 0.75, 1, 0, 0]])
    predictor = compile(replace(stump(), leaves=Leaves(v), output=output))
    expected = predictor.predict_proba(X)
    out = [np.empty((5, 2)), np.empty((5, 3), order="F")]
    got = predictor.predict_proba(X, out=out)
    assert all(a is b for a, b in zip(got, out, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(out, expected, strict=True))
    labels = np.empty((5, 2), np.int64)
    assert np.array_equal(predictor.predict(X, out=labels), predictor.predict(X))
    for wrong in (out[0], out[:1], [out[0], np.empty((5, 2))], [X[:, :2], out[1]]):
        with pytest.raises(InputError, match="`out`"):
            predictor.predict_proba(X, out=wrong)


@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_an_answer_for_no_rows_and_one_row_is_written_too(n_rows):
    predictor = compile(classifier())
    for verb in VERBS:
        expected = getattr(predictor, verb)(X[:n_rows])
        out = np.empty(expected.shape, expected.dtype)
        assert getattr(predictor, verb)(X[:n_rows], out=out) is out
        assert np.array_equal(out, expected)


def test_rows_that_are_converted_fill_it_part_by_part(monkeypatch):
    monkeypatch.setattr(tables, "PART_BYTES", 2 * 8 * 2)  # two rows at a time
    predictor = compile(classifier())
    rows = np.array([[0, 1], [1, 1], [2, 0], [0, 0], [1, 0]])
    for verb in VERBS:
        expected = getattr(predictor, verb)(rows.astype(np.float64))
        out = np.empty(expected.shape, expected.dtype)
        assert np.array_equal(getattr(predictor, verb)(rows, out=out), expected)


def test_labels_of_text_are_written_whole():
    predictor = compile(classifier(("short", "a much longer label", "c")))
    out = np.empty(5, "U19")
    assert predictor.predict(X, out=out).tolist() == predictor.predict(X).tolist()
    with pytest.raises(InputError, match="dtype <U19"):
        predictor.predict(X, out=np.empty(5, "U5"))


def test_nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile(stump()).raw(np.array([[1e300, -1e300]]), out=np.empty((1, 1)))
