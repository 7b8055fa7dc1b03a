"""Answers of onnxruntime to an ONNX model: labels, scores, and scores before the transform."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from bitvec.errors import MissingLibraryError

if find_spec("onnx") is None:
    raise MissingLibraryError("onnx", "onnx", "Running an ONNX model")
if find_spec("onnxruntime") is None:
    raise MissingLibraryError("onnxruntime", "onnx", "Running an ONNX model")

import numpy as np
import onnx
import onnxruntime

from bitvec.converters.naming import naming_file
from bitvec.converters.onnx import exported
from bitvec.converters.onnx.exported_walker import exported_trees
from bitvec.converters.onnx.file import read_model
from bitvec.converters.onnx.operator_answers import (
    MERGED,
    leaf_answers,
    operator_answers,
    own_rows,
    session_of,
)
from bitvec.converters.onnx.operator_schema import CLASSIFIER
from bitvec.converters.onnx.prepared_graph import Preparation, feeds, preparation
from bitvec.converters.onnx.read import read_operator
from bitvec.converters.onnx.walker import source_trees
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.shape_annotations import Float
from bitvec.verify.oracle import FrameAnswers, Oracle, require_columns

PREPARED = (
    "raw scores are those of the operator of trees alone, on what the graph makes of the raw rows; "
    "labels and scores are those of the whole graph"
)


def oracle_of(model: Any) -> Oracle:
    """Return the model in onnxruntime, on one thread.

    Raises
    ------
    UnsupportedModelError, FileFormatError
        As `convert`: nothing is run before the model is known to be sound.
    """
    with naming_file(model):
        message = read_model(model)
        if exported.form_of(message) is not None:
            answering = _exported_answers(message, exported.read(message))
            return replace(answering, written=lambda: exported_trees(message))
        before = preparation(message)
        if before is not None:
            return _prepared_answers(message, before)
        answering = operator_answers(*read_operator(message))
        if MERGED in answering.notes:  # the nodes of the file prove nothing of it
            return answering
        return replace(answering, trees=lambda: source_trees(message))


def _prepared_answers(message: Any, before: Preparation) -> Oracle:
    """Return a graph that prepares columns as an oracle of its raw rows.

    The whole graph answers, and says what its trees read, of which their operator in a graph of its
    own gives the raw scores.
    """
    own, operator, around = read_operator(before.trees)
    forest, last = before.fold(own), operator_answers(own, operator, around)
    leaves = leaf_answers(own, around)
    node, steps = around.node, around.after.steps
    names = [node.input[0], *node.output]
    names[-1] = steps[-1].output[0] if steps else names[-1]
    whole = onnx.ModelProto()
    whole.CopyFrom(message)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name)
    session, inputs = session_of(whole), forest.inputs
    is_classifier, single = node.op_type == CLASSIFIER, own.n_outputs == 1

    def asked(columns: list[Array], name: str) -> Array:
        found: Array = session.run([name], feeds(before.inputs, columns))[0]
        return found

    def columns_of(X: Array) -> list[Array]:
        require_columns(X, inputs.n_features)
        return [_held(X[:, at], inputs, at) for at in range(inputs.n_features)]

    def framed(frame: Any) -> list[Array]:
        places = inputs.feature_names or range(inputs.n_features)
        return [_of_series(frame[name], inputs, at) for at, name in enumerate(places)]

    def raw(columns: list[Array]) -> Array:
        return last.raw(asked(columns, names[0]))

    def leaf_ids(columns: list[Array]) -> Array:
        found: Array = leaves(asked(columns, names[0]))
        return found

    def scores(columns: list[Array]) -> Array:
        found = asked(columns, names[-1]).reshape(len(columns[0]), -1)
        return found[:, 1:] if is_classifier and operator.n_targets == 2 and single else found

    def labels(columns: list[Array]) -> Array:
        return asked(columns, names[1])

    domains = inputs.domains or ()
    predicted = labels if own.output.is_classifier else scores
    return replace(
        last,
        raw=lambda X: raw(columns_of(X)),
        leaf_ids=None if leaves is None else lambda X: leaf_ids(columns_of(X)),
        predict=None if last.predict is None else lambda X: predicted(columns_of(X)),
        scores=None if last.scores is None else lambda X: scores(columns_of(X)),
        accepts_missing=not domains or any(domain.missing for domain in domains),
        copied_leaves=True,
        n_features=inputs.n_features,
        of_frame=FrameAnswers(
            raw=lambda frame: raw(framed(frame)),
            labels=(lambda frame: labels(framed(frame)))
            if own.output.is_classifier and last.predict is not None
            else None,
        )
        if inputs.feature_names
        else None,
        notes=(*last.notes, PREPARED),
    )


def _held(x: Array, inputs: Inputs, at: int) -> Array:
    """Return a column of rows as the graph is handed it: texts instead of their codes."""
    book = inputs.book(at)
    if book is None:
        return x
    unseen = "no text that the graph knows"
    while unseen in book:
        unseen += "?"
    place = np.where(np.isin(x, np.arange(len(book))), x, len(book)).astype(np.intp)
    return np.array([*book, unseen], object)[place]


def _of_series(series: Any, inputs: Inputs, at: int) -> Array:
    values: Array = np.asarray(series)
    if inputs.book(at) is not None and not all(isinstance(v, str) for v in values.tolist()):
        raise TypeError(f"column {at} must hold texts for onnxruntime, got others.")
    return values


def _exported_answers(model: Any, forest: Forest) -> Oracle:
    """Return a file that bitvec wrote as an oracle: its outputs on one thread."""
    session = session_of(model)
    output = forest.output

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        scores: Array = session.run(["raw"], {"X": own_rows(X, forest)})[0]
        return scores

    def predict(X: Array) -> Array:
        name = "prediction" if output.classes is None else "label"
        answers: Array = session.run([name], {"X": own_rows(X, forest)})[0]
        return answers

    def scores(X: Array) -> Float[Array, "batch n_outputs"]:
        n_groups = len(output.groups)
        names = [f"probabilities_{group}" for group in range(n_groups)]
        names = names if n_groups > 1 else ["probabilities"]
        parts = session.run(names, {"X": own_rows(X, forest)})
        # A group of one output has the probabilities of both of its classes.
        kept = [p[:, -size:] for p, size in zip(parts, output.groups, strict=True)]
        return np.concatenate(kept, axis=1)

    return Oracle(
        "onnxruntime",
        onnxruntime.__version__,
        raw,
        predict=predict,
        scores=None if output.classes is None else scores,
        n_trees=forest.n_trees,
        n_features=forest.n_features,
        n_outputs=forest.n_outputs,
    )
