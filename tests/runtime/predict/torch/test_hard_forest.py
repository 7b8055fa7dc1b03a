"""A hard forest as a torch module is the reference, bit for bit: eager, compiled and exported."""

from __future__ import annotations

import copy
import pickle
import shutil
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, SET, forests, rows, special_values

import bitvec
from bitvec.core import reference
from bitvec.core.feature_maps.layers import ReLU
from bitvec.core.feature_maps.maps import Layers
from bitvec.core.forest import Forest
from bitvec.core.kernels import box
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate, Output, PostTransform, SoftmaxSum
from bitvec.core.transforms import predictions, probabilities, transform
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from bitvec.runtime.predict.torch import (  # noqa: E402
    call_modes,
    compared_columns,
    hard_forest,
    hard_sums,
)
from bitvec.runtime.predict.torch.forms import FORMS  # noqa: E402
from bitvec.runtime.predict.torch.hard_links import Probabilities  # noqa: E402

has_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="inductor needs a C++ compiler",
)
in_every_form = pytest.mark.parametrize("form", FORMS)
STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


def assert_same_bits(got, expected):
    same_bits.assert_same_bits(got.numpy(), expected)


def expected_raw(forest, X):
    with np.errstate(all="ignore"):
        return reference.raw(forest, X)


def exported(module, x):
    """Return the module as exported with a dynamic batch from two rows."""
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (x[:2],), dynamic_shapes=({0: batch},))
    return program.module()


@in_every_form
@settings(max_examples=20)
@given(data=st.data())
def test_raw_scores_and_leaves_are_the_references(form, data):
    forest = data.draw(forests(max_leaves=data.draw(st.sampled_from([8, 70]))))
    X = data.draw(rows(forest))
    x = torch.tensor(X)
    raw, leaves = (bitvec.to_torch(forest, output=o, form=form) for o in ("raw", "leaves"))
    assert np.array_equal(leaves(x).numpy(), reference.exit_leaves(forest, X))
    expected = expected_raw(forest, X)
    for n in (len(x), 1, 0):
        assert_same_bits(raw(x[:n]), expected[:n])


def test_large_tables_go_through_in_blocks(monkeypatch):
    forest, X = example()
    monkeypatch.setattr(hard_forest, "ELEMENTS", 7)
    module = bitvec.to_torch(forest)
    monkeypatch.setattr(module.trees, "forward", counted := Counted(module.trees.forward))
    assert_same_bits(module(torch.tensor(X)), expected_raw(forest, X))
    assert counted.calls == -(-len(X) // 7)


@pytest.mark.parametrize("form", ["perfect", "levels"])
def test_rows_without_missing_values_are_walked_as_they_are(form, monkeypatch):
    S = np.eye(3)[[2, 0]]
    forest = Forest.from_matrices(S, [0.5, 0.25], [[0, 0], [0, 1], [1, 1]], [1.0, 2.0, 4.0])
    right = replace(forest, tests=replace(forest.tests, missing_right=np.array([True, True])))
    module = bitvec.to_torch(right, form=form)
    monkeypatch.setattr(module.columns, "forward", counted := Counted(module.columns.forward))
    X = np.random.default_rng(0).normal(size=(50, 3))
    for calls, value in enumerate([0.0, np.nan, np.inf, -np.inf]):
        X[7] = value
        assert_same_bits(module(torch.tensor(X)), expected_raw(right, X))
        assert counted.calls == calls
    # Of another forest of the same shape, whose copies are of other columns.
    tests = replace(right.tests, column=np.array([1, 0], np.int32))
    other = replace(right, tests=tests)
    module.load_state_dict(bitvec.to_torch(other, form=form).state_dict())
    X[7] = 0.0
    assert_same_bits(module(torch.tensor(X)), expected_raw(other, X))


class Counted:
    """A function, and how often it was called."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


@settings(max_examples=10)
@given(data=st.data())
def test_sets_that_no_table_holds_are_read_from_their_words(data):
    forest = data.draw(forests(kinds=(SET, EQUAL, AXIS), max_leaves=20))
    X = data.draw(rows(forest))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compared_columns, "TABLE", 0)
        leaves = bitvec.to_torch(forest, output="leaves")
    assert np.array_equal(leaves(torch.tensor(X)).numpy(), reference.exit_leaves(forest, X))


@settings(max_examples=10)
@given(data=st.data())
def test_a_weighted_median_is_the_references(data):
    forest = data.draw(forests(max_leaves=8, max_trees=5, aggregates=(Aggregate.MEAN,)))
    weight = np.array(data.draw(st.lists(st.sampled_from([0.25, 0.3, 1, 2.5]), min_size=5)))
    output = replace(
        forest.output,
        aggregate=Aggregate.WEIGHTED_MEDIAN,
        tree_weight=weight[: forest.n_trees].astype(forest.output.dtype),
        divisor=None,
    )
    forest = replace(forest, output=output)
    X = data.draw(rows(forest))
    assert_same_bits(bitvec.to_torch(forest)(torch.tensor(X)), expected_raw(forest, X))


@settings(max_examples=25)
@given(data=st.data())
def test_probabilities_are_within_ulps_and_labels_follow_them(data):
    forest = data.draw(forests(kinds=(AXIS,), max_leaves=8, classifier=True))
    X = data.draw(rows(forest, finite=True))
    x, output, raw = torch.tensor(X), forest.output, expected_raw(forest, X)
    expected = probabilities(output, raw)[0]
    got = bitvec.to_torch(forest, output="probabilities")(x).numpy()
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    # Each exponential, sum and quotient is a unit or two in the last place off; 1 - p is as far.
    eps = 16 * np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, expected, rtol=eps, atol=eps)
    module = bitvec.to_torch(forest, output="label")
    labels, names = module(x).numpy(), module.classes
    value = raw if output.labels_from_raw else transform(output, raw)
    top = np.sort(value, axis=1)
    at = output.second_above if value.shape[1] == 1 else top[:, -2]
    clear = (np.abs(top[:, -1] - at) > eps) | output.labels_from_raw
    if names.dtype.kind == "U":
        assert labels.dtype == np.int64
        labels = names[labels]
    assert np.array_equal(labels[clear], predictions(output, raw)[clear])


@pytest.mark.parametrize("parameter", [1.0, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("link", list(PostTransform))
def test_every_link_is_within_ulps_of_the_references(link, dtype, parameter):
    rng = np.random.default_rng(0)
    raw = np.concatenate([rng.normal(size=(200, 4)) * size for size in (0.1, 1, 10, 30)])
    raw = np.concatenate([raw, [[0.0, -0.0, 1e-8, 0.25]]]).astype(dtype)
    if link is PostTransform.PROBIT:
        raw = rng.random((200, 4)).astype(dtype)
    for order in SoftmaxSum if link is PostTransform.SOFTMAX else (SoftmaxSum.WIDE,):
        output = Output(
            4,
            np.dtype(dtype),
            post_transform=link,
            parameter=parameter,
            classes=(np.arange(4),),
            softmax_sum=order,
        )
        (expected,) = probabilities(output, raw)
        got = Probabilities(output)(torch.tensor(raw)).numpy()
        assert got.dtype == expected.dtype
        # As above; logarithms, powers and exponentials are of two libraries.
        narrow = link in (PostTransform.LOGISTIC, PostTransform.PROBIT)
        eps = 16 * np.finfo(np.float32 if narrow else dtype).eps
        if order is SoftmaxSum.IN_ORDER_TABLE:  # whose exponential of x is off by 1 + |x| ulp
            x = (raw - raw.max(axis=1, keepdims=True)) / parameter
            rtol = eps + 2 * (1 + np.abs(x)) * np.finfo(dtype).eps
            assert np.all(np.abs(got - expected) <= rtol * expected + np.finfo(dtype).tiny)
        else:
            np.testing.assert_allclose(got, expected, rtol=eps, atol=np.finfo(dtype).tiny)


def example():
    """A forest that adds to signed zeros and subnormals, and rows with every special value."""
    S, b, B = [[1, 0], [0, 1], [1, -1]], [-0.0, 1e-310, 0.0], 1 - np.eye(4, 3)
    forest = Forest.from_matrices(S, b, B, [-0.0, 0.1, 5e-324, -0.3])
    special = np.append(special_values(np.dtype(np.float64)), [np.nan, np.inf, -np.inf])
    X = np.stack(np.meshgrid(special, special), axis=-1).reshape(-1, 2)
    base = np.array([-0.0])
    output = Output(1, np.float64, base_score=base, base_first=True)
    return replace(forest, output=output), X


def test_exported_with_a_dynamic_batch_it_gives_the_same_bits():
    forest, X = example()
    x, expected = torch.tensor(X), expected_raw(forest, X)
    run = exported(bitvec.to_torch(forest), x)
    for n in (len(x), 1, 0):
        assert_same_bits(run(x[:n]), expected[:n])


@pytest.mark.parametrize(
    ("dtype", "adds"), [(np.float32, "embedding_bag"), (np.float64, "segment")]
)
def test_an_export_for_inductor_adds_by_one_operation_with_the_same_bits(dtype, adds):
    v = [[0.1, 3.0], [-0.2, 1e8]]
    trees = Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], v).take([0] * 9)
    base = np.array([0.3, -1e8], dtype)
    output = replace(trees.output, dtype=np.dtype(dtype), base_score=base, base_first=True)
    forest = replace(trees, output=output)
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [np.nan, 0.0]])
    with call_modes.compiled_ahead():
        run = exported(bitvec.to_torch(forest), torch.tensor(X))
    assert any(adds in str(node.target) for node in run.graph.nodes)
    assert not any("index_select" in str(node.target) for node in run.graph.nodes)
    for n in (3, 1, 0):
        assert_same_bits(run(torch.tensor(X[:n])), expected_raw(forest, X[:n]))
    run = exported(bitvec.to_torch(forest), torch.tensor(X))
    assert not any(adds in str(node.target) for node in run.graph.nodes)


def test_compiled_in_place_it_refuses_what_it_does_else_and_runs_hooks():
    module, seen = bitvec.to_torch(STUMP), []
    module.compile(backend="eager", fullgraph=True)
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert module(x).tolist() == [[20.0]]
    with pytest.raises(InputError, match=r"rows must be torch\.float64"):
        module(x.float())
    module.register_forward_hook(lambda module, given, answer: seen.append(answer))
    assert module(x).tolist() == [[20.0]]
    assert len(seen) == 1


@pytest.mark.full
@has_compiler
def test_compiled_in_place_it_takes_blocks_and_gives_the_same_bits(monkeypatch):
    forest, X = example()
    monkeypatch.setattr(hard_forest, "COMPILED_ROWS", 16)
    monkeypatch.setattr(hard_forest, "ELEMENTS", 7)
    module = bitvec.to_torch(forest)
    module.compile(fullgraph=True, dynamic=True)
    x, expected = torch.tensor(X), expected_raw(forest, X)
    assert len(x) > 32
    assert_same_bits(module(x), expected)
    assert_same_bits(copy.deepcopy(module)(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_bags_are_those_of_additions_in_order(dtype):
    torch.manual_seed(0)
    for width, n_trees, batch in ((1, 1000, 7), (3, 100, 1), (17, 33, 40)):
        v = (torch.randn(500, width) * 10.0 ** torch.randint(-5, 5, (500, 1))).to(dtype)
        leaf = torch.randint(500, (n_trees, batch))
        chain = v[leaf[0]]
        for one in leaf[1:]:
            chain = chain + v[one]
        bags = hard_sums._sums_of_bags(v, leaf.T, torch.tensor([0, n_trees]))
        assert torch.equal(bags, chain)
        zeros = torch.zeros(n_trees - 1, dtype=torch.int64)
        values = v[leaf].flatten(1)
        assert torch.equal(values[:1].index_add(0, zeros, values[1:]).view(batch, width), chain)


@settings(max_examples=20)
@given(data=st.data())
def test_memberships_are_one_at_the_exit_leaves(data):
    forest = data.draw(forests(max_leaves=20))
    X = data.draw(rows(forest))
    h = bitvec.to_torch(forest, output="memberships")(torch.tensor(X)).numpy()
    leaves = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    expected = np.zeros((len(X), forest.n_leaves), forest.dtype)
    np.put_along_axis(expected, leaves, 1, axis=1)
    assert_same_bits(torch.tensor(h), expected)


class Devices(TorchDispatchMode):
    """The devices of all tensors that operations give."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.found |= {one.device.type for one in tree_leaves(result) if hasattr(one, "device")}
        return result


@in_every_form
@settings(max_examples=5)
@given(data=st.data())
def test_no_operation_leaves_the_device(form, data):
    forest = data.draw(forests(max_leaves=20))
    output = data.draw(st.sampled_from(["raw", "leaves", "memberships"]))
    module = bitvec.to_torch(forest, form=form, output=output).to("meta")
    never = mock.patch.object(torch, "is_autocast_enabled", return_value=False)  # of "meta"
    with never, Devices() as devices:
        module(torch.zeros((3, forest.n_features), dtype=module.dtype, device="meta"))
    assert devices.found == {"meta"}


@in_every_form
@pytest.mark.parametrize("output", ["raw", "leaves"])
def test_no_operation_of_an_exported_graph_leaves_the_device(form, output):
    forest, X = example()
    module = bitvec.to_torch(forest, form=form, output=output).to("meta")
    x = torch.zeros(X[:2].shape, dtype=module.dtype, device="meta")
    with mock.patch.object(torch, "is_autocast_enabled", return_value=False):  # of "meta"
        program = torch.export.export(
            module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)
        )
    values = [node.meta["val"] for node in program.graph.nodes if "val" in node.meta]
    tensors = [one for one in tree_leaves(values) if isinstance(one, torch.Tensor)]
    assert len(tensors) > 5
    assert {one.device.type for one in tensors} == {"meta"}


@pytest.mark.full
@in_every_form
@settings(max_examples=10)
@given(data=st.data())
def test_exported_forests_of_all_kinds_are_the_reference(form, data):
    forest = data.draw(forests(max_leaves=20))
    X = data.draw(rows(forest))
    x, expected = torch.tensor(X), expected_raw(forest, X)
    run = exported(bitvec.to_torch(forest, form=form), torch.zeros_like(x[:1]).expand(2, -1))
    for n in (len(x), 1, 0):
        assert_same_bits(run(x[:n]), expected[:n])


@pytest.mark.full
@has_compiler
@pytest.mark.parametrize("form", ["matrix", "perfect", "levels"])
@settings(max_examples=2)
@given(data=st.data())
def test_compiled_forests_of_all_kinds_are_the_reference(form, data):
    forest = data.draw(forests(max_leaves=8))
    X = data.draw(rows(forest))
    torch._dynamo.reset()
    run = torch.compile(bitvec.to_torch(forest, form=form), fullgraph=True, dynamic=True)
    x, expected = torch.tensor(X), expected_raw(forest, X)
    for n in (len(x), 1, 0):
        assert_same_bits(run(x[:n]), expected[:n])


def test_it_is_the_predictor_in_every_copy():
    forest, X = example()
    x, expected = torch.tensor(X), bitvec.compile(forest).raw(X)
    module = bitvec.to_torch(forest)
    assert not list(module.parameters())
    other = bitvec.to_torch(replace(forest, leaves=replace(forest.leaves, v=-forest.leaves.v)))
    other.load_state_dict(module.state_dict())
    for one in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
        assert_same_bits(one(x), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@in_every_form
@settings(max_examples=15)
@given(data=st.data())
def test_moved_to_a_gpu_it_is_the_reference(form, data):
    forest = data.draw(forests(max_leaves=20))
    X = data.draw(rows(forest))
    module = bitvec.to_torch(forest, form=form).to("cuda")
    assert_same_bits(module(torch.tensor(X, device="cuda")).cpu(), expected_raw(forest, X))


@in_every_form
@pytest.mark.parametrize("move", ["half", "float", "double", "bfloat16"])
def test_a_cast_of_the_network_around_it_does_not_round_it(form, move):
    forest, X = example()
    network = torch.nn.Sequential(bitvec.to_torch(forest, form=form))
    getattr(network, move)()
    assert_same_bits(network(torch.tensor(X)), expected_raw(forest, X))


def test_counts_of_leaves_are_exact_under_autocast():
    n = 600
    forest = Forest.from_matrices(
        np.ones((n, 1)), np.arange(n), 1 - np.eye(n + 1, n), np.arange(n + 1)
    )
    X = np.arange(-1.0, n)[:, None]
    module = bitvec.to_torch(forest, form="matrix")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module(torch.tensor(X))
    assert_same_bits(got, expected_raw(forest, X))


@pytest.mark.parametrize(
    ("x", "must"),
    [
        ([[0.0, 9.0]], "rows must be a torch tensor, got list"),
        (torch.zeros(3, 3, dtype=torch.float64), r"shape \(batch, 2\), got \(3, 3\)"),
        (torch.zeros(2, dtype=torch.float64), r"shape \(batch, 2\), got \(2,\)"),
        (torch.zeros(3, 2), r"must be torch.float64, .* got torch.float32"),
        (torch.zeros(3, 2, dtype=torch.float64, device="meta"), "device cpu, got meta"),
        (torch.zeros(3, 2, dtype=torch.float64, requires_grad=True), "must not require a gradient"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_sentence(x, must):
    with pytest.raises(InputError, match=must) as caught:
        bitvec.to_torch(STUMP)(x)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "must"),
    [
        ({"gamma": 2.0}, "`gamma` must be left out without a relaxation"),
        ({"dtype": torch.float64}, "`dtype` must be left out without a relaxation"),
        ({"output": "scores"}, "`output` must be one of raw"),
        ({"output": "label"}, "forest that is no classifier"),
        ({"form": "trees"}, "form of the engine torch must be one of"),
        ({"relaxation": "sigmoid", "output": "leaves"}, "`output` must be 'raw' with a relaxation"),
        ({"relaxation": "sigmoid", "form": "levels"}, "`form` must be 'auto' with a relaxation"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_sentence(options, must):
    with pytest.raises(InputError, match=must) as caught:
        bitvec.to_torch(STUMP, **options)
    assert "\n" not in str(caught.value)


def test_what_tensor_operations_do_not_hold_is_refused_by_name():
    tests = replace(STUMP.tests, kind=np.array([Kind.KERNEL], np.uint8))
    soft = replace(STUMP, tests=tests, kernel=(box(0.5), None))
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        bitvec.to_torch(soft)
    mapped = replace(STUMP, feature_map=Layers((ReLU(),), (2,)))
    with pytest.raises(UnsupportedModelError, match="feature map Layers"):
        bitvec.to_torch(mapped)
