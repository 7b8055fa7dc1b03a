"""Trees whose tests are trained anew in their own shape: what they part, keep and leave alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bitvec
from bitvec import files

pytest.importorskip("torch")

from retraining import oblique_classes

from bitvec.core import structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Aggregate, Output
from bitvec.learners.retrained.regrown_start import regrown
from bitvec.runtime.train.retrain.objective import of_forest, targets
from bitvec.runtime.train.retrain.training_data import Data


def anew(forest, X, y, weight=None, seed=0):
    weight = np.ones(len(X)) if weight is None else weight
    target = targets(forest.output, y, len(X))
    data = Data(np.asarray(X, forest.dtype), target, weight)
    return regrown(forest, of_forest(forest, target), data, seed)


def right(forest, X, y):
    return np.mean(bitvec.compile(forest).predict(X) == y)


def blobs(seed, n=400):
    """Return three far clusters, one in each third of a circle."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    angle = rng.uniform(0, 2) + y * 2 * np.pi / 3
    centre = 5 * np.column_stack([np.cos(angle), np.sin(angle)])
    return centre + rng.normal(size=(n, 2)) * 0.5, y


def chain(n_features=2):
    """Return a tree of one leaf on the left and two on the right, whose tests part nothing."""
    left, right = np.full((2, 5), -1)
    left[[0, 2]], right[[0, 2]] = [1, 3], [2, 4]
    return Forest(
        axis_aligned(np.array([0, 1]), np.full(2, 1e6)),
        structure.arrange(left, right, np.array([0]))[0],
        Leaves(np.full((3, 3), 1 / 3)),
        Output(3, np.dtype(np.float64), Aggregate.SUM, classes=(np.arange(3),)),
        Inputs(n_features),
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_impurer_side_goes_to_the_child_of_more_leaves(seed):
    X, y = blobs(seed)
    found = anew(chain(), X, y, seed=seed)
    assert right(found, X, y) == 1.0
    assert np.array_equal(found.bitvectors.lo, chain().bitvectors.lo)


def test_classes_that_no_column_parts_are_told_apart():
    X, y = oblique_classes(600)
    tree = bitvec.convert(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[:300], y[:300]))
    found = anew(tree, X[:300], y[:300])
    assert right(found, X[300:], y[300:]) > right(tree, X[300:], y[300:]) + 0.05
    assert np.allclose(found.leaves.v.sum(axis=1), 1, atol=1e-6)


def test_numbers_are_parted_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] > 0.2, 3.0, -1.0)
    tree = bitvec.convert(DecisionTreeRegressor(max_depth=1).fit(X, y))
    found = anew(tree, X, y)
    before, after = (np.mean((bitvec.compile(one).predict(X) - y) ** 2) for one in (tree, found))
    assert after < 0.1 * before


def test_a_seed_gives_one_tree():
    for seed in range(3):
        X, y = blobs(seed, 60)
        one, two = (anew(chain(), X, y, seed=seed) for _ in range(2))
        assert files.identical(one, two)


def test_rows_of_no_weight_say_nothing_and_columns_that_are_not_numbers_are_not_read():
    X, y = blobs(0)
    odd = np.column_stack([X, X[:, 0], X[:, 1]])
    odd[0, 2], odd[1, 3] = np.nan, np.inf
    found = anew(chain(4), odd, y)
    assert set(found.tests.column[found.tests.weight != 0]) <= {0, 1}
    weight = np.ones(len(X))
    weight[:50] = 0
    noise = y.copy()
    noise[:50] = 0
    assert files.identical(anew(chain(), X, noise, weight), anew(chain(), X, y, weight))


def test_what_cannot_be_trained_stays_as_it_is():
    X, y = blobs(0)
    forest = chain()
    assert anew(forest, X, np.zeros_like(y)) is None  # of one class
    assert anew(forest, np.ones_like(X), y) is None
    assert anew(forest, X[:3], y[:3]) is None
    values = Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [0.0, 1.0])
    data = Data(X, y[:, None].astype(float), np.ones(len(X)))
    assert regrown(values, of_forest(values, data.target, loss="huber"), data, 0) is None


def test_tests_that_the_forests_dtype_cannot_hold_stay_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.digitize(X @ rng.normal(size=5), [-0.5, 0.5])
    X[:, 0] *= 3e-39  # whose weights overflow in float32
    tree = bitvec.convert(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y))
    assert tree.dtype == np.float32
    found = anew(tree, X, y)
    assert found is None or np.all(np.isfinite(found.tests.weight))


def test_a_small_tree_of_many_classes_is_retrained_from_there():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(X))
    X, y = X[order], y[order]
    tree = bitvec.convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X[:75], y[:75]))
    result = bitvec.retrain(
        tree, X[:75], y[:75], validation=(X[75:], y[75:]), budget="quick", schedule={"steps": 100}
    )
    tried = {trial.recipe for trial in result.tried}
    assert {"tree regrown", "S, b, v, regrown, steepness 4 to 30"} <= tried
