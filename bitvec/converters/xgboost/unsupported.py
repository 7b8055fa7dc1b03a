"""Checks that xgboost can hold a forest exactly, and what of it is stated in another way there."""

from __future__ import annotations

from typing import Final

import numpy as np

from bitvec.converters.category_sets import reads_floor, right_codes
from bitvec.converters.writable import output_of_tree, require_rules
from bitvec.converters.xgboost.objectives import OBJECTIVES
from bitvec.converters.xgboost.trees import OUT_OF_RANGE_CODE
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.shape_annotations import Bool, Float32

FORBIDDEN_IN_NAMES: Final = ("[", "]", "<")
"""Characters that xgboost refuses in the name of a feature."""

_OBJECTIVE: Final = {
    (PostTransform.IDENTITY, False): "reg:squarederror",
    (PostTransform.IDENTITY, True): "binary:logitraw",
    (PostTransform.SIGMOID, False): "reg:logistic",
    (PostTransform.SIGMOID, True): "binary:logistic",
    (PostTransform.SOFTMAX, False): "multi:softprob",
    (PostTransform.SOFTMAX, True): "multi:softprob",
    (PostTransform.EXPONENTIAL, False): "count:poisson",
    (PostTransform.HINGE, False): "binary:hinge",
    (PostTransform.HINGE, True): "binary:hinge",
}
"""The objective that answers with a post-transform, and whether the forest has classes."""


def require_writable(forest: Forest) -> None:
    """Refuse what xgboost cannot hold, naming all of it.

    Raises
    ------
    UnsupportedModelError
    """
    tests, output = forest.tests, forest.output
    # A kernel node is a margin node to a forest without a prediction kernel.
    margin, is_set = np.isin(tests.kind, (Kind.MARGIN, Kind.KERNEL)), tests.kind == Kind.SET
    names = forest.inputs.feature_names or ()
    base = output.base_score
    with np.errstate(over="ignore"):
        base_fits = np.array_equal(base.astype(np.float32), base, equal_nan=True)
    is_broken = {
        "at least one feature": forest.n_features == 0,
        "no feature map": forest.feature_map is not None,
        "no prediction kernel": forest.kernel is not None,
        f"rows that are compared in float32 (the forest compares in {forest.dtype})": (
            forest.dtype != np.float32
        ),
        f"raw scores that are summed in float32 (the forest sums in {output.dtype})": (
            output.dtype != np.float32
        ),
        "nodes that read one column, by a threshold or a set of codes": not np.all(
            (margin | is_set) & tests.is_one_hot
        ),
        "missing values that are NaN (what else counts as missing is said to it with the rows)": (
            bool(np.any(tests.missing_rule != MissingRule.NAN))
        ),
        "thresholds other than x > inf": bool(
            np.any(margin & (tests.relation == Relation.GREATER) & np.isposinf(tests.b))
        ),
        "sets whose codes are rounded down": not np.all(reads_floor(tests)[is_set]),
        "sets that name some code, all below 2**24": not _sets_fit(forest),
        "constant leaves": forest.leaves.linear is not None,
        f"a sum of trees (the forest has the {output.aggregate})": (
            output.aggregate is not Aggregate.SUM
        ),
        "a sum that is not scaled": output.scale is not None and bool(np.any(output.scale != 1)),
        "a base score of float32": not base_fits,
        "trees that add to one output each, or to all": output_of_tree(forest) is None,
        f"feature names without {' '.join(FORBIDDEN_IN_NAMES)}": any(
            letter in name for name in names for letter in FORBIDDEN_IN_NAMES
        ),
        f"an objective of the post-transform {output.post_transform} with its classes": (
            objective_of(forest) is None
        ),
    }
    require_rules("xgboost", is_broken, written="its model")


def _sets_fit(forest: Forest) -> bool:
    tests = forest.tests
    is_set = tests.kind == Kind.SET
    code, node = right_codes(tests, turned_sets(forest))
    named = np.zeros(tests.n_nodes, bool)
    named[node] = True
    return bool(np.all(named[is_set]) and np.all(code < OUT_OF_RANGE_CODE))


def turned_sets(forest: Forest) -> Bool[Array, " n_nodes"]:
    """Tell the sets whose unnamed codes go right: xgboost names what goes right, so these turn."""
    return (forest.tests.kind == Kind.SET) & forest.tests.other_right


def thresholds(forest: Forest) -> Float32[Array, " n_nodes"]:
    """Return b such that x >= b goes right; x > b is x >= the number above b."""
    b = forest.tests.b.astype(np.float32, copy=False)
    with np.errstate(over="ignore"):  # above the greatest finite number comes inf
        above = np.nextafter(b, np.float32(np.inf))
    return np.where(forest.tests.relation == Relation.GREATER, above, b)


def objective_of(forest: Forest) -> str | None:
    """Return the objective whose answers are those of the forest: its own where it still holds."""
    output = forest.output
    classifies, groups = output.classes is not None, output.groups
    own = forest.source.model if forest.source is not None else ""
    is_own = forest.source is not None and forest.source.library == "xgboost" and own in OBJECTIVES
    has_parameter = output.post_transform in (PostTransform.SIGMOID, PostTransform.SOFTMAX)
    if has_parameter and output.parameter != 1.0:
        return None
    if is_own:
        objective = OBJECTIVES[own]
        if (objective.post_transform, objective.labels_from_raw) == (
            output.post_transform,
            output.labels_from_raw,
        ):
            return own
    if output.post_transform is PostTransform.SOFTMAX:
        if len(groups) > 1 or output.n_outputs < 2:
            return None
        return "multi:softmax" if output.labels_from_raw else "multi:softprob"
    if classifies and set(groups) != {1}:
        return None
    return _OBJECTIVE.get((output.post_transform, classifies))
