"""Feature maps of layers in onnxruntime are those of the reference, within their rounding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitvec
from bitvec.converters.native import from_e2edt
from bitvec.converters.onnx.session import OnnxEngine
from bitvec.core import reference
from bitvec.core.arrays import Array
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
from bitvec.core.feature_maps.rounding import with_bounds
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx import mapped
from bitvec.verify.certificates.near_ties import near_ties

IMAGE = (2, 7, 6)


@st.composite
def stacks(draw: Any, dtype: type = np.float64) -> list[Layers]:
    """Draw one to three networks of the same layers over images, with weights of their own."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_maps, shape = draw(st.integers(1, 3)), IMAGE
    made: list[list[Any]] = [[] for _ in range(n_maps)]

    def weights(*size: int) -> Array:
        return rng.normal(size=size).astype(dtype)

    for _ in range(draw(st.integers(0, 3))):
        kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
        stride = draw(st.tuples(st.integers(1, 2), st.integers(1, 3)))
        kind = draw(st.sampled_from(["conv", "pool", "apart", "relu"]))
        layer: Any = ReLU()
        if kind == "conv":
            padding = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
            bias = draw(st.booleans())
            layer = Conv2d(weights(2, shape[0], *kernel), None, stride, padding)
        elif kind == "pool":
            layer = MaxPool2d(kernel, stride, (kernel[0] // 2, kernel[1] // 2))
        elif kind == "apart":
            layer = MaxPool2d(kernel)
        try:
            shape = layer.output_shape(shape)
        except bitvec.errors.InvalidForestError:
            continue
        for each in made:
            own = layer
            if kind == "conv":
                b = weights(2) if bias else None
                own = replace(layer, weight=weights(*layer.weight.shape), bias=b)
            each.append(own)
    width = int(np.prod(shape))
    for each in made:
        each.append(Flatten())
    for _ in range(draw(st.integers(0, 2))):
        n_out = draw(st.integers(1, 4))
        for each in made:
            each += [Linear(weights(n_out, width), weights(n_out)), ReLU()]
        width = n_out
    return [Layers(tuple(each), IMAGE) for each in made]


def forest_behind(phi: Any, X: Array) -> Forest:
    """A tree of two nodes, which asks the first and the last column of φ."""
    Z = phi(X)
    S = np.zeros((2, phi.n_features), X.dtype)
    S[0, 0] = S[1, -1] = 1
    b = np.median(Z[:, [0, -1]], axis=0).astype(X.dtype) + X.dtype.type(1e-3)
    tree = from_e2edt(S, -b, left=[-1, -2], right=[1, -3], phi=phi, mean=[1.0, 2.0, 3.0])
    return bitvec.convert(tree)


def phi_of(forest: Forest, dtype: Any) -> Any:
    """Return φ as onnxruntime computes it."""
    from bitvec.converters.onnx.model_proto import model_proto
    from bitvec.core.graph.operators import Graph

    graph = Graph()
    X = graph.input("X", np.dtype(dtype), ("batch", forest.n_features))
    Z = mapped._columns(graph, forest.feature_map, X, np.dtype(dtype))
    graph.output("raw", Z, np.dtype(dtype), ("batch", forest.feature_map.n_features))
    return OnnxEngine(model_proto(graph, forest, name="phi", form="mapped"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_networks_are_those_of_the_reference_within_their_rounding(dtype: Any, data: Any) -> None:
    nets = data.draw(stacks(dtype))
    phi = nets[0] if len(nets) == 1 else Concatenate((Identity(84), *nets))
    X = np.random.default_rng(0).normal(0, 3, (9, 84)).astype(dtype)
    engine = phi_of(forest_behind(phi, X), dtype)
    found = with_bounds(phi, X)
    assert found is not None
    Z, E = found
    assert np.array_equal(Z, phi(X))
    for rows in (slice(0, 9), slice(0, 1)):
        assert np.all(np.abs(engine.raw(X[rows]).astype(np.float64) - Z[rows]) <= E[rows])
    assert E.max() <= 1e6 * np.finfo(dtype).eps
    X[:, 40] = np.nan
    assert np.array_equal(np.isnan(engine.raw(X)), np.isnan(phi(X)))


def test_networks_of_several_shapes_keep_their_columns() -> None:
    rng = np.random.default_rng(0)
    wide, small, other = (
        Layers((Linear(rng.normal(size=(n, 4)), rng.normal(size=n)), ReLU())) for n in (3, 2, 3)
    )
    stump = Forest.from_matrices([[1.0, 0, 0, 0]], [0.5], [[0], [1]], [10.0, 20.0])
    phi = Concatenate((wide, Identity(4), small, StackedForest(stump), other))
    X = rng.normal(size=(50, 4))
    engine = phi_of(forest_behind(phi, X), np.float64)
    assert engine.raw(X) == pytest.approx(phi(X), rel=1e-13, abs=1e-13)


def cnn(rng: np.random.Generator) -> Layers:
    """The CNN of the paper of E2EDT."""
    pool = MaxPool2d((2, 2))
    layers = (
        Conv2d(rng.normal(size=(3, 1, 5, 5)), rng.normal(size=3)), pool, ReLU(),
        Conv2d(rng.normal(size=(6, 3, 5, 5)), rng.normal(size=6)), pool, ReLU(),
        Flatten(), Linear(rng.normal(size=(50, 96)), rng.normal(size=50)), ReLU(),
    )  # fmt: skip
    return Layers(layers, (1, 28, 28))


def test_the_papers_cnn_takes_little_of_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    phi = Concatenate(tuple(cnn(rng) for _ in range(9)))
    X = rng.uniform(0, 1, (20, 784))
    forest = forest_behind(phi, X)
    path = bitvec.export(forest, tmp_path / "cnn.onnx")
    numbers = 9 * (3 * 25 + 3 + 6 * 75 + 6 + 50 * 96 + 50)
    assert path.stat().st_size < 8 * numbers + 250_000
    assert np.array_equal(OnnxEngine(path).raw(X), reference.raw(forest, X))


def linear_forest(dtype: Any, n: int = 60) -> tuple[Forest, Array]:
    """A stump over a network, whose threshold is the margin of row 3, which is not 0."""
    rng = np.random.default_rng(0)
    W = np.abs(rng.normal(size=(3, n))).astype(dtype)
    X = (rng.normal(size=(40, n)) + 0.3).astype(dtype)
    phi = Layers((Linear(W), ReLU()))
    S = np.ones((1, 3), dtype)
    tree = from_e2edt(S, np.zeros(1, dtype), left=[-1], right=[-2], phi=phi, mean=[0.0, 1.0])
    margin = tree.margin(0, phi(X))[3:4]
    assert margin > 1
    return bitvec.convert(replace(tree, bias=-margin)), X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_on_a_threshold_is_a_near_tie_and_no_other_is(dtype: Any) -> None:
    forest, X = linear_forest(dtype)
    assert np.flatnonzero(near_ties(forest, X)).tolist() == [3]
    X[3, 0] = np.nan
    assert not near_ties(forest, X).any()


def test_nothing_is_a_near_tie_where_nothing_is_known_of_the_feature_map() -> None:
    forest = stacked()
    X = np.full((3, 2), 0.5)
    assert not near_ties(forest, X).any()
    assert with_bounds(forest.feature_map, X) is None


def test_rows_that_are_no_near_ties_go_the_same_way_in_every_order() -> None:
    forest, X = linear_forest(np.float32)
    rng = np.random.default_rng(0)
    far = 10 ** rng.uniform(-7, -2, (1000, 1))
    X = (X[3] + far * rng.normal(size=(1000, 60))).astype(np.float32)
    phi: Any = forest.feature_map
    near = near_ties(forest, X)
    assert 0 < near.sum() < len(X)
    expected, n_apart = reference.raw(forest, X), 0
    for _ in range(10):
        order = rng.permutation(60)
        shuffled = Layers((Linear(phi.layers[0].weight[:, order]), ReLU()))
        other = reference.raw(replace(forest, feature_map=shuffled), X[:, order])
        apart = (other != expected).any(axis=1)
        n_apart += int(apart.sum())
        assert not (apart & ~near).any()
    assert n_apart > 0


def stacked() -> Forest:
    inner = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10.0, 20.0])
    tree = from_e2edt(
        [[1.0, 0, 0, 0]], [-0.5], left=[-1], right=[-2], phi=StackedForest(inner), mean=[0.0, 1.0]
    )
    return bitvec.convert(tree)


def test_a_certificate_leaves_near_ties_out_and_says_so(tmp_path: Path) -> None:
    forest, X = linear_forest(np.float64)
    path = bitvec.export(forest, tmp_path / "near.onnx", leaves=True)
    certificate = bitvec.certify(forest, path, X, allow_values_only=True)
    assert certificate.passed, certificate.summary()
    assert certificate.n_rows == 39
    assert any("1 such rows were left out" in note for note in certificate.exclusions)


def test_a_changed_weight_fails_the_certificate(tmp_path: Path) -> None:
    forest, X = linear_forest(np.float64)
    phi: Any = forest.feature_map
    W = phi.layers[0].weight.copy()
    W[0, 0] += 0.5
    mutant = replace(forest, feature_map=Layers((Linear(W), ReLU())))
    for leaves in (True, False):
        path = bitvec.export(mutant, tmp_path / "mutant.onnx", leaves=leaves)
        assert not bitvec.certify(forest, path, X, allow_values_only=True).passed


class Other:
    """A feature map that is none of those that have a form."""

    n_inputs = n_features = 2

    def __call__(self, X: Array) -> Array:
        return X


def test_a_feature_map_of_another_kind_is_refused(tmp_path: Path) -> None:
    made = Forest.from_matrices([[1.0, 2.0]], [0.0], [[0], [1]], [0.0, 1.0])
    with pytest.raises(UnsupportedModelError, match="must be Layers, Identity, StackedForest"):
        bitvec.export(replace(made, feature_map=Other()), tmp_path / "other.onnx")
