"""Forests that compare and add in float32, or add without scaling, for runtimes that do no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.output import Aggregate, Output
from bitvec.errors import UnsupportedModelError

F32 = np.dtype(np.float32)


def narrow_tests(forest: Forest, *, rows: np.dtype | None = None) -> Forest:
    """Return the forest that routes every row of float32 as this one routes it widened to float64.

    A threshold is rounded to the float32 at or below it where z > b goes right, at or above it
    where z >= b does: no float32 lies between the two.

    Parameters
    ----------
    rows : numpy dtype, optional
        Of the rows that are handed in, where it is not float32.

    Raises
    ------
    UnsupportedModelError
        If a node adds several columns, whose sums would be rounded otherwise, or the forest has a
        feature map or a prediction kernel; or if rows of float64 are handed in, which float32
        would round across thresholds.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> narrow_tests(Forest.from_matrices([[1.0]], [0.1], [[0], [1]], [0, 1])).b
    array([0.09999999], dtype=float32)
    """
    if forest.dtype == F32:
        return forest
    if rows == np.float64:
        raise UnsupportedModelError(
            "a forest of float64 that is to compare in float32 must read rows of float32, got "
            "`input_dtype` float64: leave `input_dtype` out, or keep the forest in float64."
        )
    tests = forest.tests
    wide = np.flatnonzero(~tests.is_one_hot)
    if wide.size or forest.feature_map is not None or forest.kernel is not None:
        raise UnsupportedModelError(
            "a forest that is to compare in float32 must test single columns of X, got "
            + (
                f"{wide.size} nodes that add several columns"
                if wide.size
                else "a feature map or a prediction kernel"
            )
            + ": choose a target that has float64."
        )
    down = tests.relation == Relation.GREATER
    b = _rounded(tests.b, down=down)
    # No float32 is equal to such a number: a set of no codes is left by all but what is missing.
    never = (tests.kind == Kind.EQUAL) & (b != tests.b)
    kind, other_right = tests.kind.copy(), tests.other_right.copy()
    kind[never], other_right[never], b[never] = Kind.SET, False, 0
    if np.any(tests.missing_rule == MissingRule.NAN_OR_ZERO):
        # The float32 nearest to 1e-35 lies above it.
        raise UnsupportedModelError(
            "a forest that is to compare in float32 must call only NaN or a float32 missing, got "
            "nodes that call |x| <= 1e-35 missing: choose a target that has float64."
        )
    sentinel = forest.inputs.missing_sentinel
    if sentinel is not None and float(np.float32(sentinel)) != sentinel:
        raise UnsupportedModelError(
            f"the value that stands for missing must be a float32, got {sentinel!r}: choose a "
            "target that has float64."
        )
    narrow = replace(
        tests,
        b=b,
        kind=kind,
        other_right=other_right,
        **{name: getattr(tests, name).astype(F32) for name in ("weight", "offset", "r")},
        substitute=None if tests.substitute is None else tests.substitute.astype(F32),
    )
    return replace(forest, tests=narrow)


def _rounded(b: Array, *, down: Array) -> Array:
    """Return each number as the nearest float32 that is not above it, or not below it."""
    with np.errstate(over="ignore"):
        near = b.astype(F32)
        limit = np.where(down, F32.type(-np.inf), F32.type(np.inf))
        wide = near.astype(np.float64)
        beyond = np.where(down, wide > b, wide < b)
        return np.where(beyond, np.nextafter(near, limit), near)


def narrow_scores(forest: Forest) -> Forest:
    """Return the forest that adds the same leaves, each rounded to float32, in float32.

    A raw score is then within (n + 1) · 2⁻²⁴ · (sum of magnitudes) of the wide one, n the number of
    trees; it is no longer the source's bit for bit.

    Raises
    ------
    UnsupportedModelError
        If leaves are linear in x: their terms may cancel, and rounding has no bound. If the score
        is a weighted median. If a number, or the sum of the largest leaves, leaves the range of
        float32.
    """
    _require_constant_leaves(forest)
    output = forest.output
    if output.dtype == F32:
        return forest
    if output.aggregate is Aggregate.WEIGHTED_MEDIAN:
        raise UnsupportedModelError(
            "scores that are to be rounded must be a sum, a mean, a minimum or a maximum, got a "
            "weighted median, which rounding moves to another tree: choose a target that has "
            "float64."
        )
    changed: dict[str, Any] = {
        name: _kept(getattr(output, name), F32)
        for name in ("base_score", "scale", "tree_weight", "divisor")
        if getattr(output, name) is not None
    }
    leaves = replace(forest.leaves, v=_kept(forest.leaves.v, F32))
    _require_finite_sums(forest)
    return replace(forest, leaves=leaves, output=replace(output, dtype=F32, **changed))


def _kept(numbers: Array, dtype: np.dtype, given: Array | None = None) -> Array:
    """Return numbers rounded to a dtype: within its normal range, or 0 or infinite as `given` is.

    Below that range rounding is no longer relative to the number.
    """
    given = numbers if given is None else given
    with np.errstate(over="ignore", under="ignore"):
        rounded = numbers.astype(dtype)
    normal = np.finfo(dtype)
    lost = ~np.isfinite(rounded) | (np.abs(rounded) < normal.tiny)
    lost &= np.isfinite(given) & (given != 0)
    if np.any(lost):
        raise UnsupportedModelError(
            f"leaves and scores that are to be rounded to {dtype} must be 0 or from "
            f"{normal.tiny:.3g} to {normal.max:.3g} in size, got {float(numbers[lost][0]):.3g}: "
            "scale what the model predicts, or choose a target that has float64."
        )
    return rounded


def _require_finite_sums(forest: Forest) -> None:
    """Refuse finite scores that would be infinite in float32."""
    output = forest.output
    if output.aggregate not in (Aggregate.SUM, Aggregate.MEAN) or not forest.n_trees:
        return
    sizes, base = (
        np.abs(np.where(np.isfinite(numbers), numbers, 0))
        for numbers in (forest.leaves.v, np.asarray(output.base_score))
    )
    with np.errstate(over="ignore"):
        largest = np.maximum.reduceat(sizes, forest.bitvectors.leaf_ptr[:-1]).sum(axis=0)
        most = float((largest + base).max())
    limit = float(np.finfo(F32).max)
    if most > limit:
        raise UnsupportedModelError(
            f"leaves that are to be added in float32 must sum to {limit:.3g} at most, "
            f"got up to {most:.3g}: scale what the model predicts, or choose a target that has "
            "float64."
        )


def fold_weights(forest: Forest) -> Forest:
    """Return the forest as a plain sum: each leaf times its tree's weight and scale, and divided.

    Leaves are rounded once more, in the dtype that they are added in: a raw score is within
    (n + 3) units of that dtype's rounding of the sum of magnitudes, n the number of trees. What is
    no sum or mean stays as it is.

    Raises
    ------
    UnsupportedModelError
        If leaves are linear in x, or a product leaves the range of their dtype.
    """
    _require_constant_leaves(forest)
    output, leaves = forest.output, forest.leaves
    if output.aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        return forest
    factor = np.ones((forest.n_leaves, 1))
    if output.tree_weight is not None:
        sizes = np.diff(forest.bitvectors.leaf_ptr)
        factor = np.repeat(output.tree_weight.astype(np.float64), sizes)[:, None]
    by_output = np.ones(forest.n_outputs)
    if output.scale is not None:
        by_output = by_output * output.scale
    if output.aggregate is Aggregate.MEAN:
        divisor = forest.n_trees if output.divisor is None else output.divisor
        by_output = by_output / np.asarray(divisor, np.float64)
    factor = factor * (by_output if leaves.output is None else by_output[leaves.output][:, None])
    if np.all(factor == 1):
        return replace(forest, output=_plain(output))
    with np.errstate(over="ignore", under="ignore"):
        product = leaves.v * factor
    v = _kept(product, leaves.v.dtype, np.where(factor == 0, 0, leaves.v))
    return replace(forest, leaves=replace(leaves, v=v), output=_plain(output))


def _require_constant_leaves(forest: Forest) -> None:
    if forest.leaves.linear is not None:
        raise UnsupportedModelError(
            "a forest whose scores are to be rounded must have constant leaves, got leaves that "
            "are linear in x: their terms may cancel; choose a target that has float64."
        )


def _plain(output: Output) -> Output:
    return replace(output, aggregate=Aggregate.SUM, tree_weight=None, scale=None, divisor=None)
