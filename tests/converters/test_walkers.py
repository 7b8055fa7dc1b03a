"""Laws of all walkers: their trees lead rows to the library's leaves, and prove conversions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from proof_laws import assert_proved, some_in_full
from walker_laws import accepted, assert_walks_to_the_leaves_of, rows_about, summed


def _texts(model: Any, path: Path) -> None:
    import_module("tests.models.catboost").saved(model, path)


class Library(NamedTuple):
    """How the models of a catalogue are saved, if one file is as good as the object.

    Parameters
    ----------
    one_in : int
        Of so many models one is met without `-m full`.
    rtol : float, optional
        How far the library's sums may be from those of the leaves; none if they are not compared.
    """

    save: Callable[[Any, Path], object] | None = None
    suffix: str = ""
    one_in: int = 36
    rtol: float | None = None


LIBRARIES = {
    "sklearn": Library(one_in=36, rtol=0),
    "xgboost": Library(lambda model, path: model.save_model(path), ".ubj"),
    "lightgbm": Library(
        lambda model, path: getattr(model, "booster_", model).save_model(path), ".txt"
    ),
    "catboost": Library(_texts, ".json"),
    "treelite": Library(lambda model, path: model.serialize(str(path)), ".tl", 8, 0),
    # QuickScorer adds the trees to the initial prediction: at most 8 sums round otherwise.
    "ydf": Library(lambda model, path: model.save(str(path)), "", 9, 1e-6),
}
NAMES: dict[str, list[str]] = {}
for name in LIBRARIES:
    try:
        NAMES[name] = [*import_module(f"tests.models.{name}").MODELS]
    except ImportError:
        continue
EACH = [
    case
    for name, models in NAMES.items()
    for case in some_in_full([(name, model) for model in models], LIBRARIES[name].one_in)
]


def trained(library: str, name: str) -> Any:
    catalogue = import_module(f"tests.models.{library}")
    if library == "catboost":
        return catalogue.train(catalogue.MODELS[name], catalogue.with_texts(), iterations=4)
    return catalogue.trained(name)


@pytest.mark.parametrize(("library", "name"), EACH)
def test_trees_lead_to_the_leaves_and_sums_of_the_library_and_prove_the_conversion(
    library: str, name: str, tmp_path: Path
) -> None:
    about, model = LIBRARIES[library], trained(library, name)
    room = import_module(f"bitvec.converters.{library}.oracle")
    convert = import_module(f"bitvec.converters.{library}.read").convert
    oracle = room.oracle_of(model)
    if oracle.trees is None:  # trees that may hold their base score are walked all the same
        walker = import_module(f"bitvec.converters.{library}.walker")
        oracle = replace(oracle, trees=partial(walker.source_trees, model))
    trees = assert_walks_to_the_leaves_of(oracle, 40)
    assert_proved(convert(model), oracle)
    if about.rtol is not None:
        X = accepted(oracle, rows_about(trees, 30, seed=1))
        first = library == "sklearn"
        total, raw = summed(trees, X, oracle.n_outputs, base_first=first), oracle.raw(X)
        np.testing.assert_allclose(total.astype(raw.dtype), raw, rtol=about.rtol, atol=about.rtol)
    if about.save is not None:
        path = tmp_path / f"model{about.suffix}"
        about.save(model, path)
        assert_walks_to_the_leaves_of(room.oracle_of(path), 40)
        assert_proved(convert(path), room.oracle_of(path))
