"""Convert YDF's models, from model directories or from the library's own objects.

Directories are read without the library; an object is saved to a temporary directory, and read the
same way. What is converted is what `model.predict` computes by the engine that it takes by itself
(see `engines`), not by one that `force_engine` or `use_slow_engine` asks for.

* A row goes right (to the positive child) where a number is >= the threshold, a truth value is
  true, or a category is in the set. YDF compares and adds in float32.
* A categorical column is read as codes: those of its dictionary, 0 being `<OOD>`, which is also
  what every code or word is that is not there; the code after the last is the empty string, which
  is missing, as NaN is.
* Scores are added in float32, tree by tree: by QuickScorer from the initial prediction on, by the
  generic engine from 0 with the initial prediction at the end. A random forest's leaves are divided
  by the number of trees before they are added.
* Labels are texts, as `model.predict_class` returns them; the second of two classes wins from a
  prediction of one half on.

YDF cuts a random forest's probabilities off at 1; here a sum may exceed 1 by its rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from bitvec.converters.naming import naming
from bitvec.converters.ydf import schema
from bitvec.converters.ydf.conditions import Conditions, ConditionType, joined, read_conditions
from bitvec.converters.ydf.data_spec import Columns, read_columns
from bitvec.converters.ydf.directory import BOOSTED_TREES, ISOLATION_FOREST, Directory, read
from bitvec.converters.ydf.engines import Missing, missing_of, takes_quick_scorer
from bitvec.converters.ydf.routing import node_tests
from bitvec.converters.ydf.tasks import (
    POISSON_BOUND,
    Answers,
    Loss,
    Task,
    isolation_depth,
    read_answers,
    read_leaves,
)
from bitvec.converters.ydf.trees import shape_of
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Output, PostTransform
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors, arrange
from bitvec.errors import UnsupportedModelError

FILES: Final = (schema.MODEL.name, schema.DATA_SPEC.name)
"""Files by which a directory is known as a YDF model."""

_BELOW_HALF: Final = float(np.nextafter(np.float32(0.5), np.float32(0)))
"""A float32 exceeds it from one half on."""


@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """A forest, and what is needed to ask the library about it."""

    forest: Forest
    columns: Columns
    missing: Missing
    kind: str
    task: Task
    label: int
    """The column of the label, -1 without one."""


def convert(model: Any) -> Forest:
    """Convert a YDF model.

    Parameters
    ----------
    model : path, or model of ydf
        A model directory with nodes as blob sequences or TFRecords, or a random forest (CART models
        are such), gradient boosted trees or an isolation forest. A directory needs no ydf.

    Returns
    -------
    Forest
        float32; raw scores equal what the default engine adds up, bit for bit.

    Raises
    ------
    UnsupportedModelError
        For another kind of model, feature, condition, task or loss, and for models that no fast
        engine of YDF answers.
    FileFormatError, InvalidForestError
        If the directory is damaged or is no YDF model.

    Examples
    --------
    >>> forest = convert("model_directory")  # doctest: +SKIP
    """
    with opened(model) as path:
        return convert_directory(path).forest


@contextmanager
def opened(model: Any) -> Iterator[Path]:
    """Give the directory of a model; an object's is temporary."""
    if isinstance(model, (str, PathLike)):
        path = Path(model)
        with naming(str(path)):
            yield path
        return
    if not (hasattr(model, "save") and hasattr(model, "data_spec")):
        raise UnsupportedModelError(
            f"`model` must be a path or a model of ydf, got {type(model).__name__}."
        )
    with TemporaryDirectory() as folder, naming(type(model).__name__):
        path = Path(folder) / "model"
        model.save(str(path))
        yield path


def convert_directory(path: Path) -> Converted:
    """Read and convert a model directory."""
    directory = read(path)
    columns = read_columns(directory)
    answers = read_answers(directory, columns)
    conditions, has_children, values = _read_nodes(directory, columns, answers)
    shape = shape_of(has_children, directory.n_trees)
    position = np.flatnonzero(has_children)
    oblique = position[conditions.test == ConditionType.OBLIQUE]
    missing = missing_of(conditions, columns, shape.below(oblique)[position])
    bitvectors, order = arrange(shape.left, shape.right, shape.roots)
    condition_of = np.cumsum(has_children) - 1
    node = condition_of[order.node]
    n_leaves = np.diff(bitvectors.leaf_ptr)
    first = takes_quick_scorer(conditions, n_leaves, answers.n_outputs)
    boosted = directory.kind == BOOSTED_TREES
    output = _output(answers, bitvectors, base_first=boosted and first)
    v = values[order.leaf - np.cumsum(has_children)[order.leaf]]
    if directory.kind == ISOLATION_FOREST:
        depth = shape.depth[order.leaf]
        v = isolation_depth(v[:, 0], depth, directory.n_trees)[:, None]
    _require_within_bounds(directory, answers, bitvectors, v)
    task = Task(int(directory.model.ints("task")[0]))
    forest = Forest(
        tests=node_tests(conditions, columns, missing, node),
        bitvectors=bitvectors,
        leaves=Leaves(v, _output_of_leaf(answers, bitvectors)),
        output=output,
        inputs=columns.inputs,
        source=Source(
            "ydf",
            "",
            directory.kind,
            node_cover=conditions.cover[node],
            gain=conditions.gain[node],
            metadata={"task": task.name},
        ),
    )
    label = int(directory.model.ints("label_col_idx", -1)[0])
    return Converted(forest, columns, missing, directory.kind, task, label)


def _read_nodes(
    directory: Directory, columns: Columns, answers: Answers
) -> tuple[Conditions, Bool[Array, " n_positions"], Array]:
    """Read the nodes: their conditions, which have one, and what each of the others holds."""
    conditions, has_children, values = [], [], []
    for nodes in directory.parts():
        conditions.append(read_conditions(nodes, columns))
        has_children.append(nodes.has("condition"))
        values.append(read_leaves(directory, nodes, answers)[~has_children[-1]])
    return joined(conditions), np.concatenate(has_children), np.concatenate(values)


def _output(answers: Answers, bitvectors: Bitvectors, *, base_first: bool) -> Output:
    iteration = None
    if answers.width < answers.n_outputs:
        iteration = (np.arange(bitvectors.n_trees) // answers.n_outputs).astype(np.int32)
    binary = answers.classes is not None and answers.n_outputs == 1
    return Output(
        n_outputs=answers.n_outputs,
        dtype=np.dtype(np.float32),
        base_score=answers.base,
        base_first=base_first,
        post_transform=answers.post_transform,
        parameter=answers.parameter,
        classes=None if answers.classes is None else (answers.classes,),
        boundary=_BELOW_HALF if binary else None,
        iteration=iteration,
    )


def _output_of_leaf(answers: Answers, bitvectors: Bitvectors) -> Array | None:
    """Return the output of each leaf of boosted trees that come one an output in turn."""
    if answers.width == answers.n_outputs:
        return None
    tree: Int64[Array, " n_leaves"] = np.repeat(
        np.arange(bitvectors.n_trees), np.diff(bitvectors.leaf_ptr)
    )
    return (tree % answers.n_outputs).astype(np.int32)


def _require_within_bounds(
    directory: Directory, answers: Answers, bitvectors: Bitvectors, v: Array
) -> None:
    """Refuse a Poisson regression whose exponent YDF would cut off."""
    poisson = (
        directory.kind == BOOSTED_TREES and int(directory.header.ints("loss")[0]) == Loss.POISSON
    )
    if not poisson or answers.post_transform is PostTransform.IDENTITY:
        return
    largest = np.maximum.reduceat(np.abs(v[:, 0].astype(np.float64)), bitvectors.leaf_ptr[:-1])
    bound = float(largest.sum()) + abs(float(answers.base[0]))
    if not bound < POISSON_BOUND:
        raise UnsupportedModelError(
            f"the scores of a Poisson regression must stay below {POISSON_BOUND}, where YDF cuts "
            f"them off, got up to {bound:.3g}."
        )
