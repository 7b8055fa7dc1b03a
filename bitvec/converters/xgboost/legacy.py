"""xgboost's binary format, which versions up to 3.0 write and 3.1 no longer reads."""

from __future__ import annotations

import json
import struct
from typing import Any, Final

import numpy as np

from bitvec.converters.xgboost.objectives import PARAMETERS, answer, objective_named
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float32
from bitvec.errors import FileFormatError, UnsupportedModelError

MAGIC: Final = b"binf"
"""Stands first since 0.5 or so in what the Python package writes of 0.x, and in all of 1.x on."""

_LEARNER: Final = struct.Struct("<fIiiiIIIi100x")
"""base_score, num_feature, num_class, contain_extra_attrs, contain_eval_metrics, version,
num_target and boost_from_average (both 0 where the version has them not)."""
_FOREST: Final = struct.Struct("<ii152x")
"""num_trees, and num_parallel_tree (before 1.4 the number of roots, which was 1)."""
_TREE: Final = struct.Struct("<iiiiii124x")
"""Number of roots, num_nodes, num_deleted, max_depth, num_feature, size_leaf_vector."""
_LENGTH: Final = struct.Struct("<Q")

_NODE: Final = np.dtype(
    [("parent", "<i4"), ("left", "<i4"), ("right", "<i4"), ("test", "<u4"), ("value", "<f4")]
)
_STATISTICS: Final = np.dtype(
    [("gain", "<f4"), ("cover", "<f4"), ("weight", "<f4"), ("n_leaf_children", "<i4")]
)
_DEFAULT_LEFT: Final = np.uint32(1 << 31)
_DELETED: Final = np.uint32(0xFFFFFFFF)


def parse(data: bytes) -> dict[str, Any]:
    """Read a binary model into the document that the same model is in JSON.

    Parameters
    ----------
    data : bytes
        The whole file.

    Returns
    -------
    document
        `base_score` is on the scale of the objective's answers, as in JSON. Arrays of the trees are
        NumPy arrays.

    Raises
    ------
    FileFormatError
        If the file is truncated or does not hold what its counts state.
    UnsupportedModelError
        For a linear booster, several roots or vector leaves, and where `base_score` needs the link
        of an objective that is not known.

    Notes
    -----
    After dmlc/xgboost up to 3.0: `LearnerIO::LoadModel`, `GBTreeModel::Load` and `RegTree::Load`.
    As there, what follows the attributes (of 0.x: names of metrics) is not read.
    """
    reader = _Reader(data)
    if data.startswith(MAGIC):
        reader.take(len(MAGIC))
    score, n_features, n_classes, has_attributes, _, major, minor, n_targets, estimated = (
        reader.unpack(_LEARNER)
    )
    if n_classes < 0:
        raise FileFormatError(f"`num_class` must not be negative, got {n_classes}.")
    name, booster = reader.text("objective"), reader.text("booster")
    if booster not in ("gbtree", "dart"):
        raise UnsupportedModelError(
            f"the booster must be gbtree or dart, got {booster[:80]!r}: a linear booster has no "
            "trees."
        )
    model = _forest(reader, max(1, n_classes, n_targets))
    trees: dict[str, Any] = {"name": "gbtree", "model": model}
    if booster == "dart":
        weights = _dart_weights(reader, len(model["trees"]))
        trees = {"name": "dart", "gbtree": trees, "weight_drop": weights}
    attributes = _attributes(reader) if has_attributes else {}
    return {
        "learner": {
            "attributes": attributes,
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": trees,
            "learner_model_param": {
                "base_score": _number(_base_score(np.float32(score), name, major)),
                "boost_from_average": str(int(estimated != 0)),
                "num_class": str(n_classes),
                "num_feature": str(n_features),
                "num_target": str(max(1, n_targets)),
            },
            "objective": _objective(attributes, name, n_classes),
        },
        "version": [major, minor, 0],
    }


class _Reader:
    """A position in the bytes; each method reads one thing and moves past it."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        left = len(self.data) - self.at
        if count > left:
            raise FileFormatError(
                f"a binary xgboost model must be whole, got {left} bytes where {count} must follow "
                f"at byte {self.at}: the file is truncated or damaged, or no xgboost model."
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def count(self) -> int:
        (count,) = self.unpack(_LENGTH)
        return int(count)

    def text(self, name: str) -> str:
        try:
            return self.take(self.count()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileFormatError(f"`{name}` must be UTF-8 text, got other bytes.") from error

    def array(self, dtype: np.dtype, count: int) -> Array:
        return np.frombuffer(self.take(dtype.itemsize * count), dtype)


def _forest(reader: _Reader, n_outputs: int) -> dict[str, Any]:
    n_trees, n_parallel = reader.unpack(_FOREST)
    if n_trees < 0 or n_parallel < 0:
        raise FileFormatError(
            f"the numbers of trees must not be negative, got {n_trees} and {n_parallel}."
        )
    trees = []
    for index in range(n_trees):
        try:
            trees.append(_tree(reader, index))
        except (FileFormatError, UnsupportedModelError) as error:
            raise type(error)(f"tree {index}: {error}") from error
    per_iteration = n_outputs * max(1, n_parallel)
    return {
        "gbtree_model_param": {
            "num_parallel_tree": str(max(1, n_parallel)),
            "num_trees": str(n_trees),
        },
        "iteration_indptr": np.append(np.arange(0, n_trees, per_iteration), n_trees),
        "tree_info": reader.array(np.dtype("<i4"), n_trees),
        "trees": trees,
    }


def _tree(reader: _Reader, index: int) -> dict[str, Any]:
    n_roots, n_nodes, n_deleted, _, n_features, width = reader.unpack(_TREE)
    if n_roots != 1 or width not in (0, 1):
        raise UnsupportedModelError(
            f"a tree of a binary model must have one root and leaves of one value, got {n_roots} "
            f"roots and leaves of {width} values."
        )
    if n_nodes < 1:
        raise FileFormatError(f"a tree must have at least its root, got {n_nodes} nodes.")
    nodes = reader.array(_NODE, n_nodes)
    statistics = reader.array(_STATISTICS, n_nodes)
    deleted = int(np.count_nonzero(nodes["test"][1:] == _DELETED))
    if deleted != n_deleted:
        raise FileFormatError(
            f"a tree must have as many deleted nodes as it states ({n_deleted}), got {deleted}."
        )
    return {
        "base_weights": statistics["weight"],
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": (nodes["test"] >= _DEFAULT_LEFT).astype(np.uint8),
        "id": index,
        "left_children": nodes["left"],
        "loss_changes": statistics["gain"],
        "parents": nodes["parent"],
        "right_children": nodes["right"],
        "split_conditions": nodes["value"],
        "split_indices": nodes["test"] & ~_DEFAULT_LEFT,
        "split_type": np.zeros(n_nodes, np.uint8),
        "sum_hessian": statistics["cover"],
        "tree_param": {
            "num_deleted": str(n_deleted),
            "num_feature": str(n_features),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
    }


def _dart_weights(reader: _Reader, n_trees: int) -> Float32[Array, " n_trees"]:
    if not n_trees:  # then the weights are not written, not even their number
        return np.zeros(0, np.float32)
    return reader.array(np.dtype("<f4"), reader.count())


def _attributes(reader: _Reader) -> dict[str, Any]:
    return {reader.text("attributes"): reader.text("attributes") for _ in range(reader.count())}


def _objective(attributes: dict[str, Any], name: str, n_classes: int) -> dict[str, Any]:
    """Return the objective with its parameters, which 1.0 and later keep as an attribute."""
    text = attributes.pop("objective", None)
    step = attributes.pop("count_poisson_max_delta_step", None)
    if text is None:
        if step is not None:
            return {"name": name, "poisson_regression_param": {"max_delta_step": step}}
        if name.startswith("multi:"):
            return {"name": name, "softmax_multiclass_param": {"num_class": str(n_classes)}}
        return {"name": name} | PARAMETERS.get(name, {})
    try:
        parameters = json.loads(text)
    except (ValueError, RecursionError):
        parameters = None
    if not isinstance(parameters, dict):
        raise FileFormatError("the attribute `objective` must be the text of a JSON object.")
    return parameters | {"name": name}


def _base_score(score: np.float32, name: str, major: int) -> np.float32:
    """Return `base_score` as JSON has it.

    Before 1.0 it was saved as a margin, and xgboost 1.7 to 3.0 tell such files by the version 0.
    The answers are theirs, also where those of the writer were others: release candidates of 1.0
    saved it as JSON has it, with version 0, so their 0.5 is added to margins of binary:logistic;
    and the base score of binary:hinge becomes 0 or 1.
    """
    if major >= 1 or name.startswith("multi:"):
        return score
    return answer(objective_named(name), score)


def _number(value: np.float32) -> str:
    """Return text that reads back as the same float32."""
    return f"{value:.9g}".replace("nan", "NaN").replace("inf", "Infinity")
