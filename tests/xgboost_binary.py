"""A writer of xgboost's old binary format, field by field, which no installed xgboost writes."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

N_FEATURES = 3

Document = dict[str, Any]


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def header(
    objective: str,
    booster: str = "gbtree",
    *,
    base_score: float = 0.5,
    n_features: int = N_FEATURES,
    n_classes: int = 0,
    has_attributes: bool = False,
    version: tuple[int, int] = (1, 7),
    n_targets: int = 0,
) -> bytes:
    numbers = (base_score, n_features, n_classes, has_attributes, 0, *version, n_targets, 0)
    return struct.pack("<fIiiiIIIi100x", *numbers) + text(objective) + text(booster)


def tree_bytes(tree: Document, n_features: int) -> bytes:
    size = int(tree["tree_param"]["num_nodes"])
    deleted = int(tree["tree_param"]["num_deleted"])
    data = [struct.pack("<iiiiii124x", 1, size, deleted, 0, n_features, 0)]
    for i in range(size):
        test = tree["split_indices"][i] | tree["default_left"][i] << 31
        if tree["parents"][i] == 2**31 - 1 and i:
            test = 2**32 - 1  # deleted
        sides = (tree["left_children"][i], tree["right_children"][i])
        data.append(
            struct.pack("<iiiIf", tree["parents"][i], *sides, test, tree["split_conditions"][i])
        )
    for i in range(size):
        names = ("loss_changes", "sum_hessian", "base_weights")
        data.append(struct.pack("<fffi", *(tree[name][i] for name in names), 0))
    return b"".join(data)


def weighted_model(document: Document) -> tuple[Document, list[float] | None]:
    """Return the model of trees, and the weights of its trees if it is a dart.

    Since 3.4 they stand in the model, in 3.3 beside it, before that beside the gbtree that has it.
    """
    booster = document["learner"]["gradient_booster"]
    model = dict(booster.get("gbtree", booster)["model"])
    inside = model.pop("weight_drop", None)
    return model, booster.get("weight_drop", inside)


def binary(document: Document, version: tuple[int, int] = (3, 0)) -> bytes:
    """Write a JSON document in the binary format, field by field."""
    learner = document["learner"]
    parameters = learner["learner_model_param"]
    model, weights = weighted_model(document)
    (base_score,) = np.unique(json.loads(parameters["base_score"]))  # a number or a list
    n_features = int(parameters["num_feature"])
    data = header(
        learner["objective"]["name"],
        "gbtree" if weights is None else "dart",
        base_score=base_score,
        n_features=n_features,
        n_classes=int(parameters["num_class"]),
        has_attributes=True,
        version=version,
        n_targets=int(parameters["num_target"]),
    )
    shape = (len(model["trees"]), int(model["gbtree_model_param"]["num_parallel_tree"]))
    data += struct.pack("<ii152x", *shape)
    data += b"".join(tree_bytes(tree, n_features) for tree in model["trees"])
    data += struct.pack(f"<{shape[0]}i", *model["tree_info"])
    if weights:
        data += struct.pack(f"<Q{len(weights)}f", len(weights), *weights)
    attributes = learner["attributes"] | {"objective": json.dumps(learner["objective"])}
    data += struct.pack("<Q", len(attributes))
    return b"binf" + data + b"".join(text(n) + text(v) for n, v in attributes.items())
