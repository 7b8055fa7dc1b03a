"""The kernel gate: the leaf-box product, at gamma 1 a forest's own soft prediction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, KERNEL, OBLIQUE, SET, forests, rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.kernels import FeatureKernel, box
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate
from bitvec.errors import UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, harden  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def soft_forests(kinds=(KERNEL,), dtypes=(np.float64,), **options):
    return forests(
        kinds, linear=False, aggregates=SUMMED, soft=True, dtypes=dtypes, max_leaves=24, **options
    ).filter(lambda forest: forest.kernel is not None)


def relaxed(forest, **options):
    options = {"dtype": torch.float64, "trainable": ("b", "v")} | options
    return SoftForest.from_forest(forest, "kernel", **options)


@given(st.data(), st.sampled_from([(KERNEL,), (KERNEL, AXIS, SET, EQUAL, OBLIQUE)]))
def test_at_gamma_1_it_is_the_forests_own_soft_prediction(data, kinds):
    forest = data.draw(soft_forests(kinds))
    X = data.draw(rows(forest))
    module = relaxed(forest)
    expected = reference.kernel_memberships(forest, X)
    # Conditional shares multiplied, not differences of F: rounding of a few terms in float64.
    assert np.allclose(module.memberships(X).detach(), expected, rtol=1e-9, atol=1e-12)
    raw = reference.raw(forest, X)
    assert np.allclose(module(X).detach(), raw, rtol=1e-6, atol=1e-6)  # leaves are float32


@given(st.data(), st.sampled_from([0.5, 3.0]))
def test_gamma_divides_the_bandwidth(data, gamma):
    forest = data.draw(soft_forests())
    X = data.draw(rows(forest, finite=True))
    narrowed = tuple(
        None if k is None else replace(k, bandwidth=k.bandwidth / gamma) for k in forest.kernel
    )
    expected = reference.kernel_memberships(replace(forest, kernel=narrowed), X)
    got = relaxed(forest, gamma=gamma).memberships(X).detach()
    assert np.allclose(got, expected, rtol=1e-9, atol=1e-12)


@given(st.data(), st.booleans())
def test_without_a_kernel_of_its_own_a_column_has_a_box_in_units_of_its_margin_scales(
    data, calibrated
):
    forest = data.draw(
        forests(
            (KERNEL, AXIS), linear=False, aggregates=SUMMED, dtypes=(np.float64,), max_leaves=20
        )
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = rng.normal(size=(20, forest.n_features))
    X[rng.random(X.shape) < 0.1] = np.nan
    module = relaxed(forest, gamma=1.5)
    if calibrated:
        module.calibrate(X)
    scale, feature = module.scaling.margin, forest.tests.feature
    kernels = tuple(
        box(2 * scale[feature == j].mean() / 1.5) if np.any(feature == j) else None
        for j in range(forest.n_features)
    )
    kinds = np.full(forest.n_nodes, Kind.KERNEL, np.uint8)
    tests = replace(forest.tests, kind=kinds, relation=np.zeros_like(kinds))
    soft = replace(forest, tests=tests, kernel=kernels if forest.n_nodes else None)
    if forest.n_nodes:
        expected = reference.kernel_memberships(soft, X)
        assert np.allclose(module.memberships(X).detach(), expected, rtol=1e-9, atol=1e-12)


def test_thresholds_that_have_moved_across_each_other_leave_a_leaf_without_mass():
    forest = Forest.from_matrices([[1.0], [1.0]], [0.0, 1.0], [[0, 1], [1, 0], [1, 1]], [1, 2, 3])
    module = relaxed(forest, gamma=1.0)
    with torch.no_grad():
        module.b[1] = -5.0  # the right child now cuts far to the left of its parent
    u = module.memberships([[0.5]])
    assert u[0, 1] == 0
    assert torch.allclose(u.sum(), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize("own", [False, True])
def test_gradients_with_respect_to_b_and_v_are_exact(own):
    S = np.eye(2)[[0, 0, 1]]
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    forest = Forest.from_matrices(S, [0.1, -0.4, 0.3], B, np.arange(4.0))
    if own:
        kernel = FeatureKernel(
            np.array([-1.0, 0.0, 2.0]), np.array([0.75, 0.25]), np.array([1.5]), np.zeros(0)
        )
        tests = replace(forest.tests, kind=np.full(3, Kind.KERNEL, np.uint8))
        forest = replace(forest, tests=tests, kernel=(kernel, kernel))
    module = relaxed(forest, gamma=1.2)
    X = module.prepare(np.random.default_rng(0).normal(size=(6, 2)))

    def raw(b, v):
        return torch.func.functional_call(module, {"b": b, "v": v}, (X,))

    start = [value.detach().clone().requires_grad_() for value in (module.b, module.v)]
    assert torch.autograd.gradcheck(raw, start)
    assert torch.autograd.grad(raw(*start).square().sum(), start[0])[0].abs().min() > 0


def test_oblique_nodes_pass_by_the_sigmoid_and_boxes_keep_their_rows():
    forest = Forest.from_matrices(
        [[1.0, 0], [1, -1]], [0.5, 0.0], [[0, 1], [1, 0], [1, 1]], [1, 2, 3]
    )
    module = relaxed(forest, trainable=("S", "b", "v"))
    assert module.rows.nodes.tolist() == [1]
    u = module.memberships([[1.5, 0.5]]).detach().numpy()[0]
    right = 0.5 + 1.0 / 4
    expected = [1 - right, right * (1 - 1 / (1 + np.exp(-1))), right / (1 + np.exp(-1))]
    assert np.allclose(u, expected, rtol=1e-12)


def test_a_forest_with_a_kernel_is_refused_by_other_gates_and_keeps_it_when_hardened():
    forest = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [1, 2])
    tests = replace(forest.tests, kind=np.full(1, Kind.KERNEL, np.uint8))
    forest = replace(forest, tests=tests, kernel=(box(0.5),))
    with pytest.raises(UnsupportedModelError, match='pass relaxation="kernel"'):
        SoftForest.from_forest(forest)
    module = relaxed(forest)
    with torch.no_grad():
        module.b += 0.25
    hard = harden(module)
    assert hard.tests.b.tolist() == [0.75]
    assert np.allclose(reference.raw(hard, np.array([[0.7]])), module([[0.7]]).detach())
