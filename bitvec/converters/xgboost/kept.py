"""Metadata that a forest keeps of the xgboost model it came from, as far as it still holds."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from bitvec.converters.xgboost.categories import code_books
from bitvec.converters.xgboost.document import Document
from bitvec.converters.xgboost.objectives import PARAMETERS, RT_EPS, objective_named
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float32
from bitvec.errors import BitvecError

_DTYPE: Final = {9: np.int8, 10: np.uint8, 11: np.int16, 13: np.int32, 15: np.int64}
"""By the number that `cats` gives as the type of its values."""


def learner_of(forest: Forest) -> Document:
    """Return the `learner` of the model, without its trees; empty for forests of other libraries.

    A saved forest may have been edited, so nothing of it is taken for what it should be.
    """
    source = forest.source
    if source is None or source.library != "xgboost":
        return {}
    return _object(source.metadata, "learner")


def _object(parent: Any, name: str) -> Document:
    value = parent.get(name) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    is_texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return value if is_texts else []


def _count(parent: Document, name: str) -> int:
    text = parent.get(name)
    if not isinstance(text, str) or not (text.isascii() and text.isdigit() and len(text) <= 18):
        return 0
    return int(text)


def _booster(learner: Document) -> Document:
    booster = _object(learner, "gradient_booster")
    return _object(booster, "gbtree") or booster


def is_dart(forest: Forest) -> bool:
    """Return whether the model weighted its trees; since 3.3 it is named gbtree all the same."""
    booster = _object(learner_of(forest), "gradient_booster")
    weighted = "weight_drop" in booster or "weight_drop" in _object(booster, "model")
    return weighted or booster.get("name") == "dart"


def parallel_trees(forest: Forest) -> int:
    """Return the trees of one output in one iteration."""
    return max(1, _count(_of_trees(forest), "num_parallel_tree"))


def _of_trees(forest: Forest) -> Document:
    """Return the parameters of the model's trees."""
    model = _object(_booster(learner_of(forest)), "model")
    return _object(model, "gbtree_model_param")


def counts_classes(forest: Forest) -> bool:
    """Return whether the outputs were the classes of one target."""
    parameters = _object(learner_of(forest), "learner_model_param")
    return 1 < forest.n_outputs == _count(parameters, "num_class") and (
        forest.output.groups == (forest.n_outputs,)
    )


def base_score(forest: Forest, objective: str) -> Float32[Array, " n_outputs"] | None:
    """Return the model's `base_score` if its margin is the base score that the forest has now.

    None too where versions of xgboost disagree on its margin.
    """
    text = _object(learner_of(forest), "learner_model_param").get("base_score")
    known = objective_named(objective)
    try:
        value = json.loads(text) if isinstance(text, str) else None
        score = np.array(value if isinstance(value, list) else [value], np.float32)
        clipped = (score < RT_EPS) | (score > np.float32(1) - RT_EPS)
        if score.size not in (1, forest.n_outputs) or not np.all(np.isfinite(score)):
            return None
        if known.post_transform is PostTransform.SIGMOID and np.any(clipped):
            return None
        score = np.resize(score, forest.n_outputs)
        margin = np.array([known.margin(value) for value in score], np.float32)
    except (ValueError, TypeError, RecursionError):
        return None
    base = forest.output.base_score
    return score if np.array_equal(margin, base) else None


def attributes(forest: Forest) -> dict[str, str]:
    """Return the model's attributes, with a best iteration that means the trees that are there.

    A scikit-learn wrapper predicts up to its best iteration, which are the trees that were
    converted. A Booster has it for information, but a wrapper that loads its file stops there: it
    is left out unless there are as many trees as the model had.
    """
    kept = {
        name: text
        for name, text in _object(learner_of(forest), "attributes").items()
        if isinstance(text, str)
    }
    iteration = forest.output.iteration
    last = -1 if iteration is None else int(iteration.max(initial=-1))
    if "scikit_learn" in kept and "best_iteration" in kept and last >= 0:
        kept["best_iteration"] = str(last)
    elif forest.n_trees != _count(_of_trees(forest), "num_trees"):
        for name in ("best_iteration", "best_score"):
            kept.pop(name, None)
    return kept


def feature_types(forest: Forest) -> list[str]:
    """Return the model's feature types; of other forests, the columns that sets read are known."""
    own = _texts(learner_of(forest).get("feature_types"))
    if len(own) == forest.n_features:
        return own
    columns = np.unique(forest.tests.feature[forest.tests.kind == Kind.SET])
    types = np.full(forest.n_features, "float", object)
    types[columns] = "c"
    return types.tolist() if columns.size else []


def objective(forest: Forest, name: str) -> Document:
    """Return what the document says of an objective."""
    if name.startswith("multi:"):
        return {
            "name": name,
            "softmax_multiclass_param": {"num_class": str(forest.n_outputs)},
        }
    own = _object(learner_of(forest), "objective")
    if own.get("name") != name:
        return {"name": name} | PARAMETERS.get(name, {})
    parameters = {
        member: {key: text for key, text in value.items() if isinstance(text, str)}
        for member, value in own.items()
        if isinstance(value, dict)
    }
    biases = {  # of ranking, by position
        member: np.array(value, np.float32)
        for member, value in own.items()
        if isinstance(value, list | np.ndarray)
    }
    return {"name": name} | parameters | biases


def categories(forest: Forest) -> Document:
    """Return the member `cats` where the forest still has the code books of the model."""
    model = _object(_booster(learner_of(forest)), "model")
    books = forest.inputs.categories
    try:
        if books is None or code_books(model, forest.n_features) != books:
            return {}
    except BitvecError:
        return {}
    cats = model["cats"]
    return {
        "cats": {
            "enc": [
                {
                    name: value if name == "type" else np.array(value, _dtype(column, name))
                    for name, value in column.items()
                }
                for column in cats["enc"]
            ],
            "feature_segments": np.array(cats.get("feature_segments", []), np.int32),
            "sorted_idx": np.array(cats.get("sorted_idx", []), np.int32),
        }
    }


def _dtype(column: Document, name: str) -> Any:
    if "offsets" in column:
        return np.int32 if name == "offsets" else np.int8
    return _DTYPE.get(column.get("type", 15), np.int64)
