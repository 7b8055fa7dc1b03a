"""Laws of the walker of ONNX operators: its trees give onnxruntime's sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from proof_laws import assert_proved, assert_proved_alone, some_in_full
from walker_laws import catalogue, rows_about, summed

pytest.importorskip("onnxruntime")

from bitvec.converters.onnx.model_oracle import oracle_of
from bitvec.converters.onnx.operator_answers import MERGED
from bitvec.converters.onnx.read import convert
from bitvec.errors import UnsupportedModelError
from tests.models.onnx import MODELS as CATALOGUE
from tests.models.onnx import train

MODELS = catalogue("test_onnx_reader")
FILES = catalogue("test_onnx_reader_files")
LAWS = {
    "regressors": MODELS.test_regressors_of_all_modes_mixed_give_onnxruntimes_scores,
    "classifiers": MODELS.test_classifiers_give_onnxruntimes_scores_and_labels,
    "version 5": MODELS.test_version_5_of_all_modes_and_sets_gives_onnxruntimes_scores,
}
CHAINS = [[2], [2, 3], [0, 1], [31, 32, 33], [5, 100, 7, 64, 1000]]


def drawn(law: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The models that one of the reader's laws draws from a seed, of those that convert.

    Those whose chains onnxruntime may take for one test are left out: it shows no trees of them.
    """
    built: list[Any] = []
    make = MODELS.graph_of

    def keep(*args: Any, **kwargs: Any) -> Any:
        built.append(make(*args, **kwargs))
        return built[-1]

    monkeypatch.setattr(MODELS, "graph_of", keep)
    LAWS[law].hypothesis.inner_test(seed)
    converted = [model for model in built if _converts(model)]
    return [model for model in converted if MERGED not in oracle_of(model).notes]


def _converts(model: Any) -> bool:
    try:
        convert(model)
    except UnsupportedModelError:
        return False
    return True


def assert_proved_and_sums_as_onnxruntime(model: Any) -> None:
    """The trees give onnxruntime's raw scores, and prove the forest."""
    answers, forest = oracle_of(model), convert(model)
    assert answers.trees is not None
    trees = answers.trees()
    X = rows_about(trees, 30)
    with np.errstate(all="ignore"):
        raw = answers.raw(X)
        got = summed(trees, X, forest.n_outputs).astype(raw.dtype)
    np.testing.assert_array_equal(got, raw)
    assert_proved_alone(forest, answers)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("law", LAWS)
def test_trees_of_all_modes_give_onnxruntimes_sums(law, seed, monkeypatch):
    for model in drawn(law, seed, monkeypatch):
        assert_proved_and_sums_as_onnxruntime(model)


@pytest.mark.parametrize("name", some_in_full([(name,) for name in CATALOGUE], one_in=3))
def test_models_of_the_catalogue_are_proved_and_sum_as_onnxruntime(name: str) -> None:
    assert_proved_and_sums_as_onnxruntime(train(CATALOGUE[name]))


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("codes", CHAINS, ids=str)
def test_chains_stay_the_nodes_of_the_file(codes, flag):
    model = MODELS.chain([float(code) for code in codes], [flag] * len(codes))
    assert_proved_and_sums_as_onnxruntime(model)
    trees = oracle_of(model).trees()
    assert trees.tests.n_nodes == len(codes) + 1


def test_no_other_forest_is_proved():
    chained = MODELS.chain([2.0, 3.0, 33.0])
    assert_proved(convert(chained), oracle_of(chained))
    for kind in FILES.KINDS:
        model = FILES.operator(kind)
        assert_proved(convert(model), oracle_of(model))


@pytest.mark.parametrize("ml", [1, 3, 5])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_the_link_of_every_version_is_the_forests(transform, ml):
    values = np.array([[0.25, 0.5], [0.75, 0.125]], np.float32)
    model = MODELS.table_of(values, transform, ml)
    assert_proved_alone(convert(model), oracle_of(model))
