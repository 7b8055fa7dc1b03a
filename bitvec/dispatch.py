"""Which module answers for a model or a file: one static table, no library imported to look."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from bitvec.errors import UnsupportedModelError


@dataclass(frozen=True, slots=True)
class Format:
    """A source of models: the packages whose classes it handles, the suffixes of its files."""

    name: str
    module: str
    packages: tuple[str, ...]
    suffixes: tuple[str, ...]


FORMATS = (
    Format("scikit-learn", "bitvec.converters.sklearn", ("sklearn",), ()),
    Format("scikit-learn file", "bitvec.converters.sklearn.skops", (), (".skops",)),
    Format("xgboost", "bitvec.converters.xgboost", ("xgboost",), (".json", ".ubj", ".ubjson")),
    Format("LightGBM", "bitvec.converters.lightgbm", ("lightgbm",), (".txt",)),
    Format("treelite", "bitvec.converters.treelite", ("treelite",), (".tl", ".treelite")),
    Format("ONNX", "bitvec.converters.onnx", ("onnx",), (".onnx",)),
)

PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth")


def is_path(model: Any) -> bool:
    """Return whether `model` names a file."""
    return isinstance(model, str | Path)


def format_of(model: Any) -> Format:
    """Return the format of a model object, by the package of its class, or of a path, by suffix.

    Raises
    ------
    UnsupportedModelError
        If no converter handles it.
    """
    if is_path(model):
        return _format_of_path(Path(model))
    for cls in type(model).__mro__:
        package = cls.__module__.partition(".")[0]
        for candidate in FORMATS:
            if package in candidate.packages:
                return candidate
    known = ", ".join(f.name for f in FORMATS if f.packages)
    raise UnsupportedModelError(
        f"a model must come from one of {known}, got an object of class "
        f"{type(model).__module__}.{type(model).__qualname__}."
    )


def _format_of_path(path: Path) -> Format:
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        raise UnsupportedModelError(
            f"{path} looks like a pickle, which is never loaded because it can run code: "
            "save a scikit-learn model with skops.io.dump(model, 'model.skops'), an xgboost model "
            "with save_model('model.ubj'), or pass the model object to bitvec.convert."
        )
    for candidate in FORMATS:
        if suffix in candidate.suffixes:
            return candidate
    known = ", ".join([s for f in FORMATS for s in f.suffixes] + [".safetensors"])
    raise UnsupportedModelError(
        f"a model file must end in one of {known}, got {path}: save the model in its library's own "
        "format first."
    )


def converter(model: Any) -> ModuleType:
    """Return the converter module of a model or path; it offers `convert` and `subject`."""
    return import_module(format_of(model).module)
