"""Forests that compare and add in float32, or add without scaling, for runtimes that do no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.arrays import Array
from bitvec.errors import UnsupportedModelError
from bitvec.forest import Forest
from bitvec.node_tests import Kind, MissingRule, Relation
from bitvec.output import Aggregate, Output

F32 = np.dtype(np.float32)


def narrow_tests(forest: Forest) -> Forest:
    """Return the forest that routes every row of float32 as this one routes it widened to float64.

    A threshold is rounded to the float32 at or below it where z > b goes right, at or above it
    where z >= b does: no float32 lies between the two.

    Raises
    ------
    UnsupportedModelError
        If a node adds several columns, whose sums would be rounded otherwise, or the forest has a
        feature map or a prediction kernel.

    Examples
    --------
    >>> from bitvec.forest import from_matrices
    >>> narrow_tests(from_matrices([[1.0]], [0.1], [[0], [1]], [0, 1])).b
    array([0.09999999], dtype=float32)
    """
    if forest.dtype == F32:
        return forest
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
        If leaves are linear in x: their terms may cancel, and rounding has no bound.
    """
    _require_constant_leaves(forest)
    output = forest.output
    if output.dtype == F32:
        return forest
    with np.errstate(over="ignore"):
        changed = {
            name: getattr(output, name).astype(F32)
            for name in ("base_score", "scale", "tree_weight", "divisor")
            if getattr(output, name) is not None
        }
        leaves = replace(forest.leaves, v=forest.leaves.v.astype(F32))
    return replace(forest, leaves=leaves, output=replace(output, dtype=F32, **changed))


def fold_weights(forest: Forest) -> Forest:
    """Return the forest as a plain sum: each leaf times its tree's weight and scale, and divided.

    Leaves are rounded once more, in the dtype that they are added in: a raw score is within
    (n + 3) units of that dtype's rounding of the sum of magnitudes, n the number of trees. What is
    no sum or mean stays as it is.

    Raises
    ------
    UnsupportedModelError
        If leaves are linear in x.
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
    with np.errstate(over="ignore"):
        v = (leaves.v * factor).astype(leaves.v.dtype)
    return replace(forest, leaves=replace(leaves, v=v), output=_plain(output))


def _require_constant_leaves(forest: Forest) -> None:
    if forest.leaves.linear is not None:
        raise UnsupportedModelError(
            "a forest whose scores are to be rounded must have constant leaves, got leaves that "
            "are linear in x: their terms may cancel. Choose a target that has float64."
        )


def _plain(output: Output) -> Output:
    return replace(output, aggregate=Aggregate.SUM, tree_weight=None, scale=None, divisor=None)
