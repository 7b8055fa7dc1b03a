"""ONNX models around one tree operator (ai.onnx.ml), converted as onnxruntime 1.31 runs them.

Preprocessing before the trees is folded into them; see `bitvec.converters.onnx.prepared_graph`.

`TreeEnsembleClassifier` and `TreeEnsembleRegressor` of versions 1 to 4 and `TreeEnsemble` of
version 5 are read, as skl2onnx and onnxmltools write them. What the standard leaves open is taken
from the runtime; see `bitvec.converters.onnx.operator_output`. Nothing of a file is executed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from bitvec.errors import MissingLibraryError

if find_spec("onnx") is None:
    raise MissingLibraryError("onnx", "onnx", "Reading or writing an ONNX model")

import onnx

from bitvec.converters.naming import naming_file
from bitvec.converters.onnx import exported as onnx_exported
from bitvec.converters.onnx.file import attributes, read_model
from bitvec.converters.onnx.graph import Surroundings, surroundings
from bitvec.converters.onnx.node_ids import read_by_ids
from bitvec.converters.onnx.operator import Operator, read_by_positions
from bitvec.converters.onnx.operator_output import answers
from bitvec.converters.onnx.operator_schema import ENSEMBLE
from bitvec.converters.onnx.prepared_graph import preparation
from bitvec.converters.onnx.stored_inputs import stored_inputs
from bitvec.converters.onnx.trees import trees_of
from bitvec.core.forest import Forest
from bitvec.core.source import Source
from bitvec.errors import FileFormatError


def convert(model: Any) -> Forest:
    """Convert an ONNX model whose graph is one tree operator, or prepares the columns of one.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto

    Returns
    -------
    Forest
        In the narrowest floating dtype between the graph's input and the trees; scores in the
        operator's dtype. Where the graph prepares columns, those of its inputs one after the
        other, in float32 if no input is wider; texts have code books. Raw scores equal those of
        onnxruntime on one thread bit for bit, however many rows it is given; float32 probabilities
        may differ in the last places, since onnxruntime computes 1 / (1 + exp(-x)) of a negative x
        as 1 minus that of -x.

    Raises
    ------
    UnsupportedModelError
        If the graph computes more than the trees, or no forest answers as the operator does.
    FileFormatError
        If the file is damaged or no ONNX model.
    OSError
        If it cannot be read.
    """
    with naming_file(model):
        message = read_model(model)
        if onnx_exported.form_of(message) is not None:
            return onnx_exported.read(message)
        before = preparation(message)
        if before is None:
            return read_operator(message)[0]
        return before.fold(read_operator(before.trees)[0])


def read_operator(message: Any) -> tuple[Forest, Operator, Surroundings]:
    """Convert a message around a tree operator, and return the operator and what is around it."""
    around = surroundings(message)
    kind = around.node.op_type
    given = attributes(around.node)
    if kind == ENSEMBLE:
        operator = read_by_positions(given, around.threshold_dtype)
    else:
        operator = read_by_ids(kind, given, around.threshold_dtype)
    trees = trees_of(operator, around.dtype, whole=kind != ENSEMBLE)
    leaves, output = answers(
        operator,
        trees.bitvectors,
        trees.leaf,
        around.threshold_dtype,
        around.after,
        label_used=around.label_used,
        rounds=around.rounds,
    )
    source = Source(
        "onnx",
        onnx.__version__,
        kind,
        leaf_id=operator.leaf_id[trees.leaf],
        node_id=operator.node_id[trees.node],
        metadata={
            "operator": kind,
            "ml_version": around.ml_version,
            "aggregate_function": operator.aggregate,
            "post_transform": operator.transform,
            "producer": f"{message.producer_name} {message.producer_version}".strip(),
        },
    )
    inputs = stored_inputs(message, _n_features(operator, around))
    return Forest(trees.tests, trees.bitvectors, leaves, output, inputs, source), operator, around


def _n_features(operator: Operator, around: Surroundings) -> int:
    needed = int(operator.feature.max()) + 1 if operator.feature.size else 1
    if around.n_features is None:
        return needed
    if needed > around.n_features:
        raise FileFormatError(
            f"the input must have the {needed} columns that the trees read, got "
            f"{around.n_features}: the file is damaged."
        )
    return around.n_features
