"""Laws of xgboost's walker: its trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

from pathlib import Path

import pytest
from proof_laws import assert_proved
from walker_laws import assert_walks_to_the_leaves_of

pytest.importorskip("xgboost")

from bitvec.converters.xgboost.oracle import oracle_of
from bitvec.converters.xgboost.read import convert
from tests.models.xgboost import VERSION, Model, of_frame, train, trained


def test_categories_of_a_frame_are_proved(tmp_path: Path) -> None:
    model, path = of_frame()[0], tmp_path / "model.ubj"
    model.save_model(path)
    for source in (model, path):
        assert_walks_to_the_leaves_of(oracle_of(source), 40)
        assert_proved(convert(source), oracle_of(source))


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
