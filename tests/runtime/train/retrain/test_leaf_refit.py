"""Leaves alone: the optimum of a convex problem, which gains and keeps what the leaves are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retraining import grown, oblique_classes
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.tree import DecisionTreeClassifier
from strategies import forests, rows

import bitvec
from bitvec.core import reference, transforms
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output, PostTransform

torch = pytest.importorskip("torch")

from bitvec.runtime.train.retrain import leaf_design, leaf_refit, objective  # noqa: E402
from bitvec.runtime.train.retrain.leaf_charts import FreeLeaves, chart  # noqa: E402
from bitvec.runtime.train.retrain.leaf_counts import (  # noqa: E402
    counted_means,
    counted_probabilities,
    counted_quantiles,
)
from bitvec.runtime.train.retrain.leaf_refit import refit_leaves  # noqa: E402
from bitvec.runtime.train.retrain.selection import Selection  # noqa: E402

CLASSES = np.array(["no", "yes"])
F64 = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors are small here: a second thread only waits, as `retrain` knows."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def design_of(forest, X):
    return leaf_design.design(forest, reference.exit_leaves(forest, X))


def dense(forest, X):
    """P as a matrix from all numbers of v to all raw scores, column by column."""
    columns, base = [], reference.raw(with_leaves(forest, 0 * forest.leaves.v), X)
    for at in range(forest.leaves.v.size):
        v = np.zeros(forest.leaves.v.size)
        v[at] = 1.0
        one = with_leaves(forest, v.reshape(forest.leaves.v.shape))
        columns.append((reference.raw(one, X) - base).ravel())
    return np.stack(columns, axis=1)


def with_leaves(forest, v):
    v = v.astype(forest.leaves.v.dtype)
    return replace(forest, leaves=replace(forest.leaves, v=v))


def fitted(forest, X, y, penalty=None, **choices):
    """The path of penalties, or the exact solution for one that is not in rows."""
    target = objective.targets(forest.output, y, len(X))
    goal = objective.of_forest(forest, target, **choices).smoothed()
    table, weight = design_of(forest, X), np.ones(len(X))
    if penalty is None:
        return list(leaf_refit.fits(forest, table, goal, target, weight))
    place = chart(forest)
    problem = leaf_refit.LeafLoss(forest, table, goal, target, weight)
    found = leaf_refit.least_loss(
        problem, place, place.start(), penalty, 0.25, tolerance=1e-9, iterations=5000
    )
    assert found.converged
    return place.at(found.point).v, problem, found


@given(st.data())
def test_the_design_is_the_map_from_leaves_to_scores(data):
    forest = data.draw(
        forests(linear=False, aggregates=(Aggregate.SUM, Aggregate.MEAN), max_leaves=6)
    )
    X = data.draw(rows(forest))
    wide = replace(forest.output, tree_weight=None, scale=None, divisor=None, base_first=False)
    wide = replace(wide, dtype=F64, base_score=np.zeros(forest.n_outputs))
    rng = np.random.default_rng(0)
    if data.draw(st.booleans()):
        wide = replace(wide, tree_weight=rng.uniform(0.5, 2, forest.n_trees))
    v = rng.normal(size=forest.leaves.v.shape)
    forest = replace(forest, output=wide, leaves=replace(forest.leaves, v=v))
    if not forest.n_trees:
        return
    table, P = design_of(forest, X), dense(forest, X)
    raw, w = rng.normal(size=(len(X), forest.n_outputs)), rng.uniform(0, 2, len(X))
    # Sums of a few numbers in another order.
    close = {"rtol": 1e-12, "atol": 1e-12}
    assert np.allclose(table.raw(v), reference.raw(forest, X), **close)
    assert np.allclose(table.raw(v).ravel(), P @ v.ravel(), **close)
    assert np.allclose(table.transposed(raw).ravel(), P.T @ raw.ravel(), **close)
    squares = ((P * np.repeat(w, forest.n_outputs)[:, None]) * P).sum(axis=0)
    assert np.allclose(table.squared_columns(w).ravel(), squares, **close)


def test_threads_change_no_bit(monkeypatch):
    X, y = oblique_classes(5000)
    forest = grown(X[:200], y[:200], n_trees=5, classes=CLASSES)
    table, rng = design_of(forest, X), np.random.default_rng(0)
    v, raw = rng.normal(size=forest.leaves.v.shape), rng.normal(size=(5000, 2))
    alone = table.raw(v), table.transposed(raw)
    monkeypatch.setattr(leaf_design, "SMALL", 0)
    monkeypatch.setattr(leaf_design, "effective_jobs", lambda n_jobs: 4)
    for one, several in zip(alone, (table.raw(v), table.transposed(raw)), strict=True):
        assert one.tobytes() == several.tobytes()


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_ridge_is_the_solution_of_the_normal_equations(n_outputs):
    X, _ = oblique_classes(60)
    rng = np.random.default_rng(0)
    y = (X @ rng.normal(size=(3, n_outputs))).astype(np.float64)
    forest = grown(X, y[:, 0], n_trees=3, depth=2)
    output = Output(n_outputs, F64, Aggregate.MEAN, base_score=np.full(n_outputs, 0.3))
    v = np.repeat(forest.leaves.v, n_outputs, axis=1)
    forest = replace(forest, output=output, leaves=Leaves(v))
    table = design_of(forest, X)
    P = np.zeros((60, forest.n_leaves))
    exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    np.put_along_axis(P, exits, 1 / 3, axis=1)
    w = rng.uniform(0.5, 2, 60)
    w /= w.mean()
    tried = []
    for penalty, got in leaf_refit.ridge(forest, table, y, 5 * w):  # their unit does not matter
        A = P.T @ (w[:, None] * P) + penalty / 9 * np.eye(forest.n_leaves)
        step = np.linalg.solve(A, P.T @ (w[:, None] * (y - 0.3 - P @ v)))
        # Conjugate gradients stop at a relative residual of 1e-6.
        assert np.allclose(got - v, step, atol=1e-4 * np.abs(step).max())
        tried.append(penalty)
    assert tried == list(leaf_refit.PENALTIES)


def one_hot(forest, X):
    exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    P = np.zeros((len(X), forest.n_leaves))
    np.put_along_axis(P, exits, 1.0, axis=1)
    return P


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("penalty", [0.1, 10.0])
def test_logistic_leaves_are_logistic_regression_on_leaf_indicators(n_classes, penalty):
    X, _ = oblique_classes(150)
    y = np.digitize(X @ [1.0, -1.0, 0.5], [-0.5, 0.5] if n_classes == 3 else [0.0])
    forest = grown(X, y.astype(float), n_trees=4, depth=2)
    width = 1 if n_classes == 2 else 3
    transform = PostTransform.SIGMOID if n_classes == 2 else PostTransform.SOFTMAX
    output = Output(width, F64, post_transform=transform, classes=(np.arange(n_classes),))
    forest = replace(forest, output=output, leaves=Leaves(np.zeros((forest.n_leaves, width))))
    v, _, _ = fitted(forest, X, y, penalty)
    model = LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = model.fit(one_hot(forest, X), y).coef_.T
    # scikit-learn's gradient is within 1e-10 · 150, over a curvature of at least the penalty.
    assert np.allclose(v, expected, atol=1e-6)


@pytest.mark.parametrize("penalty", [0.1, 10.0])
def test_poisson_leaves_are_poisson_regression_on_leaf_indicators(penalty):
    X, _ = oblique_classes(150)
    y = np.random.default_rng(0).poisson(np.exp(X[:, 0])).astype(float)
    forest = grown(X, y, n_trees=4, depth=2)
    output = Output(1, F64, post_transform=PostTransform.EXPONENTIAL)
    forest = replace(forest, output=output, leaves=Leaves(np.zeros((forest.n_leaves, 1))))
    v, _, _ = fitted(forest, X, y, penalty, loss="poisson")
    # Its loss is half of the mean deviance.
    model = PoissonRegressor(
        alpha=penalty / 300, fit_intercept=False, solver="newton-cholesky", tol=1e-12
    )
    expected = model.fit(one_hot(forest, X), y).coef_[:, None]
    assert np.allclose(v, expected, atol=1e-6)  # gradients within 1e-9, of both


def probability_forest(n_groups=1, one_column=False, n_trees=6):
    X, y = oblique_classes(200)
    forest = grown(X, y, n_trees=n_trees, depth=2, classes=CLASSES)
    if one_column:
        output = Output(1, F64, Aggregate.MEAN, classes=(CLASSES,))
        return replace(forest, output=output, leaves=Leaves(forest.leaves.v[:, 1:])), X, y
    if n_groups == 2:
        output = Output(4, F64, Aggregate.MEAN, classes=(CLASSES, CLASSES), groups=(2, 2))
        v = np.concatenate([forest.leaves.v, forest.leaves.v[:, ::-1]], axis=1)
        other = np.where(X[:, 2] > 0, "yes", "no")
        return replace(forest, output=output, leaves=Leaves(v)), X, np.stack([y, other], axis=1)
    return forest, X, y


PROBABILITY_FORESTS = [{}, {"one_column": True}, {"n_groups": 2}, {"n_trees": 1}]


@pytest.mark.parametrize("kind", PROBABILITY_FORESTS)
@pytest.mark.parametrize("choices", [{}, {"metric": "log_loss"}])
def test_probability_leaves_are_the_least_of_a_convex_loss_on_the_simplex(kind, choices):
    forest, X, y = probability_forest(**kind)
    penalty = 2.0
    v, problem, found = fitted(forest, X, y, penalty, **choices)
    place = chart(forest)
    # Karush-Kuhn-Tucker: inside the simplex the gradient is the same for all classes of a leaf.
    loss, gradient = problem(v)
    wide = np.zeros_like(place.old)
    wide[:, place.kept] = gradient
    p = place.at(found.point).away + place.old
    wide -= penalty * place.old / p
    for group in place.groups:
        part = p[:, group] * (wide[:, group] - wide[:, group].mean(axis=1, keepdims=True))
        assert np.abs(part).max() < 1e-6  # the scaled norm is below 1e-9 · sqrt(200)
    # Convex: on no segment from it is the sum less.
    rng = np.random.default_rng(0)
    for _ in range(20):
        theta = found.point + rng.normal(size=found.point.shape)
        other = place.at(theta)
        assert problem(other.v)[0] + penalty * other.distance >= found.value
        middle = (v + other.v) / 2
        assert problem(middle)[0] <= (loss + problem(other.v)[0]) / 2 + 1e-9 * abs(loss)


@pytest.mark.parametrize("kind", PROBABILITY_FORESTS)
def test_probability_leaves_stay_probabilities(kind):
    forest, X, y = probability_forest(**kind)
    path = fitted(forest, X, y)
    assert len(path) == 6
    for _, v in path:
        assert np.all((v > 0) & (v < 1))
        for group in chart(forest).groups if forest.n_outputs > 1 else ():
            assert np.allclose(v[:, group].sum(axis=1), 1, rtol=1e-14)  # divided by their sum


@pytest.mark.parametrize("kind", [None, *PROBABILITY_FORESTS])
def test_charts_have_their_gradients(kind):
    rng = np.random.default_rng(0)
    if kind is None:
        place = FreeLeaves(rng.normal(size=(3, 2)))
    else:
        place = chart(probability_forest(**kind)[0])
    theta = place.start() + rng.normal(size=place.start().shape)
    here = place.at(theta)
    weight = rng.normal(size=here.v.shape)
    gradient = here.pulled_back(weight)
    for _ in range(5):
        direction = rng.normal(size=theta.shape)
        near = [place.at(theta + step * direction) for step in (1e-5, -1e-5)]
        slope = [(weight * one.v).sum() for one in near]
        distance = [one.distance for one in near]
        # Central differences are good to the square of the step.
        assert np.isclose((slope[0] - slope[1]) / 2e-5, (gradient * direction).sum(), rtol=1e-6)
        assert np.isclose(
            (distance[0] - distance[1]) / 2e-5, (here.away * direction).sum(), rtol=1e-6
        )
    assert np.all(place.scale(theta, 0.1, np.ones(here.v.shape)) > 0)
    start = place.at(place.start())
    assert abs(start.distance) < 1e-9
    assert np.abs(start.away).max() < 1e-12


LOSSES = [
    {},
    {"loss": "absolute"},
    {"loss": "huber", "delta": 0.5},
    {"loss": "quantile", "quantile": 0.8},
    {"loss": "poisson"},
    {"loss": "gamma"},
    {"loss": "tweedie"},
    {"loss": torch.nn.SmoothL1Loss(reduction="none")},
    {"loss": lambda raw, y: (raw - y).abs()},
]


@pytest.mark.parametrize("choices", LOSSES)
def test_every_loss_falls_along_the_path(choices):
    X, _ = oblique_classes(200)
    y = np.exp(X @ [1.0, -1.0, 0.5]).astype(np.float64) + 0.1
    forest = grown(X, y, n_trees=5, depth=2)
    target = y[:, None]
    goal = objective.of_forest(forest, target, **choices)
    table = design_of(forest, X)
    path = [forest.leaves.v, *(v for _, v in fitted(forest, X, y, **choices))]
    losses = [float(goal.losses(torch.tensor(table.raw(v)), torch.tensor(target)).sum())
              for v in path]  # fmt: skip
    assert len(losses) == 7
    # A weaker pull lets the loss fall, to within what smoothing and the tolerance leave.
    assert np.all(np.diff(losses) < 1e-3 * losses[0])
    assert losses[-1] < 0.97 * losses[0]


def test_a_smoothed_quantile_is_the_quantile_but_for_its_width():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(501, 1)).astype(np.float32), rng.normal(size=501)
    forest = grown(X, y, n_trees=1, depth=1)
    v, _, _ = fitted(forest, X, y, 1e-9, loss="quantile", quantile=0.3)
    leaf = reference.exit_leaves(forest, X)[:, 0]
    for at in range(forest.n_leaves):
        part = np.sort(y[leaf == at])
        low, high = np.searchsorted(part, v[at, 0] + np.array([-1, 1]) * 0.02 * y.std())
        assert low <= 0.3 * len(part) <= high + 1


def fold(X, y, forest, part):
    target = objective.targets(forest.output, y[part], len(X[part]))
    return SimpleNamespace(
        X=X[part].astype(forest.dtype), target=target, weight=np.ones(len(target))
    )


def refit(forest, X, y, n, **choices):
    """Refit on the first n rows, select on the rest."""
    data, held_out = (fold(X, y, forest, part) for part in (slice(n), slice(n, None)))
    goal = objective.of_forest(forest, data.target, **choices)
    chosen = Selection(forest, goal, held_out.X, held_out.target, held_out.weight)
    told = []
    recipe = SimpleNamespace(device=torch.device("cpu"), progress=told.append)
    note = refit_leaves(forest, goal, data, held_out, chosen, recipe)
    assert told == chosen.history[1:]
    assert [each.stage for each in told] == ["leaves"] * len(told)
    # Scored again from nothing, in inference dtype.
    scores = goal.scores(reference.raw(chosen.best, held_out.X), held_out.target)
    assert np.isclose(scores.mean(), chosen.score, rtol=1e-12)
    return chosen, note


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leaves_of_a_regressor_gain(dtype):
    X, _ = oblique_classes(800)
    y = (X @ [1.0, -1.0, 0.5]).astype(np.float64)
    forest = grown(X[:400], y[:400], n_trees=12, depth=3)
    forest = replace(
        forest,
        output=replace(
            forest.output, dtype=np.dtype(dtype), base_score=np.zeros(forest.n_outputs, dtype)
        ),
        leaves=Leaves(forest.leaves.v.astype(dtype)),
    )
    chosen, note = refit(forest, X, y, 400)
    assert note is None
    assert chosen.score > 0.8 * chosen.start_score  # both negative: at least a fifth less
    assert chosen.best.leaves.v.dtype == dtype
    assert chosen.best.tests is forest.tests


@pytest.mark.parametrize("kind", [{}, {"one_column": True}, {"n_groups": 2}])
def test_leaves_of_a_probability_forest_gain_and_the_output_stays(kind):
    X, y = oblique_classes(1200)
    forest, _, _ = probability_forest(n_trees=12, **kind)
    if kind.get("n_groups"):
        y = np.stack([y, np.where(X[:, 2] > 0, "yes", "no")], axis=1)
    chosen, _ = refit(forest, X, y, 400)
    assert chosen.score > chosen.start_score + 0.01
    assert chosen.best.output is forest.output


def test_leaves_of_a_booster_that_name_their_output_gain():
    X, _ = oblique_classes(900)
    y = np.digitize(X @ [1.0, -1.0, 0.5], [-0.5, 0.5])
    forest = grown(X[:400], y[:400].astype(float), n_trees=12, depth=2)
    output = Output(
        3, np.dtype(np.float32), base_score=np.array([0.5, 0.1, -0.2], np.float32),
        post_transform=PostTransform.SOFTMAX, classes=(np.arange(3),),
    )  # fmt: skip
    names = np.repeat(np.arange(12) % 3, 4).astype(np.int32)
    leaves = Leaves((forest.leaves.v / 10).astype(np.float32), names)
    chosen, _ = refit(replace(forest, output=output, leaves=leaves), X, y, 400)
    assert chosen.score > chosen.start_score + 0.1
    assert np.array_equal(chosen.best.leaves.output, names)


@pytest.mark.parametrize("booster", [False, True])
def test_forests_of_scikit_learn_gain_on_digits(booster):
    from sklearn.datasets import load_digits
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(np.float32), y[order]
    if booster:
        model = GradientBoostingClassifier(
            n_estimators=5, max_depth=2, learning_rate=0.3, random_state=0
        )
    else:
        model = RandomForestClassifier(50, max_depth=4, random_state=0)
    forest = bitvec.convert(model.fit(X[:900], y[:900]))
    chosen, note = refit(forest, X[:1300], y[:1300], 900, metric="accuracy")
    assert note is None
    assert chosen.best is not forest

    def right(one):
        return (transforms.predictions(one.output, reference.raw(one, X[1300:])) == y[1300:]).mean()

    assert right(chosen.best) > right(forest) + 0.02  # 497 rows that nothing was chosen by


def test_a_start_whose_loss_is_not_finite_is_left_with_a_word():
    X, y = oblique_classes(200)
    forest = grown(X, y, n_trees=3, classes=CLASSES)
    v = np.full_like(forest.leaves.v, 3.0)
    v[0] = np.inf
    chosen, note = refit(replace(forest, leaves=Leaves(v)), X, y, 100)
    assert chosen.best is chosen.start
    assert "not finite" in note


@settings(max_examples=25)
@given(st.data(), st.integers(0, 2**16))
def test_what_comes_back_is_never_worse_on_validation(data, seed):
    forest = data.draw(
        forests(linear=False, aggregates=(Aggregate.SUM, Aggregate.MEAN), max_leaves=8).filter(
            lambda forest: forest.n_trees and forest.kernel is None
        )
    )
    X = np.concatenate([data.draw(rows(forest))] * 3)
    rng = np.random.default_rng(seed)
    if forest.output.is_classifier:
        y = np.stack([rng.choice(labels, len(X)) for labels in forest.output.classes], axis=1)
    else:
        y = rng.normal(size=(len(X), forest.n_outputs))
    chosen, _ = refit(forest, X, y, len(X) // 2)
    assert chosen.score >= chosen.start_score


@pytest.mark.parametrize("n", [1, 2])
def test_a_single_row_and_single_leaves_are_enough(n):
    X, _ = oblique_classes(10)
    y = X[:, 0].astype(np.float64)
    forest = grown(X, y, n_trees=n, depth=0)
    assert forest.n_nodes == 0
    for choices in ({}, {"loss": "absolute"}):
        path = fitted(forest, X[:1], y[:1] + 1, **choices)
        assert len(path) == 6
        assert all(np.all(np.isfinite(v)) for _, v in path)


def test_weights_of_rows_are_their_number():
    X, y = oblique_classes(60)
    forest = grown(X, y, n_trees=3, depth=2, classes=CLASSES)
    goal_of = objective.of_forest
    weight = np.random.default_rng(0).integers(0, 4, 60).astype(float)
    every = np.repeat(np.arange(60), weight.astype(int))
    for choices in ({}, {"metric": "log_loss"}):
        found = []
        for part, w in ((np.arange(60), weight), (every, np.ones(len(every)))):
            target = objective.targets(forest.output, y[part], len(part))
            goal = goal_of(forest, target, **choices)
            table = design_of(forest, X[part])
            # The same problem but for the factor of the weights' mean.
            problem = leaf_refit.LeafLoss(forest, table, goal, target, w)
            loss, gradient = problem(forest.leaves.v)
            found.append((loss * w.mean(), gradient * w.mean()))
        assert np.isclose(found[0][0], found[1][0], rtol=1e-12)
        assert np.allclose(found[0][1], found[1][1], rtol=1e-10, atol=1e-12)


def test_counted_leaves_are_the_best_of_a_single_tree():
    rng = np.random.default_rng(0)
    leaf, w = rng.integers(0, 5, 80), rng.integers(0, 3, 80).astype(float)
    leaf[leaf == 3] = 2  # nothing reaches leaf 3
    y, label = rng.normal(size=(80, 2)), rng.integers(0, 3, 80)
    means, reached = counted_means(leaf, y, w, 5)
    levels = (0.25, 0.9)
    quantiles, also = counted_quantiles(leaf, y, w, 5, levels)
    p, _ = counted_probabilities(leaf, label, w, (5, 3))
    soft, _ = counted_probabilities(leaf, np.eye(3)[label], w, (5, 3))
    assert reached.tolist() == also.tolist() == [True, True, True, False, True]
    assert np.allclose(p, soft, rtol=1e-14)  # sums in another order
    assert np.array_equal(p[3], np.full(3, 1 / 3))
    for at in (0, 1, 2, 4):
        here = leaf == at
        assert np.allclose(means[at], np.average(y[here], axis=0, weights=w[here]))
        for k, level in enumerate(levels):
            z, weight = y[here, k], w[here]

            def loss(q, z=z, weight=weight, level=level):
                return (weight * np.maximum(level * (z - q), (level - 1) * (z - q))).sum()

            least = min(loss(q) for q in z)
            assert loss(quantiles[at, k]) <= least + 1e-12


def test_counted_quantiles_of_nothing_are_zeros():
    none = np.zeros(0)
    quantiles, reached = counted_quantiles(none.astype(int), none[:, None], none, 2, (0.5,))
    assert not reached.any()
    assert not quantiles.any()


def test_the_note_names_options_that_leaves_alone_ignore_and_asks_for_unseen_rows():
    X, y = oblique_classes(200)
    known = bitvec.convert(DecisionTreeClassifier(random_state=0).fit(X, y))
    given_rows = bitvec.retrain(
        known, X, y, validation=(X, y), trainable="v", schedule={"steps": 3, "patience": 2}
    )
    assert given_rows.note == (
        "Ignored: `steps`, `patience`, since leaves alone are solved as a convex problem."
    )
    shared_rows = bitvec.retrain(known, X, y, trainable="v")
    assert not shared_rows.improved  # every row is right already
    assert shared_rows.note.endswith("give rows that it has not seen as `validation`.")
