"""Nodes that ask a network: converted as a feature map, exact, refined with it, saved with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import bitvec
from bitvec.core.feature_maps import Conv2d, Layers, Linear, MaxPool2d
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTRegressor
from bitvec.learners.e2edt.sklearn_forests import E2EDFClassifier
from bitvec.learners.e2edt.tree import of_forest
from bitvec.learners.growth import split_functions
from bitvec.learners.growth.level import level_of
from bitvec.learners.growth.networks import Network, NetworkTests
from bitvec.learners.growth.refinement import Refinement, refine
from bitvec.learners.growth.targets import Labels

QUICK: dict[str, Any] = {
    "max_depth": 2, "steps": 8, "restarts": 1, "refine": 0, "random_state": 0
}  # fmt: skip
X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(18, 5), nn.ReLU(),
    )  # fmt: skip


def padded_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.Flatten()
    )


def flat_mlp() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Flatten(), nn.Linear(64, 4), nn.ReLU())


SPLITS: dict[str, Any] = {
    "mlp": "mlp",
    "small CNN": small_cnn,
    "padded CNN": padded_cnn,
    "flat": flat_mlp,
}


@pytest.mark.parametrize("refine", [0, 12])
@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_the_tree_decides_bit_for_bit_as_its_converted_forest(split: Any, refine: int) -> None:
    for make, target in ((E2EDTClassifier, y), (E2EDTRegressor, X[:, 20] * y)):
        if make is E2EDTRegressor and refine:
            continue
        model = make(**{**QUICK, "refine": refine}, split=split).fit(X, target)
        assert bitvec.certify(model.forest_, model.tree_, X).passed
        assert np.array_equal(model.predict(X), model.tree_.predict(X))
        assert isinstance(model.tree_.phi, tuple)
        assert len(model.tree_.phi) == model.tree_.n_nodes == 3


def test_each_node_has_a_network_of_its_own() -> None:
    tree = E2EDTClassifier(**QUICK, split="mlp", hidden=4).fit(X, y).tree_
    weights = [phi.layers[0].weight for phi in tree.phi]  # type: ignore[union-attr]
    assert [each.shape for each in weights] == [(4, 64)] * 3
    assert np.unique([each.ravel() for each in weights], axis=0).shape[0] == 3


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_refinement_moves_the_networks_too_and_no_node_reads_another_nodes(unit: float) -> None:
    pixels = unit * X
    options = {**QUICK, "max_depth": 3, "steps": 4}
    found = E2EDTClassifier(**options, split="mlp", hidden=6).fit(pixels, y).tree_
    tree = replace(found, classes=None)
    how = Refinement(("S", "b", "v", "phi"), 80, 0.03, None, 0.0, None, None, 0, None, True)
    ones = np.ones(len(X))
    refined = refine(tree, pixels, y, ones, (pixels, y, ones), how)
    assert refined.history[-1].score > refined.history[0].score + 0.05
    again = of_forest(refined.forest, tree)
    assert again.theta.shape == tree.theta.shape
    assert isinstance(again.phi, tuple)
    assert isinstance(tree.phi, tuple)
    for now, before in zip(again.phi, tree.phi, strict=True):
        assert np.any(now.layers[0].weight != before.layers[0].weight)  # type: ignore[attr-defined]
    for node, row in enumerate(refined.forest.rows.toarray()):
        assert np.unique(np.flatnonzero(row) // 6).tolist() == [node]
    assert np.array_equal(again.raw(pixels), bitvec.compile(refined.forest).raw(pixels))


def test_the_forest_is_saved_with_its_networks(tmp_path: Path) -> None:
    model = E2EDTClassifier(**QUICK, split=small_cnn).fit(X, y)
    path = tmp_path / "forest.safetensors"
    bitvec.save(model.forest_, path)
    again = bitvec.compile(bitvec.load(path)).predict_proba(X)
    assert np.array_equal(again, model.predict_proba(X))


def literal_margins(tests: NetworkTests, Z: torch.Tensor, r: int, j: int) -> np.ndarray:
    """θ · φ(z) + bias, by the layers of φ as they are now, one node alone."""
    phi = tests.maps[r][j]
    theta = tests.theta[r, j].detach().double().numpy()
    return phi(Z[:, :-1].double().numpy()) @ theta[:-1] + theta[-1]


@pytest.mark.parametrize("split", ["mlp", "cnn", *list(SPLITS.values())[1:]])
def test_margins_of_a_batch_are_those_of_each_network_alone_over_raw_columns(split: Any) -> None:
    rng = np.random.default_rng(0)
    size = 16 if split == "cnn" else 8
    pixels = rng.uniform(0, 9, (40, size * size))
    draw = {
        "mlp": lambda: split_functions.mlp(64, 7),
        "cnn": lambda: split_functions.cnn((1, 16, 16)),
    }.get(split, lambda: split_functions.module(split, 64))()
    kind = Network(draw)
    rows = [np.arange(16), np.arange(16, 40)]
    labels = Labels(rng.integers(0, 2, 40), 2)
    level = level_of(pixels, labels, rng.uniform(0.5, 2, 40), rows, unit=kind.unit)
    tests = kind.draw([np.random.default_rng(j) for j in (1, 2)], level, 2)
    node = torch.tensor([0, 0, 1, 1, 1])
    Z = level.Z.reshape(5, 8, -1)
    margins = tests.margins(Z, node).detach().numpy()
    assert margins.shape == (2, 5, 8)
    for r in range(2):
        for block, j in enumerate(node.tolist()):
            expected = literal_margins(tests, Z[block], r, j)
            assert margins[r, block] == pytest.approx(expected, rel=1e-4, abs=1e-5)
            raw = tests.rule(r, j, level.units)
            own = pixels[8 * block : 8 * block + 8]
            shift = raw.margins(own) - expected
            assert np.ptp(shift) < 1e-4  # but for the bias, which the threshold makes up for


def test_the_papers_cnn_makes_50_columns_of_96_numbers() -> None:
    phi = split_functions.cnn((1, 28, 28))(np.random.default_rng(0))
    weights = [part.weight.shape for part in phi.layers if isinstance(part, Conv2d | Linear)]
    assert weights == [(3, 1, 5, 5), (6, 3, 5, 5), (50, 96)]
    assert phi.n_inputs == 784
    with pytest.raises(InputError, match="16 x 16 at least"):
        split_functions.cnn((1, 8, 8))


def test_a_torch_module_is_the_same_network_as_layers() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 3, (3, 2), stride=2, padding=1), nn.ReLU(),
        nn.Sequential(nn.MaxPool2d(2), nn.Flatten()), nn.Linear(12, 4, bias=False),
    ).double()  # fmt: skip
    phi = split_functions.layers_of(network, 64)
    assert isinstance(phi.layers[2], MaxPool2d)
    expected = network(torch.tensor(X)).detach().numpy()
    assert phi(X) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_factory_draws_by_the_nodes_own_seed_and_leaves_torchs_numbers_alone() -> None:
    draw = split_functions.module(small_cnn, 64)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, same, other = (draw(np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())

    def first(phi: Layers) -> Any:
        return phi.layers[0].weight  # type: ignore[union-attr]

    assert np.array_equal(first(one), first(same))
    assert not np.array_equal(first(one), first(other))


def test_a_forest_of_networks_reads_some_columns_and_is_certified() -> None:
    model = E2EDFClassifier(
        **QUICK, n_estimators=2, split="mlp", hidden=5, max_features=10, joint=6
    ).fit(X, y)
    assert bitvec.certify(model.forest_, model.native_, X).passed
    assert model.refinement_ is not None
    plain = E2EDFClassifier(**QUICK, n_estimators=2, split="mlp", hidden=5, max_features=10)
    for tree in plain.fit(X, y).trees_:
        for phi in tree.phi:  # type: ignore[union-attr]
            assert (np.abs(phi.layers[0].weight).sum(axis=0) > 0).sum() <= 10  # type: ignore[union-attr]


def test_a_network_learns_what_no_line_can() -> None:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((600, 2))
    inside = (np.square(Z).sum(axis=1) < 1.2).astype(int)
    options = {"max_depth": 1, "steps": 150, "refine": 0, "random_state": 0, "learning_rate": 0.1}
    assert E2EDTClassifier(**options, split="mlp").fit(Z, inside).score(Z, inside) > 0.95
    assert E2EDTClassifier(**options).fit(Z, inside).score(Z, inside) < 0.75


def test_weight_decay_shortens_weights() -> None:
    def length(decay: float) -> float:
        options = {**QUICK, "max_depth": 1, "steps": 60, "split": "mlp"}
        tree = E2EDTClassifier(**options, weight_decay=decay).fit(X, y).tree_
        return float(np.linalg.norm(tree.phi[0].layers[0].weight))  # type: ignore[index, union-attr]

    assert length(5.0) < 0.8 * length(0.0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"split": "tree"}, InputError, "`split` must be 'linear'"),
        ({"split": "mlp", "hidden": 0}, InputError, "`hidden` must be a whole number"),
        ({"split": "cnn"}, InputError, "must read all columns as an image"),
        ({"split": "cnn", "image_shape": (8, 8)}, InputError, "16 x 16 at least"),
        ({"split": "mlp", "spatial": 1.0}, InputError, "`spatial` must be 0"),
        ({"split": lambda: 3}, InputError, "must make a torch module"),
        ({"split": nn.Tanh}, UnsupportedModelError, "must be made of"),
        ({"split": lambda: nn.Linear(5, 2)}, UnsupportedModelError, "layers that fit"),
        ({"weight_decay": -1.0}, InputError, "`weight_decay` must not be negative"),
    ],
)
def test_options_out_of_place_are_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        E2EDTClassifier(**{**QUICK, **options}).fit(X, y)


@pytest.mark.parametrize("first", [[], [nn.Unflatten(1, (1, 8, 8))]])
def test_a_module_of_images_reads_the_image_of_the_columns(first: list[Any]) -> None:
    digits, number = load_digits(return_X_y=True)
    digits, number = digits[:200], number[:200]

    def network() -> nn.Module:
        return nn.Sequential(
            *first, nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 5)
        )

    options = {**QUICK, "split": network, "image_shape": None if first else (8, 8)}
    model = E2EDTClassifier(**options).fit(digits, number)
    assert model.tree_.phi[0].input_shape == (1, 8, 8)  # type: ignore[index]
    assert bitvec.certify(model.forest_, model.tree_, digits).passed
    if not first:
        with pytest.raises(UnsupportedModelError, match="Give `image_shape`"):
            E2EDTClassifier(**{**options, "image_shape": None}).fit(digits, number)


def test_a_part_of_an_image_is_no_image() -> None:
    with pytest.raises(InputError, match="begins with a Linear layer"):
        E2EDFClassifier(**QUICK, split=lambda: nn.Sequential(nn.ReLU(), nn.Linear(32, 3))).fit(X, y)
