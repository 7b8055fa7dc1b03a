"""An xgboost model as a document, with what its scikit-learn wrapper says of its use."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from bitvec.converters.naming import naming
from bitvec.converters.xgboost.document import Document, label_array, member, parse
from bitvec.converters.xgboost.format import spark_prefix
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError

HEAD: Final = 256
"""Bytes by which a prefix is told from a model."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model document, and what the scikit-learn wrapper that it came from says about its use."""

    name: str
    """For messages."""
    document: Document
    wrapped: bool = False
    classifies: bool | None = None
    """None leaves it to the objective."""
    labels: Array | None = None
    missing: float = np.nan
    monotone: tuple[int, ...] = ()
    """Directions of the first columns, which an object knows and a file does not."""

    @property
    def learner(self) -> Document:
        return member(self.document, "learner", dict)

    @property
    def attributes(self) -> Document:
        return member({"attributes": {}} | self.learner, "attributes", dict)


def open_model(model: Any) -> Opened:
    """Read a file, a Booster or a wrapper; an object is saved to memory and read the same way."""
    if isinstance(model, (str, PathLike)):
        path = Path(model)
        with naming(str(path)):
            return _with_saved_wrapper(Opened(str(path), parse(read_bytes(path))))
    name = type(model).__name__
    if hasattr(model, "get_booster"):
        if not model.__sklearn_is_fitted__():
            raise UnsupportedModelError(
                f"{name}: the model must be fitted, got one that is not: call fit first."
            )
        booster = model.get_booster()
        document = parse(bytes(booster.save_raw("ubj")))
        labels = getattr(model, "classes_", None)
        missing = getattr(model, "missing", None)
        sentinel = np.nan if missing is None else float(missing)
        signs = _monotone(booster)
        return Opened(name, document, True, labels is not None, labels, sentinel, signs)
    if hasattr(model, "save_raw"):
        try:
            content = bytes(model.save_raw("ubj"))
        except ValueError as error:  # XGBoostError, whose text goes on with a stack
            said = str(error).splitlines()[0][:200]
            raise UnsupportedModelError(
                f"{name}: the model must be trained, got one that xgboost cannot save ({said})."
            ) from error
        return Opened(name, parse(content), monotone=_monotone(model))
    raise TypeError(
        f"`model` must be a path, an xgboost Booster or a scikit-learn wrapper of xgboost, got a "
        f"{name}."
    )


def _monotone(booster: Any) -> tuple[int, ...]:
    """Return the monotone constraints that a Booster was trained with, as its configuration says.

    Where the text of them stands in it has changed between versions.
    """
    found = re.search(r'"monotone_constraints":"([^"]*)"', booster.save_config().replace(" ", ""))
    return () if found is None else tuple(map(int, re.findall(r"-?\d+", found.group(1))))


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a model file, without what xgboost4j-spark writes before them."""
    data = path.read_bytes()
    return data[spark_prefix(data[:HEAD]) :]


def _with_saved_wrapper(plain_file: Opened) -> Opened:
    """Read what a wrapper left in the file that it saved."""
    text = plain_file.attributes.get("scikit_learn")
    if text is None:
        return plain_file
    try:
        saved = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        saved = None
    if not isinstance(saved, dict):
        raise FileFormatError("the attribute `scikit_learn` must be the text of a JSON object.")
    # Before 1.6 or so a wrapper saved all of its state, `classes_` and `missing` among it.
    labels = saved.get("classes_")
    missing = saved.get("missing")
    return replace(
        plain_file,
        wrapped=True,
        classifies=saved.get("_estimator_type", "classifier" if labels else "") == "classifier",
        labels=None if labels is None else label_array(labels),
        missing=float(missing) if isinstance(missing, (int, float)) else np.nan,
    )
