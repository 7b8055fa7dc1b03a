"""A LightGBM model as a text, with what its scikit-learn wrapper says of its use."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from bitvec.converters.lightgbm.model_text import ModelText, parse
from bitvec.converters.naming import naming
from bitvec.core.arrays import Array
from bitvec.errors import UnsupportedModelError


@dataclass(frozen=True, slots=True)
class Opened:
    """A model text, and what the scikit-learn wrapper that it came from says about its use."""

    name: str
    """For messages."""
    text: ModelText
    wrapped: bool = False
    labels: Array | None = None


def open_model(model: Any) -> Opened:
    """Read a file, a Booster or a wrapper; an object is saved to memory and read the same way."""
    if isinstance(model, (str, PathLike)):
        path = Path(model)
        with naming(str(path)):
            return Opened(str(path), parse(path.read_bytes()))
    name = type(model).__name__
    with naming(name):
        booster = booster_of(model)
        text = parse(booster.model_to_string().encode())
        if booster is model:
            return Opened(name, text)
        _check_wrapper(model)
        # By a custom objective LGBMClassifier predicts raw scores, not labels.
        is_custom = text.header.get("objective", "custom") == "custom"
        labels = None if is_custom else getattr(model, "classes_", None)
        return Opened(name, text, True, labels)


def booster_of(model: Any) -> Any:
    """Return the Booster of a Booster or of a fitted wrapper."""
    if hasattr(model, "model_to_string"):
        return model
    if not hasattr(type(model), "booster_"):
        raise UnsupportedModelError(
            "`model` must be a path, a lightgbm Booster or a scikit-learn wrapper of lightgbm."
        )
    if not model.__sklearn_is_fitted__():
        raise UnsupportedModelError("the model must be fitted, got one without trees: call fit.")
    return model.booster_


def _check_wrapper(model: Any) -> None:
    """Refuse a wrapper whose own parameters change what it predicts."""
    options = model.get_params()
    for option in ("pred_early_stop", "start_iteration_predict", "num_iteration_predict"):
        if options.get(option):
            raise UnsupportedModelError(
                f"the wrapper must predict with all of its trees, got {option}="
                f"{options[option]!r}: set it to None, or convert `model.booster_`."
            )
