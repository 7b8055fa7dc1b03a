"""The names and numbers of the ai.onnx.ml tree operators, which the writer and the reader share."""

from __future__ import annotations

from enum import IntEnum

DOMAIN = "ai.onnx.ml"
CLASSIFIER = "TreeEnsembleClassifier"
REGRESSOR = "TreeEnsembleRegressor"
ENSEMBLE = "TreeEnsemble"
OPERATORS = (CLASSIFIER, REGRESSOR, ENSEMBLE)


class Mode(IntEnum):
    """Comparison of x with a node's value; the true branch is taken where it holds."""

    BRANCH_LEQ = 0
    BRANCH_LT = 1
    BRANCH_GTE = 2
    BRANCH_GT = 3
    BRANCH_EQ = 4
    BRANCH_NEQ = 5
    BRANCH_MEMBER = 6
    """Version 5 only: x is one of the node's members."""


LEAF = "LEAF"
"""The mode of a leaf in versions before 5."""

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""By their number in version 5."""
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""By their number in version 5."""

AGGREGATE_SUM = AGGREGATES.index("SUM")
POST_TRANSFORM_NONE = TRANSFORMS.index("NONE")

INTEGER, INTEGERS, REAL, REALS, STRING, STRINGS, TENSOR = range(7)
"""Kinds of attributes."""

_NODES = {
    "nodes_treeids": INTEGERS,
    "nodes_nodeids": INTEGERS,
    "nodes_featureids": INTEGERS,
    "nodes_modes": STRINGS,
    "nodes_values": REALS,
    "nodes_values_as_tensor": TENSOR,
    "nodes_hitrates": REALS,
    "nodes_hitrates_as_tensor": TENSOR,
    "nodes_truenodeids": INTEGERS,
    "nodes_falsenodeids": INTEGERS,
    "nodes_missing_value_tracks_true": INTEGERS,
    "base_values": REALS,
    "base_values_as_tensor": TENSOR,
    "post_transform": STRING,
}
ATTRIBUTES: dict[str, dict[str, int]] = {
    CLASSIFIER: {
        **_NODES,
        "class_treeids": INTEGERS,
        "class_nodeids": INTEGERS,
        "class_ids": INTEGERS,
        "class_weights": REALS,
        "class_weights_as_tensor": TENSOR,
        "classlabels_strings": STRINGS,
        "classlabels_int64s": INTEGERS,
    },
    REGRESSOR: {
        **_NODES,
        "target_treeids": INTEGERS,
        "target_nodeids": INTEGERS,
        "target_ids": INTEGERS,
        "target_weights": REALS,
        "target_weights_as_tensor": TENSOR,
        "n_targets": INTEGER,
        "aggregate_function": STRING,
    },
    ENSEMBLE: {
        "tree_roots": INTEGERS,
        "nodes_featureids": INTEGERS,
        "nodes_modes": TENSOR,
        "nodes_splits": TENSOR,
        "nodes_hitrates": TENSOR,
        "nodes_truenodeids": INTEGERS,
        "nodes_trueleafs": INTEGERS,
        "nodes_falsenodeids": INTEGERS,
        "nodes_falseleafs": INTEGERS,
        "nodes_missing_value_tracks_true": INTEGERS,
        "membership_values": TENSOR,
        "leaf_targetids": INTEGERS,
        "leaf_weights": TENSOR,
        "n_targets": INTEGER,
        "aggregate_function": INTEGER,
        "post_transform": INTEGER,
    },
}
"""The attributes of each operator and what they hold."""
LARGEST_FILE = 2**31 - 1
"""Bytes that one protobuf message may have."""
