"""TAO's scikit-learn estimators: their conventions, their probabilities, their paths."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitvec
from bitvec.errors import InputError
from bitvec.learners.sklearn_base import SEEDS
from bitvec.learners.tao import Verdict, fit_tao
from bitvec.learners.tao.sklearn import TAOClassifier, TAORegressor, class_shares, with_labels

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
OBLIQUE = {"oblique": True, "max_depth": 2, "random_state": 0}
OTHERS = [
    TAOClassifier(**OBLIQUE),
    TAOClassifier(**OBLIQUE, start="oblique_cart"),
    TAOClassifier(**OBLIQUE, penalty="l1"),
    TAOClassifier(max_depth=2, start="random", smoothing=1.0, random_state=0),
    TAORegressor(**OBLIQUE),
    TAORegressor(max_depth=2, leaves="linear", random_state=0),
]


@pytest.mark.full
@parametrize_with_checks([TAOClassifier(random_state=0)])
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks([TAORegressor(random_state=0)])
def test_a_regressor_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(OTHERS)
def test_passes_the_checks_of_scikit_learn_with_other_options(estimator, check):
    if "sample_weight_equivalence" in check.func.__name__:
        pytest.skip("random hyperplanes and the deviations of columns are those of the rows given")
    check(estimator)


@pytest.mark.parametrize("options", [{}, OBLIQUE, {"start": "random", "prune": False}])
def test_labels_are_those_of_the_tree_that_was_optimised(options):
    X, y = IRIS
    model = TAOClassifier(**{"max_depth": 3, "random_state": 0, **options}).fit(X, NAMES[y])
    expected = model.classes_[model.result_.tree.predict(X)]
    assert np.array_equal(model.predict(X), expected)
    assert np.sum(expected != NAMES[y]) == model.objective_
    assert model.predict(X).dtype == NAMES.dtype


def test_probabilities_are_the_shares_of_training_rows_at_the_leaf():
    X, y = WINE
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    model = TAOClassifier(max_depth=2, random_state=0).fit(X, y, weight)
    leaf = model.apply(X)[:, 0]
    for number in np.unique(leaf):
        at = leaf == number
        shares = np.bincount(y[at], weight[at], 3) / weight[at].sum()
        assert model.predict_proba(X[at]) == pytest.approx(np.tile(shares, (at.sum(), 1)))
    assert np.array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    smooth = clone(model).set_params(smoothing=1.0).fit(X, y, weight)
    assert np.array_equal(smooth.predict(X), model.predict(X))
    assert smooth.predict_proba(X).min() > 0


@given(
    arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(2, 4)), elements=st.integers(0, 3)),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.data(),
)
def test_the_first_of_the_largest_shares_is_the_label(counts, smoothing, data):
    best = [np.flatnonzero(row == row.max()).tolist() for row in counts]
    label = np.array([data.draw(st.sampled_from(options)) for options in best])
    shares = class_shares(counts.astype(float), label, smoothing)
    told = with_labels(shares, label)
    assert np.array_equal(told.argmax(axis=1), label)
    assert np.abs(told - shares).max() <= np.spacing(1.0)
    assert shares.sum(axis=1) == pytest.approx(1)
    empty = counts.sum(axis=1) == 0
    if smoothing == 0:
        assert np.array_equal(shares[empty], np.eye(counts.shape[1])[label[empty]])


def test_a_leaf_that_no_row_reaches_answers_its_label():
    X, y = IRIS
    model = TAOClassifier(max_depth=5, start="random", prune=False, random_state=0).fit(X, y)
    unreached = model.result_.leaf_weight.sum(axis=1) == 0
    assert unreached.any()
    assert set(np.unique(model.tree_.V[unreached])) == {0.0, 1.0}


def test_with_costs_labels_are_cheapest_and_probabilities_are_shares():
    X, y = np.zeros((5, 1)), np.array(["fine", "fine", "fine", "ill", "ill"])
    model = TAOClassifier(max_depth=1, cost=[[0, 1], [5, 0]], random_state=0).fit(X, y)
    assert set(model.predict(X)) == {"ill"}
    assert model.predict_proba(X)[0].tolist() == [0.6, 0.4]
    assert set(bitvec.compile(model.forest_).predict(X)) == {"ill"}
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba(X)[0].tolist() == [0.6, 0.4]


@pytest.mark.parametrize(
    "y",
    [
        IRIS[1] * 10 - 5,
        IRIS[1].astype(np.float64),
        NAMES[IRIS[1]],
        NAMES[IRIS[1]].astype(object),
        IRIS[1] == 1,
    ],
    ids=["negative", "float", "text", "object", "bool"],
)
def test_labels_of_any_dtype_come_back(y):
    model = TAOClassifier(max_depth=3, random_state=0).fit(IRIS[0], y)
    assert model.predict(IRIS[0]).dtype == y.dtype
    assert model.score(IRIS[0], y) > 0.9
    assert list(model.classes_) == sorted(set(y.tolist()))


@pytest.mark.parametrize("oblique", [False, True])
def test_the_forest_and_the_tree_predict_the_same_and_are_certified(oblique):
    X, y = WINE
    for model in (
        TAOClassifier(max_depth=3, oblique=oblique, random_state=0).fit(X, y),
        TAORegressor(max_depth=2, oblique=oblique, leaves="linear", random_state=0).fit(X, y),
    ):
        assert np.array_equal(model.tree_.predict(X), model.predict(X))
        assert np.array_equal(bitvec.compile(model.forest_).predict(X), model.predict(X))
        assert bitvec.certify(model.forest_, model.tree_, X).passed


def test_a_pickled_model_and_a_clone_fit_the_same():
    X, y = WINE
    model = TAOClassifier(oblique=True, max_depth=3, random_state=4).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.result_.objective == model.objective_
    twin = clone(model).fit(X, y)
    assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))


def test_names_of_columns_reach_the_forest_and_are_compared():
    frame = load_iris(as_frame=True).data
    model = TAOClassifier(max_depth=2, random_state=0).fit(frame, IRIS[1])
    assert model.forest_.inputs.feature_names == tuple(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={frame.columns[0]: "other"}))
    assert np.array_equal(model.predict(frame), model.predict(pd.DataFrame(frame)))


def test_missing_values_are_refused_in_words():
    X = IRIS[0].copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        TAOClassifier().fit(X, IRIS[1])
    with pytest.raises(ValueError, match="NaN"):
        TAORegressor().fit(IRIS[0], IRIS[1]).predict(X)


def test_history_and_statistics_of_care_rows_are_kept():
    model = TAOClassifier(max_depth=3, random_state=0).fit(*WINE)
    objectives = [each.objective for each in model.history_]
    assert objectives[-1] == model.objective_ <= objectives[0]
    assert model.n_iter_ == len(objectives) - 1
    nodes = model.node_statistics_
    assert np.all(nodes.n_care <= nodes.n_rows)
    assert not np.any(nodes.verdict == Verdict.ACCEPTED)


def test_verbose_prints_each_pass(capsys):
    model = TAOClassifier(max_depth=2, random_state=0, verbose=True).fit(*IRIS)
    lines = capsys.readouterr().err.splitlines()
    told = [line for line in lines if line.startswith("pass ")]
    assert len(told) == model.n_iter_ + 1
    assert f"objective {model.objective_ / 150:.6g} a row" in told[-1]


def test_a_converted_tree_and_a_fitted_one_are_starts():
    X, y = WINE
    cart = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    model = TAOClassifier(start=bitvec.convert(cart)).fit(X, y)
    assert model.history_[0].objective == np.sum(cart.predict(X) != y)
    further = TAOClassifier(start=model.tree_, oblique=True)
    assert clone(further).fit(X, y).history_[0].objective == model.objective_


def test_a_path_gives_estimators_by_rising_penalty():
    X, y = WINE
    path = TAOClassifier(max_depth=2, random_state=0).path(X, NAMES[y], [100, 1, 10])
    assert [model.lambda_ for model in path] == [1, 10, 100]
    sizes = [model.result_.n_weights for model in path]
    assert sizes == sorted(sizes, reverse=True)
    for model in path:
        assert model.penalty == "l1"
        assert np.array_equal(model.predict(X), model.classes_[model.result_.tree.predict(X)])
    values = TAORegressor(max_depth=2, random_state=0).path(*DIABETES, [1e4, 1e5])
    assert values[0].score(*DIABETES) > 0.3


def test_values_of_several_outputs():
    X, y = DIABETES
    both = np.stack([y, -y], axis=1)
    model = TAORegressor(max_depth=3, random_state=0).fit(X, both)
    assert model.predict(X).shape == both.shape
    assert model.score(X, both) == pytest.approx(
        TAORegressor(max_depth=3, random_state=0).fit(X, y).score(X, y)
    )
    gaps = (model.predict(X) - both) ** 2
    assert gaps.sum() == pytest.approx(model.objective_)


def test_it_is_an_estimator_in_a_pipeline_and_a_search():
    X, y = WINE
    model = make_pipeline(StandardScaler(), TAOClassifier(random_state=0))
    search = GridSearchCV(model, {"taoclassifier__max_depth": [1, 3]}, cv=2).fit(X, NAMES[y])
    assert search.best_params_ == {"taoclassifier__max_depth": 3}


def test_the_tree_is_that_of_fit_tao():
    X, y = WINE
    tree = fit_tao(X, y, depth=3, seed=np.random.RandomState(0).randint(SEEDS)).tree
    model = TAOClassifier(max_depth=3, random_state=0).fit(X, y)
    assert np.array_equal(model.tree_.bias, tree.bias)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smoothing": -1}, "`smoothing` must not be negative"),
        ({"smoothing": "a"}, "`smoothing` must not be negative .*, got 'a'"),
        ({"cost": "a"}, "`cost` must be 3 x 3 finite numbers .*, got text"),
        ({"cost": [["0", "1", "1"]] * 3}, "`cost` must be 3 x 3 finite numbers .*, got text"),
        ({"cost": [[0.0, 1.0], [1.0]]}, "`cost` must be 3 x 3 finite numbers .*, got text"),
        ({"oblique": "a"}, "`oblique` must be True or False, got 'a'"),
        ({"monotone": 1}, "`monotone` must be True or False, got 1"),
        ({"prune": "False"}, "`prune` must be True or False, got 'False'"),
        ({"max_iter": -1}, "`max_iter` must be a whole number from 0 on, got -1"),
        ({"penalty": None}, "`penalty` must be"),
        ({"start": 3}, "`start` must be one of .*, got int"),
        ({"max_depth": 99}, "`max_depth` must be at most 20, got 99"),
        ({"start": "forest"}, "`start` must be one of"),
        ({"cost": np.eye(2)}, "`cost` must be 3 x 3"),
        ({"penalty": "l3"}, "`penalty` must be"),
    ],
)
def test_options_out_of_place_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        TAOClassifier(**options).fit(*IRIS)


@pytest.mark.parametrize(
    "options",
    [
        {"oblique": True, "start": "cart"},
        {"oblique": True, "start": "cart", "penalty": "l1"},
        {"oblique": True},
        {"oblique": False},
    ],
)
def test_rows_of_no_weight_are_as_good_as_none(options: dict[str, Any]) -> None:
    X, y = load_iris(return_X_y=True)
    far = np.concatenate([X, np.full((1, 4), 1e6)])
    weight = np.append(np.ones(len(X)), 0.0)
    model = TAOClassifier(max_depth=3, random_state=0, **options)
    with_it = clone(model).fit(far, np.append(y, 0), sample_weight=weight)
    without = clone(model).fit(X, y)
    assert np.array_equal(with_it.predict_proba(X), without.predict_proba(X))


@pytest.mark.parametrize("transform", [lambda X: X + 1e9, lambda X: X * 1e-40])
def test_the_start_by_cart_sees_what_float32_does_not(transform: Any) -> None:
    X, y = load_iris(return_X_y=True)
    plain = TAOClassifier(max_depth=3, random_state=0).fit(X, y)
    moved = TAOClassifier(max_depth=3, random_state=0).fit(transform(X), y)
    assert moved.history_[0].objective == plain.history_[0].objective


def test_a_start_must_be_fitted_and_clones_keep_its_forest() -> None:
    says = "`start` must be a fitted tree, got a TAOClassifier that is not fitted: .* `forest_`"
    with pytest.raises(InputError, match=says):
        TAOClassifier(start=TAOClassifier()).fit(*IRIS)
    start = TAOClassifier(max_depth=2, random_state=0).fit(*IRIS)
    model = TAOClassifier(start=start).fit(*IRIS)
    assert model.history_[0].objective == start.objective_
    with pytest.raises(InputError, match=says):
        clone(model).fit(*IRIS)
    assert clone(TAOClassifier(start=start.forest_)).fit(*IRIS).objective_ == model.objective_


@pytest.mark.parametrize("lambdas", [3.0, ["a"], [], [1.0, -1.0], None, [[1.0]]])
def test_penalties_of_a_path_are_numbers_above_0(lambdas: Any) -> None:
    with pytest.raises(InputError, match="`lambdas` must be a list of at least one number above 0"):
        TAOClassifier(max_depth=1).path(*IRIS, lambdas)


def test_weights_must_be_numbers() -> None:
    with pytest.raises(InputError, match=r"`sample_weight` must hold 150 .*, got text"):
        TAOClassifier().fit(*IRIS, ["1"] * 150)


def test_large_rows_route_right_where_one_column_is_compared_and_are_refused_elsewhere() -> None:
    X, y = IRIS
    size = 2.0**990
    plain, large = (TAOClassifier(max_depth=3, random_state=0).fit(X * s, y) for s in (1, size))
    assert np.array_equal(large.predict(X * size), plain.predict(X))
    assert large.objective_ == plain.objective_
    with pytest.raises(InputError, match=r"`X` must not hold numbers beyond 1e\+100"):
        TAOClassifier(max_depth=3, oblique=True).fit(X * size, y)
    with pytest.raises(InputError, match=r"`X` must not hold numbers beyond 1e\+100"):
        TAORegressor(max_depth=3, leaves="linear").fit(X * size, y)
    with pytest.raises(InputError, match=r"`y` must not hold numbers beyond 1e\+100"):
        TAORegressor(max_depth=3).fit(X, y * 1e155)
    with pytest.raises(InputError, match="`y` must be constant or differ by at least"):
        TAORegressor(max_depth=3).fit(X, y * 1e-170)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"oblique": True},
        {"leaves": "linear"},
        pytest.param({"oblique": True, "start": "oblique_cart"}, marks=pytest.mark.full),
        pytest.param({"start": "random", "prune": False}, marks=pytest.mark.full),
    ],
)
def test_a_constant_that_is_added_to_all_values_is_added_to_the_leaves(options: Any) -> None:
    X, y = DIABETES
    far = 2.0**40  # about 1e12, to which a whole number is added exactly
    model = TAORegressor(max_depth=3, random_state=0, **options)
    plain, moved = clone(model).fit(X, y), clone(model).fit(X, y + far)
    assert np.array_equal(moved.tree_.bias, plain.tree_.bias)
    assert np.array_equal(moved.apply(X), plain.apply(X))
    assert moved.objective_ == plain.objective_
    # A leaf's value is rounded, and once for each column where it is linear.
    roundings = 1 + (X.shape[1] if "leaves" in options else 0)
    assert np.allclose(moved.predict(X), plain.predict(X) + far, rtol=roundings * 2.0**-52, atol=0)


def test_a_tree_of_such_values_is_a_start_and_a_path_goes_on_from_it() -> None:
    X, y = DIABETES
    far = 2.0**40
    first = TAORegressor(max_depth=2, random_state=0).fit(X, y + far)
    again = TAORegressor(start=first.forest_).fit(X, y + far)
    assert again.history_[0].objective == pytest.approx(first.objective_, rel=1e-6)
    path = TAORegressor(max_depth=2, random_state=0).path(X, y + far, [1e4, 1e5])
    assert [model.score(X, y + far) > 0.3 for model in path] == [True, True]
    assert np.all(np.abs(path[1].result_.optimised.V - far) < 1e3)


def test_values_of_a_leaf_that_holds_one_come_back_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    X = np.arange(32.0)[:, None]
    for y in (rng.standard_normal(32), rng.integers(0, 9, 32) + 1e9, np.full(32, 0.1)):
        assert np.array_equal(TAORegressor(max_depth=20).fit(X, y).predict(X), y)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (TAOClassifier, {"oblique": True, "max_depth": 2}),
        (TAOClassifier, {"start": "random", "max_depth": 3}),
        (TAORegressor, {"start": "random", "max_depth": 2}),
    ],
)
def test_of_random_starts_the_best_after_two_passes_is_kept(
    make: Any, options: dict[str, Any]
) -> None:
    found = []
    for restarts in (1, 2, 3, 6):
        model = make(random_state=1, restarts=restarts, max_iter=2, **options).fit(*WINE)
        found.append(model.objective_)
        assert found[-1] == min(each.objective for each in model.history_)
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]


def test_an_oblique_start_that_collapses_is_not_the_only_one() -> None:
    """Of two leaves, three classes cannot come right."""
    n_leaves = {
        restarts: [
            TAOClassifier(oblique=True, max_depth=2, random_state=seed, restarts=restarts)
            .fit(*WINE)
            .tree_.n_leaves
            for seed in range(6)
        ]
        for restarts in (1, 5)
    }
    assert min(n_leaves[1]) == 2
    assert min(n_leaves[5]) > 2


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_the_size_of_all_weights_does_not_matter(size: float) -> None:
    X, y = load_iris(return_X_y=True)
    plain = TAOClassifier(max_depth=3, random_state=0).fit(X, y)
    other = TAOClassifier(max_depth=3, random_state=0).fit(X, y, np.full(len(y), size))
    assert np.array_equal(other.predict(X), plain.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_depth": None}, "`max_depth` must be a whole number from 1 on, got None"),
        ({"max_iter": 1.5}, "`max_iter` must be a whole number from 0 on, got 1.5"),
        ({"restarts": "a"}, "`restarts` must be a whole number from 1 on, got 'a'"),
        ({"tol": -1}, "`tol` must not be negative"),
        ({"C": "a"}, "`C` must be above 0"),
        ({"lambda_": np.nan}, "`lambda_` must be above 0"),
    ],
)
def test_options_of_no_use_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match=message):
        TAOClassifier(**options).fit(X, y)
