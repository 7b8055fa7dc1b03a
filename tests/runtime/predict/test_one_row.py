"""One row takes the engine's shorter way if and only if it is what that way is made for."""

from __future__ import annotations

import copy
import pickle
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest

from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output
from bitvec.core.source import Source
from bitvec.errors import BitvecError, InputError
from bitvec.runtime.predict import subnormals
from bitvec.runtime.predict.engine import Engine, OneRowEngine
from bitvec.runtime.predict.predictor import Predictor, compile
from bitvec.runtime.predict.reference_engine import ReferenceEngine

HOOKED = ("raw", "exit_leaves", "predict", "predict_proba")


class Short(ReferenceEngine):
    """A reference that answers one row by a constant array."""

    def one_row(self, method):
        answer = np.array([7.0])
        return (lambda X: answer) if method in HOOKED else None


class Scores(Short):
    """An engine that has a shorter way for raw scores only."""

    def one_row(self, method):
        return super().one_row(method) if method == "raw" else None


class Labels(Short):
    """An engine that has none for raw scores."""

    def one_row(self, method):
        return super().one_row(method) if method != "raw" else None


def stump(**options):
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    return replace(forest, **options)


def is_short(answer):
    return answer.tolist() == [7.0]


ROW = np.array([[1.0, 2.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("verb", HOOKED)
def test_a_row_of_native_floats_takes_the_shorter_way(verb, dtype):
    predictor = Predictor(stump(), Short(stump()))
    assert isinstance(predictor.engine, Engine)
    assert isinstance(predictor.engine, OneRowEngine)
    assert is_short(getattr(predictor, verb)(ROW.astype(dtype)))


def read_only(X):
    X.flags.writeable = False
    return X


OTHERS = {
    "two rows": np.ones((2, 2)),
    "no rows": np.ones((0, 2)),
    "a list": [[1.0, 2.0]],
    "whole numbers": np.array([[1, 2]]),
    "half floats": ROW.astype("f2"),
    "another byte order": ROW.astype(ROW.dtype.newbyteorder()),
    "every other column": np.ones((1, 4))[:, ::2],
    "reversed": ROW[:, ::-1],
    "read-only": read_only(ROW.copy()),
    "masked": np.ma.masked_array(ROW),
    "unaligned": np.zeros(1, [("skip", "u1"), ("x", "f8", 2)])["x"],
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_is_a_table_takes_the_long_way(name):
    X = OTHERS[name]
    predictor = Predictor(stump(), Short(stump()))
    expected = compile(stump(), engine="reference")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for verb in ("raw", "exit_leaves", "predict"):
            assert np.array_equal(getattr(predictor, verb)(X), getattr(expected, verb)(X))


def test_a_row_that_does_not_fit_is_refused_as_ever():
    predictor = Predictor(stump(), Short(stump()))
    for X, match in ((np.ones((1, 3)), "2 features"), (np.ones(2), "two axes"), (None, "NoneType")):
        with pytest.raises(InputError, match=match):
            predictor.predict(X)


def test_an_array_to_fill_takes_the_long_way():
    predictor = Predictor(stump(), Short(stump()))
    assert predictor.raw(ROW, out=np.empty((1, 1))).tolist() == [[20.0]]


def test_a_method_without_a_shorter_way_takes_the_long_way():
    predictor = Predictor(stump(), Scores(stump()))
    assert is_short(predictor.raw(ROW))
    assert predictor.predict(ROW).tolist() == [20.0]


def test_several_targets_take_the_long_way():
    classes = (np.array([1, 2]), np.array([3, 4]))
    output = Output(4, np.dtype(np.float64), classes=classes, groups=(2, 2))
    forest = stump(leaves=Leaves(np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]])), output=output)
    predictor = Predictor(forest, Labels(forest))
    assert predictor.predict(ROW).tolist() == [[2, 4]]
    assert [part.tolist() for part in predictor.predict_proba(ROW)] == [[[0, 1]], [[0, 1]]]
    assert is_short(predictor.exit_leaves(ROW))


def test_a_thread_that_rounds_subnormals_is_refused_on_the_short_way_too(monkeypatch):
    monkeypatch.setattr("bitvec.runtime.predict.predictor.SUBNORMAL", 0.0)
    monkeypatch.setattr(subnormals, "SUBNORMAL", 0.0)
    with pytest.raises(BitvecError, match="subnormal"):
        Predictor(stump(), Short(stump())).predict(ROW)


def refusing(**marks):
    source = Source("sklearn", "1.9.1", "RandomForestRegressor", metadata=marks)
    return stump(source=source)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("forest_dtype", [np.float32, np.float64])
def test_what_the_source_refuses_is_refused_in_one_row_too(dtype, forest_dtype):
    forest = refusing(refuses_missing=True, refuses_infinite=True)
    forest = replace(forest, tests=axis_aligned([0], np.array([0.5], forest_dtype)))
    predictor = Predictor(forest, Short(forest))
    assert is_short(predictor.predict(ROW.astype(dtype)))
    largest = np.finfo(dtype).max
    fits = min(largest, np.finfo(forest.dtype).max)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_short(predictor.predict(np.array([[fits, fits]], dtype)))
    for value, match in ((np.nan, "contains NaN"), (np.inf, "infinity"), (-np.inf, "infinity")):
        for row in ([[1, value]], [[value, -value]]):
            with pytest.raises(InputError, match=match):
                predictor.predict(np.array(row, dtype))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_have_the_shorter_way(copied):
    assert is_short(copied(Predictor(stump(), Short(stump()))).predict(ROW))


@pytest.mark.full
def test_a_call_costs_little_beside_the_shorter_way():
    # Of the fastest of many short runs, on this thread's clock: a loaded machine slows the others.
    forest = stump()
    predictor, hook = Predictor(forest, Short(forest)), Short(forest).one_row("predict")
    n = 20_000

    def fastest(call):
        times = []
        for _ in range(25):
            start = time.thread_time_ns()
            for _ in range(n):
                call(ROW)
            times.append((time.thread_time_ns() - start) / n)
        return min(times)

    assert fastest(predictor.predict) - fastest(hook) < 600  # ns; about 200 on a fast machine
