"""Steps that compute with each number: scaling, clipping, binarizing."""

from __future__ import annotations

import numpy as np

from bitvec.converters.pipelines.derived_columns import (
    Block,
    Derived,
    Step,
    Walk,
    absent_marked,
    as_floats,
    checked,
)
from bitvec.converters.pipelines.operations import Rising
from bitvec.core.arrays import Array

_ROUNDS_OPERANDS = (1, 8)
"""scikit-learn rounds what StandardScaler subtracts and divides by to the dtype of X since then."""


def _computed(step: Step, block: Block, name: str, operands: list[Array]) -> Block:
    """Return the block with one operation on each column, with its own operands."""

    def change(at: int, column: Derived) -> Derived:
        own = tuple(operand[at : at + 1] for operand in operands)
        sound = all(np.isfinite(o).all() or np.isnan(o).all() for o in own)
        if name in ("divide", "multiply"):
            sound &= all(bool(np.all((o > 0) | np.isnan(o))) for o in own)
        if not sound:
            raise step.refuse(
                f"what it computes with must be finite, factors above 0, got {own} to {name}"
            )
        return column.then(Rising(name, own, column.values, column.values))

    return block.each(change)


def _computed_alike(
    step: Step, block: Block, name: str, operand: float, dtype: np.dtype | type
) -> Block:
    """Return the block with one operation on each column, with one number, rounded to a dtype."""
    with np.errstate(over="ignore"):
        return _computed(step, block, name, [np.full(len(block.columns), operand, dtype)])


def _scaled(step: Step, block: Block, walk: Walk, attribute: str) -> Block:
    """Return the block divided by an attribute, or a sparse one multiplied by its inverse."""
    scale = step.array(attribute, len(block.columns))
    if not block.is_sparse:
        return _computed(step, block, "divide", [scale])
    return _computed(step, absent_marked(block, walk), "multiply", [1.0 / scale])


def _clipped(step: Step, block: Block, low: float, high: float) -> Block:
    ends = [np.full(len(block.columns), end, np.float64) for end in (low, high)]
    return _computed(step, block, "clip", ends)


def standard(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a StandardScaler."""
    block = checked(as_floats(block), nan=True)
    n, rounds = len(block.columns), walk.version >= _ROUNDS_OPERANDS and not block.is_sparse

    def operand(attribute: str) -> Array:
        value = step.array(attribute, n)
        return value.astype(block.dtype) if rounds else value

    step.fitted("scale_")
    if step.option("with_mean", True):
        if block.is_sparse:
            raise step.refuse("it centres a sparse matrix")
        block = _computed(step, block, "subtract", [operand("mean_")])
    if not step.option("with_std", True):
        return block
    if block.is_sparse:
        return _scaled(step, block, walk, "scale_")
    return _computed(step, block, "divide", [operand("scale_")])


def min_max(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a MinMaxScaler."""
    _require_dense(step, block)
    block = checked(as_floats(block), nan=True)
    n = len(block.columns)
    block = _computed(step, block, "multiply", [step.array("scale_", n)])
    block = _computed(step, block, "add", [step.array("min_", n)])
    if not step.option("clip", False):
        return block
    low, high = step.fitted("feature_range")
    return _clipped(step, block, low, high)


def max_abs(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a MaxAbsScaler."""
    block = _scaled(step, checked(as_floats(block), nan=True), walk, "scale_")
    return _clipped(step, block, -1.0, 1.0) if step.option("clip", False) else block


def robust(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a RobustScaler."""
    block = checked(as_floats(block), nan=True)
    if step.option("with_centering", True):
        _require_dense(step, block)
        centre = step.array("center_", len(block.columns))
        block = _computed(step, block, "subtract", [centre])
    return _scaled(step, block, walk, "scale_") if step.option("with_scaling", True) else block


def binarizer(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a Binarizer."""
    threshold = step.option("threshold", 0.0)
    if block.is_sparse and any(column.is_marked for column in block.columns):
        raise step.refuse("it reads a scaled sparse matrix before trees that tell zeros apart")
    block = checked(as_floats(block), nan=False)
    exact = isinstance(threshold, np.floating)  # a Python number is rounded to the column's dtype
    return _computed_alike(step, block, "exceeds", threshold, np.float64 if exact else block.dtype)


def weighted(step: Step, block: Block, weight: float | None) -> Block:
    """Return the block times a weight of a ColumnTransformer or FeatureUnion."""
    if weight is None:
        return block
    if block.is_sparse or not weight > 0:
        raise step.refuse(f"the weight {weight} of a sparse matrix or not above 0")
    block = as_floats(block)
    return _computed_alike(step, block, "multiply", weight, block.dtype)


def _require_dense(step: Step, block: Block) -> None:
    if block.is_sparse:
        raise step.refuse("it takes no sparse matrix")
