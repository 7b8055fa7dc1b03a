"""Opening of CatBoost models: JSON files, fitted objects and binary files.

An object writes its own JSON into a private folder, and so does the object that the library makes
of a binary file. For `convert` it does that in a child process (`bitvec.verify.workers`): its
reader is C++, and a damaged file may end the process that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bitvec.converters.catboost.format import MAGIC
from bitvec.converters.catboost.model_json import Document, parse
from bitvec.converters.catboost.nested import Nested
from bitvec.converters.naming import naming
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError, needs
from bitvec.verify import workers


@dataclass(frozen=True, slots=True)
class Grown:
    """Arrays of an object's trees that are not oblivious, whose leaves keep the order of growth.

    `steps` and `named`, one array for each tree, are None of a CatBoost that does not show them.
    """

    leaf_values: Array
    steps: list[Array] | None
    named: list[Array] | None


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
        The library's own object; None for a file.
    grown : Grown, optional
        None for a JSON file and for oblivious trees.
    labels : bool, optional
        Whether that object answers with labels; None where its class does not say.
    """

    name: str
    document: Document
    nested: Nested
    fitted: Any = None
    labels: bool | None = None
    grown: Grown | None = None


def library(purpose: str) -> Any:
    """Return the catboost library.

    Raises
    ------
    MissingLibraryError
        If it is not installed.
    """
    with needs("catboost", "catboost", purpose):
        import catboost
    return catboost


def open_model(model: Any) -> Opened:
    """Open a path or a fitted object; catboost reads a binary file in a child process."""
    if not isinstance(model, str | PathLike):
        return opened_here(model)
    path = Path(model)
    with naming(str(path)):
        data = path.read_bytes()
        if not data.startswith(MAGIC):
            return Opened(str(path), *parse(data))
    document, *grown = workers.opened(path, "CatBoost", __name__, "exported")
    with naming(str(path)):
        return Opened(str(path), *parse(document), grown=Grown(*grown) if grown else None)


def opened_here(model: Any) -> Opened:
    """Open a path or a fitted object; catboost reads a binary file in this process."""
    if not isinstance(model, str | PathLike):
        name = type(model).__name__
        with naming(name):
            return _opened(name, model)
    path = Path(model)
    with naming(str(path)):
        data = path.read_bytes()
        if not data.startswith(MAGIC):
            return Opened(str(path), *parse(data))
        return _opened(str(path), _loaded(path))


def exported(path: str) -> tuple[Any, ...]:
    """Return the JSON of a binary file, with the fields of `Grown` if its trees are not oblivious.

    It runs in a child process.
    """
    with naming(path):
        fitted = _loaded(Path(path))
        data = _json(fitted)
        grown = _grown(fitted, parse(data)[0])
    return (data,) if grown is None else (data, grown.leaf_values, grown.steps, grown.named)


def _loaded(path: Path) -> Any:
    catboost = library("Reading a binary CatBoost model")
    try:
        return catboost.CatBoost().load_model(str(path), format="cbm")
    except catboost.CatBoostError as error:
        said = " ".join(str(error).split())[:300]
        raise FileFormatError(
            f"a binary CatBoost model must be one that catboost reads, got: {said}."
        ) from error


def _opened(name: str, model: Any) -> Opened:
    if not hasattr(model, "save_model") or not hasattr(model, "is_fitted"):
        raise UnsupportedModelError(
            "a model must be a path, or a CatBoost, CatBoostClassifier, CatBoostRegressor or "
            f"CatBoostRanker, got an object of class {type(model).__name__}."
        )
    if not model.is_fitted():
        raise UnsupportedModelError("the model must be fitted, got one without trees: call fit.")
    data = _json(model)
    document, nested = parse(data)
    kinds = {
        "CatBoostClassifier": True,
        "CatBoostRegressor": False,
        "CatBoostRanker": False,
    }
    found = [kinds[cls.__name__] for cls in type(model).__mro__ if cls.__name__ in kinds]
    labels = found[0] if found else None
    return Opened(name, document, nested, model, labels, _grown(model, document))


def _json(model: Any) -> bytes:
    _refuse_texts(model)
    catboost = library("Saving a CatBoost model")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except catboost.CatBoostError as error:
            raise UnsupportedModelError(
                f"a model must be one that CatBoost can save as JSON, got: {error}."
            ) from error
        return path.read_bytes()


def _grown(fitted: Any, document: Document) -> Grown | None:
    if "oblivious_trees" in document:
        return None
    values = np.asarray(fitted.get_leaf_values(), np.float64)
    steps = getattr(fitted, "_get_tree_step_nodes", None)
    named = getattr(fitted, "_get_tree_node_to_leaf", None)
    if steps is None or named is None:
        return Grown(values, None, None)
    trees = range(fitted.tree_count_)
    return Grown(
        values,
        [np.array(steps(tree), np.int64).reshape(-1, 2) for tree in trees],
        [np.array(named(tree), np.int64) for tree in trees],
    )


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
