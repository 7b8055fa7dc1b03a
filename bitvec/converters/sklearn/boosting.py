"""GradientBoosting, with any loss and an initial model that is a constant.

The raw score starts at the initial model's score and adds, in tree order and float64, the learning
rate times the leaf value, each product rounded before it is added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.attribute_records import class_name
from bitvec.converters.sklearn import nodes as sklearn_nodes
from bitvec.converters.sklearn.boosting_losses import link, start
from bitvec.converters.sklearn.unsupported import (
    classes_of,
    inputs_of,
    is_classifier,
    real_number,
    require_tree,
    require_trees_per_stage,
)
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output, PostTransform
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InvalidForestError, UnsupportedModelError


def convert_boosting(model: Any, kind: str) -> Forest:
    """Convert a GradientBoosting model."""
    stages = getattr(model, "estimators_", None)
    if not isinstance(stages, np.ndarray) or stages.ndim != 2:
        raise UnsupportedModelError(
            f"the {class_name(model)} must be fitted, got one without trees: call fit first."
        )
    trees = stages.ravel().tolist()
    n_outputs = stages.shape[1]
    require_trees_per_stage(model, n_outputs)
    if not trees:
        raise InvalidForestError("a boosted model must have trees, got none: the model is damaged.")
    for tree in trees:
        require_tree(tree, class_name(model), classifies=False)
    classes = classes_of(model) if is_classifier(kind) else None
    if classes is not None and n_outputs != (1 if classes.size == 2 else classes.size):
        raise InvalidForestError(
            f"a model of {classes.size} classes must have one tree per class and stage (one for "
            f"2 classes), got {n_outputs}: the model is damaged."
        )
    inputs = inputs_of(model)
    rate = real_number(model, "learning_rate")
    # Its loop compares x <= t and nothing else, so NaN, if it came through, would go right.
    arranged = sklearn_nodes.arrange_trees(
        model, trees, inputs.n_features, [(1,)] * len(trees), missing_right=True
    )
    transform, parameter = link(model) if classes is not None else (PostTransform.IDENTITY, 1.0)
    output = Output(
        n_outputs,
        np.dtype(np.float64),
        base_score=start(model, n_outputs, classes),
        base_first=True,
        post_transform=transform,
        parameter=parameter,
        classes=None if classes is None else (classes,),
        iteration=np.repeat(np.arange(len(stages), dtype=np.int32), n_outputs),
        labels_from_raw=classes is not None,
        tie_to_second=classes is not None,
    )
    with np.errstate(over="ignore"):
        v: Float64[Array, "n_leaves 1"] = rate * arranged.value[:, 0]
    leaves = Leaves(v, output=(arranged.tree % n_outputs).astype(np.int32))
    return Forest(arranged.tests, arranged.bitvectors, leaves, output, inputs, arranged.source)
