"""Plots of polytopes: what is filled is the convex set of the node, where rows reach it."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.converters.native import from_cpt
from bitvec.errors import InputError

pytest.importorskip("matplotlib")

from bitvec.learners.cpt.sklearn import CPTClassifier
from bitvec.plots import polytope_nodes
from bitvec.plots.plane import PIXELS, distinct_colours

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
MEANS = from_cpt(
    [[[9, 0, -9], [-9, 0, -9], [0, 9, -9], [0, -9, -9]]],
    [[1, 1, 1, 1]],
    tau=[np.log(2.0)],
    left=[~0],
    right=[~1],
    mean=[[1.0, -4.0], [3.0, 8.0]],
)
LEAF = from_cpt(
    np.zeros((0, 1, 3)), np.zeros((0, 1)), q=[], left=[], right=[], pi=[[0.2, 0.3, 0.5]]
)
X = np.random.default_rng(0).uniform(-2, 2, (300, 2))
WITH_NAN = np.where(np.arange(300)[:, None] == 7, np.nan, X)


def rows_of(panel):
    return panel.collections[-1]


def grid_of(panel):
    left, right, bottom, top = panel.images[0].get_extent()
    middles = (np.arange(PIXELS) + 0.5) / PIXELS
    sides = left + (right - left) * middles, bottom + (top - bottom) * middles
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def legend_texts(figure):
    return [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]


def test_each_node_has_a_panel_of_the_rows_that_reach_it():
    figure = polytope_nodes.draw_polytopes(TREE, X, TREE.predict(X))
    root, below, answers = figure.axes
    inside = ~TREE.goes_right(0, X)
    assert inside.any()
    assert np.array_equal(rows_of(root).get_offsets(), X)
    assert np.array_equal(rows_of(below).get_offsets(), X[~inside])
    assert root.get_title() == "node 0: 4 facets, inside goes left"
    assert below.get_title() == "node 1: 1 facet, inside goes left"
    assert answers.get_title() == "answers of 3 leaves"


def test_a_tree_of_one_leaf_is_its_answer_alone():
    figure = polytope_nodes.draw_polytopes(LEAF, X)
    (answers,) = figure.axes
    assert answers.get_title() == "answers of 1 leaf"
    assert np.all(answers.images[0].get_array() == 2)
    assert legend_texts(figure) == [["0", "1", "2"]]


def test_rows_that_reach_a_node_are_those_of_the_walk():
    reaching, exits = polytope_nodes._walk(TREE, X)
    assert reaching[0].all()
    assert np.array_equal(reaching[1], TREE.goes_right(0, X))
    assert np.array_equal(exits, TREE.decide(X))


def test_the_answers_are_those_of_the_tree():
    panel = polytope_nodes.draw_polytopes(TREE, X).axes[2]
    shown = panel.images[0].get_array().ravel()
    assert np.array_equal(TREE.classes[shown], TREE.predict(grid_of(panel)))


@pytest.mark.parametrize("output", [0, 1])
def test_one_output_of_several_is_drawn_with_the_rows_on_its_scale(output):
    y = np.c_[X[:, 0] > 0, X[:, 1]] * 10.0
    figure = polytope_nodes.draw_polytopes(MEANS, X, y, output=output)
    root, answers, bar = figure.axes
    assert np.array_equal(
        answers.images[0].get_array().ravel(), MEANS.predict(grid_of(answers))[:, output]
    )
    assert np.array_equal(rows_of(root).get_array(), y[:, output])
    scale = MEANS.values[:, output].min(), MEANS.values[:, output].max()
    assert rows_of(root).get_clim() == answers.images[0].get_clim() == scale
    assert rows_of(root).get_cmap() == answers.images[0].get_cmap()
    assert bar.get_ylabel() == f"mean of output {output}"


def test_values_of_one_output_need_no_second_axis():
    alone = from_cpt(
        MEANS.beta, MEANS.r, tau=MEANS.tau, facet_ptr=MEANS.facet_ptr, left=[~0], right=[~1],
        mean=[0.0, 1.0],
    )  # fmt: skip
    root, _, bar = polytope_nodes.draw_polytopes(alone, X, X[:, 0]).axes
    assert np.array_equal(rows_of(root).get_array(), X[:, 0])
    assert bar.get_ylabel() == "mean"


def test_the_values_of_a_tree_of_one_leaf_have_the_scale_of_the_rows():
    leaf = from_cpt(np.zeros((0, 1, 3)), np.zeros((0, 1)), q=[], left=[], right=[], mean=[0.5])
    answers = polytope_nodes.draw_polytopes(leaf, X, X[:, 0]).axes[0]
    assert answers.images[0].get_clim() == (X[:, 0].min(), X[:, 0].max())


@pytest.mark.parametrize("label", ["in", "out"])
def test_rows_of_one_class_alone_wear_its_colour(label):
    y = TREE.predict(X)
    root, _, answers = polytope_nodes.draw_polytopes(TREE, X[y == label], y[y == label]).axes
    points, image = rows_of(root), answers.images[0]
    points.update_scalarmappable()
    expected = distinct_colours(2)[TREE.classes.tolist().index(label)]
    assert np.allclose(points.get_facecolor()[:, :3], expected, rtol=0, atol=1e-12)
    assert points.get_clim() == image.get_clim()
    assert points.get_cmap() == image.get_cmap()


@pytest.mark.parametrize("n", [2, 3, 10])
def test_each_class_has_a_colour_that_stands_out_from_white(n):
    colours = distinct_colours(n)
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    contrast = 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)  # as WCAG defines it
    assert contrast.min() > 2
    apart = np.abs(colours[:, None] - colours[None]).max(axis=2) + np.eye(n)
    assert apart.min() > 0.2


def test_classes_and_the_parts_of_a_node_are_named():
    figure = polytope_nodes.draw_polytopes(TREE, X, TREE.predict(X))
    assert legend_texts(figure) == [
        ["in", "out"], ["inside, g ≤ τ", "edge, g = τ", "facet", "not reached"]
    ]  # fmt: skip
    colours = [mark.get_color() for mark in figure.legends[0].legend_handles]
    assert np.array_equal(colours, distinct_colours(2))


@pytest.mark.parametrize("names", [None, ["length", "width"]])
def test_outer_panels_say_what_the_axes_are_and_where_values_lie(names):
    figure = polytope_nodes.draw_polytopes(TREE, X, feature_names=names)
    figure.draw_without_rendering()
    across, up = names or ("x0", "x1")
    for number, panel in enumerate(figure.axes):
        assert panel.get_xlabel() == across
        assert panel.get_ylabel() == ("" if number else up)
        shown = [label.get_text() for label in panel.get_xticklabels() if label.get_visible()]
        assert {"−1", "0", "1"} <= set(shown)
        marks = [tick.label1.get_visible() for tick in panel.yaxis.get_major_ticks()]
        assert len(marks) >= 3
        assert all(visible == (number == 0) for visible in marks)


@pytest.mark.parametrize(
    ("tree", "rows", "options", "message"),
    [
        (TREE, np.zeros((3, 4)), {}, r"rows of two features, one at least, got shape \(3, 4\)"),
        (TREE, np.zeros((0, 2)), {}, r"rows of two features, one at least, got shape \(0, 2\)"),
        (TREE, WITH_NAN, {}, "`X` must be finite, got NaN in row 7: .* 1 of 300"),
        (TREE, np.array([[0, -np.inf]]), {}, "`X` must be finite, got infinity in row 0"),
        (TREE, np.array([["a", "b"]]), {}, "`X` must hold numbers, got <U1"),
        (TREE, X, {"y": np.zeros(3)}, "`y` must hold one label or number a row"),
        (TREE, X, {"y": ["dog"] * 300}, "`y` must hold labels of the tree, got 'dog'"),
        (TREE, X, {"output": 1}, "`output` must be 0, got 1"),
        (TREE, X, {"feature_names": ["one"]}, "must hold 2 names"),
        (MEANS, X, {"y": ["dog"] * 300}, "`y` must hold numbers for a regressor"),
        (MEANS, X, {"y": WITH_NAN}, "`y` must be finite, got NaN"),
        (MEANS, X, {"output": 2}, r"`output` must be 0 ... 1, got 2"),
        (MEANS, X, {"output": 0.5}, r"`output` must be 0 ... 1, got 0.5"),
        (CPTClassifier(), X, {}, "must be a CPT, got CPTClassifier: pass `tree_`"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(tree, rows, options, message):
    with pytest.raises(InputError, match=message):
        polytope_nodes.draw_polytopes(tree, rows, **options)


def test_a_tree_of_three_features_is_refused():
    tree = from_cpt(np.zeros((0, 1, 4)), np.zeros((0, 1)), q=[], left=[], right=[], pi=[[0.5, 0.5]])
    with pytest.raises(InputError, match="two features to be drawn over the plane, got 3"):
        polytope_nodes.draw_polytopes(tree, np.zeros((2, 3)))
