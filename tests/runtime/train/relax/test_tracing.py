"""Soft modules traced by compilers, exporters and transforms of torch: the answers of eager calls.

What is traced takes sums along paths, projections and margins by other operations in the same
order, or in the order of all trees at once: 1e-6 of the largest score is 8 units of float32, and
1e-11 leaves room for some thousand sums in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from relaxed_forests import CASES, FORESTS, RELAXED, close, soft, some_rows, stacked
from strategies import forests, rows

from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, harden  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def one_by_one(module):
    return torch.func.vmap(lambda row: module(row[None])[0])


def exported(module, x):
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(module, (x[:3],), dynamic_shapes=(batch,))
    for call in program.graph.nodes:
        if "set_grad_enabled" in str(call.target):
            assert_only_constants_leave(program, call)
    return program.module()


def assert_only_constants_leave(program, call):
    """Refuse numbers that a part without gradients hands on: who follows the graph loses theirs."""
    inner = getattr(program.graph_module, call.args[1].target).graph
    given = dict(zip(inner.find_nodes(op="placeholder"), call.args[2:], strict=True))
    for node in inner.output_node().args[0]:
        if node.meta["val"].is_floating_point():
            assert given[node.args[0]].name.startswith("c_")


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


@pytest.mark.parametrize(("kind", "relaxation"), CASES)
def test_an_exported_module_is_the_module(kind, relaxation):
    module, X = soft(kind, relaxation), some_rows()
    x = torch.tensor(X, dtype=torch.float32 if kind == "float32" else torch.float64)
    program = exported(module, x)
    for n_rows in (1, 12):
        assert close(program(x[:n_rows]), module(X[:n_rows]))


def test_a_module_is_exported_by_rows_of_a_frame_and_takes_rows_of_any_strides():
    module, X = soft(*CASES[0].values), some_rows()
    x = torch.tensor(X)
    by_column = x.T.contiguous().T
    for program in (exported(module, by_column), exported(module, x)):
        for each in (x, by_column, torch.cat([x, x], dim=1)[:, : x.shape[1]]):
            assert close(program(each), module(X))


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
