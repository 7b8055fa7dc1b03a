"""Answers of onnxruntime to the tree operator of a model, in a graph of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime

from bitvec.converters.onnx import chains
from bitvec.converters.onnx.graph import Surroundings
from bitvec.converters.onnx.operator import Operator
from bitvec.converters.onnx.operator_schema import CLASSIFIER, DOMAIN, ENSEMBLE, REGRESSOR, Mode
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float
from bitvec.errors import FileFormatError
from bitvec.files.sound import reason
from bitvec.verify.oracle import Oracle, require_columns

MERGED = (
    "onnxruntime 1.31 takes equalities or sets that follow each other on one column for one test "
    "where their true branches look alike, as they do in this file, whatever becomes of missing "
    "values and other weights: its answers may not be those of the nodes that the file states"
)
ONE_CLASS = (
    "labels of a classifier of one class are not compared: onnxruntime writes 1 whatever the class "
    "is called, and ends the process if that is a text; its scores were asked under the label 1"
)
IR_VERSION, OPSET = 8, 17
"""Pinned to what runtimes load; the operator keeps its own version."""
LARGEST_ID = 1 << 24
"""Leaf ids below this are float32 exactly."""


def operator_answers(forest: Forest, operator: Operator, around: Surroundings) -> Oracle:
    """Return the model's operator as an oracle, on one thread.

    The operator runs in a graph of its own, followed by the Div and Exp that the model has behind
    it, and once more without its post-transform and the Exp for its raw scores. It reads floats
    also where the model has it read integers, which it compares as float32 too.
    """
    whole = session_of(_bare(forest, around, transformed=True))
    plain = session_of(_bare(forest, around, transformed=False))
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
        found: Array = whole.run(["label"], {"X": own_rows(X, forest)})[0]
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
        notes=(*((reason,) if reason else ()), *((MERGED,) if _merges(operator) else ())),
    )


def _merges(operator: Operator) -> bool:
    """Return whether onnxruntime may take two nodes for one: see `chains`."""
    among = np.isin(operator.mode, (Mode.BRANCH_EQ, Mode.BRANCH_MEMBER))
    above, below = chains.pairs(among, operator.false, (operator.feature,))
    first = np.searchsorted(operator.weight_leaf, np.arange(operator.n_leaves))
    weight = np.append(operator.weight, np.nan)[np.minimum(first, operator.weight.size)]
    tests = operator.mode, operator.feature, operator.value
    alike = chains.alike(operator.true[above], operator.true[below], tests, weight)
    return bool(alike.any())


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


def _scores(session: Any, X: Array, forest: Forest) -> Float[Array, "batch n_scores"]:
    scores: Array = session.run(["scores"], {"X": own_rows(X, forest)})[0]
    return scores.reshape(len(X), -1)


def own_rows(X: Array, forest: Forest) -> Array:
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


def session_of(model: Any) -> Any:
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


def leaf_answers(forest: Forest, around: Surroundings) -> Any:
    """Return a function of rows that gives the operator's leaf ids, None where they are too large.

    The same nodes run once more, with a target for each tree and the leaf's own id for its weight.
    """
    if forest.source is None or forest.source.leaf_id is None or around.node.op_type == ENSEMBLE:
        return None
    leaf_id, ptr = forest.source.leaf_id, forest.bitvectors.leaf_ptr
    if leaf_id.size and int(np.abs(leaf_id).max()) >= LARGEST_ID:
        return None
    node = onnx.NodeProto(op_type=REGRESSOR, domain=DOMAIN, name="leaves")
    node.attribute.extend(a for a in around.node.attribute if a.name.startswith("nodes_"))
    ids = next(list(a.ints) for a in node.attribute if a.name == "nodes_treeids")
    tree = np.repeat(np.arange(forest.n_trees), np.diff(ptr))
    own = {
        "target_treeids": np.array(list(dict.fromkeys(ids)), np.int64)[tree].tolist(),
        "target_nodeids": leaf_id.tolist(),
        "target_ids": tree.tolist(),
        "target_weights": leaf_id.astype(np.float32).tolist(),
        "n_targets": forest.n_trees,
    }
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in own.items())
    if any(a.name == "nodes_values_as_tensor" for a in node.attribute):  # weights are as thresholds
        node.attribute.remove(next(a for a in node.attribute if a.name == "target_weights"))
        weights = onnx.numpy_helper.from_array(leaf_id.astype(np.float64), "target_weights")
        node.attribute.append(onnx.helper.make_attribute("target_weights_as_tensor", weights))
    element, read = map(
        onnx.helper.np_dtype_to_tensor_dtype, (forest.dtype, around.threshold_dtype)
    )
    node.input.append("x")
    node.output.append("leaves")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Cast", ["X"], ["x"], to=read), node],
        "leaves",
        [onnx.helper.make_tensor_value_info("X", element, [None, forest.n_features])],
        [onnx.helper.make_tensor_value_info("leaves", onnx.TensorProto.FLOAT, None)],
    )
    versions = {"": OPSET, DOMAIN: around.ml_version}
    opsets = [onnx.helper.make_opsetid(*version) for version in versions.items()]
    session = session_of(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))

    def leaves(X: Array) -> Array:
        found: Array = session.run(["leaves"], {"X": own_rows(X, forest)})[0]
        return found.reshape(len(X), -1).astype(np.int64)

    return leaves
