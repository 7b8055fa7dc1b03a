"""Plots show what the reference computes."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.plots import forests

S = np.zeros((5, 4))
S[range(5), [0, 1, 2, 3, 0]] = 1
B = [[0, 0, 1, 0, 1], [0, 0, 1, 1, 0], [0, 0, 1, 1, 1], [0, 1, 1, 1, 1], [1, 1, 0, 1, 1], [1] * 5]


@pytest.fixture
def tree():
    return Forest.from_matrices(S, [1, 0, 2, -1, 0.5], B, [10, 20, 30, 40, 50, 60])


def test_matrices_show_S_B_and_v(tree):
    figure = forests.draw_matrices(tree)
    shown = [axis.images[0].get_array() for axis in figure.axes if axis.images]
    for image, expected in zip(shown, (tree.S, tree.B, tree.v), strict=True):
        assert np.array_equal(image, expected)


def test_the_path_is_drawn_to_the_exit_leaf(tree):
    figure = forests.draw_path(tree, [0.7, -1, 5, 0])
    top, bottom = figure.axes
    thick = [line for line in top.lines if line.get_linewidth() > 2]
    assert [line.get_xdata()[1] for line in thick][-1] == 2, "the path ends at leaf 2"
    assert len(thick) == 4
    assert [bar.get_height() for bar in bottom.patches] == [2, 2, 3, 3, 2, 3]


def test_a_single_leaf_can_be_drawn():
    leaf = Forest.from_matrices(np.zeros((0, 2)), [], np.zeros((1, 0), int), [7])
    assert isinstance(forests.draw_matrices(leaf), Figure)
    assert isinstance(forests.draw_path(leaf, [0, 0]), Figure)


def test_columns_of_a_feature_map_are_named_by_their_numbers(tree):
    from dataclasses import replace

    from bitvec.core.feature_maps import Layers, Linear
    from bitvec.core.inputs import Inputs

    map_to_four = Layers((Linear(np.ones((4, 1), np.float64)),))
    mapped = replace(tree, feature_map=map_to_four, inputs=Inputs(1, feature_names=("age",)))
    texts = [text.get_text() for text in forests.draw_path(mapped, [0.0]).axes[0].texts]
    assert any(text.startswith("φ0") for text in texts)
    assert not any("age" in text for text in texts)


def test_boundaries_show_each_surface():
    X = np.random.default_rng(0).normal(size=(50, 2))
    y = (X[:, 0] > 0).astype(int)
    surfaces = [("hard", lambda Z: (Z[:, 0] > 0) * 1.0), ("flat", lambda Z: np.full(len(Z), 0.5))]
    figure = forests.draw_boundaries(surfaces, X, y, resolution=20)
    first, second = (axis.images[0].get_array() for axis in figure.axes[:2])
    assert set(np.unique(first)) == {0.0, 1.0}
    assert set(np.unique(second)) == {0.5}


def test_what_cannot_be_drawn_is_refused(tree):
    with pytest.raises(InputError, match="one row of 4 features, got shape \\(3,\\)"):
        forests.draw_path(tree, [1, 2, 3])
    with pytest.raises(InputError, match="2 features"):
        forests.draw_boundaries([], np.zeros((3, 4)), np.zeros(3))
