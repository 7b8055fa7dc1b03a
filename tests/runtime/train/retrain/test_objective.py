"""The objective: losses are those of the forest's own link, scores are those of `predict`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from retraining import grown, oblique_classes
from sklearn import metrics as sklearn_metrics

from bitvec.core import transforms
from bitvec.core.output import Output, PostTransform
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.retrain import objective  # noqa: E402
from bitvec.runtime.train.retrain.value_losses import LOSSES  # noqa: E402

rng = np.random.default_rng(0)
F64 = np.dtype(np.float64)
LABELS = np.array(["a", "b", "c"])


def regressor(transform=PostTransform.IDENTITY, n_outputs=1, **more):
    return Output(n_outputs, F64, post_transform=transform, **more)


def classifier(transform, n_outputs=3, labels=LABELS, **more):
    return Output(n_outputs, F64, post_transform=transform, classes=(labels,), **more)


def losses(goal, raw, target):
    return goal.losses(torch.tensor(raw), torch.tensor(target)).numpy()


REGRESSION = {
    "squared": lambda y, p: (y - p) ** 2,
    "absolute": lambda y, p: np.abs(y - p),
    "huber": lambda y, p: np.where(
        np.abs(y - p) < 0.7, 0.5 * (y - p) ** 2, 0.7 * (np.abs(y - p) - 0.35)
    ),
    "quantile": lambda y, p: np.maximum(0.8 * (y - p), -0.2 * (y - p)),
    "poisson": lambda y, p: 2 * (y * np.log(y / p) - y + p),
    "gamma": lambda y, p: 2 * (np.log(p / y) + y / p - 1),
    "tweedie": lambda y, p: 2 * (y**0.7 / (-0.3 * 0.7) + y * p**-0.3 / 0.3 + p**0.7 / 0.7),
}
OPTIONS = {"quantile": 0.8, "delta": 0.7, "power": 1.3}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    "transform",
    [
        PostTransform.IDENTITY,
        PostTransform.EXPONENTIAL,
        PostTransform.LOGARITHM_ONE_PLUS_EXP,
        PostTransform.EXPONENTIAL_STANDARD_RATIO,
    ],
)
def test_a_regressors_loss_and_score_are_the_formula_on_what_it_predicts(name, transform):
    output = regressor(transform)
    raw, y = rng.uniform(0.2, 2, (50, 1)), rng.uniform(0.1, 3, (50, 1))
    goal = objective.build(output, y, loss=name, **OPTIONS)
    expected = REGRESSION[name](y, transforms.transform(output, raw))[:, 0]
    unit = {"squared": y.std() ** 2, "huber": y.std() ** 2, "absolute": y.std()}
    unit = {**unit, "quantile": y.std()}.get(name, 1.0)
    # A logarithm of an exponential and the like: a few ulps.
    assert np.allclose(losses(goal, raw, y) * unit, expected, rtol=1e-10, atol=1e-13)
    assert np.allclose(-goal.scores(raw, y), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("poisson", sklearn_metrics.mean_poisson_deviance),
        ("gamma", sklearn_metrics.mean_gamma_deviance),
        ("tweedie", lambda y, p: sklearn_metrics.mean_tweedie_deviance(y, p, power=1.3)),
        ("quantile", lambda y, p: sklearn_metrics.mean_pinball_loss(y, p, alpha=0.8)),
        ("absolute", sklearn_metrics.mean_absolute_error),
    ],
)
def test_mean_scores_are_those_of_scikit_learn(name, function):
    raw, y = rng.uniform(0.2, 2, (50, 1)), rng.uniform(0.1, 3, (50, 1))
    goal = objective.build(regressor(), y, loss=name, **OPTIONS)
    assert -goal.scores(raw, y).mean() == pytest.approx(function(y[:, 0], raw[:, 0]), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("transform", [PostTransform.IDENTITY, PostTransform.EXPONENTIAL])
def test_a_regressors_loss_has_its_gradient(name, transform):
    raw = torch.tensor(rng.uniform(0.3, 2, (6, 2)), requires_grad=True)
    y = rng.uniform(2.1, 3, (6, 2))
    goal = objective.build(regressor(transform, 2), y, loss=name, **OPTIONS)
    for one in (goal, goal.smoothed()):
        torch.autograd.gradcheck(lambda raw, one=one: one.losses(raw, torch.tensor(y)), raw)


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie"])
def test_a_mean_below_zero_has_a_finite_loss_and_a_gradient_upward(name):
    y = np.array([[1.0], [2.0]])
    goal = objective.build(regressor(), y, loss=name)
    raw = torch.tensor([[-1e-6], [0.0]], dtype=torch.float64, requires_grad=True)
    loss = goal.losses(raw, torch.tensor(y)).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert (raw.grad < 0).all()
    assert np.all(goal.scores(np.array([[-1.0], [-2.0]]), y) == -np.inf)


def test_a_poisson_target_of_zero_is_read_right():
    y = np.array([[0.0], [1.0]])
    goal = objective.build(regressor(PostTransform.EXPONENTIAL), y, loss="poisson")
    raw = np.log([[0.5], [0.5]])
    # log of a rounded 0.5 and back
    assert np.allclose(losses(goal, raw, y), [1.0, 2 * (np.log(2) - 0.5)], rtol=1e-14)
    assert np.allclose(goal.scores(raw, y), [-1.0, -2 * (np.log(2) - 0.5)], rtol=1e-14)


def test_several_quantiles_are_learned_by_several_outputs():
    y = rng.normal(size=(400, 1))
    levels = (0.1, 0.5, 0.9)
    output = regressor(n_outputs=3)
    target = objective.targets(output, y, 400, repeat=True)
    goal = objective.build(output, target, loss="quantile", quantile=levels)
    raw = np.broadcast_to(np.quantile(y, levels), (400, 3))
    for shift in (-0.05, 0.05):
        for k in range(3):
            moved = raw + shift * np.eye(3)[k]
            assert losses(goal, moved, target).mean() > losses(goal, raw, target).mean()
            assert goal.scores(moved, target).mean() < goal.scores(raw, target).mean()


CLASSIFIERS = [
    classifier(PostTransform.SOFTMAX),
    classifier(PostTransform.SOFTMAX, parameter=0.5),
    classifier(PostTransform.SOFTMAX_UNSHIFTED),
    classifier(PostTransform.IDENTITY),
    classifier(PostTransform.AT_MOST_ONE, 1, LABELS[:2]),
    classifier(PostTransform.SIGMOID, 1, LABELS[:2], parameter=2.0),
    classifier(PostTransform.LOGISTIC, 1, LABELS[:2]),
    classifier(PostTransform.SOFTMAX_OF_HALVES, 1, LABELS[:2]),
    Output(
        5,
        F64,
        post_transform=PostTransform.SOFTMAX,
        classes=(LABELS, LABELS[:2]),
        groups=(3, 2),
    ),
    Output(
        2,
        F64,
        post_transform=PostTransform.SIGMOID,
        classes=(np.array([0, 1]), np.array([0, 1])),
        groups=(1, 1),
    ),
]


def some(output, n=20):
    """Raw scores, which are probabilities where there is no link, and class numbers."""
    raw = rng.normal(size=(n, output.n_outputs))
    if output.post_transform in (PostTransform.IDENTITY, PostTransform.AT_MOST_ONE):
        raw = np.exp(raw)
        raw /= raw.sum(axis=1, keepdims=True) if output.n_outputs > 1 else 1 + raw
    target = np.stack([rng.integers(0, len(labels), n) for labels in output.classes], axis=1)
    return raw, target


@pytest.mark.parametrize("output", CLASSIFIERS)
def test_cross_entropy_is_minus_the_log_of_predict_proba(output):
    raw, target = some(output)
    goal = objective.build(output, target, metric="log_loss")
    parts = [
        -np.log(np.take_along_axis(p, target[:, [group]], axis=1)[:, 0])
        for group, p in enumerate(transforms.probabilities(output, raw))
    ]
    # `LOGISTIC` computes in float32.
    rtol = 1e-5 if output.post_transform is PostTransform.LOGISTIC else 1e-12
    assert np.allclose(losses(goal, raw, target), sum(parts), rtol=rtol)
    assert np.allclose(goal.scores(raw, target), -sum(parts) / len(parts), rtol=rtol)


@pytest.mark.parametrize("output", CLASSIFIERS)
@pytest.mark.parametrize("soft", [False, True])
def test_cross_entropy_has_its_gradient(output, soft):
    raw, target = some(output, 6)
    if soft:
        target = np.concatenate(
            [np.full((6, len(labels)), 1 / len(labels)) for labels in output.classes], axis=1
        )
    goal = objective.build(output, target, soft=soft)
    plain = output.post_transform in (PostTransform.IDENTITY, PostTransform.AT_MOST_ONE)
    for sharpness in (None, 5.0) if plain else (None,):
        one = replace(goal, sharpness=sharpness)
        torch.autograd.gradcheck(
            lambda raw, one=one: one.losses(raw, torch.tensor(target)),
            torch.tensor(raw, requires_grad=True),
        )


@pytest.mark.parametrize("output", CLASSIFIERS)
def test_certain_soft_labels_are_labels(output):
    raw, target = some(output)
    certain = np.concatenate(
        [np.eye(len(labels))[target[:, g]] for g, labels in enumerate(output.classes)], axis=1
    )
    for metric in ("accuracy", "log_loss"):
        hard = objective.build(output, target, metric=metric)
        soft = objective.build(output, certain, metric=metric, soft=True)
        assert np.array_equal(losses(hard, raw, target), losses(soft, raw, certain))
        assert np.allclose(hard.scores(raw, target), soft.scores(raw, certain), rtol=1e-15)


def test_independent_sigmoids_of_several_classes_answer_each_for_itself():
    output = classifier(PostTransform.SIGMOID)
    raw, target = some(output)
    p = transforms.transform(output, raw)
    one_hot = np.eye(3)[target[:, 0]]
    expected = -np.where(one_hot == 1, np.log(p), np.log(1 - p)).sum(axis=1)
    goal = objective.build(output, target)
    assert np.allclose(losses(goal, raw, target), expected, rtol=1e-12)


def test_one_probability_is_sharpened_as_two_are():
    two, one = classifier(PostTransform.IDENTITY, 2, LABELS[:2]), CLASSIFIERS[4]
    p = rng.uniform(0, 1, (20, 1))
    target = rng.integers(0, 2, (20, 1))
    sharp = [replace(objective.build(output, target), sharpness=16.0) for output in (one, two)]
    # The difference of p and 1 - p is rounded once more.
    assert np.allclose(
        losses(sharp[0], p, target),
        losses(sharp[1], np.concatenate([1 - p, p], axis=1), target),
        rtol=1e-12,
    )


def test_a_probability_of_zero_has_a_loss_and_a_gradient():
    output = classifier(PostTransform.IDENTITY)
    goal = objective.build(output, np.array([[0]]))
    raw = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    loss = goal.losses(raw, torch.tensor([[0]]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(1 - np.log(1e-6))
    assert raw.grad[0].tolist() == [-1e6, 0, 0]
    score = objective.build(output, np.array([[0]]), metric="log_loss")
    assert score.scores(np.array([[0.0, 1.0, 0.0]]), np.array([[0]])) == [np.log(1e-15)]


def test_accuracy_counts_right_labels_over_groups():
    output = CLASSIFIERS[8]
    raw = np.array([[3.0, 1, 1, 0, 5], [3.0, 1, 1, 5, 0], [1.0, 3, 1, 0, 5]])
    target = np.array([[0, 1], [0, 1], [0, 0]])
    goal = objective.build(output, target)
    assert goal.metric == "accuracy"
    assert goal.is_accuracy
    assert goal.scores(raw, target).tolist() == [1.0, 0.5, 0.0]


@pytest.mark.parametrize("labels", [[0, 1, 2], [-1.5, 0.0, 2.5], ["x", "y", "zz"], [3, 5, 9]])
def test_labels_of_any_dtype_are_read(labels):
    classes = np.array(labels)
    code = rng.integers(0, 3, 30)
    given = [classes[code], classes[code].tolist(), classes[code].astype(object)]
    if classes.dtype.kind != "U":
        given += [classes[code].astype(np.float32), classes[code].astype(np.float64)]
    output = classifier(PostTransform.SOFTMAX, labels=classes)
    for y in given:
        assert np.array_equal(objective.targets(output, y, 30)[:, 0], code)


def test_a_module_of_torch_is_a_loss():
    output = classifier(PostTransform.SOFTMAX)
    raw, target = some(output)
    own = objective.build(output, target)
    custom = objective.build(output, target, loss=torch.nn.CrossEntropyLoss(reduction="none"))
    assert np.allclose(losses(custom, raw, target), losses(own, raw, target), rtol=1e-14)
    assert custom.metric == "negative mean of CrossEntropyLoss"
    assert not custom.is_accuracy
    assert np.array_equal(custom.scores(raw, target), -losses(custom, raw, target))
    y = rng.normal(size=(20, 2))
    mse = objective.build(regressor(n_outputs=2), y, loss=torch.nn.MSELoss(reduction="none"))
    assert np.allclose(losses(mse, raw[:, :2], y), ((raw[:, :2] - y) ** 2).sum(axis=1))


def test_a_function_is_a_metric_of_labels_and_predictions():
    output = classifier(PostTransform.SOFTMAX)
    raw, target = some(output)
    seen = []

    def cost(y, predicted):
        seen.append((y, predicted))
        return -np.where(y == predicted, 0.0, np.where(y == "a", 5.0, 1.0))

    goal = objective.build(output, target, metric=cost)
    assert goal.metric == "cost"
    got = goal.scores(raw, target)
    y, predicted = seen[0]
    assert np.array_equal(y, LABELS[target[:, 0]])
    assert np.array_equal(predicted, transforms.predictions(output, raw))
    assert np.array_equal(got, cost(y, predicted))
    average = objective.build(output, target, metric=lambda y, predicted: np.mean(y == predicted))
    with pytest.raises(InputError, match="one number for each of the 20 rows"):
        average.scores(raw, target)


def test_a_score_that_is_not_a_number_is_the_worst():
    y = np.zeros((2, 1))
    raw = np.array([[np.nan], [1.0]])
    for choice in ({}, {"loss": torch.nn.MSELoss(reduction="none")}):
        assert objective.build(regressor(), y, **choice).scores(raw, y).tolist() == [-np.inf, -1.0]


def test_averaged_probabilities_are_sharpened_where_labels_count():
    X, y = oblique_classes(50)
    one, several = (grown(X, y, n_trees=n, classes=np.array(["no", "yes"])) for n in (1, 4))
    target = objective.targets(one.output, y, 50)

    def goal(forest, **choices):
        return objective.of_forest(forest, target, **choices)

    assert goal(several).measure == "log_loss"
    assert goal(several).sharpness is None
    assert goal(several, metric="accuracy").sharpness == objective.SHARPNESS
    assert goal(one).sharpness is None
    assert goal(several, metric="log_loss").sharpness is None
    assert goal(several, loss="cross_entropy").sharpness is None
    votes = replace(several, leaves=replace(several.leaves, v=3 * several.leaves.v))
    assert goal(votes).are_scores
    assert goal(votes).is_accuracy
    assert not goal(several).are_scores
    with pytest.raises(InputError, match="are no probabilities"):
        goal(votes, metric="log_loss")
    assert objective.of_forest(grown(X, X[:, 0]), X[:, :1].astype(float)).sharpness is None


REFUSED = [
    (regressor(), {"loss": "cross_entropy"}, "`loss` of a regressor"),
    (CLASSIFIERS[0], {"loss": "quantile"}, "`loss` of a classifier"),
    (CLASSIFIERS[0], {"loss": "sqared"}, "got 'sqared'"),
    (regressor(), {"loss": None}, "got None"),
    (regressor(), {"metric": "accuracy"}, "`metric` of a regressor"),
    (CLASSIFIERS[0], {"metric": "squared"}, "`metric` of a classifier"),
    (regressor(), {"loss": "quantile", "quantile": 1.0}, "below 1"),
    (regressor(), {"loss": "quantile", "quantile": 0}, "above 0"),
    (regressor(), {"loss": "quantile", "quantile": (0.1, 0.9)}, "each of the 1 outputs"),
    (regressor(), {"loss": "huber", "delta": -1}, "`delta`"),
    (regressor(), {"loss": "tweedie", "power": 2}, "`power`"),
    (classifier(PostTransform.HINGE, 1, LABELS[:2]), {"metric": "log_loss"}, "hinge"),
    (regressor(), {"loss": torch.nn.MSELoss()}, "each of the 3 rows"),
    (CLASSIFIERS[0], {"loss": lambda raw, y: raw.detach().sum(1)}, "differentiable"),
    (CLASSIFIERS[0], {"loss": lambda raw, y: 3}, "got 3"),
]


@pytest.mark.parametrize(("output", "choices", "message"), REFUSED)
def test_what_does_not_suit_the_forest_is_refused_in_one_sentence(output, choices, message):
    target = np.zeros((5, 1), np.int64) if output.is_classifier else np.ones((5, 1))
    with pytest.raises(InputError, match=message) as caught:
        objective.build(output, target, **choices)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "y", "fits"),
    [
        ("poisson", [-1, 2], False),
        ("poisson", [0, 0], False),
        ("poisson", [0, 2], True),
        ("gamma", [0, 2], False),
        ("tweedie", [0, 2], True),
        ("tweedie", [-1, 2], False),
    ],
)
def test_targets_that_a_deviance_cannot_take_are_refused(name, y, fits):
    y = np.array(y, np.float64)[:, None]
    for choice in ({"loss": name}, {"metric": name}):
        if fits:
            objective.build(regressor(), y, **choice)
            continue
        with pytest.raises(InputError, match=name):
            objective.build(regressor(), y, **choice)
    goal = objective.build(regressor(), np.array([[1.0]]), loss=name)
    if not fits:
        with pytest.raises(InputError, match=r"validation\[1\]"):
            goal.require_targets(y, "validation[1]")


@pytest.mark.parametrize(
    "output",
    [
        regressor(PostTransform.HINGE),
        classifier(PostTransform.SOFTMAX_ZERO),
        classifier(PostTransform.PROBIT, 1, LABELS[:2]),
        classifier(PostTransform.HINGE),
    ],
)
def test_a_link_without_a_gradient_is_refused(output):
    target = np.zeros((5, 1), np.int64) if output.is_classifier else np.ones((5, 1))
    with pytest.raises(UnsupportedModelError):
        objective.build(output, target)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((4, 3)), "sum to 1"),
        ([[0.5, 0.5]] * 4, "3 classes"),
        ([[1.5, -0.5, 0.0]] * 4, "sum to 1"),
        ([[np.nan, 0.5, 0.5]] * 4, "sum to 1"),
        ([["a", "b", "c"]] * 4, "dtype"),
        (np.ones((3, 3)) / 3, "4 rows"),
        ([[1.0], [0.5, 0.5]] * 2, "dtype object"),
    ],
)
def test_soft_labels_that_are_no_probabilities_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        objective.targets(CLASSIFIERS[0], given, 4, soft=True)
    with pytest.raises(InputError, match="classifier only"):
        objective.targets(regressor(), given, 4, soft=True)


def test_soft_labels_of_several_outputs_are_a_list():
    a, b = np.full((4, 3), 1 / 3), np.array([0.0, 0.25, 0.5, 1.0])
    for given in ([a, b], (a, b[:, None]), np.concatenate([a, np.stack([1 - b, b], 1)], axis=1)):
        got = objective.targets(CLASSIFIERS[8], given, 4, soft=True)
        # Sums are divided out once more.
        assert np.allclose(got[:, :3], a, rtol=1e-15)
        assert np.array_equal(got[:, 3:], np.stack([1 - b, b], axis=1))
