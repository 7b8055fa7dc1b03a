"""Laws of xgboost's walker: its trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from proof_laws import assert_proved, some_in_full
from walker_laws import assert_walks_to_the_leaves_of

pytest.importorskip("xgboost")

from bitvec.converters.xgboost.oracle import oracle_of
from bitvec.converters.xgboost.read import convert
from tests.models.xgboost import MODELS, VERSION, Model, of_frame, train, trained

FITTED: dict[str, Callable[[], Any]] = {
    **{name: partial(trained, name) for name in MODELS},
    "categories of a frame": lambda: of_frame()[0],
}


@pytest.mark.parametrize("name", some_in_full([(name,) for name in FITTED], one_in=7))
def test_trees_lead_to_the_leaves_of_the_library_and_prove_the_conversion(
    name: str, tmp_path: Path
) -> None:
    model = FITTED[name]()
    assert_walks_to_the_leaves_of(oracle_of(model), 40)
    assert_proved(convert(model), oracle_of(model))
    path = tmp_path / "model.ubj"
    model.save_model(path)
    assert_proved(convert(path), oracle_of(path))


def test_a_stopped_wrapper_its_booster_and_its_file_state_the_trees_that_answer(
    tmp_path: Path,
) -> None:
    model = trained("stopped")
    model.save_model(tmp_path / "model.json")
    whole = assert_proved(convert(model.get_booster()), oracle_of(model.get_booster()))
    for stopped in (model, tmp_path / "model.json"):
        trees = assert_proved(convert(stopped), oracle_of(stopped))
        assert trees.root.size == model.best_iteration + 1 < whole.root.size


def test_a_base_score_is_the_margin_that_the_library_adds(tmp_path: Path) -> None:
    # Older versions do not clip, which is refused.
    for base in (0.5, 0.1, 0.9, *([1e-7] if VERSION >= (3, 2) else [])):
        model = train(Model({"objective": "binary:logistic", "base_score": base}, "two", 1))
        got, want = oracle_of(model).trees().stated["base_score"], convert(model).output.base_score
        assert got.tobytes() == want.tobytes()
