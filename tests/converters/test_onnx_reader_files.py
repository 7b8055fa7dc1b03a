"""Damaged and hostile ONNX files: one sentence or an exact conversion."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import pytest

from bitvec import certify
from bitvec.converters.onnx.model_oracle import oracle_of
from bitvec.converters.onnx.read import convert
from bitvec.core import reference, transforms
from bitvec.errors import FileFormatError, UnsupportedModelError

FLOAT = onnx.TensorProto.FLOAT
helper = onnx.helper


def operator(kind: str, **changes: Any):
    """A stump of each operator, with some attributes changed; None drops one."""
    nodes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0],
    }
    classes = {
        "class_treeids": [0] * 6,
        "class_nodeids": [1, 1, 1, 2, 2, 2],
        "class_ids": [0, 1, 2] * 2,
        "class_weights": [0.5, 0.25, 0.25, 0.0, 0.5, 0.5],
        "classlabels_strings": ["a", "b", "c"],
        "post_transform": "SOFTMAX",
    }
    targets = {
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
        "base_values": [0.25],
    }
    version_5 = {
        "tree_roots": [0],
        "nodes_modes": np.array([0, 6], np.uint8),
        "nodes_featureids": [1, 0],
        "nodes_splits": np.array([0.5, 0], np.float32),
        "nodes_truenodeids": [1, 1],
        "nodes_trueleafs": [0, 1],
        "nodes_falsenodeids": [0, 2],
        "nodes_falseleafs": [1, 1],
        "leaf_weights": np.array([1, 2, 3], np.float32),
        "leaf_targetids": [0, 1, 0],
        "n_targets": 2,
        "membership_values": np.array([2, 40, np.nan], np.float32),
    }
    attributes: dict[str, Any] = {
        "TreeEnsembleClassifier": {**nodes, **classes},
        "TreeEnsembleRegressor": {**nodes, **targets},
        "TreeEnsemble": version_5,
    }[kind]
    attributes = {k: v for k, v in {**attributes, **changes}.items() if v is not None}
    attributes = {
        k: onnx.numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v
        for k, v in attributes.items()
    }
    outputs = ["label", "scores"] if kind == "TreeEnsembleClassifier" else ["scores"]
    node = helper.make_node(kind, ["X"], outputs, name="n", domain="ai.onnx.ml", **attributes)
    types = [onnx.TensorProto.STRING, FLOAT] if len(outputs) == 2 else [FLOAT]
    values = [
        helper.make_tensor_value_info(o, t, None) for o, t in zip(outputs, types, strict=True)
    ]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("X", FLOAT, [None, 2])], values
    )
    ml = 5 if kind == "TreeEnsemble" else 3
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


KINDS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
V3, V5 = KINDS[1], KINDS[2]
NODES = [a.name for a in operator(V3).graph.node[0].attribute if a.name.startswith("nodes_")]

DAMAGED = {
    "lengths disagree": (V3, {"nodes_featureids": [0, 0]}, "one length"),
    "too few weights": (V3, {"target_weights": [1.0]}, "one length"),
    "an unknown child": (V3, {"nodes_truenodeids": [9, 0, 0]}, "`nodes_truenodeids`"),
    "a negative child": (V3, {"nodes_falsenodeids": [-1, 0, 0]}, "`nodes_falsenodeids`"),
    "a node twice": (V3, {"nodes_nodeids": [0, 1, 1]}, "own id"),
    "an unknown mode": (V3, {"nodes_modes": ["BRANCH", "LEAF", "LEAF"]}, "`nodes_modes`"),
    "a set before version 5": (V3, {"nodes_modes": ["BRANCH_MEMBER", "LEAF", "LEAF"]}, "modes"),
    "an unknown leaf": (V3, {"target_nodeids": [1, 7]}, "`target_nodeids`"),
    "a target out of range": (V3, {"target_ids": [0, 1]}, "target or class id"),
    "a negative target": (V3, {"target_ids": [0, -1]}, "target or class id"),
    "no targets": (V3, {"n_targets": 0}, "1 to"),
    "countless targets": (V3, {"n_targets": 2**60}, "1 to"),
    "a column too many": (V3, {"nodes_featureids": [2, 0, 0]}, "3 columns"),
    "a negative column": (V3, {"nodes_featureids": [-1, 0, 0]}, "not negative"),
    "a column beyond int32": (V3, {"nodes_featureids": [2**31, 0, 0]}, "2\\*\\*31"),
    "a strange flag": (V3, {"nodes_missing_value_tracks_true": [2, 0, 0]}, "flags"),
    "a strange aggregate": (V3, {"aggregate_function": "MEDIAN"}, "aggregate"),
    "a strange transform": (V3, {"post_transform": "TANH"}, "post-transform"),
    "base values for none": (V3, {"base_values": [1.0, 2.0]}, "`base_values`"),
    "no nodes": (V3, dict.fromkeys(NODES), "at least one tree"),
    "two kinds of values": (
        V3,
        {"nodes_values_as_tensor": np.zeros(3, np.float32)},
        "must not both",
    ),
    "values of another dtype": (
        V3,
        {"nodes_values": None, "nodes_values_as_tensor": np.zeros(3)},
        "float32 in one axis",
    ),
    "an attribute of another type": (V3, {"nodes_modes": [1, 2, 3]}, "must hold texts"),
    "both kinds of labels": (KINDS[0], {"classlabels_int64s": [1, 2, 3]}, "got both"),
    "no labels": (KINDS[0], {"classlabels_strings": None}, "got none"),
    "a label twice": (KINDS[0], {"classlabels_strings": ["a", "b", "a"]}, "distinct"),
    "a node out of range": (V5, {"nodes_truenodeids": [2, 1]}, "`nodes_truenodeids`"),
    "a leaf out of range": (V5, {"nodes_falsenodeids": [0, 3]}, "`nodes_falsenodeids`"),
    "a root out of range": (V5, {"tree_roots": [2]}, "`tree_roots`"),
    "no roots": (V5, {"tree_roots": None}, "`tree_roots`"),
    "a mode out of range": (V5, {"nodes_modes": np.array([0, 7], np.uint8)}, "`nodes_modes`"),
    "a set too many": (
        V5,
        {"membership_values": np.array([2, np.nan, 3, np.nan], np.float32)},
        "`membership_values`",
    ),
    "an empty set": (V5, {"membership_values": np.array([np.nan], np.float32)}, "empty"),
    "an aggregate out of range": (V5, {"aggregate_function": 4}, "below 4"),
    "a transform out of range": (V5, {"post_transform": -1}, "below 5"),
    "splits of another dtype": (V5, {"nodes_splits": np.zeros(2)}, "`nodes_splits`"),
}
UNHELD = {
    "a cycle": (V5, {"nodes_truenodeids": [1, 0], "nodes_trueleafs": [0, 0]}, "one parent"),
    "a root shared by two trees": (V5, {"tree_roots": [0, 0]}, "one parent"),
    "a node that is its own child": (V3, {"nodes_truenodeids": [0, 0, 0]}, "one parent"),
    "trees mixed up": (
        V3,
        {"nodes_treeids": [0, 1, 0], "nodes_modes": ["LEAF"] * 3, "target_nodeids": [0, 2]},
        "stand together",
    ),
    "NaN as a threshold": (V3, {"nodes_values": [float("nan"), 0.0, 0.0]}, "got NaN"),
    "NaN as a weight": (V3, {"target_weights": [float("nan"), 0.0]}, "got NaN"),
    "a weight twice": (
        V3,
        {
            "target_treeids": [0, 0, 0],
            "target_nodeids": [1, 1, 2],
            "target_ids": [0, 0, 0],
            "target_weights": [1.0, 2.0, 3.0],
        },
        "at most one weight",
    ),
    "a member that is no code": (
        V5,
        {"membership_values": np.array([2.5, 40, np.nan], np.float32)},
        "whole numbers",
    ),
    "a huge member": (V5, {"membership_values": np.array([1e9, np.nan], np.float32)}, "whole"),
    "a node that no root reaches": (V3, {"nodes_modes": ["LEAF"] * 3}, "reached from the root"),
    "an unknown attribute": (V3, {"nodes_extra": [1]}, "'nodes_extra'"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_stumps_convert_and_equal_onnxruntime(kind):
    pytest.importorskip("onnxruntime")
    model = operator(kind)
    X = np.array([[2, 0], [40.5, 1], [3, 0.5], [np.nan, np.nan]], np.float32)
    assert np.array_equal(reference.raw(convert(model), X), oracle_of(model).raw(X))


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_operators_are_refused_in_one_sentence(name):
    kind, changes, words = DAMAGED[name]
    with pytest.raises(FileFormatError, match=words) as caught:
        convert(operator(kind, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", UNHELD)
def test_operators_that_no_tree_holds_are_refused_in_one_sentence(name):
    kind, changes, words = UNHELD[name]
    with pytest.raises(UnsupportedModelError, match=words) as caught:
        convert(operator(kind, **changes))
    assert "\n" not in str(caught.value)


def with_node(model: Any, *args: Any, before: bool = False, **attributes: Any):
    """Put an operator between X and the trees, or between the trees and the output."""
    graph, trees = model.graph, model.graph.node[0]
    if before:
        trees.input[0] = "inner"
        graph.node.insert(0, helper.make_node(*args, ["X"], ["inner"], name="it", **attributes))
    else:
        trees.output[-1] = "inner"
        node = helper.make_node(*args, ["inner"], ["scores"], name="it", **attributes)
        graph.node.append(node)
    return model


def test_neutral_operators_around_the_trees_are_passed():
    expected = convert(operator(V3))
    for before in (True, False):
        for kind, attributes in (("Identity", {}), ("Cast", {"to": FLOAT})):
            forest = convert(with_node(operator(V3), kind, before=before, **attributes))
            assert np.array_equal(forest.leaves.v, expected.leaves.v)
    labels = {"domain": "ai.onnx.ml", "classlabels_strings": ["a", "b", "c"]}
    assert convert(with_node(operator(KINDS[0]), "ZipMap", **labels)).n_outputs == 3
    reshaped = with_node(operator(V3), "Reshape")
    reshaped.graph.node[1].input.append("shape")
    reshaped.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), "shape"))
    assert np.array_equal(convert(reshaped).v, expected.leaves.v)
    integers = operator(V3)
    integers.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    assert convert(with_node(integers, "Cast", before=True, to=FLOAT)).dtype == np.float32


def test_operators_that_change_values_are_refused_by_name():
    normalizer = {"domain": "ai.onnx.ml", "norm": "L2"}
    for before, kind, attributes in (
        (True, "Normalizer", normalizer),
        (True, "Neg", {}),
        (True, "Cast", {"to": onnx.TensorProto.INT64}),
        (False, "Log", {}),
        (False, "Normalizer", {"domain": "ai.onnx.ml", "norm": "L1"}),
        (False, "Cast", {"to": onnx.TensorProto.INT64}),
    ):
        model = with_node(operator(V3), kind, before=before, **attributes)
        with pytest.raises(UnsupportedModelError, match=kind if kind != "Cast" else "ONNX type"):
            convert(model)
    other = {"domain": "ai.onnx.ml", "classlabels_strings": ["a", "c", "b"]}
    with pytest.raises(UnsupportedModelError, match=r"ZipMap.*labels"):
        convert(with_node(operator(KINDS[0]), "ZipMap", **other))
    beside = operator(V3)
    beside.graph.node.append(helper.make_node("Exp", ["X"], ["exp"], name="aside"))
    with pytest.raises(UnsupportedModelError, match=r"Exp.*'aside'.*beside"):
        convert(beside)
    two = operator(V3)
    two.graph.node.append(operator(V3).graph.node[0])
    with pytest.raises(UnsupportedModelError, match="got 2"):
        convert(two)
    inputs = operator(V3)
    inputs.graph.input.append(helper.make_tensor_value_info("Y", FLOAT, [None, 1]))
    assert convert(inputs).n_features == convert(operator(V3)).n_features + 1


def then(model: Any, *steps: tuple[str, list[str]], **constants: Any):
    """Put operators, each a kind and the names of its further inputs, behind the scores."""
    graph = model.graph
    graph.node[0].output[-1] = "scores_0"
    for at, (kind, more) in enumerate(steps):
        name = "scores" if at == len(steps) - 1 else f"scores_{at + 1}"
        graph.node.append(
            helper.make_node(kind, [f"scores_{at}", *more], [name], name=f"{kind}_{at}")
        )
    for name, value in constants.items():
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    return model


EXP, DIV = ("Exp", []), ("Div", ["k"])
STEPS = {
    "Exp": [EXP],
    "Div": [DIV],
    "Div, Exp": [DIV, EXP],
    "Mul by 1": [("Mul", ["one"])],
    "Identity, Exp, Identity": [("Identity", []), EXP, ("Identity", [])],
}


@pytest.mark.parametrize("kind", [V3, V5])
@pytest.mark.parametrize("name", STEPS)
def test_a_division_and_an_exponential_behind_the_trees_are_converted(name, kind):
    ort = pytest.importorskip("onnxruntime")
    constants = {"k": np.float32(7), "one": np.float32([1])}
    changes = {"base_values": None} if kind == V3 else {}
    model = then(operator(kind, **changes), *STEPS[name], **constants)
    X = np.array([[2, 0], [40, 1], [3, 0.5], [np.nan, np.nan], [-1, 0.75]], np.float32)
    forest = convert(model)
    found = transforms.transform(forest.output, reference.raw(forest, X))
    expected = ort.InferenceSession(model.SerializeToString()).run(["scores"], {"X": X})[0]
    # Exponentials of two libraries differ in the last place; a division does not.
    np.testing.assert_allclose(found, expected, rtol=1e-6 if "Exp" in name else 0)
    certificate = certify(forest, model, X)
    assert certificate.passed
    assert "predictions" in certificate.parts


def test_steps_that_no_forest_holds_are_refused():
    k = {"k": np.float32(2)}
    plain = {"base_values": None}
    double = {
        "nodes_values": None,
        "nodes_values_as_tensor": np.array([0.5, 0, 0]),
        "target_weights": None,
        "target_weights_as_tensor": np.array([1.0, 2.0]),
    }
    wide = operator(V3, **plain, **double)
    wide.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    forked = then(operator(V3, **plain), EXP)
    forked.graph.output.append(helper.make_tensor_value_info("scores_0", FLOAT, None))
    for words, model in (
        ("'Mul'", then(operator(V3), ("Mul", ["k"]), **k)),
        ("'Add'", then(operator(V3), ("Add", ["k"]), k=np.float32(0))),
        ("'Div'", then(operator(V3, **plain), EXP, DIV, **k)),
        ("'Div'", then(operator(V3, **plain), DIV, k=np.float32(0))),
        ("'Div'", then(operator(V3, **plain), DIV, k=np.float32([2, 3]))),
        ("'Exp'", then(operator(V3), EXP, EXP)),
        ("'Exp'", then(operator(V3), ("Cast", []), EXP)),
        ("'Exp'", then(operator(KINDS[0]), EXP)),
        ("'Exp'", forked),
        ("base values", then(operator(V3), DIV, **k)),
        ("the aggregate MAX", then(operator(V3, **plain, aggregate_function="MAX"), DIV, **k)),
        ("the post-transform LOGISTIC", then(operator(V5, post_transform=1), EXP)),
        ("float64 to float32", then(wide, EXP)),
    ):
        for node in model.graph.node:
            if node.op_type == "Cast":
                node.attribute.append(helper.make_attribute("to", FLOAT))
        with pytest.raises(UnsupportedModelError, match=words) as caught:
            convert(model)
        assert "\n" not in str(caught.value)


def test_columns_of_classes_are_passed():
    """skl2onnx, zipmap="columns"."""
    model = operator(KINDS[0])
    graph = model.graph
    del graph.output[1]
    constants = {"shape": [-1], "axis": [1]} | {f"at_{k}": [k] for k in range(4)}
    for name, values in constants.items():
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(values), name))
    for k in range(3):
        cut = ["scores", f"at_{k}", f"at_{k + 1}", "axis"]
        graph.node.append(helper.make_node("Slice", cut, [f"column_{k}"]))
        graph.node.append(helper.make_node("Reshape", [f"column_{k}", "shape"], [f"class_{k}"]))
        graph.output.append(helper.make_tensor_value_info(f"class_{k}", FLOAT, None))
    assert np.array_equal(convert(model).v, convert(operator(KINDS[0])).v)
    graph.node[1].input[2] = "at_2"  # two columns, made one by Reshape
    with pytest.raises(UnsupportedModelError, match="'Slice'"):
        convert(model)


def test_cycles_and_loose_ends_of_the_graph_are_refused():
    loose = operator(V3)
    loose.graph.node[0].input[0] = "nowhere"
    with pytest.raises(FileFormatError, match="no way"):
        convert(loose)
    cycle = with_node(operator(V3), "Identity", before=True)
    cycle.graph.node[0].input[0] = "inner"
    with pytest.raises(FileFormatError, match="no cycle"):
        convert(cycle)


def test_data_outside_the_file_are_not_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(12))
    model = operator(V3, nodes_values=None, nodes_values_as_tensor=np.zeros(3, np.float32))
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "nodes_values_as_tensor":
            attribute.t.ClearField("raw_data")
            attribute.t.data_location = onnx.TensorProto.EXTERNAL
            attribute.t.external_data.add(key="location", value=str(secret))
    with pytest.raises(UnsupportedModelError, match="one outside"):
        convert(model)


def test_a_tensor_that_states_a_giant_shape_allocates_nothing():
    model = operator(V5)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "leaf_weights":
            attribute.t.dims[:] = [2**62]
    with pytest.raises(FileFormatError, match="as its shape"):
        convert(model)


def test_a_few_leaves_of_many_targets_allocate_little():
    n = 1 << 24
    model = operator(V3, n_targets=n, target_ids=[0, n - 1], base_values=None)
    forest = convert(model)
    assert forest.n_outputs == n
    assert forest.leaves.v.shape == (2, 1)
    for aggregate in ("MIN", "MAX"):
        with pytest.raises(UnsupportedModelError, match="weight in every leaf"):
            convert(
                operator(
                    V3,
                    n_targets=n,
                    target_ids=[0, n - 1],
                    aggregate_function=aggregate,
                    base_values=None,
                )
            )


def test_leaf_vectors_without_end_are_refused(monkeypatch):
    monkeypatch.setattr("bitvec.converters.onnx.operator_output.LARGEST_LEAVES", 3)
    convert(operator(V3))
    with pytest.raises(UnsupportedModelError, match="at most 3 numbers, got 2 leaves x 3"):
        convert(operator(KINDS[0]))


@pytest.mark.parametrize("data", [b"", b"\x00", b"PK\x03\x04", b"{}", b"\x08\x08", bytes(1000)])
def test_other_bytes_are_no_model(data, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    for model in (data, path, str(path)):
        with pytest.raises(FileFormatError, match="ONNX model") as caught:
            convert(model)
        assert "\n" not in str(caught.value)
    with pytest.raises(UnsupportedModelError, match="got list"):
        convert([1])


def test_a_chain_of_20000_nodes_converts_in_seconds():
    n = 20_000
    mode = np.zeros(n, np.uint8)
    model = operator(
        V5,
        nodes_modes=mode,
        nodes_featureids=[0] * n,
        nodes_splits=np.arange(n, dtype=np.float32),
        nodes_truenodeids=[*range(1, n), n],
        nodes_trueleafs=[0] * (n - 1) + [1],
        nodes_falsenodeids=list(range(n)),
        nodes_falseleafs=[1] * n,
        leaf_weights=np.arange(n + 1, dtype=np.float32),
        leaf_targetids=[0] * (n + 1),
        n_targets=1,
        membership_values=None,
    )
    start = time.perf_counter()
    forest = convert(model)
    assert forest.n_leaves == n + 1
    # Time is linear in n, a few seconds under the shape checker; a square of n would take minutes.
    assert time.perf_counter() - start < 60
