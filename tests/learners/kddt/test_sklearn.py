"""The estimators: scikit-learn's own checks, and what they promise besides."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitvec
from bitvec.converters.native import from_kddt_forest
from bitvec.core.kernels import FeatureKernel, box
from bitvec.learners.kddt.sklearn import KDDTClassifier, KDDTRegressor
from bitvec.learners.kddt.sklearn_forests import (
    KDDTExtraTreesClassifier,
    KDDTExtraTreesRegressor,
    KDDTRandomForestClassifier,
    KDDTRandomForestRegressor,
)

SINGLE = (KDDTClassifier, KDDTRegressor)
FORESTS = (
    KDDTRandomForestClassifier,
    KDDTRandomForestRegressor,
    KDDTExtraTreesClassifier,
    KDDTExtraTreesRegressor,
)
QUICK: dict[str, Any] = {"bandwidth": "silverman", "max_depth": 6}


@pytest.mark.parametrize("kind", [*SINGLE, *FORESTS])
def test_the_order_of_memory_does_not_matter(kind: Any) -> None:
    X, y = load_wine(return_X_y=True)
    model = kind(**QUICK, random_state=0)
    one, other = (clone(model).fit(Z, y) for Z in (X, np.asfortranarray(X)))
    assert bitvec.files.identical(one.forest_, other.forest_)


def known(estimator: Any) -> dict[str, str]:
    """Return what a forest cannot pass: drawing rows is not drawing copies of them."""
    if not getattr(estimator, "bootstrap", False):
        return {}
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": "rows are drawn"
        for kind in ("dense", "sparse")
    }


@pytest.mark.full
@parametrize_with_checks([make(**QUICK) for make in SINGLE[:1]])
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [make(**QUICK) for make in SINGLE[1:]] + [make(n_estimators=3, **QUICK) for make in FORESTS],
    expected_failed_checks=known,
)
def test_others_pass_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("kernel", ["box", "gaussian"])
@pytest.mark.parametrize("make", [KDDTClassifier, KDDTRandomForestClassifier])
def test_the_forest_is_certified_against_the_native_trees(
    make: Any, kernel: str, wine: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = wine
    options = {"n_estimators": 3} if make is not KDDTClassifier else {}
    model = make(bandwidth=0.3, kernel=kernel, n_pieces=6, max_depth=4, random_state=0, **options)
    model.fit(X, y)
    native = model.tree_ if not options else from_kddt_forest(model.trees_)
    certificate = bitvec.certify(model.forest_, native, X[:50])
    assert certificate.passed
    assert np.array_equal(model.predict_proba(X), native.raw(X))


def test_no_bandwidth_is_cart(wine: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = wine
    ours = KDDTClassifier(bandwidth=None, predict_kernel=None).fit(X, y)
    theirs = DecisionTreeClassifier(random_state=0).fit(X, y)
    assert ours.forest_.n_leaves == theirs.get_n_leaves()
    assert np.array_equal(ours.predict(X), y)


def test_crisp_prediction_takes_one_leaf(wine: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = wine
    model = KDDTClassifier(bandwidth=0.2, predict_kernel=None).fit(X, y)
    assert model.forest_.kernel is None
    assert np.array_equal(model.predict_proba(X), model.tree_.V[model.tree_.decide(X)])


def test_another_prediction_kernel_has_its_own_bandwidth() -> None:
    X, y = load_iris(return_X_y=True)
    model = KDDTClassifier(bandwidth=0.2, predict_kernel="gaussian", predict_bandwidth=0.1)
    model.fit(X, y)
    assert model.forest_.kernel is not None
    for kernel in model.forest_.kernel:
        assert kernel is not None
        assert kernel.bandwidth.tolist() == [0.1]
        assert kernel.edges.size == 25


def test_cross_validation_leaves_bandwidths_that_cannot_win() -> None:
    X, y = load_iris(return_X_y=True)
    grid = [0.01, 0.1, 1.0, 30.0]
    model = KDDTClassifier(bandwidths=grid, random_state=0).fit(X, y)
    found = model.search_
    assert found is not None
    assert np.isnan(found.score[3, 0])
    assert found.n_grown < 20
    at = int(np.nanargmax(found.score[:, 0]))
    assert np.allclose(model.bandwidth_, grid[at] * X.std(axis=0))
    # Each bandwidth alone scores the same: none was left that could have won.
    for place, width in enumerate(grid):
        alone = KDDTClassifier(bandwidths=[width], random_state=0).fit(X, y).search_
        assert alone is not None
        assert alone.score[0, 0] <= found.score[at, 0]
        assert np.isnan(found.score[place, 0]) or alone.score[0, 0] == found.score[place, 0]


@pytest.mark.parametrize("rule", ["silverman", "likelihood"])
def test_rules_follow_the_units_of_each_feature(rule: str) -> None:
    X, y = load_iris(return_X_y=True)
    scale = np.array([1.0, 4.0, 0.125, 1024.0])
    plain = KDDTClassifier(bandwidth=rule).fit(X, y)
    scaled = KDDTClassifier(bandwidth=rule).fit(X * scale, y)
    assert np.all(plain.bandwidth_ > 0)
    assert np.allclose(scaled.bandwidth_, plain.bandwidth_ * scale, rtol=1e-12)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_probabilities_as_y_are_labels_where_they_are_sure(criterion: str) -> None:
    X, y = load_iris(return_X_y=True)
    sure = KDDTClassifier(bandwidth=0.2, criterion=criterion).fit(X, y)
    shares = pd.DataFrame(np.eye(3)[y], columns=["a", "b", "c"])
    fuzzy = KDDTClassifier(bandwidth=0.2, criterion=criterion).fit(X, shares)
    assert fuzzy.classes_.tolist() == ["a", "b", "c"]
    # Sums are added in another order, which rounding may show.
    assert np.allclose(fuzzy.predict_proba(X), sure.predict_proba(X), rtol=0, atol=1e-12)
    half = np.full((150, 3), [0.5, 0.5, 0.0])
    flat = KDDTClassifier(bandwidth=0.2, criterion=criterion).fit(X, half)
    assert flat.forest_.n_leaves == 1
    assert flat.predict_proba(X[:1]).tolist() == [[0.5, 0.5, 0.0]]


def test_uncertain_values_weigh_like_their_kernels() -> None:
    X, y = load_iris(return_X_y=True)
    as_kernel = KDDTClassifier(bandwidth=0.3).fit(X, y)
    as_values = KDDTClassifier(bandwidth=0.3).fit(X, y, uncertainty=np.full(X.shape, 0.3))
    assert bitvec.files.identical(as_kernel.forest_, as_values.forest_)
    unlike = np.full(X.shape, 0.3)
    unlike[:50] = 0
    other = KDDTClassifier(bandwidth=0.3).fit(X, y, uncertainty=unlike)
    assert not np.array_equal(other.tree_.tau, as_kernel.tree_.tau)


def test_bandwidths_by_location_and_asymmetric_kernels_fit_and_predict() -> None:
    X, y = load_iris(return_X_y=True)
    skewed = FeatureKernel(
        np.array([-0.5, 0.0, 2.0]), np.array([0.75, 0.25]), np.array([0.1, 0.4]), np.array([3.0])
    )
    model = KDDTClassifier(kernel=[skewed] * 4, bandwidth=1.0).fit(X, y)
    assert np.array_equal(model.predict_proba(X), model.tree_.raw(X))
    assert model.score(X, y) > 0.9


def test_several_outputs_share_one_tree() -> None:
    X, y = load_diabetes(return_X_y=True)
    both = np.stack([y, -2 * y], axis=1)
    model = KDDTRegressor(bandwidth="silverman", min_weight=20).fit(X, both)
    one = KDDTRegressor(bandwidth="silverman", min_weight=20).fit(X, y)
    assert np.allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0], rtol=1e-9)
    assert np.array_equal(model.tree_.tau, one.tree_.tau)


@pytest.mark.parametrize("make", FORESTS)
def test_threads_and_seeds_give_the_same_forest(make: Any) -> None:
    X, y = load_iris(return_X_y=True)
    options = {"n_estimators": 6, "bandwidth": 0.2, "max_depth": 4}
    one = make(random_state=3, n_jobs=1, **options).fit(X, y)
    two = make(random_state=3, n_jobs=2, **options).fit(X, y)
    other = make(random_state=4, **options).fit(X, y)
    assert bitvec.files.identical(one.forest_, two.forest_)
    assert not bitvec.files.identical(one.forest_, other.forest_)


@pytest.mark.parametrize("make", [KDDTClassifier, KDDTRandomForestClassifier])
def test_labels_names_clones_and_pickles(make: Any) -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    words = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    options = {"n_estimators": 3} if make is not KDDTClassifier else {}
    model = make(bandwidth=0.2, random_state=0, **options).fit(X, words)
    assert model.classes_.dtype == object
    assert set(model.predict(X)) <= set(words)
    assert model.forest_.inputs.feature_names == tuple(X.columns)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(clone(model).fit(X, words).predict_proba(X), model.predict_proba(X))


def test_soft_prediction_goes_through_torch_and_back(wine: tuple[np.ndarray, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    X, y = wine
    model = KDDTClassifier(bandwidth=0.3, max_depth=4).fit(X, y)
    soft = bitvec.to_torch(model.forest_, relaxation="kernel", dtype=torch.float64)
    found = soft(torch.tensor(X)).detach().numpy()
    assert np.allclose(found, model.predict_proba(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, marks=pytest.mark.full)
        for make in (KDDTClassifier, KDDTRandomForestClassifier)
    ],
)
def test_soft_prediction_goes_through_onnx(
    make: Any, wine: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = wine
    few = {"n_estimators": 5} if make is KDDTRandomForestClassifier else {}
    model = make(kernel="gaussian", bandwidth=0.3, max_depth=4, **few).fit(X, y)
    path = bitvec.export(model.forest_, tmp_path / "soft.onnx")
    session = onnxruntime.InferenceSession(path)
    labels, shares = session.run(["label", "probabilities"], {"X": X})
    assert np.array_equal(labels, model.predict(X))
    assert np.allclose(shares, model.predict_proba(X), rtol=0, atol=1e-6)
    assert shares.max(axis=1).min() < 1
    certificate = bitvec.certify(model.forest_, path, X, allow_values_only=True)
    assert certificate.passed
    assert certificate.n_raw_mismatches > 0
    v = model.forest_.leaves.v.copy()
    v[0] += 1e-9
    leaves = dataclasses.replace(model.forest_.leaves, v=v)
    assert not bitvec.certify(
        dataclasses.replace(model.forest_, leaves=leaves), path, X, allow_values_only=True
    ).passed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "square"}, "`kernel` must be one of box, gaussian"),
        ({"kernel": [box(1.0)]}, "one for each of the 4 features, got 1"),
        ({"bandwidth": "best"}, "`bandwidth` must be one of cv, silverman, likelihood, a number"),
        ({"bandwidth": -1.0}, "`bandwidth` must be one of"),
        ({"bandwidth": [1.0, 2.0]}, "one for each of the 4 features"),
        ({"bandwidths": [np.nan]}, "`bandwidths` must be finite"),
        ({"cv": 1}, "`cv` must be a whole number from 2 on, got 1"),
        ({"cv": None}, "`cv` must be a whole number from 2 on, got None"),
        ({"criterion": "mse"}, "`criterion` must be 'gini' or 'entropy'"),
        ({"max_features": 9}, "`max_features` must be"),
        ({"max_depth": -1}, "`max_depth` must be a whole number from 0 on, got -1"),
        ({"max_depth": 1.5}, "`max_depth` must be a whole number from 0 on, got 1.5"),
        ({"min_weight": 0}, "`min_weight` must be above 0"),
        ({"min_gain": -1}, "`min_gain` must not be negative"),
        ({"ccp_alpha": np.nan}, "`ccp_alpha` must not be negative"),
        ({"ccp_alpha": "a"}, "`ccp_alpha` must not be negative .*, got 'a'"),
        ({"kernel": None}, "`kernel` must be one of box, gaussian, .*, got None"),
        ({"kernel": 3}, "`kernel` must be one of box, gaussian, .*, got 3"),
        ({"kernel": [1, 2, 3, 4]}, "`kernel` must be a FeatureKernel, .*, got 4 of int"),
        ({"predict_kernel": 3}, "`predict_kernel` must be one of box, gaussian, .*, got 3"),
        ({"n_pieces": -1}, "`n_pieces` must be a whole number from 1 on, got -1"),
        ({"n_pieces": 2.5}, "`n_pieces` must be a whole number from 1 on, got 2.5"),
        ({"n_pieces": "a"}, "`n_pieces` must be a whole number from 1 on, got 'a'"),
        ({"bandwidth": True}, "`bandwidth` must be one of .*, got True"),
        ({"bandwidth": "0.3"}, "`bandwidth` must be one of .*, got '0.3'"),
        ({"bandwidth": ["0.3"] * 4}, "`bandwidth` must be one of"),
        ({"bandwidth": 1j}, "`bandwidth` must be one of"),
        ({"predict_bandwidth": "cv"}, "`predict_bandwidth` must be a number .*, got 'cv'"),
        ({"bandwidths": "a"}, "`bandwidths` must be finite numbers .*, got 'a'"),
        ({"bandwidths": [-1.0, 1.0]}, "`bandwidths` must be finite numbers"),
        ({"merge_leaves": "False"}, "`merge_leaves` must be True or False, got 'False'"),
        ({"max_features": True}, "`max_features` must be .*, got True"),
        ({"criterion": None}, "`criterion` must be 'gini' or 'entropy', got None"),
    ],
)
def test_options_out_of_place_are_refused(options: dict[str, Any], message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(bitvec.errors.InputError, match=message):
        KDDTClassifier(**{"bandwidth": 0.1, **cross_validated(options), **options}).fit(X, y)


def cross_validated(options: dict[str, Any]) -> dict[str, Any]:
    """Return the bandwidth by which an option is looked at."""
    return {"bandwidth": "cv"} if options.keys() & {"cv", "bandwidths"} else {}


@pytest.mark.parametrize("bootstrap", ["a", 1, None])
def test_whether_rows_are_drawn_is_said_by_a_flag(bootstrap: Any) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(bitvec.errors.InputError, match="`bootstrap` must be True or False, got"):
        KDDTRandomForestClassifier(bandwidth=0.1, bootstrap=bootstrap).fit(X, y)
    assert KDDTRandomForestClassifier(
        n_estimators=1, bandwidth=0.1, max_depth=1, bootstrap=np.bool_(False)
    ).fit(X, y)


def test_weights_and_uncertainties_must_be_numbers() -> None:
    X, y = load_iris(return_X_y=True)
    model = KDDTClassifier(bandwidth=0.1)
    for text in ("a", ["1"] * 150, [[1.0], [2.0, 3.0]]):
        with pytest.raises(
            bitvec.errors.InputError, match=r"`sample_weight` must hold 150 .*, got text"
        ):
            model.fit(X, y, text)
    for text in ("a", X.astype(str), [[1.0], [2.0, 3.0]], X.astype(bool)):
        with pytest.raises(
            bitvec.errors.InputError, match=r"`uncertainty` must hold one .*, got text"
        ):
            model.fit(X, y, uncertainty=text)
    as_objects = model.fit(X, y, np.full(150, 2, object), uncertainty=X.astype(object) / 10)
    as_numbers = KDDTClassifier(bandwidth=0.1).fit(X, y, np.full(150, 2), uncertainty=X / 10)
    assert bitvec.files.identical(as_objects.forest_, as_numbers.forest_)


def test_numbers_whose_squares_are_none_are_refused() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = KDDTRegressor(bandwidth=0.01, max_depth=2)
    with pytest.raises(bitvec.errors.InputError, match=r"`X` must not hold numbers beyond 1e\+100"):
        model.fit(np.concatenate([X, np.full((1, 10), 1e300)]), np.append(y, 0))
    with pytest.raises(bitvec.errors.InputError, match=r"`y` must not hold numbers beyond 1e\+100"):
        model.fit(X, y * 1e155)
    with pytest.raises(
        bitvec.errors.InputError, match="`y` must be constant or differ by at least"
    ):
        model.fit(X, y * 1e-170)
    plain = model.fit(X, y).predict(X)
    for exponent in (-400, 300):  # by a power of two, no bit changes
        size = 2.0**exponent
        assert np.array_equal(model.fit(X, y * size).predict(X), plain * size)
    assert np.array_equal(model.fit(X, np.full(len(y), 1e-200)).predict(X[:2]), [1e-200, 1e-200])


def test_probabilities_that_do_not_sum_to_one_are_refused() -> None:
    X, _ = load_iris(return_X_y=True)
    with pytest.raises(bitvec.errors.InputError, match=r"which sum to 1, got .* in row 0"):
        KDDTClassifier(bandwidth=0.1).fit(X, np.full((150, 2), 0.4))
    with pytest.raises(bitvec.errors.InputError, match="`uncertainty` must hold one finite number"):
        KDDTClassifier(bandwidth=0.1).fit(X, np.arange(150) % 2, uncertainty=np.ones((150, 3)))


def test_weights_too_small_for_any_split_are_said() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="the weights sum to 1; scale `sample_weight`"):
        KDDTClassifier(bandwidth=0.1).fit(X, y, np.full(len(y), 1 / len(y)))


@pytest.mark.parametrize("make", [KDDTClassifier, KDDTRandomForestClassifier])
@pytest.mark.parametrize("bandwidth", ["cv", "silverman", 0.1])
def test_rows_of_no_weight_are_not_there(make: Any, bandwidth: Any) -> None:
    X, y = load_iris(return_X_y=True)
    weight = np.zeros(len(X))
    kept = np.arange(0, len(X), 10)
    weight[kept] = 1.0
    options: dict[str, Any] = {"bandwidth": bandwidth, "random_state": 0}
    if make is KDDTRandomForestClassifier:
        options["n_estimators"] = 5
    model = make(**options).fit(X, y, sample_weight=weight)
    alone = make(**options).fit(X[kept], y[kept])
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))


def test_one_row_makes_one_leaf() -> None:
    model = KDDTRegressor().fit([[1.0, 2.0]], [3.0])
    assert model.predict([[5.0, 5.0]]).tolist() == [3.0]


def test_the_pruning_path_leaves_a_fitted_model_as_it_was() -> None:
    X, y = load_iris(return_X_y=True)
    model = KDDTClassifier(bandwidth=0.1).fit(X, y)
    before = model.predict(X)
    path = model.cost_complexity_pruning_path(X[:, :2], np.where(y > 0, "yes", "no"))
    assert len(path.alpha) > 1
    assert np.array_equal(model.predict(X), before)
    assert model.classes_.tolist() == [0, 1, 2]
