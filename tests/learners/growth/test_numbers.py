"""Neither the size of weights, nor what is added to a column, nor wide networks spoil a tree."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import bitvec
from bitvec.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
VALUES = X[:, 0] * 2 + np.sin(X[:, 1])
MAKERS = {
    "CPTRegressor": lambda **how: bitvec.learners.CPTRegressor(n_facets=3, restarts=1, **how),
    "CPTClassifier": lambda **how: bitvec.learners.CPTClassifier(n_facets=3, restarts=1, **how),
    "E2EDTRegressor": lambda **how: bitvec.learners.E2EDTRegressor(**how),
    "E2EDTClassifier": lambda **how: bitvec.learners.E2EDTClassifier(**how),
    "E2EDFClassifier": lambda **how: bitvec.learners.E2EDFClassifier(n_estimators=2, **how),
}


def make(name, **how):
    return MAKERS[name](**{"max_depth": 2, "steps": 10, "refine": 10, "random_state": 0, **how})


def target(name):
    return VALUES if "Regressor" in name else Y


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "size",
    [
        2.0**-1000,
        *(pytest.param(s, marks=pytest.mark.full) for s in (2.0**-400, 2.0**500)),
        2.0**1000,
    ],
)
@pytest.mark.parametrize("name", MAKERS)
def test_the_size_of_all_weights_does_not_matter(name, size):
    one, other = (make(name).fit(X, target(name), np.full(150, w)) for w in (1.0, size))
    np.testing.assert_array_equal(other.predict(X), one.predict(X))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", MAKERS)
def test_weights_near_the_largest_number_and_far_below_it_stand_side_by_side(name):
    weight = np.where(np.arange(150) % 2, 1e308, 1e-300)
    mixed, alone = make(name), make(name)
    mixed.fit(X, target(name), weight)
    alone.fit(X[1::2], target(name)[1::2], weight[1::2])
    np.testing.assert_array_equal(mixed.predict(X), alone.predict(X))


def test_smoothing_counts_in_the_unit_of_the_weights():
    size = 2.0**200
    how = {"smoothing": 1.0, "max_depth": 1, "refine": 0}
    plain = make("E2EDTClassifier", **how).fit(X, Y).predict_proba(X)
    heavy = make("E2EDTClassifier", **how).fit(X, Y, np.full(150, size)).predict_proba(X)
    scaled = make("E2EDTClassifier", **{**how, "smoothing": 0.0}).fit(X, Y).predict_proba(X)
    assert not np.allclose(plain, scaled)
    np.testing.assert_allclose(heavy, scaled, rtol=0, atol=1e-15)


@pytest.mark.parametrize("offset", [1.7e9, -1e10, 1e12])
@pytest.mark.parametrize("name", ["E2EDTClassifier", "CPTClassifier"])
def test_what_is_added_to_a_column_changes_little(name, offset):
    x = X[:, :1] + offset
    y = x[:, 0] > offset  # one cut parts the rows
    assert make(name, steps=40).fit(x, y).score(x, y) == 1


def test_a_constant_column_with_rounding_is_constant():
    x = np.stack([np.nextafter(0.1, [1.0, 0.0] * 75), X[:, 0]], axis=1)
    tree = make("E2EDTClassifier", refine=0).fit(x, X[:, 0] > 0).tree_
    assert not tree.theta[:, 0].any()


@pytest.mark.parametrize("which", [{"refine": 100}, {"joint": 60, "refine": 0}])
def test_networks_wider_than_the_rows_are_refined(which):
    Z = np.random.default_rng(0).normal(size=(600, 2))
    ring = np.hypot(*Z.T) < 1
    if "joint" in which:
        model = bitvec.learners.E2EDFClassifier(
            n_estimators=2, max_features=None, max_depth=2, split="mlp", hidden=4, steps=10,
            random_state=0, **which,
        )  # fmt: skip
    else:
        model = bitvec.learners.E2EDTClassifier(
            max_depth=2, split="mlp", hidden=4, steps=5, random_state=0, **which
        )
    model.fit(Z, ring)
    assert model.refinement_.improved
    assert bitvec.certify(model.forest_, model, Z).passed


def test_more_threads_than_cores_are_not_started():
    few, many = (make("E2EDTClassifier", n_jobs=n).fit(X, Y) for n in (1, 10**6))
    np.testing.assert_array_equal(many.predict_proba(X), few.predict_proba(X))


BAD = [
    ({"gamma_schedule": ["linear"]}, "`gamma_schedule` must be one of"),
    ({"checkpoint_path": 5}, "`checkpoint_path` must be a path, got 5"),
    ({"n_jobs": 0}, "`n_jobs` must be None or an integer other than 0"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_are_one_sentence(options, message):
    with pytest.raises(InputError, match=message):
        make("E2EDTClassifier", **options).fit(X, Y)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_bad_weight_is_named(weight):
    with pytest.raises(InputError, match=f"not negative, got {weight}"):
        make("E2EDTClassifier").fit(X, Y, np.where(np.arange(150) == 7, weight, 1.0))
