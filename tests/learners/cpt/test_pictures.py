"""Pictures of polytopes: what is filled is the convex set of the node, where rows reach it."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.converters.native import from_cpt
from bitvec.errors import InputError

pytest.importorskip("matplotlib")

from bitvec.learners.cpt import pictures

# A box about 0 at the root, and a halfspace outside of it.
TREE = from_cpt(
    [
        [[9, 0, -9], [-9, 0, -9], [0, 9, -9], [0, -9, -9]],
        [[5, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
    ],
    [[1, 1, 1, 1], [1, 0, 0, 0]],
    tau=[np.log(2.0), np.log(2.0)],
    left=[~0, ~1],
    right=[1, ~2],
    pi=[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]],
    classes=["in", "out"],
)
X = np.random.default_rng(0).uniform(-2, 2, (300, 2))


def test_each_node_has_a_picture_of_the_rows_that_reach_it():
    figure = pictures.draw_polytopes(TREE, X, TREE.predict(X))
    root, below, answers = figure.axes[:3]
    inside = ~TREE.goes_right(0, X)
    assert inside.any()
    assert len(root.collections[-1].get_offsets()) == len(X)
    assert len(below.collections[-1].get_offsets()) == np.sum(~inside)
    assert root.get_title() == "node 0: 4 facets, inside goes left"
    assert below.get_title() == "node 1: 1 facets, inside goes left"
    assert answers.get_title() == "answers of 3 leaves"


def test_rows_that_reach_a_node_are_those_of_the_walk():
    reaching = pictures._reaching(TREE, X)
    assert reaching[0].all()
    assert np.array_equal(reaching[1], TREE.goes_right(0, X))


def test_the_answers_are_those_of_the_tree():
    figure = pictures.draw_polytopes(TREE, X)
    shown = figure.axes[2].images[0].get_array()
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.05 * (high - low)
    side = [np.linspace(low[k] - margin[k], high[k] + margin[k], pictures.PIXELS) for k in (0, 1)]
    grid = np.stack(np.meshgrid(*side), axis=-1).reshape(-1, 2)
    assert np.array_equal(shown.ravel() == 1, TREE.predict(grid) == "out")


@pytest.mark.parametrize(
    ("rows", "y", "message"),
    [
        (np.zeros((3, 4)), None, "finite rows of two features, got shape"),
        (np.zeros((0, 2)), None, "finite rows of two features, got shape"),
        (X, np.zeros(3), "`y` must hold one number or label a row"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, y, message):
    with pytest.raises(InputError, match=message):
        pictures.draw_polytopes(TREE, rows, y)


def test_a_tree_of_three_features_is_refused():
    tree = from_cpt(np.zeros((0, 1, 4)), np.zeros((0, 1)), q=[], left=[], right=[], pi=[[0.5, 0.5]])
    with pytest.raises(InputError, match="two features to be drawn, got 3"):
        pictures.draw_polytopes(tree, np.zeros((2, 3)))
