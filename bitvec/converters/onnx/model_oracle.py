"""The answers of onnxruntime to an ONNX model: labels, scores, and scores before the transform."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from bitvec.errors import FileFormatError, MissingLibraryError

if find_spec("onnx") is None:
    raise MissingLibraryError("onnx", "onnx", "Running an ONNX model")
if find_spec("onnxruntime") is None:
    raise MissingLibraryError("onnxruntime", "onnx", "Running an ONNX model")

import numpy as np
import onnx
import onnxruntime
from jaxtyping import Float

from bitvec.converters.naming import naming_file
from bitvec.converters.onnx import exported
from bitvec.converters.onnx.exported_walker import exported_trees
from bitvec.converters.onnx.file import read_model
from bitvec.converters.onnx.graph import Surroundings
from bitvec.converters.onnx.operator import Operator
from bitvec.converters.onnx.operator_schema import CLASSIFIER, DOMAIN, ENSEMBLE
from bitvec.converters.onnx.read import read_operator
from bitvec.converters.onnx.walker import source_trees
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.files.sound import reason
from bitvec.verify.oracle import Oracle, require_columns

ONE_CLASS = (
    "labels of a classifier of one class are not compared: onnxruntime writes 1 whatever the class "
    "is called, and ends the process if that is a text; its scores were asked under the label 1"
)
IR_VERSION, OPSET = 8, 17
"""Pinned to what runtimes load; the operator keeps its own version."""


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
        answering = _operator_answers(*read_operator(message))
        return replace(answering, trees=lambda: source_trees(message))


def _operator_answers(forest: Forest, operator: Operator, around: Surroundings) -> Oracle:
    """Return the model's operator as an oracle, on one thread.

    The operator runs in a graph of its own, followed by the Div and Exp that the model has behind
    it, and once more without its post-transform and the Exp for its raw scores. It reads floats
    also where the model has it read integers, which it compares as float32 too.
    """
    whole = _session(_bare(forest, around, transformed=True))
    plain = _session(_bare(forest, around, transformed=False))
    one_class = operator.labels is not None and operator.labels.size == 1
    two_scores = around.node.op_type == CLASSIFIER and operator.n_targets == 2

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        scores = _scores(plain, X, forest)
        if not two_scores:
            return scores
        # Two classes: the second column is the score, the first is 1 - score or -score, or 0
        # where the leaves weigh the second class.
        if forest.n_outputs == 1:
            return scores[:, 1:]
        if np.any(operator.weight_target == 1):
            return scores
        return np.concatenate([-scores[:, 1:], scores[:, 1:]], axis=1)

    def transformed(X: Array) -> Float[Array, "batch n_outputs"]:
        scores = _scores(whole, X, forest)
        return scores[:, 1:] if two_scores and forest.n_outputs == 1 else scores

    def labels(X: Array) -> Array:
        found: Array = whole.run(["label"], {"X": _rows(X, forest)})[0]
        return found

    classifies = forest.output.classes is not None
    reason = ONE_CLASS if one_class else _incomparable(forest, around)
    return Oracle(
        "onnxruntime",
        onnxruntime.__version__,
        raw,
        ids="source",
        predict=(labels if around.label_used and not one_class else None)
        if classifies
        else (None if reason and not one_class else transformed),
        scores=transformed if classifies and (one_class or not reason) else None,
        n_trees=forest.n_trees,
        n_features=forest.n_features,
        n_outputs=forest.n_outputs,
        notes=(reason,) if reason else (),
    )


def _incomparable(forest: Forest, around: Surroundings) -> str:
    """Return why transformed scores are not compared, or nothing."""
    output = forest.output
    kind = output.post_transform
    if kind is PostTransform.PROBIT:
        return (
            "scores after PROBIT are not compared: onnxruntime's formula cancels near one half, so "
            "that one ulp between the logarithms of two libraries is many of the score."
        )
    exponentials = (PostTransform.SOFTMAX, PostTransform.SOFTMAX_ZERO)
    if kind in exponentials and around.threshold_dtype == np.float64:
        return (
            f"scores after {kind} are not compared: onnxruntime takes exponentials in float32 of "
            "scores that it summed in float64."
        )
    return ""


def _exported_answers(model: Any, forest: Forest) -> Oracle:
    """Return a file that bitvec wrote as an oracle: its outputs on one thread."""
    session = _session(model)
    output = forest.output

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        scores: Array = session.run(["raw"], {"X": _rows(X, forest)})[0]
        return scores

    def predict(X: Array) -> Array:
        name = "prediction" if output.classes is None else "label"
        answers: Array = session.run([name], {"X": _rows(X, forest)})[0]
        return answers

    def scores(X: Array) -> Float[Array, "batch n_outputs"]:
        n_groups = len(output.groups)
        names = [f"probabilities_{group}" for group in range(n_groups)]
        names = names if n_groups > 1 else ["probabilities"]
        parts = session.run(names, {"X": _rows(X, forest)})
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


def _scores(session: Any, X: Array, forest: Forest) -> Float[Array, "batch n_scores"]:
    scores: Array = session.run(["scores"], {"X": _rows(X, forest)})[0]
    return scores.reshape(len(X), -1)


def _rows(X: Array, forest: Forest) -> Array:
    require_columns(X, forest.n_features)
    rows: Array = np.ascontiguousarray(X, forest.dtype)
    return rows


def _bare(forest: Forest, around: Surroundings, *, transformed: bool) -> Any:
    helper = onnx.helper
    node = onnx.NodeProto()
    node.CopyFrom(around.node)
    node.name = "trees"
    if not transformed:
        kept = [a for a in node.attribute if a.name != "post_transform"]
        plain = 0 if node.op_type == ENSEMBLE else "NONE"
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("post_transform", plain)])
    is_classifier = node.op_type == CLASSIFIER
    named = [a for a in node.attribute if a.name.startswith("classlabels_")]
    if [len(a.strings) + len(a.ints) for a in named] == [1]:
        node.attribute.remove(named[0])
        node.attribute.append(helper.make_attribute("classlabels_int64s", [1]))
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
    constants = []
    for step in around.after.steps:
        if step.op_type == "Exp" and not transformed:
            continue
        steps[-1].output[-1] = before = f"before_{step.op_type}"
        operands = [before]
        if step.op_type == "Div":
            divisor = np.array(around.after.divisor, forest.output.dtype)
            constants.append(onnx.numpy_helper.from_array(divisor, "divisor"))
            operands.append("divisor")
        steps.append(helper.make_node(step.op_type, operands, ["scores"]))
    outputs = {"scores": answered}
    if is_classifier:
        text = any(a.name == "classlabels_strings" and a.strings for a in node.attribute)
        outputs["label"] = onnx.TensorProto.STRING if text else onnx.TensorProto.INT64
    graph = helper.make_graph(
        steps,
        "trees",
        [helper.make_tensor_value_info("X", element, [None, forest.n_features])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        constants,
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
        raise FileFormatError(
            f"the model must be one that onnxruntime {onnxruntime.__version__} loads, got "
            f"{reason(error)}."
        ) from None
