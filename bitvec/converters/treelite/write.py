"""Write a forest as a treelite model, where GTIL, treelite's own inference, can answer exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitvec.converters.constant_trees import base_as_trees
from bitvec.converters.numbering import Places, Sides, places
from bitvec.converters.treelite.model import TASKS
from bitvec.converters.treelite.unsupported import (
    PARAMETRIC,
    is_grove,
    listed_codes,
    postprocessor_of,
    require_writable,
    thresholds,
)
from bitvec.converters.writable import output_of_tree
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float
from bitvec.core.structure import children
from bitvec.errors import needs
from bitvec.files import atomic
from bitvec.files.atomic import StrPath

if TYPE_CHECKING:
    import treelite


def to_treelite(forest: Forest) -> treelite.Model:
    """Return a treelite model from which GTIL predicts what the forest predicts, bit for bit.

    Parameters
    ----------
    forest : Forest
        Axis-aligned, with constant leaves that are summed or averaged. One that compares in float32
        and sums in float64 (scikit-learn's) becomes a float64 model, with thresholds where float32
        rounds, so rows need not be float32. Labels, feature names and code books are not held.

    Returns
    -------
    treelite.Model
        In the dtype of the forest's sums. A tree adds to one output where its leaves do, else its
        leaves are vectors; tree weights are multiplied into them. A base score that comes first is
        an iteration of constant trees. Cover is `sum_hess`.

    Raises
    ------
    UnsupportedModelError
        If treelite cannot hold the forest exactly; the message says what and why.
    MissingLibraryError
        If treelite is not installed.

    Examples
    --------
    >>> import treelite
    >>> from bitvec.core.forest import Forest
    >>> model = to_treelite(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
    >>> treelite.gtil.predict(model, np.array([[0.5, 0], [0.75, 0]])).ravel().tolist()
    [10.0, 20.0]
    """
    with needs("treelite", "treelite", "Writing a treelite model"):
        from treelite import model_builder
    require_writable(forest)
    base = forest.output.base_score
    forest = _weighted(forest)
    if not is_grove(forest):
        forest = _with_vectors(forest)
    if forest.output.base_first and np.any(base != 0):
        forest = base_as_trees(forest)
        base = np.zeros_like(base)
    output = forest.output
    n_targets, max_class = len(output.groups), max(output.groups)
    is_vector = forest.leaves.v.shape[1] > 1
    is_output = np.arange(max_class) < np.array(output.groups)[:, None]
    table = np.zeros(is_output.shape)
    table[is_output] = base
    builder: Any = model_builder.ModelBuilder(
        threshold_type=output.dtype.name,
        leaf_output_type=output.dtype.name,
        metadata=model_builder.Metadata(
            forest.n_features,
            _task(forest),
            output.aggregate is Aggregate.MEAN,
            n_targets,
            list(output.groups),
            (n_targets, max_class) if is_vector else (1, 1),
        ),
        tree_annotation=model_builder.TreeAnnotation(
            forest.n_trees, *_annotation(forest, is_output, is_vector=is_vector)
        ),
        postprocessor=model_builder.PostProcessorFunc(**_postprocessor(forest)),
        base_scores=[0.0] * table.size,
    )
    for tree in _trees(forest, is_output):
        builder.start_tree()
        for key, (kind, details, statistics) in enumerate(tree):
            builder.start_node(key)
            getattr(builder, kind)(**details)
            for name, value in statistics:
                getattr(builder, name)(value)
            builder.end_node()
        builder.end_tree()
    model: treelite.Model = builder.commit()
    # The builder reads its numbers from JSON, to within an ulp of float64 only.
    model.get_header_accessor().set_field("base_scores", table.ravel())
    return model


def save(forest: Forest, path: StrPath) -> Path:
    """Write a forest as a checkpoint of treelite, which replaces a file that is there.

    Raises
    ------
    UnsupportedModelError
        As `to_treelite`.
    """
    return atomic.write(path, bytes(to_treelite(forest).serialize_bytes()))


def _weighted(forest: Forest) -> Forest:
    """Return the forest with tree weights multiplied into its leaves, in the dtype of the sums."""
    v, weight = forest.leaves.v.astype(forest.output.dtype), forest.output.tree_weight
    if weight is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            v = np.repeat(weight, np.diff(forest.bitvectors.leaf_ptr))[:, None] * v
    return replace(
        forest,
        leaves=Leaves(v, forest.leaves.output),
        output=replace(forest.output, tree_weight=None),
    )


def _with_vectors(forest: Forest) -> Forest:
    """Return the forest with one value for each output in each leaf.

    Zeros leave a sum that began at 0 as it is.
    """
    named = forest.leaves.output
    if named is None:
        return forest
    v = np.zeros((forest.n_leaves, forest.n_outputs), forest.leaves.v.dtype)
    v[np.arange(forest.n_leaves), named] = forest.leaves.v[:, 0]
    return replace(forest, leaves=Leaves(v))


def _task(forest: Forest) -> str:
    output, source = forest.output, forest.source
    own = source.metadata.get("task_type") if source is not None else None
    if source is not None and source.library == "treelite" and own in TASKS:
        return str(own)
    if output.classes is None:
        return "kRegressor"
    return "kBinaryClf" if 1 in output.groups else "kMultiClf"


def _annotation(
    forest: Forest, is_output: Array, *, is_vector: bool
) -> tuple[list[int], list[int]]:
    """Return the target and the class of each tree, -1 where its leaves speak for all."""
    if is_vector:
        n_targets, max_class = is_output.shape
        target, class_id = (0 if n_targets == 1 else -1), (0 if max_class == 1 else -1)
        return [target] * forest.n_trees, [class_id] * forest.n_trees
    group = output_of_tree(forest)
    assert group is not None
    targets, classes = np.nonzero(is_output)
    return targets[group].tolist(), classes[group].tolist()


def _postprocessor(forest: Forest) -> dict[str, Any]:
    name = postprocessor_of(forest)
    assert name is not None
    output = forest.output
    parameter = float(output.parameter) if output.post_transform in PARAMETRIC else 1.0
    return {"name": name, "sigmoid_alpha": parameter, "ratio_c": parameter}


def _trees(forest: Forest, is_output: Array) -> Iterator[list[tuple[str, dict[str, Any], Any]]]:
    """Yield the nodes of each tree in the order of their ids, as calls of the builder."""
    left, right = children(forest.bitvectors)
    is_equal = forest.tests.kind == Kind.EQUAL
    # A test that holds goes left, so an equal node's children change sides.
    sides = np.where(is_equal, right, left), np.where(is_equal, left, right)
    at = places(forest, "treelite", sides)
    calls: list[Any] = [None] * int(at.start[-1])
    for place, call in zip(at.node.tolist(), _tests(forest, at, sides), strict=True):
        calls[place] = call
    for place, call in zip(at.leaf.tolist(), _leaves(forest, is_output), strict=True):
        calls[place] = call
    for first, last in zip(at.start[:-1].tolist(), at.start[1:].tolist(), strict=True):
        yield calls[first:last]


def _tests(forest: Forest, at: Places, sides: Sides) -> Iterator[tuple[str, dict[str, Any], Any]]:
    tests = forest.tests
    feature = tests.feature.tolist()
    is_set, is_equal = tests.kind == Kind.SET, tests.kind == Kind.EQUAL
    ids = [at.child(side).tolist() for side in sides]
    b, reaches = thresholds(forest)
    operator = np.where(is_equal, "==", np.where(reaches, "<", "<=")).tolist()
    code, owner = listed_codes(forest)
    ends = np.searchsorted(owner, np.arange(tests.n_nodes + 1))
    default_left = (tests.missing_right == is_equal).tolist()
    statistics = _statistics(forest.source, node_cover="sum_hess", gain="gain")
    for node in range(tests.n_nodes):
        details: dict[str, Any] = {
            "feature_id": feature[node],
            "default_left": default_left[node],
            "left_child_key": ids[0][node],
            "right_child_key": ids[1][node],
        }
        if is_set[node]:
            details["category_list"] = code[ends[node] : ends[node + 1]].tolist()
            details["category_list_right_child"] = not tests.other_right[node]
            kind = "categorical_test"
        else:
            details |= {"threshold": float(b[node]), "opname": operator[node]}
            kind = "numerical_test"
        yield kind, details, _of(statistics, node)


def _leaves(forest: Forest, is_output: Array) -> Iterator[tuple[str, dict[str, Any], Any]]:
    values: list[Any] = forest.leaves.v[:, 0].tolist()
    if forest.leaves.v.shape[1] > 1:
        table = np.zeros((forest.n_leaves, is_output.size), forest.leaves.v.dtype)
        table[:, is_output.ravel()] = forest.leaves.v
        values = table.tolist()
    statistics = _statistics(forest.source, leaf_cover="sum_hess")
    for leaf, value in enumerate(values):
        yield "leaf", {"leaf_value": value}, _of(statistics, leaf)


def _statistics(source: Any, **names: str) -> list[tuple[str, Float[Array, " n"]]]:
    """Return treelite's names and the values of the statistics that the source knows."""
    known = [(name, getattr(source, field, None)) for field, name in names.items()]
    return [(name, values) for name, values in known if values is not None]


def _of(statistics: list[tuple[str, Array]], index: int) -> list[tuple[str, float]]:
    values = [(name, float(known[index])) for name, known in statistics]
    return [(name, value) for name, value in values if not np.isnan(value)]
