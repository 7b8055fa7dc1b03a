"""Limits of a target: what a forest, its labels and its numbers become for a runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.node_tests import MissingRule
from bitvec.core.to_float32 import F32, fold_weights, narrow_scores, narrow_tests
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.export_target import ExportTarget


def for_target(forest: Forest, target: ExportTarget) -> Forest:
    """Return the forest that the target can hold, without changing a route.

    Raises
    ------
    UnsupportedModelError
        If there is none.
    """
    if not target.float64:
        forest = narrow_scores(fold_weights(narrow_tests(forest)))
        forest = _narrow_base_score(forest) if target.float32_only else forest
    if not target.int64 and forest.n_leaves > 1 << 24:
        raise UnsupportedModelError(
            f"a forest for {target.name} must have at most {1 << 24} leaves, got "
            f"{forest.n_leaves}: it counts in float32. Export fewer trees with forest.take."
        )
    if not target.subnormals:
        _require_normal(forest, target)
    return forest


def without_missing(forest: Forest) -> Forest:
    """Return a forest for rows without NaN: all go left there, wherever a comparison says so."""
    tests = forest.tests
    right = tests.missing_right & ~(tests.is_one_hot & (tests.missing_rule == MissingRule.NAN))
    return replace(forest, tests=replace(tests, missing_right=right))


def without_labels(
    forest: Forest, form: str, target: ExportTarget, interface: Interface, *, leaves: bool
) -> Interface:
    """Return the interface, without `label` where the target does not hold such labels.

    Raises
    ------
    UnsupportedModelError
        If the interface names an output that the form or the target does not have.
    """
    groups = len(forest.output.groups)
    if form != "portable" and target.float32_only and interface.outputs is None:
        return replace(interface, outputs=("raw", *(("leaves",) * leaves)))
    if form == "portable":
        if interface.outputs is not None and not set(interface.outputs) <= {"raw", "leaves"}:
            raise UnsupportedModelError(
                "the ONNX form `portable` must have the outputs raw and leaves only, got "
                f"{', '.join(interface.outputs)}: it has no comparison to make labels with."
            )
        return interface
    if _holds_labels(forest, target):
        return interface
    if interface.outputs is None:
        names = ["probabilities"] if groups == 1 else [f"probabilities_{i}" for i in range(groups)]
        return replace(interface, outputs=("raw", *names, *(("leaves",) * leaves)))
    if "label" in interface.outputs:
        raise UnsupportedModelError(
            f"class labels for {target.name} must be whole numbers of {_whole(target)}, got text, "
            "fractions or larger ones: ask for `probabilities`, whose greatest says the class, or "
            "relabel the classes."
        )
    return interface


def require_integers(forest: Forest, dtype: np.dtype | None, *, leaves: bool) -> None:
    """Refuse a dtype of leaves and labels that does not hold each of them.

    Raises
    ------
    UnsupportedModelError
    """
    if dtype is None or dtype == np.int64:
        return
    most = 1 << 24 if dtype == F32 else np.iinfo(dtype).max
    numbers = [labels for labels in forest.output.classes or () if labels.dtype.kind in "iu"]
    large = max((int(np.abs(labels).max(initial=0)) for labels in numbers), default=0)
    large = max(large, forest.n_leaves if leaves else 0)
    if large > most:
        raise UnsupportedModelError(
            f"leaves and labels in {dtype} must be at most {most}, got {large}: leave "
            "`integer_dtype` out."
        )


def _holds_labels(forest: Forest, target: ExportTarget) -> bool:
    """Return whether a target answers with the labels of a forest as they are."""
    if target.float64 or forest.output.classes is None:
        return True
    held = np.iinfo(_whole(target))
    return all(
        labels.dtype.kind in "iub"
        and held.min <= int(labels.min(initial=0))
        and int(labels.max(initial=0)) <= held.max
        for labels in forest.output.classes
    )


def _whole(target: ExportTarget) -> np.dtype:
    """Return in what a target looks whole numbers up, without computing with them."""
    return np.dtype(np.int64 if target.int64 else np.int32)


def _narrow_base_score(forest: Forest) -> Forest:
    """Return the forest that adds its base score in float32 too."""
    with np.errstate(over="ignore"):
        base = np.asarray(forest.output.base_score).astype(F32)
    return replace(forest, output=replace(forest.output, base_score=base))


def _require_normal(forest: Forest, target: ExportTarget) -> None:
    held = {"threshold": forest.tests.b, "leaf": forest.leaves.v}
    held["base score"] = np.asarray(forest.output.base_score)
    for what, numbers in held.items():
        smallest = np.finfo(numbers.dtype).tiny
        small = np.count_nonzero((numbers != 0) & (np.abs(numbers) < smallest))
        if small:
            raise UnsupportedModelError(
                f"a forest for {target.name} must have no {what} between 0 and {smallest:.3g} in "
                f"size, got {small}: it takes such numbers for 0. Choose another target."
            )
