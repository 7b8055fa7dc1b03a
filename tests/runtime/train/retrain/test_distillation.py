"""Distillation: the distance from a teacher is that of what `predict_proba` and `predict` say."""

from __future__ import annotations

from types import MethodType

import numpy as np
import pytest
from scipy.special import rel_entr
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from bitvec.core import transforms
from bitvec.core.output import Output, PostTransform
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.retrain import distillation, objective  # noqa: E402

rng = np.random.default_rng(0)
F64 = np.dtype(np.float64)
LABELS = np.array(["a", "b", "c"])

OUTPUTS = [
    Output(3, F64, post_transform=PostTransform.SOFTMAX, classes=(LABELS,)),
    Output(3, F64, classes=(LABELS,)),
    Output(1, F64, classes=(LABELS[:2],)),
    Output(1, F64, post_transform=PostTransform.SIGMOID, classes=(LABELS[:2],)),
    Output(
        5, F64, post_transform=PostTransform.SOFTMAX, classes=(LABELS, LABELS[:2]), groups=(3, 2)
    ),
]
INDEPENDENT = Output(3, F64, post_transform=PostTransform.SIGMOID, classes=(LABELS,))


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors are small here: a second thread only waits, as `retrain` knows."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def scores(output, n=20):
    raw = rng.normal(size=(n, output.n_outputs))
    if output.post_transform is PostTransform.IDENTITY:
        raw = np.exp(raw)
        raw /= raw.sum(axis=1, keepdims=True) if output.n_outputs > 1 else 1 + raw
    return raw


def teachers(output, n=20):
    parts = [rng.dirichlet(np.ones(len(labels)), n) for labels in output.classes]
    parts[0][0] = np.eye(len(parts[0][0]))[1]  # certain
    return parts


def goal_of(output, n=20):
    target = np.zeros((n, len(output.classes or (0,))), np.int64 if output.classes else np.float64)
    return objective.build(output, target)


def tempered(p, temperature):
    p = p ** (1 / temperature)
    return p / p.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("output", [*OUTPUTS, INDEPENDENT])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_classifiers_distance_is_the_divergence_from_the_teacher(output, temperature):
    raw, parts = scores(output), teachers(output)
    pull = distillation.build(
        goal_of(output), parts if len(parts) > 1 else parts[0], None, 20, temperature=temperature
    )
    got = pull.losses(torch.tensor(raw), torch.tensor(pull.teacher)).numpy()
    expected = np.zeros(20)
    for p, q in zip(transforms.probabilities(output, raw), parts, strict=True):
        if output is INDEPENDENT:
            p, q = np.stack([1 - p, p], axis=2), np.stack([1 - q, q], axis=2)
        p, q = tempered(p, temperature), tempered(q, temperature)
        expected += rel_entr(q, p).reshape(20, -1).sum(axis=1)
    # Logarithms of exponentials: a few ulps of numbers of order one.
    assert np.allclose(got, temperature**2 * expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("output", [*OUTPUTS, INDEPENDENT])
def test_a_forest_that_says_what_its_teacher_says_is_at_no_distance(output):
    raw = scores(output)
    if output is INDEPENDENT:
        raw = np.log([[0.2, 0.3, 0.5]]) - np.log1p(-np.array([[0.2, 0.3, 0.5]]))
    said = transforms.probabilities(output, raw)
    pull = distillation.build(
        goal_of(output), said if len(said) > 1 else said[0], None, len(raw), temperature=2.0
    )
    at = torch.tensor(raw, requires_grad=True)
    loss = pull.losses(at, torch.tensor(pull.teacher)).sum()
    loss.backward()
    assert abs(loss.item()) < 1e-12  # rounding of order one
    assert at.grad.abs().max() < 1e-12


@pytest.mark.parametrize("output", [*OUTPUTS, INDEPENDENT])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_distance_has_its_gradient(output, temperature):
    parts = teachers(output, 6)
    pull = distillation.build(
        goal_of(output), parts if len(parts) > 1 else parts[0], None, 6, temperature=temperature
    )
    torch.autograd.gradcheck(
        lambda raw: pull.losses(raw, torch.tensor(pull.teacher)),
        torch.tensor(scores(output, 6), requires_grad=True),
    )


def test_a_regressors_distance_is_squared_in_units_of_the_targets():
    output = Output(2, F64, post_transform=PostTransform.EXPONENTIAL)
    y, raw, says = rng.normal(size=(3, 20, 2))
    goal = objective.build(output, y)
    pull = distillation.build(goal, says, None, 20)
    got = pull.losses(torch.tensor(raw), torch.tensor(pull.teacher)).numpy()
    assert np.allclose(got, (((np.exp(raw) - says) / y.std()) ** 2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_labels_and_teacher_share_the_loss(weight):
    output = OUTPUTS[0]
    goal = goal_of(output)
    pull = distillation.build(goal, teachers(output)[0], None, 20, weight=weight)
    raw, q = torch.tensor(scores(output)), torch.tensor(pull.teacher)
    labels = goal.losses(raw, torch.zeros((20, 1), dtype=torch.int64))
    expected = (1 - weight) * labels + weight * pull.losses(raw, q)
    assert torch.equal(pull.mixed(labels, raw, q), expected)


def test_a_fitted_model_teaches_in_the_order_of_the_forest():
    X = rng.normal(size=(60, 2))
    y = LABELS[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    reverse = Output(3, F64, post_transform=PostTransform.SOFTMAX, classes=(LABELS[::-1],))
    goal = objective.build(reverse, np.zeros((60, 1), np.int64))
    p = model.predict_proba(X)
    # Rows are divided by their sums once more.
    got = distillation.build(goal, model.predict_proba, X, 60).teacher
    assert np.allclose(got, p[:, ::-1], rtol=1e-15)
    # A function that says nothing of its order is in the forest's.
    got = distillation.build(goal, lambda X: model.predict_proba(X), X, 60).teacher
    assert np.allclose(got, p, rtol=1e-15)
    with pytest.raises(InputError, match="predict_proba"):
        distillation.build(goal, model.predict, X, 60)
    other = RandomForestClassifier(5).fit(X, np.where(y == "a", "z", y))
    with pytest.raises(InputError, match="one that knows 'b', 'c', 'z'"):
        distillation.build(goal, other.predict_proba, X, 60)


def test_a_fitted_regressor_teaches():
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    goal = objective.build(Output(1, F64), y[:, None])
    got = distillation.build(goal, model.predict, X, 60).teacher
    assert np.array_equal(got[:, 0], model.predict(X))


def test_the_second_class_alone_is_enough():
    goal = goal_of(OUTPUTS[3])
    p = rng.uniform(size=20)
    both = distillation.build(goal, np.stack([1 - p, p], axis=1), None, 20).teacher
    for given in (p, p[:, None], p.tolist()):
        assert np.allclose(distillation.build(goal, given, None, 20).teacher, both, rtol=1e-15)


class Stranger:
    classes_ = LABELS


@pytest.mark.parametrize(
    ("output", "teacher", "choices", "message"),
    [
        (OUTPUTS[0], np.ones((20, 3)), {}, "sum to 1"),
        (OUTPUTS[0], np.ones((20, 2)) / 2, {}, "3 classes"),
        (OUTPUTS[0], np.ones((19, 3)) / 3, {}, "20 rows"),
        (OUTPUTS[0], lambda X: np.ones(3), {}, "20 rows"),
        (OUTPUTS[0], MethodType(lambda self, X: np.ones((20, 2)), Stranger()), {}, "3 classes"),
        (OUTPUTS[4], np.ones((20, 4)), {}, "list of one array"),
        (Output(1, F64), np.full(20, np.nan), {}, "finite"),
        (Output(1, F64), np.ones((20, 2)), {}, "shape"),
        (Output(2, F64), np.ones(20), {}, "shape"),
        (Output(1, F64), np.array(["a"] * 20), {}, "dtype"),
        (Output(1, F64), np.ones(20), {"weight": 1.5}, "from 0 to 1"),
        (Output(1, F64), np.ones(20), {"weight": -1}, "teacher_weight"),
        (Output(1, F64), np.ones(20), {"temperature": 0}, "temperature"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(output, teacher, choices, message):
    with pytest.raises(InputError, match=message) as caught:
        distillation.build(goal_of(output), teacher, None, 20, **choices)
    assert "\n" not in str(caught.value)
