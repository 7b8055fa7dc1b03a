"""φ as a torch module: the same function, gradients through it, and the way back bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, forests, forests_with_rows

from bitvec.core import reference
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
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError
from bitvec.files import save

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, harden  # noqa: E402
from bitvec.runtime.train.relax.feature_layers import from_torch, to_torch  # noqa: E402
from bitvec.runtime.train.relax.feature_modules import HardMap  # noqa: E402
from bitvec.runtime.train.relax.torch_map import TorchMap  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def network(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)

    def numbers(*shape):
        return rng.normal(size=shape).astype(dtype)

    return Layers(
        (
            Conv2d(numbers(3, 2, 2, 2), numbers(3), (1, 2), (1, 0)),
            ReLU(),
            MaxPool2d((2, 1), (1, 1), (1, 0)),
            Flatten(),
            Linear(numbers(4, 30), numbers(4)),
            ReLU(),
            Linear(numbers(2, 4)),
        ),
        (2, 3, 4),
    )


def relax(forest):
    return SoftForest.from_forest(forest, trainable=("b", "v"), dtype=torch.float64)


def stump(at=0.5):
    return Forest.from_matrices([[1, 0]], [at], [[0], [1]], [10.0, 20.0])


def perceptron():
    torch.manual_seed(0)
    layers = (torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.BatchNorm1d(3))
    return torch.nn.Sequential(*layers).to(torch.float64)


def maps() -> dict[str, FeatureMap]:
    return {
        "identity": Identity(2),
        "network": network(),
        "joined": Concatenate((Identity(24), network(1), network(2))),
        "one-hot": StackedForest(stump()),
        "values": StackedForest(stump(), values=True),
        "torch": TorchMap(perceptron(), 2, 3),
    }


def rows(n_inputs, n=7, dtype=np.float64):
    return np.random.default_rng(1).normal(size=(n, n_inputs)).astype(dtype)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", ["identity", "network", "joined", "torch"])
@pytest.mark.parametrize("n_rows", [0, 1, 7])
def test_the_module_is_the_map_to_rounding(name, trainable, n_rows):
    phi = maps()[name]
    X = rows(phi.n_inputs, n_rows)
    if n_rows == 7:
        X[1, 1], X[3, 0], X[5, 1] = np.nan, np.inf, -np.inf
    module = to_torch(phi, trainable=trainable, dtype=torch.float64)
    with np.errstate(invalid="ignore"):
        expected = phi(X)
    found = module(torch.tensor(X)).detach().numpy()
    assert found.shape == (n_rows, phi.n_features)
    # Sums of at most 30 products of numbers around 1, in another order.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", maps())
def test_what_has_not_moved_comes_back_itself(name, trainable, dtype):
    phi = maps()[name]
    module = to_torch(phi, trainable=trainable, dtype=dtype, relax=relax)
    assert from_torch(module, phi, harden=harden) is phi


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", maps())
def test_parameters_move_only_where_they_may(name, trainable):
    module = to_torch(maps()[name], trainable=trainable, relax=relax)
    moves = [parameter.requires_grad for parameter in module.parameters()]
    assert any(moves) == (trainable and name != "identity")


@pytest.mark.parametrize("name", ["network", "joined", "torch"])
def test_what_has_moved_comes_back_as_the_module_computes_it(name):
    phi = maps()[name]
    module = to_torch(phi, trainable=True, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    X = rows(phi.n_inputs)
    moved = from_torch(module, phi)
    assert type(moved) is type(phi)
    assert not np.array_equal(moved(X), phi(X))
    np.testing.assert_allclose(moved(X), module(torch.tensor(X)).detach().numpy(), rtol=1e-11)


def test_a_number_that_has_not_moved_keeps_its_bits_beside_one_that_has():
    weight = np.array([[0.1, 0.2]])  # neither is a number of float32
    phi = Layers((Linear(weight, np.array([0.3])),))
    module = to_torch(phi, trainable=True)
    with torch.no_grad():
        module.body[0].weight[0, 1] = 0.5
    (layer,) = from_torch(module, phi).layers
    assert layer.weight.tolist() == [[0.1, 0.5]]
    assert layer.bias.tolist() == [0.3]
    assert layer.weight.dtype == np.float64


def test_a_network_that_has_diverged_is_not_hardened():
    phi = Layers((Linear(np.ones((1, 2))),))
    for value in (np.nan, np.inf):
        module = to_torch(phi, trainable=True)
        with torch.no_grad():
            module.body[0].weight[0, 0] = value
        with pytest.raises(InvalidForestError, match="lower the learning rate"):
            from_torch(module, phi)
    joined = TorchMap(perceptron(), 2, 3)
    module = to_torch(joined, trainable=True)
    with torch.no_grad():
        next(module.parameters())[0, 0] = torch.nan
    with pytest.raises(InvalidForestError, match="lower the learning rate"):
        from_torch(module, joined)


@pytest.mark.parametrize("name", ["network", "joined", "torch"])
def test_gradients_of_a_map_are_exact(name):
    phi = maps()[name]
    module = to_torch(phi, trainable=True, dtype=torch.float64).eval()
    X = torch.tensor(rows(phi.n_inputs, 2))
    names = [key for key, _ in module.named_parameters()]

    def run(*values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (X,))

    assert torch.autograd.gradcheck(run, tuple(module.parameters()), fast_mode=True)


def test_a_row_that_is_not_finite_gives_no_nan_in_the_gradient():
    phi = network()
    module = to_torch(phi, trainable=True, dtype=torch.float64)
    X = rows(24)
    clean = module(torch.tensor(X[[0, 2]])).sum()
    expected = torch.autograd.grad(clean, list(module.parameters()))
    X[1, 0], X[3, 5], X[4:] = np.nan, np.inf, np.nan
    value = module(torch.tensor(X))
    assert bool(value[1].isnan().all())
    found = torch.autograd.grad(
        value[[0, 2]].sum() + 0.0 * value.nan_to_num(0, 0, 0).sum(), list(module.parameters())
    )
    for a, b in zip(found, expected, strict=True):
        # One product over other rows of the batch.
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


# A forest inside of φ.


@settings(max_examples=20)
@given(forests_with_rows(max_leaves=12), st.booleans())
def test_a_hard_stacked_forest_is_the_map_itself(drawn, values):
    forest, X = drawn
    phi = StackedForest(forest, values)
    module = to_torch(phi, trainable=False, dtype=torch.float64)
    found = module(torch.tensor(X)).numpy()
    with np.errstate(all="ignore"):
        assert np.array_equal(found, phi(X), equal_nan=True)
    assert from_torch(module, phi) is phi


@settings(max_examples=15)
@given(
    forests(kinds=(AXIS,), linear=False, aggregates=SUMMED, max_leaves=10, dtypes=(np.float32,)),
    st.booleans(),
)
def test_a_soft_stacked_forest_tends_to_the_hard_one(forest, values):
    phi = StackedForest(forest, values)
    module = to_torch(phi, trainable=True, dtype=torch.float64, relax=relax)
    module.soft.gamma = 1e6
    X = np.random.default_rng(0).normal(size=(8, forest.n_features)).astype(forest.dtype)
    # Thresholds are at most a few, or beyond every row; a margin of 1e-4 is 100 at this gamma.
    Z = reference.columns(forest, X)
    near = (
        np.abs(Z[:, forest.tests.feature] - forest.tests.b) < 1e-4
        if forest.n_nodes
        else Z[:, :0] > 0
    )
    clear = ~near.any(axis=1)
    found = module(torch.tensor(X)).detach().numpy()
    expected = phi(X)
    assert found.shape == expected.shape
    # exp(−100), and vectors of the size of 4 standard deviations in float32.
    np.testing.assert_allclose(found[clear], expected[clear], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("values", [False, True])
def test_gradients_reach_the_inner_forest_and_it_comes_back(values):
    phi = StackedForest(stump(), values)
    module = to_torch(phi, trainable=True, dtype=torch.float64, relax=relax)
    X = torch.tensor([[0.4, 0.0], [0.7, 0.0]], dtype=torch.float64)
    module(X)[:, -1].sum().backward()
    assert bool((module.soft.b.grad != 0).all())
    with torch.no_grad():
        module.soft.b += 0.25
    moved = from_torch(module, phi, harden=harden)
    assert moved.forest.tests.b.tolist() == [0.75]
    assert moved.values == values
    with pytest.raises(UnsupportedModelError, match="`harden`"):
        from_torch(module, phi)


def test_what_cannot_be_trained_is_refused_in_one_sentence():
    class Doubled:
        n_inputs = n_features = 2

        def __call__(self, X):
            return 2 * X

    phi = Doubled()
    with pytest.raises(UnsupportedModelError, match=r"got .*Doubled: wrap"):
        to_torch(phi, trainable=True)
    kept = to_torch(phi, trainable=False)
    assert isinstance(kept, HardMap)
    assert kept(torch.ones((1, 2))).tolist() == [[2.0, 2.0]]
    assert from_torch(kept, phi) is phi
    with pytest.raises(UnsupportedModelError, match="`relax`"):
        to_torch(StackedForest(stump()), trainable=True)
    from bitvec.core.leaves import LinearTerms

    linear = LinearTerms(
        np.array([0, 1, 1]), np.zeros(1, np.int32), np.ones((1, 1)), np.ones((2, 1))
    )
    forest = stump()
    forest = replace(forest, leaves=replace(forest.leaves, linear=linear))
    with pytest.raises(UnsupportedModelError, match="constant leaves"):
        to_torch(StackedForest(forest, values=True), trainable=True, relax=relax)


# Any torch module.


def test_a_torch_module_stands_in_front_of_a_forest():
    module = perceptron()
    phi = TorchMap(module, 2, 3)
    assert isinstance(phi, FeatureMap)
    outer = Forest.from_matrices([[1.0, -1.0, 0.5]], [0.0], [[0], [1]], [1.0, 2.0])
    forest = replace(outer, feature_map=phi, inputs=Inputs(2))
    X = rows(2, 20)
    with torch.no_grad():
        Z = module.eval()(torch.tensor(X)).numpy()
    expected = 1.0 + (Z @ np.array([1.0, -1.0, 0.5]) > 0)
    assert reference.raw(forest, X)[:, 0].tolist() == expected.tolist()


def test_a_torch_map_keeps_its_own_copy_and_answers_in_the_dtype_of_its_rows():
    module = perceptron()
    phi = TorchMap(module, 2, 3)
    X = rows(2)
    before = phi(X)
    with torch.no_grad():
        module[0].weight += 1
    assert np.array_equal(phi(X), before)
    assert not any(parameter.requires_grad for parameter in phi.module.parameters())
    assert phi(X.astype(np.float32)).dtype == np.float32
    plain = TorchMap(torch.nn.ReLU(), 2, 2)
    assert plain(X).dtype == np.float64
    assert np.array_equal(plain(X), np.maximum(X, 0))


def test_statistics_of_a_torch_module_come_back_too():
    phi = TorchMap(perceptron(), 2, 3)
    module = to_torch(phi, trainable=True, dtype=torch.float64).train()
    module(torch.tensor(rows(2, 50)))  # moves the running means
    moved = from_torch(module, phi)
    assert not np.array_equal(moved(rows(2)), phi(rows(2)))
    np.testing.assert_allclose(
        moved(rows(2)), module.eval()(torch.tensor(rows(2))).detach().numpy(), rtol=1e-12
    )


def test_a_torch_map_of_other_sizes_is_refused_and_no_file_holds_one(tmp_path):
    with pytest.raises(InputError, match=r"must make 4 columns of 2, got shape \(2, 3\)"):
        TorchMap(perceptron(), 2, 4)
    phi = TorchMap(perceptron(), 2, 3)
    for wrong in (rows(3), rows(2)[0], rows(2).astype(np.int64)):
        with pytest.raises(InputError, match="with 2 columns"):
            phi(wrong)
    forest = replace(stump(), feature_map=phi, inputs=Inputs(2))
    with pytest.raises(UnsupportedModelError, match="TorchMap"):
        save(forest, tmp_path / "f")


def test_images_of_one_channel_have_the_gradient_of_any_layout():
    from bitvec.runtime.train.relax.feature_modules import quick_images

    torch.manual_seed(0)
    x = torch.rand(7, 1, 9, 8, dtype=torch.float64)
    conv = torch.nn.Conv2d(1, 3, (3, 2)).double()
    quick = quick_images(x)
    assert torch.equal(quick, x)
    assert quick.stride() != x.stride()
    gradients = []
    for images in (quick, x):
        conv.zero_grad()
        conv(images).square().sum().backward()
        gradients.append(conv.weight.grad.clone())
    # Sums of 7 · 56 terms in another order.
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        assert quick_images(x) is x
    two = torch.rand(7, 2, 9, 8)
    assert quick_images(two) is two
