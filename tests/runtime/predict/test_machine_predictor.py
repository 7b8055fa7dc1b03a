"""A machine answers with the verbs of a predictor, and as the forest that it is an encoding of."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import forests_with_rows

from bitvec.core.forest import Forest
from bitvec.core.machine import ENCODINGS, from_forest
from bitvec.errors import BitvecError, InputError
from bitvec.runtime.predict.machine_predictor import MachinePredictor, compile
from bitvec.runtime.predict.predictor import VERBS, Predictor
from bitvec.runtime.predict.reference_engine import ReferenceEngine

LEFT_OUT = ("decision_path", "score_samples")


@given(forests_with_rows(), st.sampled_from(list(ENCODINGS)))
def test_every_verb_answers_as_the_forest(drawn, encoding):
    forest, X = drawn
    machine, plain = (
        compile(from_forest(forest, encoding)),
        Predictor(forest, ReferenceEngine(forest)),
    )
    for verb in VERBS:
        if verb in LEFT_OUT:
            continue
        with np.errstate(all="ignore"):
            try:
                expected = getattr(plain, verb)(X)
            except BitvecError as error:
                with pytest.raises(type(error)):
                    getattr(machine, verb)(X)
                continue
            found = getattr(machine, verb)(X)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def test_scikit_learns_trees_answer_through_a_machine_as_they_do():
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    from bitvec.converters.sklearn.read import convert

    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    predictor = compile(from_forest(convert(model)))
    assert np.array_equal(predictor.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(predictor.predict(X), model.predict(X))
    assert np.array_equal(predictor.apply(X), model.apply(X))
    assert np.array_equal(predictor.predict(iter([X[:5], X[5:]])), model.predict(X))
    with pytest.raises(InputError, match="infinity"):
        predictor.predict(np.full((1, 4), np.inf))


def test_there_is_no_path_not_even_through_a_copy():
    predictor = compile(from_forest(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])))
    for each in (predictor, copy.copy(predictor)):
        assert isinstance(each, MachinePredictor)
        with pytest.raises(BitvecError, match="no tree"):
            each.decision_path([[0.0, 1.0]])
        assert each.predict([[0.0, 1.0], [1.0, 1.0]]).tolist() == [10.0, 20.0]
    assert predictor.info()["engine"] == "machine"
    assert "DecisionMachine" in repr(predictor)


def test_only_a_machine_is_compiled():
    with pytest.raises(TypeError, match="DecisionMachine"):
        compile(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
