"""Layers are PyTorch's modules, evaluated row by row."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.core.feature_maps import Conv2d, Flatten, Layers, Linear, MaxPool2d, ReLU
from bitvec.errors import InputError, InvalidForestError

torch = pytest.importorskip("torch")

SHAPE = (2, 9, 8)


def _network(seed: int, stride: int = 1, padding: int = 0, pool_padding: int = 0, **pool: int):
    """Draw a convolutional network, as a torch module in float64 and as Layers."""
    torch.manual_seed(seed)
    conv = torch.nn.Conv2d(2, 3, (3, 2), stride=stride, padding=padding)
    modules = [
        conv,
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2, padding=pool_padding, **pool),
        torch.nn.Flatten(),
    ]
    module = torch.nn.Sequential(*modules).double()
    n_flat = module(torch.zeros(1, *SHAPE, dtype=torch.float64)).shape[1]
    head = torch.nn.Linear(n_flat, 4).double()
    numbers = [
        parameter.detach().numpy() for parameter in (conv.weight, conv.bias, head.weight, head.bias)
    ]
    step = pool.get("stride")
    layers = (
        Conv2d(numbers[0], numbers[1], (stride, stride), (padding, padding)),
        ReLU(),
        MaxPool2d((2, 2), None if step is None else (step, step), (pool_padding, pool_padding)),
        Flatten(),
        Linear(numbers[2], numbers[3]),
    )
    return torch.nn.Sequential(*modules, head).double(), Layers(layers, SHAPE)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2},
        {"padding": 1},
        {"stride": 2, "padding": 2, "pool_padding": 1},
        {"pool_padding": 1, "stride": 1},
    ],
)
def test_layers_are_the_torch_modules(options):
    module, phi = _network(0, **options)
    X = np.random.default_rng(0).normal(size=(6, 2 * 9 * 8))
    with torch.no_grad():
        expected = module(torch.from_numpy(X).reshape(-1, *SHAPE)).numpy()
    # torch sums in another order: up to 60 terms of size about 1, each off by half an ulp.
    np.testing.assert_allclose(phi(X), expected, rtol=1e-12, atol=1e-13)
    assert phi.n_inputs == X.shape[1]
    assert phi.n_features == expected.shape[1]


def test_overlapping_pools_are_those_of_torch():
    x = np.random.default_rng(1).normal(size=(3, 2, 9, 8))
    x[0, 0, 0, 0] = np.nan
    got = MaxPool2d((3, 2), (1, 2), (1, 1))(x)
    expected = torch.nn.functional.max_pool2d(torch.from_numpy(x), (3, 2), (1, 2), (1, 1)).numpy()
    assert np.array_equal(got, expected, equal_nan=True)


def test_a_row_does_not_depend_on_the_rows_around_it():
    _, phi = _network(2)
    X = np.random.default_rng(2).normal(size=(33, 2 * 9 * 8))
    together = phi(X)
    assert all(np.array_equal(phi(X[i : i + 1])[0], together[i]) for i in range(len(X)))
    assert phi(X[:0]).shape == (0, 4)


def test_nan_stays_nan_through_relu():
    assert np.isnan(ReLU()(np.array([[np.nan, -1.0]]))).tolist() == [[True, False]]


def test_wider_rows_are_read_exactly_and_narrower_ones_are_refused():
    phi = Layers((Linear(np.array([[0.1]], np.float32)),))
    assert phi(np.array([[1.0]])).item() == float(np.float32(0.1))
    with pytest.raises(InputError, match="float64 like the layer's weights"):
        Layers((Linear(np.array([[0.1]])),))(np.ones((1, 1), np.float32))


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ((Linear(np.ones((2, 3))), Linear(np.ones((2, 3)))), (), "of 3 inputs must read"),
        ((ReLU(),), (), "`input_shape` must be given"),
        ((Conv2d(np.ones((1, 2, 3, 3))),), (1, 5, 5), "must read \\(2, height, width\\)"),
        ((Conv2d(np.ones((1, 1, 3, 3))),), (1, 2, 5), "must fit into"),
        ((MaxPool2d((2, 2)),), (4,), "must read \\(channels, height, width\\)"),
        ((Flatten(),), (70_000, 70_000), "must have 1 to 2147483647 columns"),
        ((Flatten(),), (0, 3), "must be positive"),
        ((), (3,), "at least one layer"),
    ],
)
def test_layers_that_do_not_fit_are_refused_when_they_are_joined(layers, shape, message):
    with pytest.raises(InvalidForestError, match=message):
        Layers(layers, shape)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(np.array([[np.nan]])), "`weight` must be finite"),
        (lambda: Linear(np.ones((1, 1)), np.array([np.inf])), "`bias` must be finite"),
        (lambda: Linear(np.ones((0, 1))), "must not be empty"),
        (lambda: Conv2d(np.ones((1, 1, 2, 2)), stride=(0, 1)), "`stride` must be two numbers"),
        (lambda: Conv2d(np.ones((1, 1, 2, 2)), padding=(0, -1)), "`padding` must be two numbers"),
        (lambda: MaxPool2d((0, 1)), "`kernel` must be two numbers"),
        (lambda: MaxPool2d((2, 2), padding=(2, 2)), "at most half"),
    ],
)
def test_parameters_that_are_no_layer_are_refused(make, message):
    with pytest.raises(InvalidForestError, match=message):
        make()
