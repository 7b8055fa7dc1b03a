"""Mutation test of certificates: no forest that differs from its source in one field passes."""

from __future__ import annotations

import pytest
from sklearn.tree import DecisionTreeRegressor

import bitvec
from benchmarks.exactness.mutant_models import models, rows
from benchmarks.exactness.mutants import Mutant, mutants
from benchmarks.exactness.verdicts import CAUGHT, EQUIVALENT, WRONG, sampled, verdict
from bitvec.certification import oracle_of
from bitvec.verify.oracle import Oracle

LIBRARIES = {
    "scikit-learn": "sklearn",
    "xgboost": "xgboost",
    "LightGBM": "lightgbm",
    "CatBoost": "catboost",
    "treelite": "treelite",
    "ONNX": "onnxruntime",
    "YDF": "ydf",
    "native": "bitvec",
}
SAMPLE = 19
"""Mutants of each library in the quick run."""
LEAST_IN_FULL = 5000


def assert_none_passes_wrongly(library: str, n: int | None) -> int:
    """No mutant of the library's small models passes unless it is the same function."""
    pytest.importorskip(LIBRARIES[library])
    verdicts = sampled(library, n)
    wrong = [name for name, found in verdicts if found == WRONG]
    assert not wrong
    assert any(found == CAUGHT for _, found in verdicts)
    return len(verdicts)


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_sampled_mutant_passes(library: str) -> None:
    assert assert_none_passes_wrongly(library, SAMPLE) == SAMPLE


@pytest.mark.full
def test_no_mutant_passes() -> None:
    assert sum(assert_none_passes_wrongly(library, None) for library in LIBRARIES) >= LEAST_IN_FULL


UNSTATED = {("YDF", "SQUARED_ERROR"), ("YDF", "GradientBoostedTrees, oblique, number")}
"""YDF shows no loss of a regression, of which one has an exponential link."""


@pytest.mark.parametrize("library", LIBRARIES)
def test_trees_of_every_library_state_their_link(library: str) -> None:
    pytest.importorskip(LIBRARIES[library])
    for name, made in models(library).items():
        trees = oracle_of(made()).trees
        assert trees is not None
        stated = "post_transform" in trees().stated
        assert stated == ((library, name) not in UNSTATED), name


@pytest.fixture(scope="module")
def grown() -> tuple[bitvec.Forest, object]:
    """A tree, and what answers for it."""
    X, y = rows()
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, y)
    return bitvec.convert(model), oracle_of(model)


def test_mutants_differ_from_the_forest_in_every_field_of_its_nodes(grown) -> None:
    forest, _ = grown
    names = [mutant.name for mutant in mutants(forest)]
    assert len(set(names)) == len(names)
    for field in ("column", "b", "relation", "missing_right", "missing_rule", "kind"):
        for node in range(forest.n_nodes):
            assert any(name.startswith(f"tests.{field}[{node}]") for name in names)
    for leaf in range(forest.n_leaves):
        assert sum(name.startswith(f"leaves.v[({leaf}, 0)] one ulp") for name in names) == 2


def test_a_change_that_no_row_shows_is_equivalent_and_another_is_caught(grown) -> None:
    forest, source = grown
    of_name = {mutant.name: mutant for mutant in mutants(forest)}
    assert verdict(of_name["output.softmax_sum is in_order"], forest, source) == EQUIVALENT
    assert verdict(of_name["tests.relation[0] flipped"], forest, source) == CAUGHT


def test_a_certificate_that_asks_nothing_lets_mutants_pass_wrongly(grown) -> None:
    forest, _ = grown
    blind = [mutant for mutant in mutants(forest) if mutant.name == "leaves.v[(0, 0)] one ulp up"]
    assert verdict(blind[0], forest, answering_as(blind[0])) == WRONG


def answering_as(mutant: Mutant) -> Oracle:
    """What answers as the mutant itself does, in place of its model."""
    wrong = bitvec.compile(mutant.make(), engine="reference")
    number = mutant.make().source.leaf_id
    return Oracle(
        "mutant",
        "0",
        wrong.raw,
        lambda X: number[wrong.exit_leaves(X)],
        "source",
        accepts_infinite=False,
    )
