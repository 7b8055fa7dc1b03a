"""Networks as splits: an MLP, the paper's CNN, or a torch module of the user's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Conv2d, Flatten, Layers, Linear, MaxPool2d, ReLU
from bitvec.core.feature_maps.layers import Layer
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError
from bitvec.learners.growth.networks import Draw

CNN_WIDTH = 50
"""Outputs of the hidden layer of the paper's CNN."""
_RANDOM = threading.Lock()
"""Held while torch's own random numbers, which all threads share, are those of a node."""


def mlp(n_inputs: int, width: int) -> Draw:
    """Return one hidden layer of ReLU."""

    def draw(generator: np.random.Generator) -> Layers:
        return Layers((_linear(generator, n_inputs, width), ReLU()))

    return draw


def cnn(image: tuple[int, int, int]) -> Draw:
    """Return the paper's CNN without its last layer, which is θ.

    conv 5x5, 3 channels; max pooling 2x2; ReLU; conv 5x5, 6 channels; max pooling 2x2; ReLU; 50
    hidden units of ReLU, which read 96 numbers of an image of 28 x 28.

    Raises
    ------
    InputError
        If the image is below 16 x 16.
    """
    height, width = (((size - 4) // 2 - 4) // 2 for size in image[1:])
    if min(height, width) < 1:
        raise InputError(
            f"`image_shape` must be 16 x 16 at least for split='cnn', got {image[1]} x {image[2]}: "
            "use 'mlp', or a module of smaller windows."
        )
    pool = MaxPool2d((2, 2))

    def draw(generator: np.random.Generator) -> Layers:
        layers = (
            Conv2d(*_uniform(generator, (3, image[0], 5, 5))), pool, ReLU(),
            Conv2d(*_uniform(generator, (6, 3, 5, 5))), pool, ReLU(),
            Flatten(), _linear(generator, 6 * height * width, CNN_WIDTH), ReLU(),
        )  # fmt: skip
        return Layers(layers, image)

    return draw


def module(
    factory: Callable[[], Any], n_inputs: int, image: tuple[int, int, int] | None = None
) -> Draw:
    """Return the networks that a function makes, each with weights of its own.

    Parameters
    ----------
    factory : callable
        Makes a torch module of (batch, n_features) to (batch, width), out of the layers that a file
        can hold.
    n_inputs : int
    image : (n_channels, height, width), optional
        What a row is reshaped to where the first layer reads images; `nn.Unflatten` there says it
        too.

    Raises
    ------
    UnsupportedModelError
        If the module holds another layer.
    """

    def draw(generator: np.random.Generator) -> Layers:
        with _RANDOM, torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator.integers(2**62)))
            try:
                made = factory()
            except (TypeError, NotImplementedError) as error:
                raise InputError(
                    "`split` must be a function without arguments that makes a torch module, got "
                    f"one that fails: {error}."
                ) from error
        return layers_of(made, n_inputs, image)

    return draw


def layers_of(network: Any, n_inputs: int, image: tuple[int, int, int] | None = None) -> Layers:
    """Return a torch module of the layers that a file can hold as a feature map.

    Raises
    ------
    UnsupportedModelError
        If the module holds another layer, or its layers do not fit each other.

    Examples
    --------
    >>> layers_of(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), 4).n_features
    3
    """
    if not isinstance(network, nn.Module):
        raise InputError(
            f"`split` must make a torch module, got {type(network).__name__}: return one, such as "
            "torch.nn.Sequential."
        )
    parts = _parts(network)
    reads_images = bool(parts) and isinstance(parts[0], nn.Conv2d | nn.MaxPool2d)
    input_shape: tuple[int, ...] = (n_inputs,) if image is None or not reads_images else image
    if parts and isinstance(parts[0], nn.Unflatten):
        input_shape = tuple(int(size) for size in parts[0].unflattened_size)
        parts = parts[1:]
    try:
        phi = Layers(tuple(_layer(part) for part in parts), input_shape)
    except InvalidForestError as error:
        hint = " Give `image_shape`." if reads_images and image is None else ""
        raise UnsupportedModelError(f"`split` must make layers that fit: {error}{hint}") from None
    if phi.n_inputs != n_inputs:
        raise UnsupportedModelError(
            f"`split` must make a module of {n_inputs} columns, got one of {phi.n_inputs}: read "
            "all columns that a node reads."
        )
    return phi


def _parts(network: nn.Module) -> list[nn.Module]:
    if isinstance(network, nn.Sequential):
        return [part for child in network for part in _parts(child)]
    return [network]


def _layer(part: nn.Module) -> Layer:
    if type(part) is nn.Linear:
        return Linear(*_numbers(part))
    if type(part) is nn.ReLU:
        return ReLU()
    if type(part) is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1):
        return Flatten()
    if (
        type(part) is nn.Conv2d
        and part.groups == 1
        and part.dilation == (1, 1)
        and part.padding_mode == "zeros"
        and not isinstance(part.padding, str)
    ):
        return Conv2d(*_numbers(part), _pair(part.stride), _pair(part.padding))
    if (
        type(part) is nn.MaxPool2d
        and _pair(part.dilation) == (1, 1)
        and not part.ceil_mode
        and not part.return_indices
    ):
        return MaxPool2d(_pair(part.kernel_size), _pair(part.stride), _pair(part.padding))
    raise UnsupportedModelError(
        "a module of `split` must be made of Sequential, Linear, Conv2d of one group without "
        f"dilation, MaxPool2d, ReLU and Flatten, which a saved forest can hold, got {part}: "
        "replace it."
    )


def _numbers(part: nn.Linear | nn.Conv2d) -> tuple[Array, Array | None]:
    bias = None if part.bias is None else part.bias.detach().cpu().numpy().astype(np.float64)
    return part.weight.detach().cpu().numpy().astype(np.float64), bias


def _pair(size: Any) -> tuple[int, int]:
    first, second = size if isinstance(size, tuple) else (size, size)
    return int(first), int(second)


def _linear(generator: np.random.Generator, n_in: int, n_out: int) -> Linear:
    return Linear(*_uniform(generator, (n_out, n_in)))


def _uniform(generator: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Draw weights and biases within 1 / sqrt(inputs of an output), as torch does."""
    bound = 1 / np.sqrt(np.prod(shape[1:]))
    return generator.uniform(-bound, bound, shape), generator.uniform(-bound, bound, shape[0])
