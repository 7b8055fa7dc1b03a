"""SimpleImputer and MissingIndicator: missing values, replaced and told."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.pipelines.derived_columns import Block, Derived, Step, Walk, as_floats
from bitvec.converters.pipelines.operations import DOUBLE, Replace, Require


def simple(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a SimpleImputer."""
    if block.is_sparse:
        raise step.refuse("it reads a sparse matrix")
    statistics, n = np.asarray(step.fitted("statistics_")), len(block.columns)
    if statistics.shape != (n,):
        raise step.refuse(f"its `statistics_` must be {n} values, got shape {statistics.shape}")
    missing = _missing_of(step)
    # Versions without it round what is filled in to the column's dtype alone.
    fill_dtype = np.dtype(step.option("_fill_dtype", step.fitted("_fit_dtype")))
    of_objects = np.dtype(step.fitted("_fit_dtype")).kind == "O"
    if callable(step.option("strategy", "mean")):
        raise step.refuse("its strategy is a function")
    if of_objects or step.option("strategy", "mean") in ("most_frequent", "constant"):
        block = block.promoted()
        if of_objects:
            block = block.each(lambda _, column: column.to(np.dtype(object)))
    else:
        block = as_floats(block)
    block = _checked(block, missing)
    keeps = bool(step.option("keep_empty_features", False))
    kept = [at for at in range(n) if keeps or not _is_nan(statistics[at])]
    walk.checked += [block.columns[at] for at in range(n) if at not in kept]

    def filled(at: int) -> Derived:
        column, value = block.columns[at], statistics[at]
        if fill_dtype.kind != "O":
            # What is filled in is rounded to the dtype of the training, then to the column's.
            value = float(np.asarray(value).astype(fill_dtype).astype(column.values))
        elif isinstance(value, str):
            value = str(value)
        else:
            value = float(value)
        return column.then(Replace(missing, value, column.values, column.values))

    columns = [filled(at) for at in kept]
    if not step.option("add_indicator", False):
        return Block(tuple(columns))
    told = indicator(step.inner(step.fitted("indicator_"), "indicator_"), block, walk)
    return Block((*columns, *told.columns)).promoted()


def indicator(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a MissingIndicator."""
    if block.is_sparse or step.option("sparse", "auto") is True:
        raise step.refuse("it reads or makes a sparse matrix")
    missing = _missing_of(step)
    if not step.option("_precomputed", False):
        block = _checked(block.promoted(), missing)
    features = np.asarray(step.fitted("features_"), np.int64)
    only = step.option("features", "missing-only") == "missing-only"
    if only and step.option("error_on_new", True) and not step.option("_precomputed", False):
        # A missing value elsewhere is refused.
        rest = [at for at in range(len(block.columns)) if at not in features]
        if not _is_nan(missing) and rest:
            raise step.refuse(f"it refuses {missing!r} in columns where training had none")
        walk.checked += [
            block.columns[at].then(Require(block.columns[at].values, nan=False, infinite=True))
            for at in rest
        ]

    def told(at: int) -> Derived:
        column = block.columns[at]
        operation = Replace(missing, 1.0, column.values, DOUBLE, other=0.0)
        return column.then(operation, np.dtype(np.bool_))

    return Block(tuple(told(int(at)) for at in features))


def _checked(block: Block, missing: Any) -> Block:
    def change(_: int, column: Derived) -> Derived:
        # Of objects only NaN is refused.
        infinite = column.dtype == np.dtype(object)
        return column.then(Require(column.values, nan=_is_nan(missing), infinite=infinite))

    return block.each(change)


def _missing_of(step: Step) -> Any:
    """Return what counts as missing: NaN, None, a number or a text."""
    missing = step.option("missing_values", np.nan)
    if missing is None or isinstance(missing, str):
        return missing
    if isinstance(missing, int | float | np.integer | np.floating):
        return float(missing)
    raise step.refuse(f"it takes {missing!r} for missing")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and value != value
