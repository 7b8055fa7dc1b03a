"""Checks that LightGBM can hold a forest exactly."""

from __future__ import annotations

import numpy as np

from bitvec.converters.lightgbm.trees import BELOW_ZERO
from bitvec.converters.writable import require_rules
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, CodeRule, Kind, MissingRule, Relation
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float64


def require_writable(forest: Forest) -> None:
    """Refuse what LightGBM cannot hold, naming it."""
    tests, output, B = forest.tests, forest.output, forest.bitvectors
    margin, is_set = tests.kind == Kind.MARGIN, tests.kind == Kind.SET
    linear, weight = forest.leaves.linear, output.tree_weight
    b = strict_thresholds(forest)
    # LightGBM's reader makes 0 of these, so it cannot tell them apart.
    unread = margin & (b > BELOW_ZERO) & (b < ZERO_THRESHOLD)
    set_right = tests.other_right[is_set], tests.missing_right[is_set]
    counts = np.full(forest.n_outputs, forest.n_trees // forest.n_outputs, np.float64)
    divisor = np.full(forest.n_outputs, float(forest.n_trees))
    divisor = divisor if output.divisor is None else output.divisor
    averages = output.aggregate is Aggregate.MEAN
    has_base = bool(np.any(base_score64(forest) != 0))
    in_turn = np.repeat(np.arange(forest.n_trees) % forest.n_outputs, np.diff(B.leaf_ptr))
    named = in_turn if forest.leaves.output is None else forest.leaves.output
    is_broken = {
        "no feature map": forest.feature_map is not None,
        "no prediction kernel": forest.kernel is not None,
        f"rows that are compared in float64 (the forest compares in {forest.dtype})": (
            forest.dtype != np.float64
        ),
        f"raw scores that are summed in float64 (the forest sums in {output.dtype})": (
            output.dtype != np.float64
        ),
        "nodes that read one column, by a threshold or a set of codes": not np.all(
            (margin | is_set) & tests.is_one_hot
        ),
        "missing values that are NaN or zero, not a sentinel": bool(
            np.any(tests.missing_rule == MissingRule.NAN_OR_SENTINEL)
        ),
        "sets whose codes are truncated toward zero": bool(
            np.any(tests.code_rule[is_set] != CodeRule.TRUNCATE)
        ),
        "sets where NaN goes the way of unknown codes, and zero is a code": bool(
            np.any(set_right[0] != set_right[1])
            or np.any(tests.missing_rule[is_set] != MissingRule.NAN)
        ),
        "thresholds that do not split |x| <= 1e-35, which it reads as 0": bool(np.any(unread)),
        "thresholds other than x >= -inf": bool(
            np.any(
                margin & (tests.relation == Relation.GREATER_EQUAL) & np.isneginf(forest.tests.b)
            )
        ),
        "a sum or a mean of trees": output.aggregate not in (Aggregate.SUM, Aggregate.MEAN),
        "a mean without base score over the trees of each output": averages
        and (has_base or not np.array_equal(divisor, counts)),
        "no factor of the sum": output.scale is not None,
        "at least one tree": forest.n_trees == 0,
        "one value per leaf": forest.leaves.v.shape[1] != 1,
        f"trees that add to the {forest.n_outputs} outputs in turn": (
            forest.n_trees % forest.n_outputs != 0 or not np.array_equal(named, in_turn)
        ),
        "linear leaves without tree weights": linear is not None and weight is not None,
        "linear leaves that read |x| <= 1e-35 as 0": (
            linear is not None and linear.zero_threshold != ZERO_THRESHOLD
        ),
    }
    require_rules("LightGBM", is_broken, written="its text")


def strict_thresholds(forest: Forest) -> Float64[Array, " n_nodes"]:
    """Return b such that x > b goes right; x >= b is x > the number below b."""
    b = forest.tests.b.astype(np.float64)
    with np.errstate(over="ignore"):  # below the least finite number comes -inf
        below = np.nextafter(b, -np.inf)
    return np.where(forest.tests.relation == Relation.GREATER, b, below)


def base_score64(forest: Forest) -> Float64[Array, " n_outputs"]:
    """Return the base score in LightGBM's dtype."""
    base = forest.output.base_score
    return base.astype(np.float64)
