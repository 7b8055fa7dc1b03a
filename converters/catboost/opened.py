"""What a CatBoost model is opened from: a JSON file, a fitted object, or a binary file.

An object writes its own JSON into a private folder. A binary file is read by the library, first in
a child process: its reader is C++ and a damaged file may end the process that reads it.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bitvec.converters.catboost.document import Document, parse
from bitvec.converters.catboost.nested import Nested
from bitvec.converters.naming import naming
from bitvec.errors import (
    FileFormatError,
    MissingLibraryError,
    UnsupportedModelError,
)

MAGIC: Final = b"CBM1"
"""How CatBoost's binary files begin."""
SECONDS: Final = 600
"""How long the library may read a binary file."""

_READ: Final = "import catboost, sys; catboost.CatBoost().load_model(sys.argv[1], format='cbm')"


@dataclass(frozen=True, slots=True)
class Opened:
    """A model document and where it came from.

    Parameters
    ----------
    name : str
        For messages.
    document : JSON object
    nested : Nested
        The nodes and leaves of its nested trees.
    fitted : object, optional
        The library's own object; None for a JSON file.
    labels : bool, optional
        Whether that object answers with labels; None where its class does not say.
    """

    name: str
    document: Document
    nested: Nested
    fitted: Any = None
    labels: bool | None = None


def library(purpose: str) -> Any:
    """Return the catboost library.

    Raises
    ------
    MissingLibraryError
        If it is not installed.
    """
    try:
        import catboost
    except ImportError as error:
        raise MissingLibraryError("catboost", "catboost", purpose) from error
    return catboost


def open_model(model: Any) -> Opened:
    """Open a path or a fitted object."""
    if not isinstance(model, str | PathLike):
        name = type(model).__name__
        with naming(name):
            return _opened(name, model)
    path = Path(model)
    with naming(str(path)):
        data = path.read_bytes()
        if data.startswith(MAGIC):
            return _opened(str(path), _read_binary(path))
        return Opened(str(path), *parse(data))


def _read_binary(path: Path) -> Any:
    catboost = library("reading a binary CatBoost model")
    command = [sys.executable, "-c", _READ, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise FileFormatError(f"a model must be read within {SECONDS} seconds.") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it crashed"]
        raise FileFormatError(
            f"a binary CatBoost model must be one that catboost reads, got: {lines[-1][:300]}."
        )
    return catboost.CatBoost().load_model(str(path), format="cbm")


def _opened(name: str, model: Any) -> Opened:
    if not hasattr(model, "save_model") or not hasattr(model, "is_fitted"):
        raise UnsupportedModelError(
            "a model must be a path, or a CatBoost, CatBoostClassifier, CatBoostRegressor or "
            f"CatBoostRanker, got an object of class {type(model).__name__}."
        )
    if not model.is_fitted():
        raise UnsupportedModelError("the model must be fitted, got one without trees: call fit.")
    _refuse_texts(model)
    catboost = library("saving a CatBoost model")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except catboost.CatBoostError as error:
            raise UnsupportedModelError(
                f"a model must be one that CatBoost can save as JSON, got: {error}."
            ) from error
        document, nested = parse(path.read_bytes())
    kinds = {
        "CatBoostClassifier": True,
        "CatBoostRegressor": False,
        "CatBoostRanker": False,
    }
    found = [kinds[cls.__name__] for cls in type(model).__mro__ if cls.__name__ in kinds]
    return Opened(name, document, nested, model, found[0] if found else None)


def _refuse_texts(model: Any) -> None:
    for kind in ("text", "embedding"):
        asked = getattr(model, f"get_{kind}_feature_indices", None)
        used = [] if asked is None else list(asked())
        if used:
            names = [repr(str(model.feature_names_[column])) for column in used]
            raise UnsupportedModelError(
                f"a model must read numbers and categories only, got the {kind} features "
                f"{', '.join(names[:8])}, whose calculations a forest cannot hold."
            )
