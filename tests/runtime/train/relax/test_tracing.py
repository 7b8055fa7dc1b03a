"""Soft modules traced by compilers, exporters and transforms of torch: the answers of eager calls.

What is traced takes sums along paths, projections and margins by other operations in the same
order, or in the order of all trees at once: 1e-6 of the largest score is 8 units of float32, and
1e-11 leaves room for some thousand sums in float64.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import forests, rows

from bitvec.core.feature_maps import Concatenate, Layers, Linear, ReLU, StackedForest
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import Kind, MissingRule, axis_aligned, set_bits
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, harden  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS, Relaxation  # noqa: E402
from bitvec.runtime.train.relax.torch_map import TorchMap  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)
STEPS = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
RELAXED = [
    *RELAXATIONS.values(),
    Relaxation("smooth_step", "softmax", "ternary_per_depth"),
    Relaxation("relu_squared", "index_sparsemax"),
]


def axis(n_outputs=2):
    """Return two ragged trees over four columns, of four leaves and of one."""
    rng = np.random.default_rng(0)
    S = np.eye(4)[[0, 2, 3]]
    tree = Forest.from_matrices(S, 0.3 * rng.normal(size=3), STEPS, rng.normal(size=(4, n_outputs)))
    return tree.take([0, 0])


def missing():
    forest = axis()
    rules = np.array([MissingRule.NAN, MissingRule.NAN_OR_ZERO, MissingRule.NAN_OR_SENTINEL] * 2)
    tests = replace(forest.tests, missing_rule=rules.astype(forest.tests.missing_rule.dtype))
    return replace(forest, tests=tests, inputs=Inputs(4, missing_sentinel=-9.0))


def categories():
    forest, kinds = axis(), np.array([Kind.SET, Kind.EQUAL, Kind.MARGIN])
    ptr, words = set_bits([np.array([0, 3]), np.array([], int), np.array([], int)])
    tests = axis_aligned(
        [0, 2, 3], [0.0, 1.0, 0.2], kind=kinds, set_ptr=ptr, set_words=words, missing_right=True
    )
    tree = replace(forest.take([0]), tests=tests)
    return tree.take([0, 0])


def oblique():
    rng = np.random.default_rng(1)
    tree = Forest.from_matrices(
        rng.normal(size=(3, 4)), 0.3 * rng.normal(size=3), STEPS, rng.normal(size=(4, 2))
    )
    return tree.take([0, 0])


def linear():
    forest, rng = axis(1), np.random.default_rng(2)
    ptr = np.arange(forest.n_leaves + 1) * 2
    column = np.tile(np.array([1, 3], np.int32), forest.n_leaves)
    terms = LinearTerms(
        ptr, column, rng.normal(size=(ptr[-1], 1)), rng.normal(size=(forest.n_leaves, 1))
    )
    return replace(forest, leaves=Leaves(forest.leaves.v, linear=terms))


def network():
    rng = np.random.default_rng(3)
    layers = Linear(rng.normal(size=(3, 4)).astype(np.float64)), ReLU()
    return Layers((*layers, Linear(rng.normal(size=(2, 3)))))


def mapped():
    torch.manual_seed(0)
    own = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh())
    return replace(axis(), feature_map=Concatenate((network(), TorchMap(own, 4, 2))))


def stacked():
    first = axis()
    wide = Forest.from_matrices(np.eye(12)[[0, 5, 11]], [0.1, 0.5, 0.4], STEPS, np.arange(4.0))
    return replace(wide, inputs=Inputs(4), feature_map=StackedForest(first))


FORESTS = {
    "axis": (axis, ("b", "v")),
    "axis that tilts": (axis, ("S", "b", "v", "base_score")),
    "categories": (categories, ("b", "v")),
    "missing": (missing, ("b", "v")),
    "missing that tilts": (missing, ("S", "b", "v")),
    "oblique": (oblique, {"S": {"nodes": [0]}, "v": {"leaves": [1]}, "b": "all"}),
    "linear leaves": (linear, ("S", "b", "v")),
    "fixed map": (mapped, ("b", "v")),
    "learned map": (mapped, ("phi", "S", "b", "v")),
    "stacked": (stacked, ("phi", "b", "v")),
}


def some_rows(n_rows=12, holes=True):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, 4))
    if holes:
        X[rng.random(X.shape) < 0.1] = np.nan
        X[0, 0], X[1, 2], X[2, 0], X[3, 2], X[4, 2] = 0.0, -9.0, np.inf, 0.0, 1.0
        X[5:, 0] = np.arange(len(X) - 5) % 5
    return X


def soft(kind, relaxation, *, dtype=torch.float64, **options):
    make, trainable = FORESTS[kind]
    module = SoftForest.from_forest(
        make(), relaxation, trainable=trainable, gamma=0.7, dtype=dtype, **options
    )
    return module.calibrate(some_rows(200))


def close(got, expected, dtype=torch.float64):
    tolerance = 1e-11 if dtype == torch.float64 else 1e-6
    finite = torch.where(expected.isfinite(), expected, 0.0)
    size = max(1.0, float(finite.detach().abs().max()))
    return torch.allclose(got, expected, rtol=tolerance, atol=tolerance * size, equal_nan=True)


def one_by_one(module):
    return torch.func.vmap(lambda row: module(row[None])[0])


def exported(module, x):
    batch = {0: torch.export.Dim("batch")}
    return torch.export.export(module, (x[:3],), dynamic_shapes=(batch,)).module()


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_answers_one_by_one_are_those_of_the_batch_for_every_kind_of_node_and_leaf(data):
    name = data.draw(st.sampled_from(list(RELAXATIONS)))
    forest = data.draw(forests(aggregates=SUMMED, max_leaves=20, soft=name == "kernel"))
    X = data.draw(rows(forest))
    module = SoftForest.from_forest(
        forest,
        name,
        trainable=data.draw(
            st.sampled_from([("S", "b", "v"), ("b", "v"), ("S", "b", "v", "r"), ()])
        ),
        gamma=data.draw(st.sampled_from([0.5, 2.0])),
        dtype=data.draw(st.sampled_from([torch.float64, torch.float32])),
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    if data.draw(st.booleans()):
        calibration = rng.normal(size=(30, forest.n_features)).astype(forest.dtype)
        calibration[rng.random(calibration.shape) < 0.1] = np.nan
        module.calibrate(calibration)
    with torch.no_grad():
        if data.draw(st.booleans()):
            module.b += 0.3 * torch.randn(module.b.shape, dtype=module.b.dtype)
        x, few = torch.tensor(X), 4096 * np.finfo(np.float32).eps
        u = torch.func.vmap(lambda row: module.memberships(row[None])[0])(x)
        # Oblique sums are rounded in the forest's dtype, and may be of huge terms.
        assert torch.allclose(u, module.memberships(X), rtol=0, atol=few)
        narrow = torch.float32 in (module.dtype, x.dtype)
        got, expected = one_by_one(module)(x), module(X)
        finite = torch.where(expected.isfinite(), expected, 0.0)
        size = max(1.0, float(finite.abs().max()))
        few = 1e-5 if narrow else 1e-9
        assert torch.allclose(got, expected, rtol=few, atol=few * size, equal_nan=True)


CASES = [
    pytest.param(kind, relaxation, marks=() if place == number % len(FORESTS) else pytest.mark.full)
    for number, relaxation in enumerate(RELAXED)
    for place, kind in enumerate(FORESTS)
]
"""Every relaxation of one kind of forest, kinds in turn; all pairs in the long run."""


@pytest.mark.parametrize(("kind", "relaxation"), CASES)
def test_an_exported_module_is_the_module(kind, relaxation):
    module, X = soft(kind, relaxation), some_rows()
    x = torch.tensor(X, dtype=torch.float32 if kind == "float32" else torch.float64)
    program = exported(module, x)
    for n_rows in (1, 12):
        assert close(program(x[:n_rows]), module(X[:n_rows]))


@pytest.mark.parametrize(("kind", "relaxation"), CASES)
def test_gradients_of_transforms_are_those_of_autograd(kind, relaxation):
    module, X = soft(kind, relaxation), some_rows(holes=kind != "learned map")
    x = torch.tensor(X, requires_grad=True)
    scores = module(x)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: module(row[None])[0]))(x.detach())
    for output in range(scores.shape[1]):
        (expected,) = torch.autograd.grad(scores[:, output].sum(), x, retain_graph=True)
        assert close(jacobian[:, output], expected)
    held = {name: p for name, p in module.named_parameters() if p.requires_grad}
    scores = module(X)
    scores.square().sum().backward()

    def loss(values):
        return torch.func.functional_call(module, values, (x.detach(),)).square().sum()

    found = torch.func.grad(loss)({name: p.detach() for name, p in held.items()})
    for name, p in held.items():
        assert close(found[name], torch.zeros_like(p) if p.grad is None else p.grad)


@pytest.mark.parametrize("relaxation", RELAXED)
@pytest.mark.parametrize(
    "kind",
    [k if k == "missing that tilts" else pytest.param(k, marks=pytest.mark.full) for k in FORESTS],
)
def test_a_doubled_module_gives_the_answers_of_float64(kind, relaxation):
    X = some_rows()
    expected = soft(kind, relaxation)
    module = soft(kind, relaxation, dtype=torch.float32).double()
    assert module.dtype == torch.float64
    assert torch.equal(module(X), expected(X))
    assert harden(module).tests.b.tobytes() == module.forest.tests.b.tobytes()
    assert torch.equal(module.float()(X), soft(kind, relaxation, dtype=torch.float32)(X))


def test_a_module_in_less_than_float32_is_refused():
    module = soft("axis", "sigmoid")
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), module)
    for cast in (network.half, network.bfloat16):
        with pytest.raises(InputError, match=r"float32 or float64, got torch\.(b?float16)"):
            cast()
    assert module.dtype == torch.float64


@pytest.mark.parametrize("trace", [exported, lambda module, x: one_by_one(module)(x)])
def test_a_fixed_map_that_torch_cannot_follow_is_named(trace):
    forest = stacked()
    module = SoftForest.from_forest(forest, trainable=("b", "v"))
    with pytest.raises(UnsupportedModelError, match="got StackedForest: let it move"):
        trace(module, torch.tensor(some_rows()))
