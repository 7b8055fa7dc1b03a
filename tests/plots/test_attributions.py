"""Plots of explanations show what was computed, whatever columns are called."""

from __future__ import annotations

import numpy as np
import pytest

import bitvec
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.explanations.dependence import partial_dependence
from bitvec.explanations.explainer import Explainer, explain
from bitvec.plots import attributions
from bitvec.plots.distributions import draw_distributions

HOSTILE = ("$a$ _{x}", "b\n<script>", "c" * 90)


def explained(n_features: int, names: tuple[str, ...] | None = None) -> tuple[Explainer, Array]:
    """A sum of stumps, explained by cover, and its rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, n_features)).astype(np.float32)
    sklearn = pytest.importorskip("sklearn.ensemble")
    model = sklearn.GradientBoostingRegressor(n_estimators=60, max_depth=1, random_state=0)
    y = X @ (1.0 + np.arange(n_features))
    if names is None:
        model.fit(X, y)
    else:
        model.fit(pytest.importorskip("pandas").DataFrame(X, columns=list(names)), y)
    return explain(bitvec.convert(model)), X


@pytest.mark.parametrize(("n_features", "names"), [(3, HOSTILE), (40, None)])
def test_every_plot_is_drawn_of_any_columns(n_features, names):
    explainer, X = explained(n_features, names)
    forest = explainer.forest
    values = explainer.values(X)
    figures = [
        attributions.draw_beeswarm(explainer, X),
        attributions.draw_bars(np.abs(values).mean(axis=0), forest),
        attributions.draw_waterfall(explainer, X[:1]),
        attributions.draw_dependence(explainer, X, 0, colour=1),
        attributions.draw_partial_dependence(partial_dependence(forest, X, 0), forest),
        attributions.draw_partial_dependence(partial_dependence(forest, X, [0, 1]), forest),
    ]
    for figure in figures:
        figure.savefig("/dev/null", format="png")
        for axis in figure.axes:
            for label in [*axis.get_xticklabels(), *axis.get_yticklabels()]:
                assert "\n" not in label.get_text()
                assert len(label.get_text()) <= 48


def test_a_swarm_has_a_point_for_each_value_and_names_the_rest():
    explainer, X = explained(40)
    values = explainer.values(X)
    axis = attributions.draw_beeswarm(explainer, X, most=5).axes[0]
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")
    assert [label.get_text() for label in axis.get_yticklabels()] == [
        *(f"x{column}" for column in order[:5]), "sum of 35 others",
    ]  # fmt: skip
    points = [part.get_offsets()[:, 0] for part in axis.collections if len(part.get_offsets())]
    for found, column in zip(points, order[:5], strict=False):
        np.testing.assert_array_equal(found, values[:, column])
    np.testing.assert_allclose(points[-1], values[:, order[5:]].sum(axis=1))


def test_missing_values_are_points_too():
    explainer, X = explained(3)
    values = explainer.values(X)
    X = X.copy()
    X[:7, 0] = np.nan
    tree = pytest.importorskip("sklearn.ensemble").HistGradientBoostingRegressor(max_iter=3)
    explainer = explain(bitvec.convert(tree.fit(X, values[:, 0])))
    axis = attributions.draw_beeswarm(explainer, X).axes[0]
    assert sum(len(part.get_offsets()) for part in axis.collections) == X.size


def test_a_waterfall_leads_to_the_raw_score():
    explainer, X = explained(40)
    axis = attributions.draw_waterfall(explainer, X[:1], most=4).axes[0]
    widths = [bar.get_width() for bar in axis.patches]
    raw = bitvec.compile(explainer.forest).raw(X[:1])[0, 0]
    assert len(widths) == 5
    # Values by cover are rounded to float32, and their sum is smaller than they are.
    atol = 1e-6 * np.abs(widths).sum()
    np.testing.assert_allclose(explainer.base_value + sum(widths), raw, rtol=0, atol=atol)
    assert f"raw score {raw:.4g}" in [text.get_text() for text in axis.texts]


def test_bars_are_sorted_and_say_what_is_left_out():
    axis = attributions.draw_bars([1, 3, 2, 0], ["a", "b", "c", "d"], most=2).axes[0]
    assert [bar.get_width() for bar in axis.patches] == [3, 2]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["b", "c"]
    assert "2 smaller ones" in axis.get_xlabel()


def test_curves_are_those_of_partial_dependence():
    explainer, X = explained(3)
    found = partial_dependence(explainer.forest, X, 1, individual=True)
    lines = (
        attributions.draw_partial_dependence(found, explainer.forest, most_rows=10).axes[0].lines
    )
    np.testing.assert_array_equal(lines[-1].get_ydata(), found.average[0])
    assert len(lines) == 11


def test_what_does_not_fit_is_refused():
    explainer, X = explained(3)
    for message, draw in (
        ("at least one row", lambda: attributions.draw_beeswarm(explainer, X[:0])),
        (
            "`values` must have shape",
            lambda: attributions.draw_beeswarm(explainer, X, values=X[:3]),
        ),
        ("`output` must be below 1", lambda: attributions.draw_beeswarm(explainer, X, output=1)),
        ("`most` must be at least 1", lambda: attributions.draw_beeswarm(explainer, X, most=0)),
        ("table of one row", lambda: attributions.draw_waterfall(explainer, X)),
        ("number below 3", lambda: attributions.draw_dependence(explainer, X, "no such")),
        ("one finite number for each", lambda: attributions.draw_bars([np.nan], ["a"])),
        ("shape of `importances`", lambda: attributions.draw_bars([1], ["a"], errors=[1, 2])),
    ):
        with pytest.raises(InputError, match=message):
            draw()


def test_a_tree_is_drawn_with_the_rows_that_reach_its_leaves():
    tree = pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.array(["no", "yes", "$maybe$"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]
    model = tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    figure = draw_distributions(forest, X, y)
    figure.savefig("/dev/null", format="png")
    cells = figure.axes[0].child_axes
    assert len(cells) == forest.n_nodes + forest.n_leaves
    labels = np.unique(y)
    leaf = bitvec.compile(forest).exit_leaves(X)[:, 0]
    for number, cell in enumerate(cells[forest.n_nodes :]):
        expected = [np.sum((leaf == number) & (y == label)) for label in labels]
        assert [bar.get_height() for bar in cell.patches] == expected
    root = sum(bar.get_height() for bar in cells[0].patches if bar.get_height())
    assert root >= len(X)  # stacked bars: each class stands on the one before

    number = tree.DecisionTreeRegressor(max_leaf_nodes=4, random_state=0).fit(X, X[:, 0])
    cells = draw_distributions(bitvec.convert(number), X, X[:, 0]).axes[0].child_axes
    drawn = [len(cell.collections[0].get_offsets()) for cell in cells]
    assert drawn[0] == len(X) == sum(drawn[-4:])


def test_trees_that_cannot_be_drawn_with_rows_are_refused():
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(InputError, match="`y` must have one target"):
        draw_distributions(stump, [[0, 1]], [1, 2])
    with pytest.raises(InputError, match="`y` must be finite"):
        draw_distributions(stump, [[0, 1]], [np.inf])
    oblique = Forest.from_matrices([[1, 1]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(UnsupportedModelError, match="draw_matrices"):
        draw_distributions(oblique, [[0, 1]], [1])
