"""Builtins of few rows answer what the Python functions do for which they stand."""

from __future__ import annotations

import gc
import pickle
import sys
from types import BuiltinFunctionType

import numpy as np
import pytest
from hypothesis import given
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from strategies import AXIS, examples, forests_with_rows

import bitvec
from bitvec.errors import InputError
from bitvec.runtime.predict.cpu.few_rows import builtin
from bitvec.runtime.predict.predictor import Predictor, compile

VERBS = ["predict", "predict_proba", "raw", "scores", "exit_leaves", "apply", "decision_function"]

ROWS, TARGET = make_classification(300, 12, n_informative=8, n_classes=3, random_state=0)
ROWS = ROWS.astype(np.float32)


@pytest.fixture(scope="module", params=["forest", "tree", "texts"])
def predictor(request) -> Predictor:
    model = DecisionTreeClassifier(max_depth=6, random_state=0)
    if request.param == "forest":
        model = RandomForestClassifier(5, random_state=0)
    labels = np.array(["oak", "birch", "äsp"]) if request.param == "texts" else np.arange(3)
    return compile(bitvec.convert(model.fit(ROWS, labels[TARGET])))


@examples(40)
@given(forests_with_rows(kinds=AXIS))
def test_answers_have_the_bits_of_the_reference(drawn):
    forest, X = drawn
    fast, slow = compile(forest), compile(forest, engine="reference")
    verbs = VERBS if forest.output.is_classifier else [v for v in VERBS if v != "predict_proba"]
    for verb in verbs:
        for n in (1, 2, 8, 9):
            for dtype in (np.float32, np.float64):
                with np.errstate(over="ignore"):
                    part = X[:n].astype(dtype)
                got, expected = getattr(fast, verb)(part), getattr(slow, verb)(part)
                assert got.dtype == expected.dtype
                np.testing.assert_array_equal(got, expected)
                assert type(got) is np.ndarray
                assert got.flags.owndata
                assert got.flags.writeable


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_all_layouts_are_answered(predictor, verb, dtype):
    answer = getattr(predictor, verb)
    X = ROWS[:3].astype(dtype)
    expected = answer(X)
    read_only = X.copy()
    read_only.flags.writeable = False
    shifted = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(dtype).reshape(X.shape)
    assert not shifted.flags.aligned
    others = [X.tolist(), np.asfortranarray(X), X.astype(X.dtype.newbyteorder()), np.matrix(X)]
    others += [np.repeat(X, 2, axis=0)[::2], np.hstack([X, X])[:, :12], read_only, shifted]
    for other in [*others, pickle.loads(pickle.dumps(X)), np.ma.array(X)]:
        np.testing.assert_array_equal(answer(other), expected)
    assert answer(X[:0]).shape == (0, *expected.shape[1:])


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (ROWS[:1, :5], "12 features"),
        (ROWS[0], "two axes"),
        (ROWS[None], "two axes"),
        ("x", "table of rows"),
        (None, "table of rows"),
        (np.full((1, 12), np.inf, np.float32), "infinity"),
        (np.full((2, 12), 1e300), "too large"),
    ],
)
def test_what_does_not_fit_is_refused_as_before(predictor, X, match):
    predictor.predict(ROWS[:1])
    predictor.predict(ROWS[:1].astype(np.float64))
    for _ in range(3):
        with pytest.raises(InputError, match=match):
            predictor.predict(X)
    np.testing.assert_array_equal(predictor.predict(ROWS[:1]), predictor.predict(ROWS)[:1])


def test_a_builtin_takes_one_array_and_no_more(predictor):
    few = predictor._few["raw"]
    assert isinstance(few, BuiltinFunctionType)
    for arguments in ((), (ROWS[:1], ROWS[:1])):
        with pytest.raises(TypeError):
            few(*arguments)
    with pytest.raises(TypeError):
        few(X=ROWS[:1])


def test_references_are_neither_lost_nor_kept(predictor):
    X, refused = ROWS[:1].copy(), np.full((1, 12), np.inf, np.float32)
    few = predictor._few["raw"]
    answer = few(X)
    assert sys.getrefcount(answer) == 2
    assert predictor._few["predict"](refused) is None  # which loads what it runs
    gc.collect()
    before = [sys.getrefcount(each) for each in (X, None, np.ndarray, X.dtype, few.__self__)]
    for _ in range(2000):
        few(X)
        assert predictor._few["predict"](refused) is None
    after = [sys.getrefcount(each) for each in (X, None, np.ndarray, X.dtype, few.__self__)]
    assert np.abs(np.subtract(after, before)).max() < 50  # the test's own
    alone = compile(predictor.forest)._few["raw"]
    gc.collect()
    np.testing.assert_array_equal(alone(X), answer)


def test_there_is_none_where_the_fields_of_arrays_are_not_as_they_are_read(predictor, monkeypatch):
    builtin._make.cache_clear()
    monkeypatch.setattr(builtin, "NUMBER", 32)
    try:
        plain = compile(predictor.forest)
    finally:
        builtin._make.cache_clear()
    assert not isinstance(plain._few["raw"], BuiltinFunctionType)
    np.testing.assert_array_equal(plain.raw(ROWS[:1]), predictor.raw(ROWS[:1]))
