"""Nested trees are what their JSON says, and nothing else passes for one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bitvec.converters.catboost.model_features import read_features
from bitvec.converters.catboost.model_json import parse
from bitvec.converters.catboost.trees import Trees, read_trees
from bitvec.core.structure import arrange
from bitvec.errors import BitvecError

SPLITS = [
    {
        "split_type": "FloatFeature",
        "split_index": index,
        "float_feature_index": 0,
        "border": float(index),
    }
    for index in range(2)
]


def leaf(value: Any) -> dict[str, Any]:
    return {"value": value, "weight": 1}


def node(index: int, left: Any, right: Any) -> dict[str, Any]:
    return {"left": left, "right": right, "split": dict(SPLITS[index])}


def read(*trees: Any) -> Trees:
    feature = {"borders": [0.0, 1.0], "feature_index": 0, "flat_feature_index": 0}
    feature |= {"has_nans": False, "nan_value_treatment": "AsIs", "feature_id": ""}
    content = {"features_info": {"float_features": [feature]}, "trees": trees}
    document, nested = parse(json.dumps(content).encode())
    return read_trees(document, nested, read_features(document))


@pytest.mark.parametrize("order", [("left", "right", "split"), ("split", "right", "left")])
def test_leaves_stand_where_their_parents_put_them(order: tuple[str, ...]) -> None:
    tree = node(1, node(0, leaf(10.0), leaf(20.0)), leaf(30.0))
    trees = read({name: tree[name] for name in order}, leaf(40.0))
    B, at = arrange(trees.left, trees.right, trees.roots)
    assert trees.v[~at.leaf].ravel().tolist() == [10, 20, 30, 40]
    assert trees.test[at.node].tolist() == [1, 0]
    assert np.diff(B.leaf_ptr).tolist() == [3, 1]


@pytest.mark.parametrize(
    "tree",
    [
        0,
        -1,
        None,
        [],
        {},
        SPLITS[0],
        node(0, leaf(1.0), 0),
        node(0, leaf(1.0), -1),
        node(0, leaf(1.0), True),
        node(0, leaf(1.0), leaf(1.0)) | {"more": 1},
        node(0, leaf(1.0), leaf(1.0) | {"more": 1}),
        {"left": leaf(1.0), "split": SPLITS[0]},
        node(0, leaf(1.0), leaf("1")),
        node(0, leaf(1.0), leaf([1.0, 2.0])),
        node(0, leaf(1.0), leaf(leaf(1.0))),
        node(0, leaf(1.0), leaf(1.0)) | {"split": leaf(1.0)},
        node(0, leaf(1.0), leaf(1.0)) | {"split": SPLITS[0] | {"split_index": False}},
        node(0, leaf(1.0), leaf(1.0)) | {"split": SPLITS[0] | {"split_index": 1}},
    ],
    ids=str,
)
def test_what_is_no_tree_is_refused(tree: Any) -> None:
    with pytest.raises(BitvecError):
        read(node(0, leaf(1.0), leaf(2.0)), tree)


@pytest.mark.parametrize("taken", [leaf(1.0), node(0, leaf(1.0), leaf(2.0)), SPLITS[0]])
def test_a_tree_in_the_place_of_the_model_is_refused(taken: Any) -> None:
    with pytest.raises(BitvecError):
        parse(json.dumps(taken).encode())
