"""The raw scores of a tree operator, as onnxruntime answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from jaxtyping import Float

from bitvec.arrays import Array
from bitvec.converters.onnx.graph import Surroundings
from bitvec.converters.onnx.operator import Operator
from bitvec.converters.onnx.schema import CLASSIFIER, DOMAIN, ENSEMBLE
from bitvec.errors import FileFormatError, InputError, MissingLibraryError
from bitvec.forest import Forest
from bitvec.subject import Subject

try:
    import onnxruntime
except ImportError as error:
    raise MissingLibraryError("onnxruntime", "onnx", "Running ONNX files") from error

IR_VERSION, OPSET = 8, 17
"""Pinned to what runtimes load; the operator keeps its own version."""


def raw_scores(model: Any, forest: Forest, operator: Operator, around: Surroundings) -> Subject:
    """Return the model's operator as a subject: its raw scores on one thread.

    The operator runs in a graph of its own, with post-transform NONE, and reads floats also where
    the model has it read integers, which it compares as float32 too.
    """
    session = _session(_bare(model, forest, around))

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        rows = _rows(X, forest)
        scores: Array = session.run(["scores"], {"X": rows})[0].reshape(len(X), -1)
        if around.node.op_type != CLASSIFIER or operator.n_targets != 2:
            return scores
        # Two classes: the second column is the score, the first is 1 - score or -score, or 0
        # where the leaves weigh the second class.
        if forest.n_outputs == 1:
            return scores[:, 1:]
        if np.all(operator.weight_target == 1):
            return scores
        return np.concatenate([-scores[:, 1:], scores[:, 1:]], axis=1)

    return Subject("onnxruntime", onnxruntime.__version__, raw)


def exported_scores(model: Any, forest: Forest) -> Subject:
    """Return a file that bitvec wrote as a subject: its output `raw` on one thread."""
    session = _session(model)

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        rows = _rows(X, forest)
        scores: Array = session.run(["raw"], {"X": rows})[0]
        return scores

    return Subject("onnxruntime", onnxruntime.__version__, raw)


def _rows(X: Array, forest: Forest) -> Array:
    if X.ndim != 2 or X.shape[1] != forest.n_features:
        raise InputError(
            f"`X` must have {forest.n_features} features, got shape {X.shape}: pass the "
            "training columns."
        )
    rows: Array = np.ascontiguousarray(X, forest.dtype)
    return rows


def _bare(model: Any, forest: Forest, around: Surroundings) -> Any:
    helper = onnx.helper
    node = onnx.NodeProto()
    node.CopyFrom(around.node)
    node.name = "trees"
    kept = [a for a in node.attribute if a.name != "post_transform"]
    plain = 0 if node.op_type == ENSEMBLE else "NONE"
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("post_transform", plain)])
    is_classifier = node.op_type == CLASSIFIER
    del node.input[:], node.output[:]
    node.output.extend(["label", "scores"] if is_classifier else ["scores"])
    element = helper.np_dtype_to_tensor_dtype(forest.dtype)
    read = helper.np_dtype_to_tensor_dtype(around.threshold_dtype)
    steps = [node]
    node.input.append("X")
    if element != read:
        node.input[0] = "x"
        steps.insert(0, helper.make_node("Cast", ["X"], ["x"], to=read))
    # Version 5 answers in the dtype that it reads, the versions before in float32.
    answered = read if node.op_type == ENSEMBLE else onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        steps,
        "trees",
        [helper.make_tensor_value_info("X", element, [None, forest.n_features])],
        [helper.make_tensor_value_info("scores", answered, None)],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, around.ml_version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _session(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # Off by default; said here because a flushed subnormal would take the wrong side of a test.
    options.add_session_config_entry("session.set_denormal_as_zero", "0")
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's exceptions have no common base but this
        reason = str(error).strip().splitlines()[0][:300]
        raise FileFormatError(
            f"the model must be one that onnxruntime {onnxruntime.__version__} loads, got: {reason}"
        ) from None
