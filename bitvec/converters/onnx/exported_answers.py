"""Leaves and output of an ONNX file that bitvec wrote, from the names of its constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.converters.onnx.operator import Operator
from bitvec.converters.onnx.trees import Trees
from bitvec.core.arrays import Array
from bitvec.core.graph.transform_operators import PARAMETER
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.output import Aggregate, Output, PostTransform


def answers(
    parts: Any,
    summing: Operator | None,
    trees: Trees,
    n_outputs: int,
    dtype: np.dtype,
    base: Array | None,
) -> tuple[Leaves, Output]:
    """Return leaves and output of a graph; `candidates` completes what names do not tell.

    Parameters
    ----------
    parts : bitvec.converters.onnx.exported.Parts
    summing : Operator or None
        The operator that holds the leaf values, if it sums them itself.
    trees : Trees
    n_outputs : int
    dtype : numpy dtype
        Of the output.
    base : array or None
        The base score that stands first in the operator.
    """
    operators, constants = parts.operators, parts.constants
    tree_weight = None
    if summing is not None:
        v = summing.weight[trees.leaf][:, None]
        target = summing.weight_target[trees.leaf].astype(np.int32)
        leaves = Leaves(v, target if n_outputs > 1 else None)
    else:
        leaves, tree_weight = _looked_up(parts, trees, n_outputs)
    aggregate = Aggregate.SUM
    if "mean" in operators:
        aggregate = Aggregate.MEAN
    if "extreme_wide" in operators:
        smallest = operators["extreme_wide"].op_type == "Min"
        aggregate = Aggregate.MIN if smallest else Aggregate.MAX
    if "median" in operators:
        aggregate, tree_weight = Aggregate.WEIGHTED_MEDIAN, constants["median_weight.0"]
    base_first = not {"raw_score", "raw_score_wide"} & operators.keys()
    if base is None:
        if base_first:
            base = constants["term_by_tree.1"][0]
        else:
            base = constants.get("raw_score.1", constants.get("raw_score_wide.1"))
    divisor = constants.get("mean.1")
    return leaves, Output(
        n_outputs,
        dtype,
        aggregate=aggregate,
        base_score=base,
        base_first=base_first,
        tree_weight=tree_weight,
        divisor=divisor if divisor is not None and divisor.ndim == 1 else None,
        scale=constants.get("sum_scaled.1"),
    )


def _looked_up(parts: Any, trees: Trees, n_outputs: int) -> tuple[Leaves, Array | None]:
    """Return leaves that stand outside the operator, and the weights of trees of linear leaves."""
    constants = parts.constants
    named = None
    pick = constants.get("leaf_value_by_output.1")
    if pick is not None:
        named = np.zeros(trees.bitvectors.n_trees + 1, np.int32)
        named[pick] = np.arange(n_outputs)
        named = np.repeat(named[:-1], np.diff(trees.bitvectors.leaf_ptr))
    spread = constants.get("leaf_names_output.0")
    if spread is not None:
        named = spread.argmax(axis=1).astype(np.int32)
    if "leaf_fallback.0" not in constants:
        return Leaves(constants["leaf_vector.0"], named), None
    v = constants["leaf_fallback.0"]
    used, column, weight = (
        list(_numbered(constants, f"term_{name}")) for name in ("used", "column", "weight")
    )
    has = np.array(used, bool).reshape(len(used), len(v))
    leaf, term = np.nonzero(has.T)
    linear = LinearTerms(
        np.concatenate([[0], np.cumsum(has.sum(axis=0))]).astype(np.int64),
        np.array(column, np.int32).reshape(has.shape)[term, leaf],
        np.array(weight, v.dtype).reshape(*has.shape, v.shape[1])[term, leaf],
        constants["leaf_constant.0"],
        float(constants.get("term_x_is_zero.1", 0.0)),
    )
    tree_weight = constants.get("leaf_vector_weighted.1")
    return Leaves(v, named, linear), None if tree_weight is None else tree_weight.ravel()


def _numbered(constants: dict[str, Array], name: str) -> Iterator[Array]:
    """Yield the constants of the operators `name`, `name_1`, `name_2`, ..."""
    count = 0
    while (key := f"{name}_{count}.0" if count else f"{name}.0") in constants:
        yield constants[key]
        count += 1


def candidates(parts: Any, output: Output) -> Iterator[Output]:
    """Yield outputs that may answer as the graph does."""
    operators, constants = parts.operators, parts.constants
    transform = next(
        (link for link in PostTransform if str(link) in operators), PostTransform.IDENTITY
    )
    parameter = constants.get(PARAMETER)
    output = replace(
        output,
        post_transform=transform,
        parameter=1.0 if parameter is None else float(parameter),
    )
    labels = list(_numbered(constants, "class_label"))
    if not labels:
        ends = [int(end) for end in _ends(constants)]
        groups = tuple(np.diff([0, *ends]).tolist())
        yield replace(output, groups=groups if sum(groups) == output.n_outputs else ())
        return
    single = [
        name.startswith("is_second_class")
        for name in operators
        if name.startswith(("is_second_class", "class_index"))
        and operators[name].op_type in ("Less", "LessOrEqual", "ArgMax")
    ]
    groups = tuple(1 if one else len(names) for one, names in zip(single, labels, strict=True))
    output = replace(output, classes=tuple(labels), groups=groups)
    boundary = constants.get("is_second_class.0")
    for from_raw, tie in ((False, False), (True, False), (True, True)):
        found = replace(output, labels_from_raw=from_raw, tie_to_second=tie)
        if boundary is not None and float(boundary) != found.second_above:
            found = replace(found, boundary=float(boundary))
        yield found


def _ends(constants: dict[str, Array]) -> Iterator[Array]:
    """Yield where the groups of a softmax end."""
    count = 0
    while (key := f"group_raw_{count}.2" if count else "group_raw.2") in constants:
        yield constants[key].ravel()[0]
        count += 1
