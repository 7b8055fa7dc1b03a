"""Teacher rows: nearby values are taken over, and no row is answered by who has seen it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from bitvec.errors import InputError
from bitvec.runtime.train.joint import teacher_rows
from bitvec.runtime.train.joint.teacher_rows import Teacher, rows_between, taught
from bitvec.runtime.train.retrain.training_data import Data


def rows(n=40, n_classes=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return Data(X, rng.integers(0, n_classes, (n, 1)), rng.uniform(1, 2, n))


def test_new_rows_take_values_of_the_nearest_rows():
    # Two clusters far from each other: no value crosses.
    X = np.concatenate([np.arange(30.0)[:, None] + [0, 100], np.arange(30.0)[:, None] + [1e3, 0]])
    new = rows_between(X, 4, seed=0)
    assert new.shape == (240, 2)
    for column in range(2):
        assert np.isin(new[:, column], X[:, column]).all()
    own = np.tile(X, (4, 1))
    assert ((new[:, 0] >= 1e3) == (own[:, 0] >= 1e3)).all()
    kept = (new == own).mean()
    assert 0.4 < kept < 0.6  # half of 480 values, within 4 standard errors
    assert np.array_equal(new, rows_between(X, 4, seed=0))


@pytest.mark.parametrize("n_rows", [1, 2, 21])
def test_few_rows_have_few_neighbours(n_rows):
    X = np.arange(float(n_rows))[:, None]
    assert np.isin(rows_between(X, 3, seed=0), X).all()


def test_no_row_is_answered_by_a_teacher_that_has_seen_it():
    data = rows()
    teacher = Teacher(KNeighborsClassifier(1), 3, weighted=False)
    seen = teacher.answers(teacher.fitted(data), data.X)
    assert np.array_equal(seen.argmax(axis=1), data.target[:, 0])  # the nearest row is the row
    unseen = teacher.out_of_fold(data, 0)
    assert (unseen.argmax(axis=1) != data.target[:, 0]).mean() > 0.4  # labels are drawn at random
    assert np.array_equal(unseen.sum(axis=1), np.ones(len(data)))


def test_classes_that_a_fold_lacks_have_probability_zero():
    data = rows(12)
    data.target[:] = 0
    data.target[3:6] = 2
    teacher = Teacher(KNeighborsClassifier(1), 3, weighted=False)
    assert not teacher.out_of_fold(data, 0)[:, 1].any()


def test_targets_are_the_mean_of_label_and_answer_and_new_rows_are_answered():
    data = rows()
    own = np.eye(3)[data.target[:, 0]]
    unseen = np.full((40, 3), 1 / 3)
    teacher = Teacher(KNeighborsClassifier(5), 3, weighted=False)
    model = teacher.fitted(data)
    made = taught(data, own, unseen, teacher, model, 0)
    assert len(made) == 40 * (1 + teacher_rows.COPIES)
    assert np.allclose(made.target[:40], (own + unseen) / 2)
    assert np.array_equal(made.target[40:], model.predict_proba(made.X[40:]))
    assert np.array_equal(made.weight[40:80], data.weight)


def test_answers_that_are_no_numbers_are_refused():
    data = rows()
    values = Data(data.X, data.target.astype(float), data.weight)
    teacher = Teacher(KNeighborsRegressor(1), 0, weighted=False)
    model = teacher.fitted(values)
    model._y = model._y * np.nan
    with pytest.raises(InputError, match="finite numbers"):
        teacher.answers(model, data.X)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_the_tuned_booster_has_the_loss_that_it_was_chosen_by(n_classes):
    data, other = rows(200, max(n_classes, 2)), rows(50, max(n_classes, 2))
    if not n_classes:
        data, other = (Data(d.X, d.X[:, :1], d.weight) for d in (data, other))
    teacher, model, answers = teacher_rows.tuned_booster(data, other, n_classes, 0)
    assert np.array_equal(answers, teacher.answers(model, other.X))
    assert teacher.estimator.max_iter == model.n_iter_
    losses = []
    for leaves in teacher_rows.LEAVES:
        fixed = Teacher(
            teacher.estimator.set_params(max_leaf_nodes=leaves), n_classes, weighted=True
        )
        losses.append(
            teacher_rows.loss_of(fixed.answers(fixed.fitted(data), other.X), other, n_classes)
        )
    assert np.isfinite(losses).all()
