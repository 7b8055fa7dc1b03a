"""Laws of the ONNX form `soft`: what onnxruntime answers is what the torch module answers.

float32 sums and exponentials differ in their last places, in an order that no one promises: 1e-5 of
the largest score is 80 units of float32 for it. A module in float64 agrees to 1e-9.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from strategies import KERNEL, SET, forests, forests_with_rows, rows

from bitvec.converters.onnx.session import OnnxEngine
from bitvec.core import reference, transforms
from bitvec.core.feature_maps import (
    Concatenate,
    Conv2d,
    Flatten,
    Identity,
    Layers,
    Linear,
    MaxPool2d,
    ReLU,
    StackedForest,
)
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.structure import arrange
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.relaxations import RELAXATIONS, Relaxation
from bitvec.runtime.train.relax.torch_map import TorchMap

pytest.importorskip("onnxscript")

from bitvec.runtime.export.onnx.soft.soft_form import FORM, forest_to_onnx, relaxation_name, to_onnx

SUMMED = (Aggregate.SUM, Aggregate.MEAN)
FEW = settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
"""An export takes seconds; the traced module is held to the same laws over many more forests."""


def run(model, X, *outputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = session.run(list(outputs) or ["raw"], {"X": X})
    return found if len(outputs) > 1 else found[0]


def close(got, expected, dtype):
    with np.errstate(over="ignore"):
        expected = expected.astype(got.dtype)
    tolerance = 1e-9 if dtype == torch.float64 and got.dtype == np.float64 else 1e-5
    size = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
    assert got.shape == expected.shape
    return np.allclose(got, expected, rtol=tolerance, atol=tolerance * size, equal_nan=True)


def small(n_outputs=3, n_features=4, n_trees=4, depth=3, seed=0, **output):
    """Complete trees over a few columns, a class for each output."""
    rng = np.random.default_rng(seed)
    left, right, roots, n_leaves = [], [], [], 1 << depth
    for tree in range(n_trees):
        first, size = len(left), n_leaves - 1
        roots.append(first)
        if size == 0:
            roots[-1] = ~tree
        for node in range(size):
            for side, child in ((left, 2 * node + 1), (right, 2 * node + 2)):
                is_leaf = child >= size
                side.append(~(tree * n_leaves + child - size) if is_leaf else first + child)
    B = arrange(np.array(left), np.array(right), np.array(roots))[0]
    tests = axis_aligned(
        rng.integers(0, n_features, B.n_nodes), rng.normal(size=B.n_nodes).astype(np.float32)
    )
    leaves = Leaves(rng.normal(size=(B.n_leaves, n_outputs)).astype(np.float32))
    options = {"base_score": rng.normal(size=n_outputs).astype(np.float32), **output}
    return Forest(
        tests, B, leaves, Output(n_outputs, np.dtype(np.float32), **options), Inputs(n_features)
    )


def some_rows(n_rows, n_features=4, seed=1, missing=0.05):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def classes(n_outputs):
    return {"classes": (np.arange(10, 10 + n_outputs),), "post_transform": PostTransform.SOFTMAX}


@pytest.mark.full
@FEW
@given(st.data())
def test_onnxruntime_answers_what_the_module_answers_for_every_kind_of_node_and_leaf(data):
    forest, X = data.draw(forests_with_rows(aggregates=SUMMED, max_leaves=12))
    dtype = data.draw(st.sampled_from([torch.float64, torch.float32]))
    soft = SoftForest.from_forest(forest, "sigmoid", gamma=2.0, dtype=dtype)
    with torch.no_grad():
        expected = soft(X).numpy()
    got = run(to_onnx(soft), X)
    assert got.dtype == forest.output.dtype
    assert close(got, expected, dtype)


USUAL = ("sigmoid", "sparsemax")
"""An export takes seconds: the others are exported by the long tests."""


@pytest.mark.parametrize(
    "name",
    [n if n in USUAL else pytest.param(n, marks=pytest.mark.full) for n in RELAXATIONS],
)
def test_raw_scores_and_their_argmax_are_the_modules_for_each_relaxation(name):
    forest = small(**classes(3))
    X = some_rows(1000)
    soft = SoftForest.from_forest(forest, name, gamma=2.0).calibrate(X)
    model = to_onnx(soft)
    for n_rows in (1, 7, 1000):
        with torch.no_grad():
            expected = soft(X[:n_rows]).numpy()
        raw, label, probabilities = run(model, X[:n_rows], "raw", "label", "probabilities")
        assert close(raw, expected, torch.float32)
        top = np.sort(expected, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-4
        assert np.array_equal(label[clear], 10 + expected.argmax(axis=1)[clear])
        own = transforms.transform(forest.output, raw)
        assert np.allclose(probabilities, own, rtol=1e-6)
    assert np.array_equal(OnnxEngine(model).raw(X), raw)


@pytest.mark.full
@pytest.mark.parametrize(
    "relaxation",
    [
        Relaxation("smooth_step", "softmax", "ternary_per_depth"),
        pytest.param(Relaxation("relu_squared", "index_sparsemax"), marks=pytest.mark.full),
    ],
)
def test_relaxations_without_a_short_name_are_exported_too(relaxation):
    soft = SoftForest.from_forest(small(), relaxation).calibrate(some_rows(100))
    X = some_rows(50, seed=2)
    model = to_onnx(soft)
    assert close(run(model, X), soft(X).detach().numpy(), torch.float32)
    facts = {fact.key: fact.value for fact in model.metadata_props}
    assert facts["bitvec.relaxation"] == relaxation_name(relaxation)


def test_a_relaxation_has_its_short_name_or_its_parts():
    assert [relaxation_name(known) for known in RELAXATIONS.values()] == list(RELAXATIONS)
    parts = Relaxation("smooth_step", "softmax", "ternary_per_depth")
    assert relaxation_name(parts) == "softmax of ternary_per_depth of smooth_step"


def test_trees_of_one_leaf_answer_every_number_of_rows():
    forest = small(depth=0)
    model = to_onnx(SoftForest.from_forest(forest, "sigmoid"))
    for n_rows in (1, 7):
        X = some_rows(n_rows)
        assert close(run(model, X), reference.raw(forest, X), torch.float32)


@pytest.mark.full
def test_gamma_and_what_has_moved_are_those_of_the_module():
    X = some_rows(100)
    soft = SoftForest.from_forest(small(), "sigmoid", trainable=("b", "v")).calibrate(X)
    raws = []
    for gamma in (1.0, 8.0):
        soft.gamma = gamma
        with torch.no_grad():
            soft.b += 0.1
            expected = soft(X).numpy()
        model = to_onnx(soft)
        raws.append(run(model, X))
        assert close(raws[-1], expected, torch.float32)
        facts = {fact.key: fact.value for fact in model.metadata_props}
        assert facts["bitvec.gamma"] == repr(gamma)
        assert facts["bitvec.relaxation"] == "sigmoid"
        assert facts["bitvec.form"] == FORM
    assert np.abs(raws[0] - raws[1]).max() > 0.01


def test_the_interface_says_dtype_outputs_rows_and_versions():
    X = some_rows(5)
    soft = SoftForest.from_forest(small(), "sigmoid").calibrate(some_rows(100))
    interface = Interface(np.dtype(np.float64), batch=5, outputs=("raw",))
    model = to_onnx(soft, name="mine", interface=interface)
    (given_type,) = (one.type.tensor_type for one in model.graph.input)
    assert given_type.elem_type == onnx.TensorProto.DOUBLE
    assert [size.dim_value for size in given_type.shape.dim] == [5, 4]
    assert [one.name for one in model.graph.output] == ["raw"]
    assert (model.ir_version, model.opset_import[0].version) == (10, 21)
    assert model.graph.name == "mine"
    got = run(model, X.astype(np.float64))
    assert close(got, soft(X).detach().numpy(), torch.float32)


def test_the_file_is_as_large_as_its_numbers():
    forest = small(n_trees=50, depth=6)
    soft = SoftForest.from_forest(forest, "sigmoid", trainable=("b", "v")).calibrate(some_rows(100))
    size = to_onnx(soft).ByteSize()
    # Of a node: b, its unit, its direction and column, and where its children's products come from.
    # Of a leaf: v, and its place.
    assert size < 25 * forest.n_nodes + 4 * (forest.n_outputs + 1) * forest.n_leaves + 12_000


@pytest.mark.full
@FEW
@given(st.data())
def test_a_forest_with_a_prediction_kernel_predicts_as_the_reference_does(data):
    forest = data.draw(
        forests((KERNEL, SET), aggregates=SUMMED, max_leaves=12, soft=True, linear=False)
    )
    if forest.kernel is None:
        return
    X = data.draw(rows(forest))
    X = np.where(np.isinf(X), X.dtype.type(0), X)
    got, expected = run(forest_to_onnx(forest), X), reference.raw(forest, X)
    weight = forest.output.tree_weight
    largest = np.abs(forest.leaves.v).max() * (1 if weight is None else np.abs(weight).max())
    scale = 1.0 if forest.output.scale is None else np.abs(forest.output.scale).max()
    assert got.dtype == expected.dtype
    bound = 1e-6 * (largest * forest.n_trees * scale + np.abs(forest.output.base_score).max())
    assert np.max(np.abs(got - expected)) <= bound


def network(seed=0):
    rng = np.random.default_rng(seed)
    first = Linear(rng.normal(size=(6, 4)).astype(np.float32), np.zeros(6, np.float32))
    return Layers((first, ReLU(), Linear(rng.normal(size=(4, 6)).astype(np.float32))))


def picture():
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(2, 1, 2, 2)).astype(np.float32)
    layers = (Conv2d(weight, padding=(1, 1)), MaxPool2d((2, 2)), ReLU(), Flatten())
    return Layers(layers, (1, 2, 2))


def behind(feature_map):
    forest = small(n_features=feature_map.n_features, **classes(3))
    return replace(forest, inputs=Inputs(4), feature_map=feature_map)


MAPS = {
    "layers": network,
    "picture": picture,
    "torch": lambda: TorchMap(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh()), 4, 5),
    "joined": lambda: Concatenate((Identity(4), network())),
}
STACKS = {
    "stacked": lambda: StackedForest(small()),
    "stacked values": lambda: StackedForest(small(), values=True),
    "stacked behind a map": lambda: StackedForest(behind(network())),
}


@pytest.mark.parametrize(
    "name", ["joined", *(pytest.param(n, marks=pytest.mark.full) for n in MAPS if n != "joined")]
)
@pytest.mark.parametrize(
    "trainable", [pytest.param(("b", "v"), marks=pytest.mark.full), ("phi", "S", "b", "v")]
)
def test_a_soft_forest_behind_a_feature_map_is_exported_with_it(name, trainable):
    forest, X = behind(MAPS[name]()), some_rows(200, missing=0.0)
    soft = SoftForest.from_forest(forest, "sigmoid", trainable=trainable).calibrate(X)
    assert close(run(to_onnx(soft), X), soft(X).detach().numpy(), torch.float32)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["stacked", pytest.param("stacked values", marks=pytest.mark.full)]
)
def test_a_stacked_forest_that_moves_is_exported_softly(name):
    forest, X = behind(STACKS[name]()), some_rows(200)
    trainable = ("phi", "b", "v")
    soft = SoftForest.from_forest(forest, "sigmoid", trainable=trainable).calibrate(X)
    assert close(run(to_onnx(soft), X), soft(X).detach().numpy(), torch.float32)


@pytest.mark.parametrize("name", [*MAPS, *STACKS])
def test_a_hard_forest_behind_a_feature_map_exits_at_the_same_leaves(name):
    forest = behind((MAPS | STACKS)[name]())
    X = some_rows(500, missing=0.0)
    raw, label = run(forest_to_onnx(forest), X, "raw", "label")
    expected = reference.raw(forest, X)
    # These rows are farther from every threshold than the rounding of φ.
    assert np.array_equal(raw, expected)
    assert np.array_equal(label, 10 + expected.argmax(axis=1))


def test_what_cannot_be_exported_is_refused():
    forest = small()
    with pytest.raises(InputError, match="must be a SoftForest"):
        to_onnx(forest)
    narrow = SoftForest.from_forest(forest, "sigmoid", dtype=torch.bfloat16)
    with pytest.raises(UnsupportedModelError, match="bfloat16"):
        to_onnx(narrow)
    with pytest.raises(UnsupportedModelError, match="prediction kernel or a feature map"):
        forest_to_onnx(forest)
    stays = SoftForest.from_forest(behind(STACKS["stacked"]()), "sigmoid", trainable=("b", "v"))
    with pytest.raises(UnsupportedModelError, match="StackedForest"):
        to_onnx(stays)
    n = 600
    B = 1 - np.eye(n + 1, n)
    chain = Forest.from_matrices(np.ones((n, 1)), np.arange(float(n)), B, np.arange(n + 1.0))
    with pytest.raises(UnsupportedModelError, match="depth 512"):
        to_onnx(SoftForest.from_forest(chain, "sigmoid"))


class Branching(torch.nn.Module):
    """Reads a value to decide, which no graph can."""

    def forward(self, x):
        """Return x or −x."""
        return x if bool((x.sum() >= 0).item()) else -x


def test_a_torch_module_that_branches_on_values_is_refused():
    forest = behind(TorchMap(Branching(), 4, 4))
    soft = SoftForest.from_forest(forest, "sigmoid", trainable=("b", "v"))
    with pytest.raises(UnsupportedModelError, match=r"torch\.onnx\.export"):
        to_onnx(soft)
