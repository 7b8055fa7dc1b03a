"""Trees fitted by TAO: the native tree, its history, its solvers and its options."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bitvec
from bitvec.converters.native.tao import from_tao
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.learners.tao import Verdict, fit_tao, tao_path
from bitvec.learners.tao.newton import newton_svm
from bitvec.learners.tao.oblique_cart import best_hyperplane, oblique_cart
from bitvec.learners.tao.sklearn_cart import cart
from bitvec.learners.tao.training_rows import make_rows, route

X, Y = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
STARTS = [("cart", False), ("random", False), ("cart", True), ("random", True)]


def objectives(result):
    return [each.objective for each in result.history]


@pytest.mark.parametrize(("start", "oblique"), [*STARTS, ("oblique_cart", True)])
def test_the_converted_tree_predicts_what_the_native_one_does(start, oblique):
    x, y = IRIS
    result = fit_tao(x, y, depth=3, start=start, oblique=oblique)
    rows = np.concatenate([x, x + 0.05, np.random.default_rng(0).standard_normal((50, 4)) * 3])
    forest = bitvec.convert(result.tree)
    assert np.array_equal(bitvec.compile(forest).predict(rows), result.tree.predict(rows))
    assert bitvec.certify(forest, result.tree, rows).passed
    assert np.sum(result.tree.predict(x) != y) == result.objective
    assert result.leaf_weight.sum() == len(y)


@pytest.mark.parametrize(("start", "oblique"), STARTS)
def test_a_monotone_fit_never_raises_the_objective(start, oblique):
    result = fit_tao(X, Y, depth=3, start=start, oblique=oblique, monotone=True, tol=0)
    assert objectives(result) == sorted(objectives(result), reverse=True)
    assert result.objective == objectives(result)[-1]
    assert result.objective < objectives(result)[0]


def test_a_sparse_monotone_fit_never_raises_loss_and_penalty():
    result = fit_tao(X, Y, depth=3, oblique=True, penalty="l1", lambda_=2, monotone=True, tol=0)
    assert objectives(result) == sorted(objectives(result), reverse=True)
    last = result.history[-1]
    assert last.objective == last.loss + last.penalty
    size = np.abs(result.optimised.W) @ X.std(axis=0)
    assert last.penalty == pytest.approx(2 * size.sum())


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer, load_diabetes])
def test_the_start_by_cart_is_cart(load):
    X, y = load(return_X_y=True)
    X = X.astype(np.float32).astype(np.float64)  # what CART reads
    kind, n_classes = DecisionTreeClassifier, int(y.max()) + 1
    if load is load_diabetes:
        kind, n_classes = DecisionTreeRegressor, None
    found = cart(X, y, np.ones(len(y)), n_classes, depth=6, seed=0)
    model = kind(max_depth=6, random_state=0).fit(X, y)
    inner = model.tree_.feature >= 0
    assert np.array_equal(found.feature, bitvec.convert(model).tests.column)
    assert np.array_equal(np.sort(found.threshold), np.sort(model.tree_.threshold[inner]))


def test_passes_that_end_above_the_start_are_followed_by_monotone_ones():
    X, Y = load_breast_cancer(return_X_y=True)
    cart = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    options = {"start": bitvec.convert(cart), "oblique": True, "C": 1e-4}
    free, monotone = fit_tao(X, Y, **options), fit_tao(X, Y, **options, monotone=True)
    start, first, *later = objectives(free)
    assert first > start
    assert later == objectives(monotone)[1:]
    assert free.objective == monotone.objective <= start


def test_the_best_tree_on_the_way_is_returned():
    result = fit_tao(X, Y, depth=4, start="random", oblique=True, C=0.01, tol=0)
    assert np.sum(result.tree.predict(X) != Y) == result.objective == min(objectives(result))


@pytest.mark.parametrize("oblique", [False, True])
def test_seed_and_data_determine_the_tree_and_threads_do_not(oblique):
    trees = [
        fit_tao(X, Y, depth=3, start="random", oblique=oblique, seed=4, n_jobs=jobs).tree
        for jobs in (1, 2, 1)
    ]
    for tree in trees[1:]:
        assert tree.W.weight.tobytes() == trees[0].W.weight.tobytes()
        assert tree.bias.tobytes() == trees[0].bias.tobytes()
    other = fit_tao(X, Y, depth=3, start="random", oblique=oblique, seed=5).tree
    assert other.bias.tobytes() != trees[0].bias.tobytes()


def test_sparse_trees_do_not_depend_on_threads_either():
    given = {"depth": 3, "start": "random", "oblique": True, "penalty": "l1", "seed": 1}
    one, two = (fit_tao(X, Y, n_jobs=jobs, **given).tree for jobs in (1, 2))
    assert one.W.weight.tobytes() == two.W.weight.tobytes()


def hinges(w, x, weight, C):
    """The objective of the support vector machine, w with the offset last."""
    short = np.maximum(0, 1 - np.where(Y, 1, -1) * (x @ w[:-1] + w[-1]))
    return w @ w / 2 + C * weight @ short**2


def test_newton_finds_the_minimum_that_liblinear_finds():
    rng = np.random.default_rng(0)
    x, weight = (X - X.mean(axis=0)) / X.std(axis=0), rng.random(len(X))
    for C in (0.01, 1.0, 100.0):
        w = rng.standard_normal(X.shape[1] + 1)
        given = (X.mean(axis=0), X.std(axis=0), np.where(Y, 1.0, -1.0), weight)
        newton_svm(X, np.arange(len(X)), *given, C, 1e-12, 100, w)
        machine = LinearSVC(C=C, dual=False, tol=1e-10, max_iter=10000)
        machine.fit(x, Y, sample_weight=weight)

        expected = np.append(machine.coef_[0], machine.intercept_)
        # Both end where a tolerance on the gradient or on the gain is met, not at the minimum.
        assert hinges(w, x, weight, C) <= hinges(expected, x, weight, C) * (1 + 1e-6)
        assert w == pytest.approx(expected, rel=1e-2, abs=1e-3)


def test_more_columns_than_a_hessian_is_formed_for_go_to_liblinear():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((80, 300))
    y = (wide[:, 0] + wide[:, 1] > 0).astype(int)
    result = fit_tao(wide, y, depth=1, oblique=True)
    assert result.objective == 0


def test_cost_decides_labels():
    x, y = np.zeros((5, 1)), np.array([0, 0, 0, 1, 1])
    assert fit_tao(x, y, depth=1).tree.predict(x).tolist() == [0] * 5
    assert fit_tao(x, y, depth=1, cost=[[0, 1], [5, 0]]).tree.predict(x).tolist() == [1] * 5


def test_weights_of_whole_numbers_are_copies_of_rows():
    x, y = IRIS
    weight = np.random.default_rng(0).integers(0, 3, len(x))
    start = DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, y)
    weighted = fit_tao(x, y, sample_weight=weight, start=start)
    copies = fit_tao(np.repeat(x, weight, axis=0), np.repeat(y, weight), start=start)
    assert objectives(weighted) == objectives(copies)


def test_rows_of_weight_nothing_do_not_count():
    x, y = IRIS
    wrong = np.where(np.arange(len(x)) % 3 == 0, 2 - y, y)
    weight = (np.arange(len(x)) % 3 != 0).astype(float)
    result = fit_tao(x, wrong, sample_weight=weight, depth=2)
    assert result.objective <= 6


@pytest.mark.parametrize("oblique", [False, True])
def test_values_are_fitted_in_squares(oblique):
    x, y = DIABETES
    given = {"depth": 3, "oblique": oblique, "start": "random"}
    constant = fit_tao(x, y, **given)
    linear = fit_tao(x, y, leaves="linear", ridge=1.0, **given)
    for result in (constant, linear):
        gaps = (result.tree.predict(x) - y) ** 2
        assert gaps.sum() == pytest.approx(result.objective)
        assert result.objective < result.history[0].objective
        forest = bitvec.convert(result.tree)
        assert np.array_equal(bitvec.compile(forest).predict(x), result.tree.predict(x))
    assert linear.objective < constant.objective


def test_several_outputs_are_fitted_together():
    x, y = DIABETES
    both = np.stack([y, -2 * y], axis=1)
    result = fit_tao(x, both, depth=3)
    alone = fit_tao(x, y, depth=3)
    assert result.objective == pytest.approx(5 * alone.objective)
    assert result.tree.predict(x)[:, 1] == pytest.approx(-2 * result.tree.predict(x)[:, 0])


def test_a_pass_from_a_fitted_tree_in_any_form_is_the_same():
    x, y = IRIS
    x = x.astype(np.float32)  # in which CART compares
    cart = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x, y)
    results = [
        fit_tao(x, y, start=start, depth=3) for start in (cart, bitvec.convert(cart), "cart")
    ]
    assert objectives(results[0]) == objectives(results[1]) == objectives(results[2])
    assert results[0].history[0].objective == np.sum(cart.predict(x) != y)


def test_a_native_tree_is_a_start():
    stump = from_tao(
        feature=[0],
        threshold=[5.0],
        n_features=4,
        left=[-1],
        right=[-2],
        V=np.eye(3)[:2],
        classes=[0, 1, 2],
    )
    result = fit_tao(*IRIS, start=stump)
    assert result.tree.n_nodes == 1
    assert result.objective == 50


def test_a_fitted_tree_is_where_the_next_fit_starts():
    first = fit_tao(X, Y, depth=3, oblique=True)
    second = fit_tao(X, Y, start=first.tree, oblique=True)
    assert second.history[0].objective == first.objective


def test_sparser_trees_for_stronger_penalties():
    points = tao_path(X, Y, [100.0, 1.0, 10.0], depth=3)
    assert [point.lambda_ for point in points] == [1.0, 10.0, 100.0]
    sizes = [point.n_weights for point in points]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert points[0].mean_operations > points[-1].mean_operations
    for point in points:
        assert point.n_weights == np.count_nonzero(point.result.tree.W.weight)
        assert point.n_leaves == point.result.tree.n_leaves


def test_a_penalty_that_is_too_strong_leaves_one_leaf():
    result = fit_tao(X, Y, depth=2, oblique=True, penalty="l1", lambda_=1e6)
    assert result.tree.n_nodes == 0
    assert result.mean_operations == 0


def test_rows_of_one_class_make_one_leaf():
    for oblique in (False, True):
        result = fit_tao(X, np.ones(len(X), int), start="random", depth=3, oblique=oblique)
        assert result.tree.n_nodes == 0
        assert np.all(result.tree.predict(X) == 1)


def test_statistics_say_what_became_of_each_node():
    result = fit_tao(X, Y, depth=3)
    nodes = result.nodes
    assert nodes.n_rows[0] == len(X)
    assert np.all(nodes.n_care <= nodes.n_rows)
    assert np.all(nodes.after <= nodes.before)
    # The last pass of an axis-aligned fit is the one in which nothing moved.
    assert not np.any(nodes.verdict == Verdict.ACCEPTED)


def test_progress_hears_of_every_pass():
    heard = []
    result = fit_tao(X, Y, depth=2, progress=heard.append)
    assert tuple(heard) == result.history


def test_operations_and_parameters_are_counted():
    result = fit_tao(X, Y, depth=2)
    rows = make_rows(X, n_threads=1, is_sorted=False)
    steps = (route(rows, result.optimised) >= 0).sum() / len(X)
    assert result.mean_operations <= steps
    assert result.n_parameters == result.n_weights + result.tree.n_nodes + result.tree.n_leaves


def test_descent_beats_the_best_axis_aligned_split():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    y = np.eye(2)[(x @ [1.0, -1.0, 0.5] > 0.2).astype(int)]
    w = np.zeros(4)
    none, some = np.zeros((0, 4)), rng.standard_normal((4, 4))
    weight = np.ones(300)
    axis = best_hyperplane(x, y, weight, none, 0, w)
    assert np.count_nonzero(w[:3]) == 1
    descended = best_hyperplane(x, y, weight, none, 20, w)
    restarted = best_hyperplane(x, y, weight, some, 20, w)
    assert axis < descended <= restarted <= 300
    right = x @ w[:3] + w[3] > 0
    quality = sum((y[side].sum(axis=0) ** 2).sum() / side.sum() for side in (right, ~right))
    assert quality == pytest.approx(restarted)


def test_oblique_cart_stops_where_there_is_nothing_to_split():
    x, y = np.zeros((4, 2)), np.eye(2)[[0, 1, 0, 1]]
    given = {"restarts": 2, "seed": 0, "dtype": np.dtype(np.float64)}
    tree = oblique_cart(x, y, np.ones(4), depth=3, **given)
    assert tree.n_nodes == 0
    assert tree.V.tolist() == [[0.5, 0.5]]


BAD = [
    ({"X": [[np.nan]] * 2}, "`X` must be finite"),
    ({"X": [1, 2]}, "`X` must be numbers of shape"),
    ({"y": [0, 1, 1]}, "one entry for each of the 2 rows"),
    ({"y": [0, -1]}, "class number"),
    ({"y": ["a", "b"]}, "must be numbers"),
    ({"depth": -1}, "`depth` must be a whole number from 0 on, got -1"),
    ({"depth": 2.5}, "`depth` must be a whole number from 0 on, got 2.5"),
    ({"depth": 21}, "`depth` must lie in 0 ... 20, got 21"),
    ({"oblique": "a"}, "`oblique` must be True or False, got 'a'"),
    ({"monotone": None}, "`monotone` must be True or False, got None"),
    ({"tol": -1}, "`tol` must not be negative"),
    ({"tol": "a"}, "`tol` must not be negative"),
    ({"max_iter": -1}, "`max_iter` must be a whole number from 0 on, got -1"),
    ({"restarts": 0}, "`restarts` must be a whole number from 1 on, got 0"),
    ({"seed": -1}, "`seed` must be a whole number from 0 on, got -1"),
    ({"n_classes": "a"}, "`n_classes` must be a whole number from 1 on, got 'a'"),
    ({"C": "a"}, "`C` must be above 0"),
    ({"cost": "a"}, "`cost` must be 2 x 2 finite numbers .*, got text"),
    ({"sample_weight": ["1", "1"]}, "`sample_weight` must be 2 finite numbers .*, got text"),
    ({"start": "oblique_cart"}, "`start` must be one of"),
    ({"start": 3}, "a fitted scikit-learn tree"),
    ({"cost": [[0]]}, "`cost` must be 2 x 2"),
    ({"cost": [[0, -1], [1, 0]]}, "not negative"),
    ({"penalty": "l3"}, "`penalty` must be"),
    ({"lambda_": 0}, "`lambda_` must be"),
    ({"leaves": "linear"}, "`leaves` must be"),
    ({"sample_weight": [0, 0]}, "must not be 0"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input_is_refused(options, message):
    given = {"X": [[0.0], [1.0]], "y": [0, 1], **options}
    with pytest.raises(InputError, match=message):
        fit_tao(given.pop("X"), given.pop("y"), **given)


def test_a_start_that_is_no_plain_tree_is_refused():
    x, y = IRIS
    cart = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x, y)
    forest = bitvec.convert(cart)
    with pytest.raises(UnsupportedModelError, match="must be one tree"):
        fit_tao(x, y, start=forest.take([0, 0]))
    with pytest.raises(InputError, match="must read 3 columns"):
        fit_tao(x[:, :3], y, start=forest)
    oblique = fit_tao(x, y, depth=1, oblique=True).tree
    with pytest.raises(InputError, match="pass oblique=True"):
        fit_tao(x, y, start=oblique)
