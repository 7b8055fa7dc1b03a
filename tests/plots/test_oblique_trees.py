"""Plots of End-to-End Decision Trees: what is drawn is what the tree holds and answers."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.converters.native import from_e2edf, from_e2edt
from bitvec.core.feature_maps import Identity
from bitvec.errors import InputError

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from bitvec.plots import annealing, oblique_trees
from bitvec.plots.annealing import PIXELS
from bitvec.plots.tree_layout import layout_of

# The root parts by x0 − x1, its right child by x1; leaves are numbered from right to left.
NAMED = from_e2edt(
    [[1, -1], [0, 2]], [0, -1], left=[~2, ~1], right=[1, ~0], gamma=3.0,
    pi=[[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0, 0.25, 0.75]], classes=["ant", "bee", "cat"],
)  # fmt: skip
MEANS = from_e2edt([[1.0, 0.0]], [-0.5], left=[~0], right=[~1], mean=[[1.0, -4.0], [3.0, 8.0]])
BINARY = from_e2edt([[1.0, 0.0]], [0.0], left=[~0], right=[~1], pi=[0.2, 0.9])
LEAF = from_e2edt(np.zeros((0, 2)), [], left=[], right=[], pi=[[0.3, 0.7]])
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))


def complete(depth: int, n_features: int = 6, n_classes: int = 10):
    rng = np.random.default_rng(depth)
    n = 2**depth - 1
    children = [(2 * i + 1 if 2 * i + 1 < n else ~(2 * i + 1 - n)) for i in range(n)]
    return from_e2edt(
        rng.normal(size=(n, n_features)), rng.normal(size=n), left=children,
        right=[c + 1 if c >= 0 else c - 1 for c in children],
        pi=rng.dirichlet(np.full(n_classes, 0.3), n + 1),
    )  # fmt: skip


def grid_of(panel):
    left, right, bottom, top = panel.images[0].get_extent()
    middles = (np.arange(PIXELS) + 0.5) / PIXELS
    sides = left + (right - left) * middles, bottom + (top - bottom) * middles
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def texts_of(panel):
    return [text.get_text() for text in panel.texts]


def frames(figure):
    return [panel for panel in figure.axes if panel.images and panel.get_title()]


def test_each_node_is_the_image_of_its_theta_on_a_scale_symmetric_about_0():
    tree = complete(3, n_features=6)
    panel = oblique_trees.draw_weights(tree, (2, 3)).axes[0]
    assert len(panel.images) == tree.n_nodes
    for node, image in enumerate(panel.images):
        assert np.array_equal(image.get_array(), tree.theta[node].reshape(2, 3))
        low, high = image.get_clim()
        assert -low == high == np.abs(tree.theta[node]).max()


def test_channels_stand_side_by_side():
    tree = complete(1, n_features=12)
    image = oblique_trees.draw_weights(tree, (2, 2, 3)).axes[0].images[0].get_array()
    channels = tree.theta[0].reshape(2, 2, 3)
    assert np.array_equal(image, np.hstack([channels[0], channels[1]]))


def test_a_node_without_weights_and_a_tree_of_one_leaf_are_drawn():
    blank = from_e2edt(np.zeros((1, 4)), [1.0], left=[~0], right=[~1], mean=[1.0, 2.0])
    assert oblique_trees.draw_weights(blank, (2, 2)).axes[0].images[0].get_clim() == (-1, 1)
    assert not oblique_trees.draw_weights(LEAF, (1, 2)).axes[0].images
    assert isinstance(oblique_trees.draw_tree(LEAF, X), Figure)


def test_several_trees_stand_side_by_side_under_their_titles():
    stages = [("rough", complete(2)), ("smooth", complete(3))]
    panels = oblique_trees.draw_weights(stages, (2, 3)).axes
    assert [panel.get_title() for panel in panels] == ["rough", "smooth"]
    assert [len(panel.images) for panel in panels] == [3, 7]


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_no_two_images_or_leaves_overlap(depth):
    figure = oblique_trees.draw_weights(complete(depth), (2, 3))
    figure.draw_without_rendering()
    boxes = [image.get_window_extent() for image in figure.axes[0].images]
    boxes += [
        text.get_window_extent() for text in figure.axes[0].texts if ":" not in text.get_text()
    ]
    for number, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:number])


@pytest.mark.parametrize(("tree", "rows"), [(complete(5), True), (complete(4), False)])
def test_no_two_nodes_overlap(tree, rows):
    X = np.random.default_rng(0).normal(size=(500, 6)) if rows else None
    figure = oblique_trees.draw_tree(tree, X)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == tree.n_nodes
    for number, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:number])


def test_leaves_stand_from_left_to_right_and_a_node_amid_its_own():
    layout = layout_of(NAMED)
    assert layout.order == [2, 1, 0]
    assert layout.centre.tolist() == [1.0, 1.5]
    assert layout.depth.tolist() == [0, 1]
    assert layout.leaf_depth.tolist() == [2, 2, 1]


def test_the_bars_of_a_leaf_are_its_distribution():
    _, bars = oblique_trees.draw_tree(NAMED).axes
    for k, container in enumerate(bars.containers):
        assert container.get_label() == NAMED.classes[k]
        heights = [bar.get_height() for bar in container]  # a difference of two rounded ends
        assert heights == pytest.approx(NAMED.pi[[2, 1, 0], k], abs=1e-15)
    assert [label.get_text() for label in bars.get_xticklabels()] == ["cat", "bee", "ant"]


def test_one_column_is_drawn_as_two_classes():
    _, bars = oblique_trees.draw_tree(BINARY).axes
    heights = [[bar.get_height() for bar in container] for container in bars.containers]
    assert np.allclose(heights, [[0.8, 0.1], [0.2, 0.9]], rtol=0, atol=1e-15)


def test_the_bars_of_a_regressor_are_its_means():
    _, bars = oblique_trees.draw_tree(MEANS).axes
    heights = [[bar.get_height() for bar in container] for container in bars.containers[:2]]
    assert heights == MEANS.values.T.tolist()
    assert bars.get_ylabel() == "mean"


def test_nodes_and_leaves_count_the_rows_that_reach_them():
    top, bars = oblique_trees.draw_tree(NAMED, X).axes
    right = X[:, 0] - X[:, 1] > 0
    assert [text.split("\n")[-1] for text in texts_of(top)] == ["60 rows", f"{right.sum()} rows"]
    counts = [int(label.get_text().split("\n")[1]) for label in bars.get_xticklabels()]
    assert counts == np.bincount(NAMED.decide(X), minlength=3)[[2, 1, 0]].tolist()


def test_a_test_over_few_columns_is_written_out():
    top = oblique_trees.draw_tree(NAMED, feature_names=["length", "width"]).axes[0]
    assert texts_of(top) == ["node 0\n+1 length\n−1 width\n+0 > 0", "node 1\n+2 width\n−1 > 0"]


def test_frames_are_the_soft_answers_at_each_steepness_and_then_the_hard():
    figure = annealing.draw_annealing(MEANS, X, gammas=[0.5, 20], output=1)
    panels = frames(figure)
    assert [panel.get_title() for panel in panels] == ["γ = 0.5", "γ = 20", "hard"]
    grid = grid_of(panels[0])
    for gamma, panel in zip((0.5, 20), panels[:2], strict=True):
        right = 1 / (1 + np.exp(-gamma * (grid[:, 0] - 0.5)))
        shown = panel.images[0].get_array().ravel()
        assert np.allclose(shown, 8.0 * right - 4.0 * (1 - right), rtol=0, atol=1e-12)
    assert np.array_equal(panels[2].images[0].get_array().ravel(), MEANS.predict(grid)[:, 1])


@pytest.mark.parametrize("tree", [NAMED, BINARY, LEAF])
def test_hard_frames_show_one_colour_for_each_leaf(tree):
    panel = frames(annealing.draw_annealing(tree, X, gammas=[1]))[-1]
    colours = panel.images[0].get_array().reshape(-1, 3)
    leaf = tree.decide(grid_of(panel))
    assert len(np.unique(colours, axis=0)) == len(np.unique(leaf))
    for number in np.unique(leaf):
        assert len(np.unique(colours[leaf == number], axis=0)) == 1


def test_rows_wear_the_colours_of_their_labels():
    y = np.array(["ant", "bee", "cat"])[np.arange(60) % 3]
    panel = frames(annealing.draw_annealing(NAMED, X, y, gammas=[1]))[0]
    drawn = panel.lines[:3]
    for name, points in zip(NAMED.classes, drawn, strict=True):
        assert np.array_equal(points.get_xydata(), X[y == name])
    assert len({tuple(points.get_color()) for points in drawn}) == 3


def test_rows_of_a_regressor_wear_the_colours_of_their_values():
    panel = frames(annealing.draw_annealing(MEANS, X, X * 5, gammas=[1], output=1))[0]
    points = panel.collections[-1]
    assert np.array_equal(points.get_offsets(), X)
    assert np.array_equal(points.get_array(), X[:, 1] * 5)
    assert points.get_clim() == panel.images[0].get_clim() == (-4, 8)


def test_stages_stand_side_by_side_softly_at_their_own_steepness_and_hard_below():
    steep = from_e2edt(
        MEANS.theta, MEANS.bias, left=MEANS.left, right=MEANS.right, mean=MEANS.mean, gamma=9.0
    )
    figure = annealing.draw_posterior([("first", MEANS), ("last", steep)], X, X * 3)
    above = frames(figure)
    assert [panel.get_title() for panel in above] == ["first, γ = 1", "last, γ = 9"]
    panels = [panel for panel in figure.axes if panel.images]
    grid = grid_of(panels[0])
    for at, (tree, soft) in enumerate(zip((MEANS, steep), panels[:2], strict=True)):
        expected = tree.memberships(grid) @ tree.values[:, 0]
        assert np.allclose(soft.images[0].get_array().ravel(), expected, rtol=0, atol=1e-12)
        hard = panels[2 + at].images[0].get_array().ravel()
        assert np.array_equal(hard, tree.predict(grid)[:, 0])


def test_the_trees_of_a_forest_are_drawn_and_the_forest_itself_is_refused():
    forest = from_e2edf([NAMED, NAMED])
    assert isinstance(oblique_trees.draw_tree(forest.trees[1]), Figure)
    with pytest.raises(InputError, match="must be an E2EDT, got E2EDF: pass `tree_`"):
        oblique_trees.draw_tree(forest)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: oblique_trees.draw_weights(complete(1), (2, 2)),
            "`shape` must be .* of the 6 columns",
        ),
        (lambda: oblique_trees.draw_weights([], (2, 2)), "pairs of a title and an E2EDT"),
        (lambda: oblique_trees.draw_weights([("forest", 3)], (2, 2)), "must be an E2EDT, got int"),
        (lambda: oblique_trees.draw_tree(complete(7)), "at most 64 leaves to be drawn, got 128"),
        (lambda: oblique_trees.draw_tree(NAMED, feature_names=["one"]), "must hold 2 names"),
        (lambda: oblique_trees.draw_tree(NAMED, np.zeros((3, 5))), r"of shape \(n, 2\)"),
        (lambda: annealing.draw_annealing(complete(1), X), "two features .* got 6"),
        (lambda: annealing.draw_annealing(NAMED, np.zeros((3, 5))), "rows of two features"),
        (lambda: annealing.draw_annealing(NAMED, X[:0]), "rows of two features"),
        (lambda: annealing.draw_annealing(NAMED, X * np.nan), "must be finite"),
        (lambda: annealing.draw_annealing(NAMED, X, np.zeros(3)), "one label or number a row"),
        (lambda: annealing.draw_annealing(NAMED, X, ["dog"] * 60), "labels of the tree, got 'dog'"),
        (lambda: annealing.draw_annealing(MEANS, X, ["dog"] * 60), "numbers for a regressor"),
        (lambda: annealing.draw_annealing(NAMED, X, gammas=[]), "positive numbers, one at least"),
        (lambda: annealing.draw_annealing(NAMED, X, gammas=[1, np.inf]), "positive and finite"),
        (lambda: annealing.draw_annealing(MEANS, X, output=2), r"`output` must be 0 ... 1, got 2"),
        (lambda: annealing.draw_posterior([("a", NAMED), ("b", MEANS)], X), "same classes or outp"),
        (lambda: annealing.draw_posterior(NAMED, X), "`stages` must be pairs of a title"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_one_sentence(draw, message):
    with pytest.raises(InputError, match=message):
        draw()


def test_nodes_that_read_a_feature_map_have_no_image_but_a_boundary():
    mapped = from_e2edt([[1.0, 0.0]], [0.0], left=[~0], right=[~1], pi=[0.2, 0.9], phi=Identity(2))
    with pytest.raises(InputError, match="split='linear'"):
        oblique_trees.draw_weights(mapped, (1, 2))
    assert len(frames(annealing.draw_annealing(mapped, X, gammas=[1]))) == 2
