"""Checks that treelite can hold a forest so that GTIL answers exactly, and its thresholds."""

from __future__ import annotations

from typing import Final

import numpy as np

from bitvec.converters.category_sets import reads_floor, right_codes
from bitvec.converters.writable import output_of_tree, require_rules
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.shape_annotations import Bool, Float, Int64

MOST_CODE: Final = {np.dtype(np.float32): 1 << 24, np.dtype(np.float64): (1 << 32) - 1}
"""The greatest category code that GTIL matches, by the model's dtype."""
MOST_VALUES: Final = 1 << 27
"""Values that the leaf vectors of one model may take."""

POSTPROCESSOR: Final = {
    (PostTransform.IDENTITY, False): "identity",
    (PostTransform.IDENTITY, True): "identity_multiclass",
    (PostTransform.SIGMOID, False): "sigmoid",
    (PostTransform.SIGMOID, True): "multiclass_ova",
    (PostTransform.SOFTMAX, False): "softmax",
    (PostTransform.SOFTMAX, True): "softmax",
    (PostTransform.EXPONENTIAL, False): "exponential",
    (PostTransform.EXPONENTIAL_STANDARD_RATIO, False): "exponential_standard_ratio",
    (PostTransform.LOGARITHM_ONE_PLUS_EXP, False): "logarithm_one_plus_exp",
    (PostTransform.SIGNED_SQUARE, False): "signed_square",
    (PostTransform.HINGE, False): "hinge",
}
"""treelite's name of a post-transform, and whether some target has several outputs."""


PARAMETRIC: Final = (PostTransform.SIGMOID, PostTransform.EXPONENTIAL_STANDARD_RATIO)
"""Post-transforms whose parameter a model holds."""
POST_TRANSFORM: Final = {name: transform for (transform, _), name in POSTPROCESSOR.items()} | {
    "max_index": PostTransform.IDENTITY
}


def require_writable(forest: Forest) -> None:
    """Refuse what treelite cannot hold, naming all of it.

    Raises
    ------
    UnsupportedModelError
    """
    tests, output = forest.tests, forest.output
    is_set, is_equal = tests.kind == Kind.SET, tests.kind == Kind.EQUAL
    wide = widens(forest)
    code, _ = listed_codes(forest)
    is_broken = {
        "at least one tree": forest.n_trees == 0,
        "no feature map": forest.feature_map is not None,
        "no prediction kernel": forest.kernel is not None,
        f"rows that are compared in the dtype of the sums, or in float32 (the forest compares in "
        f"{forest.dtype} and sums in {output.dtype})": (
            forest.dtype == np.float64 and output.dtype == np.float32
        ),
        "nodes that read one column, by a threshold, a value or a set of codes": not np.all(
            tests.is_one_hot
        ),
        "no sets or values that are read in float32 beside sums in float64": wide
        and bool(np.any(is_set | is_equal)),
        "missing values that are NaN": bool(np.any(tests.missing_rule != MissingRule.NAN)),
        "sets whose codes are rounded down": not np.all(reads_floor(tests)[is_set]),
        f"sets of codes up to {MOST_CODE[output.dtype]}": bool(
            np.any(code > MOST_CODE[output.dtype])
        ),
        "constant leaves": forest.leaves.linear is not None,
        f"a sum or a mean of trees (the forest has the {output.aggregate})": (
            output.aggregate not in (Aggregate.SUM, Aggregate.MEAN)
        ),
        "a sum that is not scaled": output.scale is not None and bool(np.any(output.scale != 1)),
        f"at most {MOST_VALUES} values in its leaf vectors": (
            not is_grove(forest)
            and forest.n_leaves * len(output.groups) * max(output.groups) > MOST_VALUES
        ),
        "a mean over all trees, or over those of each output": not (
            is_grove(forest) or _averages_all(forest)
        ),
        f"a postprocessor for {output.post_transform} of its outputs": (
            postprocessor_of(forest) is None
        ),
        "a parameter of its postprocessor in float32": (
            output.post_transform in PARAMETRIC
            and float(np.float32(output.parameter)) != output.parameter
        ),
    }
    require_rules("treelite", is_broken, written="its model")


def widens(forest: Forest) -> bool:
    """Return whether rows are compared in float32 and leaves summed in float64.

    A model of treelite has one dtype, float64 here, so thresholds move to where float32 rounds.
    """
    return forest.dtype == np.float32 and forest.output.dtype == np.float64


def listed_codes(
    forest: Forest,
) -> tuple[Int64[Array, " n_codes"], Int64[Array, " n_codes"]]:
    """Return the codes that a category list must name, and the node of each.

    Those that go the way that values outside the set's range do not go.
    """
    tests = forest.tests
    is_set = tests.kind == Kind.SET
    code, node = right_codes(tests, is_set & tests.other_right)
    return code[is_set[node]], node[is_set[node]]


def thresholds(
    forest: Forest,
) -> tuple[Float[Array, " n_nodes"], Bool[Array, " n_nodes"]]:
    """Return thresholds in the model's dtype, and where equal values go right.

    Of a float32 forest with float64 sums: x rounds to a float32 that goes right from the middle
    between the least such number and its lower neighbour on; the middle itself rounds to the one
    of even bits.
    """
    b, reaches = forest.tests.b, forest.tests.relation == Relation.GREATER_EQUAL
    if not widens(forest):
        return b, reaches
    inf = np.float32(np.inf)
    with np.errstate(over="ignore"):
        least = np.where(reaches, b, np.nextafter(b, inf))
        below = np.nextafter(least, -inf)
    fixed = ~reaches & np.isposinf(b) | np.isneginf(least)
    beyond = 2.0**128  # what follows the greatest float32 as far as rounding goes
    sides = (np.clip(side.astype(np.float64), -beyond, beyond) for side in (least, below))
    middle = sum(sides) / 2
    is_even = least.view(np.uint32) & np.uint32(1) == 0
    return np.where(fixed, b, middle), np.where(fixed, reaches, is_even)


def is_grove(forest: Forest) -> bool:
    """Return whether each tree can add to one output, and need no vector of all of them."""
    output, group = forest.output, output_of_tree(forest)
    if forest.leaves.v.shape[1] != 1 or group is None:
        return False
    if output.aggregate is not Aggregate.MEAN:
        return True
    count = np.bincount(group, minlength=forest.n_outputs)
    return bool(np.all(count > 0)) and np.array_equal(_divisor(forest), count)


def _divisor(forest: Forest) -> Float[Array, " n_outputs"]:
    output = forest.output
    every = np.full(forest.n_outputs, forest.n_trees, output.dtype)
    return every if output.divisor is None else output.divisor


def _averages_all(forest: Forest) -> bool:
    is_mean = forest.output.aggregate is Aggregate.MEAN
    return not is_mean or bool(np.all(_divisor(forest) == forest.n_trees))


def postprocessor_of(forest: Forest) -> str | None:
    """Return treelite's name of the post-transform: its own where it means the same."""
    output, source = forest.output, forest.source
    transform, parameter = output.post_transform, output.parameter
    if transform is PostTransform.SOFTMAX and parameter != 1:
        return None
    if transform in PARAMETRIC and not parameter > 0:
        return None
    if source is not None and source.library == "treelite":
        own = source.metadata.get("postprocessor")
        if isinstance(own, str) and POST_TRANSFORM.get(own) is transform:
            return own
    return POSTPROCESSOR.get((transform, max(output.groups) > 1))
