"""Forests that one statement of SQL cannot hold."""

from __future__ import annotations

import re

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.sql.dialects import Dialect


def require_sql(forest: Forest) -> None:
    """Refuse a forest that SQL cannot answer for.

    Raises
    ------
    UnsupportedModelError
    """
    n_wide = int(np.sum(forest.tests.feature < 0))
    output, numbers = forest.output, (forest.leaves.v, forest.output.base_score)
    reasons = (
        (forest.n_trees == 0, "at least one tree, got none: export a trained forest"),
        (
            forest.kernel is not None,
            "a forest that predicts hard, got a prediction kernel: drop it with "
            "dataclasses.replace(forest, kernel=None), or predict with bitvec",
        ),
        (
            forest.feature_map is not None,
            "a forest that reads X itself, got a feature map: export ONNX",
        ),
        (n_wide > 0, f"nodes that test one column, got {n_wide} that weigh several: export ONNX"),
        (
            forest.leaves.linear is not None,
            "leaves that are constant, got leaves that are linear in x: export ONNX or C",
        ),
        (
            output.aggregate is Aggregate.WEIGHTED_MEDIAN,
            "a sum, mean, minimum or maximum over trees, got a weighted median: predict with "
            "bitvec",
        ),
        (
            not all(np.all(np.isfinite(values)) for values in numbers),
            "leaves and a base score that are finite, got infinite ones: export ONNX or C",
        ),
    )
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(f"SQL needs {sentence}.")


def require_names(
    forest: Forest, dialect: Dialect, name: str, table: str, keys: tuple[str, ...]
) -> None:
    """Refuse names that SQL would confuse: it takes no account of capitals.

    Raises
    ------
    InputError
    """
    names = forest.inputs.feature_names or ()
    for group in (names, keys):
        seen: dict[str, str] = {}
        for one in group:
            dialect.quoted(one)
            other = seen.setdefault(one.lower(), one)
            if other != one or (group is keys and keys.count(one) > 1):
                raise InputError(
                    f"columns must differ by more than capitals in SQL, got {other!r} and {one!r}: "
                    "rename one of them."
                )
    for key in keys:
        if key.lower().startswith(f"{name}_"):
            raise InputError(
                f"`key` must not begin as the columns of the statement do, got {key!r}: choose "
                f"another `name` than {name!r}."
            )
    if re.fullmatch(rf"{name}_\d+", table.lower()):
        raise InputError(
            f"`table` must not be called as a step of the statement is, got {table!r}: choose "
            f"another `name` than {name!r}."
        )


def require_texts(forest: Forest, categories: str) -> None:
    """Refuse categories as texts where their texts are not known.

    Raises
    ------
    InputError
    UnsupportedModelError
    """
    if categories not in ("codes", "texts"):
        raise InputError(f'`categories` must be "codes" or "texts", got {categories!r}.')
    if categories == "texts" and forest.inputs.hashed:
        raise UnsupportedModelError(
            "categories as texts need code books of texts, got columns whose categories are known "
            'by hashes: use categories="codes".'
        )
