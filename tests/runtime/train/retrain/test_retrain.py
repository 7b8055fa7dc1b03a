"""The promise of retraining: a hard forest, never worse on validation, what is fixed untouched."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retraining import FAST, accuracy, grown, oblique_classes, retrain
from strategies import examples, forests, rows

from bitvec.core import transforms
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.predict.torch import TorchEngine  # noqa: E402


@pytest.mark.parametrize("relaxation", ["sigmoid", "softmax", "sparsemax", "index_sparsemax"])
def test_an_oblique_problem_is_learned_by_every_relaxation(relaxation):
    X, y = oblique_classes()
    forest = grown(X[:200], y[:200], classes=np.array(["no", "yes"]))
    result = retrain(
        forest, X[:200], y[:200], validation=(X[200:], y[200:]), relaxation=relaxation,
        **{**FAST, "steps": 200},
    )  # fmt: skip
    assert result.improved
    assert result.score == accuracy(result.forest, X[200:], y[200:])
    assert result.start_score == accuracy(forest, X[200:], y[200:])


@examples(5)
@given(
    st.data(),
    st.sampled_from([None, ("S", "b", "v"), ("b", "v"), ("v",), ("S",), ("S", "b", "v", "r")]),
    st.integers(0, 2**16),
)
def test_what_comes_back_is_never_worse_on_validation(data, trainable, seed):
    forest = data.draw(
        forests(linear=False, aggregates=(Aggregate.SUM, Aggregate.MEAN), max_leaves=8)
    )
    X = data.draw(rows(forest))
    X = np.concatenate([X] * 5)
    rng = np.random.default_rng(seed)
    if forest.output.is_classifier:
        y = rng.choice(forest.output.classes[0], len(X))
    else:
        y = rng.normal(size=(len(X), forest.n_outputs))
    held_out = (X[::2], y[::2])
    result = retrain(
        forest,
        X,
        y,
        trainable=trainable,
        metric="accuracy" if forest.output.is_classifier else "auto",
        validation=held_out,
        steps=6,
        evaluations=2,
        batch_size=16,
    )
    assert result.score >= result.start_score
    if not result.improved:
        assert result.forest is forest
    # Scored again from nothing, in inference dtype.
    raw = TorchEngine(result.forest).raw(X[::2])
    got = transforms.predictions(forest.output, raw)
    if forest.output.is_classifier:
        score = np.mean(got == y[::2])
    else:
        got = got.reshape(len(raw), -1).astype(np.float64)
        score = -np.square(got - y[::2]).mean(axis=1).mean()
    # The mean is taken in another order.
    assert np.isclose(score, result.score, rtol=1e-12)
    for field in fields(forest.tests):
        if "S" not in result.trainable and field.name not in ("b", "r"):
            before, after = (
                getattr(forest.tests, field.name),
                getattr(result.forest.tests, field.name),
            )
            assert (before is None and after is None) or before.tobytes() == after.tobytes()


def test_the_same_seed_gives_the_same_forest():
    X, y = oblique_classes()
    X[::7, 1] = np.nan
    forest = grown(X, y, classes=np.array(["no", "yes"]))
    one, two = (retrain(forest, X, y, validation=0.5, seed=3, **FAST) for _ in range(2))
    assert one.improved
    assert one.forest.tests.weight.tobytes() == two.forest.tests.weight.tobytes()
    assert one.forest.leaves.v.tobytes() == two.forest.leaves.v.tobytes()
    assert [e.score for e in one.history] == [e.score for e in two.history]
    other = retrain(forest, X, y, validation=0.5, seed=4, **FAST)
    assert other.forest.leaves.v.tobytes() != one.forest.leaves.v.tobytes()


def test_rows_with_missing_values_are_learned():
    X, y = oblique_classes(600)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    forest = grown(X[:300], y[:300], classes=np.array(["no", "yes"]))
    result = retrain(forest, X[:300], y[:300], validation=(X[300:], y[300:]), **FAST)
    assert result.improved
    assert result.score > result.start_score + 0.05


def test_leaves_of_a_forest_alone_gain_and_stay_probabilities():
    X, y = oblique_classes(800)
    forest = grown(X[:400], y[:400], n_trees=12, depth=2, classes=np.array(["no", "yes"]))
    result = retrain(forest, X[:400], y[:400], validation=(X[400:], y[400:]), **FAST)
    assert result.trainable == ("v",)
    assert result.improved
    v = result.forest.leaves.v
    assert np.all(v >= 0)
    assert np.allclose(v.sum(axis=1), 1, atol=1e-6)  # a softmax in float32
    assert result.forest.tests is forest.tests


def test_ridge_leaves_of_a_regressor_gain():
    X, _ = oblique_classes(800)
    y = (X @ [1.0, -1.0, 0.5]).astype(np.float64)
    forest = grown(X[:400], y[:400], n_trees=12, depth=3)
    result = retrain(forest, X[:400], y[:400], validation=(X[400:], y[400:]), **FAST)
    assert result.metric == "negative mean squared error"
    assert result.improved
    assert result.score > 0.8 * result.start_score  # both negative: at least a fifth less


def test_a_margin_booster_gains_and_keeps_its_output():
    X, y = oblique_classes(800, labels=(0, 1))
    forest = grown(X[:400], y[:400].astype(float), n_trees=10, depth=2)
    output = Output(
        1, np.dtype(np.float32), base_score=np.array([-0.1], np.float32),
        post_transform=PostTransform.SIGMOID, classes=(np.array([0, 1]),),
    )  # fmt: skip
    forest = replace(
        forest, leaves=Leaves((forest.leaves.v - 0.5).astype(np.float32) / 10), output=output
    )
    result = retrain(forest, X[:400], y[:400], validation=(X[400:], y[400:]), **FAST)
    assert result.improved
    assert result.forest.output is output
    assert result.forest.leaves.v.dtype == np.float32


def test_labels_of_any_kind_are_read_by_the_forests_classes():
    X, y = oblique_classes(200, labels=(False, True))
    forest = grown(X, y, classes=np.array([False, True]))
    for labels in (y, y.astype(int), y.astype(float), y.tolist(), y.astype(object)):
        assert retrain(forest, X, labels, **FAST).improved


def test_weights_count():
    X, y = oblique_classes(300)
    flipped = np.where(y == "no", "yes", "no")
    forest = grown(X, y, classes=np.array(["no", "yes"]))
    both, labels = np.concatenate([X, X]), np.concatenate([y, flipped])
    weight = np.repeat([1.0, 0.0], 300)
    result = retrain(forest, both, labels, sample_weight=weight, **FAST)
    assert result.improved
    assert accuracy(result.forest, X, y) > accuracy(forest, X, y)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_weights_does_not_matter(unit):
    X, y = oblique_classes(n=400)
    forest = grown(X[:300], y[:300], classes=["no", "yes"])
    run = {"steps": 60, "evaluations": 3, "validation": (X[300:], y[300:]), "seed": 0}
    one, other = (
        retrain(forest, X[:300], y[:300], sample_weight=np.full(300, size), **run).forest
        for size in (1.0, unit)
    )
    np.testing.assert_allclose(other.v, one.v, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("power", [-90, -30, 80])
def test_the_unit_of_columns_does_not_matter(power):
    """A power of two changes no digit of what is learned, however small values are."""
    X, y = oblique_classes(n=400)
    scores = []
    for unit in (1.0, 2.0**power):
        Z = X * np.float32(unit)
        forest = grown(Z[:300], y[:300], classes=["no", "yes"])
        run = {"steps": 80, "evaluations": 4, "validation": (Z[300:], y[300:]), "seed": 0}
        result = retrain(forest, Z[:300], y[:300], **run)
        scores.append((result.start_score, result.score))
    assert scores[0][1] > scores[0][0]
    assert scores[1] == pytest.approx(scores[0])


def test_weights_of_validation_rows_count():
    X, y = oblique_classes(300)
    flipped = np.where(y == "no", "yes", "no")
    forest = grown(X[:200], y[:200], classes=np.array(["no", "yes"]))
    both, labels = np.concatenate([X, X]), np.concatenate([y, flipped])
    plain = retrain(forest, X, y, validation=(X, y), **FAST)
    for none, all_of_it in ((0.0, 1.0), (0.0, 3.0)):
        weight = np.repeat([all_of_it, none], 300)
        weighted = retrain(forest, X, y, validation=(both, labels, weight), **FAST)
        assert weighted.start_score == plain.start_score
        assert weighted.score == plain.score
    assert retrain(forest, X, y, validation=[both, labels, None], **FAST).start_score == 0.5


@pytest.mark.parametrize("n", [3, 7, 49, 93])
def test_a_perfect_score_is_exactly_one(n):
    X, y = oblique_classes(n)
    forest = grown(X, y, classes=np.array(["no", "yes"]))
    y = transforms.predictions(forest.output, TorchEngine(forest).raw(X))
    weight = np.random.default_rng(n).random(n)
    for held_out in ((X, y), (X, y, weight)):
        assert retrain(forest, X, y, validation=held_out, **FAST).start_score == 1.0


def test_a_label_that_is_unknown_is_printed_as_a_number():
    X, y = oblique_classes(50, labels=(0, 1))
    forest = grown(X, y, classes=np.array([0, 1]))
    for labels in (y + 6, (y + 6).astype(object), [np.int64(6 + label) for label in y]):
        with pytest.raises(InputError, match=f"got {6 + y[0]}:"):
            retrain(forest, X, labels, **FAST)
    wrong = np.array([*y[:-1].tolist(), np.int64(7)], object)
    with pytest.raises(InputError, match="got 7:"):
        retrain(forest, X, wrong, **FAST)


DIVERGING = [
    {"learning_rate": 1e30},
    {"learning_rate": 3e38, "weight_decay": 1e38},
    {"gamma": (1e30, 1e38)},
    {"gamma": (1e-30, 3e38), "learning_rate": 1e30},
]


@pytest.mark.parametrize("options", DIVERGING)
@pytest.mark.parametrize("trainable", [("S", "b", "v"), ("b", "v"), ("S", "b", "v", "r"), ("v",)])
@pytest.mark.parametrize("relaxation", ["sigmoid", "sparsemax", "index_sparsemax"])
@pytest.mark.parametrize("classifies", [True, False])
def test_a_run_that_diverges_keeps_the_promise(options, trainable, relaxation, classifies):
    X, y = oblique_classes(200)
    y = y if classifies else X @ [1.0, -1.0, 0.5]
    forest = grown(X, y, classes=np.array(["no", "yes"]) if classifies else None)
    result = retrain(
        forest, X, y, validation=(X, y), trainable=trainable, relaxation=relaxation,
        **{**FAST, **options, "steps": 20},
    )  # fmt: skip
    assert result.score >= result.start_score
    assert np.all(np.isfinite(result.forest.leaves.v))
    if "learning_rate" in options and "S" in trainable:
        assert "Training stopped at step" in result.note


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("trainable", [("S", "b", "v"), ("b", "v"), ("v",)])
@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("scale", [1e30, 1e200, 1.5e308])
def test_targets_beyond_float32_keep_the_promise(trainable, n_trees, scale):
    X, _ = oblique_classes(200)
    y = X @ [1.0, -1.0, 0.5]
    forest = grown(X, y, n_trees=n_trees)
    with np.errstate(over="ignore"):
        y = np.clip(y * scale, -1e308, 1e308)
    result = retrain(forest, X, y, validation=(X, y), trainable=trainable, **FAST)
    assert result.score >= result.start_score
    assert np.all(np.isfinite(result.forest.leaves.v))


def test_leaves_beyond_float32_are_trained_in_float64():
    X, _ = oblique_classes(200)
    y = 1e100 * (X @ [1.0, -1.0, 0.5])
    forest = grown(X, y)
    result = retrain(forest, X, y, validation=(X, y), **FAST)
    assert result.score >= result.start_score
    assert not result.note


def test_leaves_that_become_NaN_are_never_taken():
    from bitvec.runtime.train.retrain.objective import build
    from bitvec.runtime.train.retrain.selection import Selection

    X, y = oblique_classes(50)
    forest = grown(X, y, classes=np.array(["no", "yes"]))
    raw = TorchEngine(replace(forest, leaves=Leaves(forest.leaves.v * np.nan))).raw(X)
    labels = transforms.predictions(forest.output, raw)
    target = (labels == "yes").astype(np.int64)[:, None]  # what the argmax of NaN happens to say
    selection = Selection(forest, build(forest.output, target), X, target, np.ones(50))
    v = forest.leaves.v.copy()
    v[0] = np.nan
    for leaves in (v, np.full_like(v, np.nan)):
        assert not selection.consider(replace(forest, leaves=Leaves(leaves)), "v", 1, 1).accepted
    assert selection.best is forest


def test_progress_is_told_of_every_evaluation():
    X, y = oblique_classes(100)
    seen = []
    forest = grown(X, y, classes=np.array(["no", "yes"]))
    result = retrain(forest, X, y, progress=seen.append, **FAST)
    assert tuple(seen) == result.history
    assert [e.stage for e in seen] == ["start", "soft", "soft", "soft"]
    assert seen[-1].step == seen[-1].steps == 60


def test_threads_and_gradient_modes_are_as_they_were():
    before = torch.get_num_threads(), torch.is_grad_enabled()
    X, y = oblique_classes(100)
    retrain(grown(X, y, classes=np.array(["no", "yes"])), X, y, **FAST)
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == before
    # Inference needs subnormal numbers.
    assert float(torch.tensor([1e-40]) * torch.tensor([1.0])) != 0.0


X, Y = oblique_classes(50)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.where(Y == "no", "nein", Y)}, "got 'nein'"),
        ({"y": Y[:-1]}, "one entry for each of the 50 rows"),
        ({"X": X[:, :2]}, "must have 3 features"),
        ({"X": X[:2], "y": Y[:2]}, "at least 2"),
        ({"X": X[:0], "y": Y[:0]}, "at least 2"),
        ({"X": np.full((50, 3), "a")}, "must hold real numbers"),
        ({"trainable": ("S", "w")}, "got 'w'"),
        ({"trainable": ()}, "at least one"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"sample_weight": np.full(50, -1.0)}, "sample_weight"),
        ({"sample_weight": np.full(50, np.inf)}, "sample_weight"),
        ({"sample_weight": np.full(50, 1e308)}, "finite sum"),
        ({"sample_weight": [[1.0], [1.0, 2.0]]}, "sample_weight"),
        ({"validation": 1.5}, "between 0 and 1"),
        ({"relaxation": "magic"}, "relaxation"),
        ({"steps": 0}, "steps"),
        ({"learning_rate": np.nan}, "learning_rate"),
        ({"gamma": (0.0, 1.0)}, "gamma"),
        ({"gamma": 3}, "gamma"),
        ({"gamma": (1.0, "a")}, "gamma"),
        ({"gamma": (1.0, 2.0, 3.0)}, "gamma"),
        ({"learning_rate": "a"}, "learning_rate"),
        ({"learning_rate": 10**400}, "learning_rate"),
        ({"weight_decay": None}, "weight_decay"),
        ({"seed": -1}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"steps": "x"}, "steps"),
        ({"steps": True}, "steps"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"relaxation": 3}, "relaxation"),
        ({"trainable": 3}, "`trainable` must hold names"),
        ({"progress": 3}, "progress"),
        ({"device": "gpu"}, "device"),
        ({"device": "meta"}, "device"),
        ({"device": "hpu"}, "device"),
        ({"y": [[1], [1, 2]] * 25}, "y"),
        ({"validation": "0.2"}, "validation"),
        ({"validation": None}, "validation"),
        ({"validation": np.full(50, 0.2)}, "validation"),
        ({"validation": (X,)}, "validation"),
        ({"validation": (X, Y, np.ones(50), 0)}, "validation"),
        ({"validation": (X, Y[:-1])}, r"validation\[1\]"),
        ({"validation": (X[:, :2], Y)}, r"validation\[0\]"),
        ({"validation": (X, Y, Y)}, r"validation\[2\]"),
        ({"validation": (X, Y, np.ones(3))}, r"validation\[2\]"),
        ({"validation": (X, Y, np.zeros(50))}, "at least 2 validation rows"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change, message):
    forest = grown(X, Y, classes=np.array(["no", "yes"]))
    arguments = {"X": X, "y": Y, **FAST, **change}
    with pytest.raises(InputError, match=message) as caught:
        retrain(forest, arguments.pop("X"), arguments.pop("y"), **arguments)
    assert "\n" not in str(caught.value)


def test_targets_that_are_not_finite_are_refused():
    y = X[:, 0].astype(np.float64)
    forest = grown(X, y)
    y[3] = np.nan
    with pytest.raises(InputError, match="finite"):
        retrain(forest, X, y, **FAST)


@settings(max_examples=10)
@given(st.data())
def test_linear_leaves_are_retrained_and_never_worse(data):
    forest = data.draw(
        forests(kinds=("axis",), linear=True, aggregates=(Aggregate.SUM,), max_leaves=8).filter(
            lambda forest: forest.leaves.linear is not None and not forest.output.is_classifier
        )
    )
    X = np.random.default_rng(0).normal(size=(40, forest.n_features))
    y = np.random.default_rng(1).normal(size=(40, forest.n_outputs))
    for train in (("v",), ("b", "v")):
        result = retrain(
            forest, X, y, trainable=train, validation=(X, y), steps=10, evaluations=2, batch_size=16
        )
        assert result.score >= result.start_score
        assert np.array_equal(result.forest.tests.column, forest.tests.column)


def test_probabilities_stay_probabilities_whatever_the_loss_is():
    X, y = oblique_classes(400)
    forest = grown(X[:200], y[:200], n_trees=3, classes=np.array(["no", "yes"]))
    held_out = (X[200:], y[200:])
    with pytest.raises(InputError, match="must not name base_score"):
        retrain(forest, X[:200], y[:200], trainable=("base_score",), validation=held_out, **FAST)

    def likelihood(raw, target):
        return -raw.clamp_min(1e-9).log().gather(1, target[:, None])[:, 0]

    for train in (("v",), {"v": {"leaves": range(10)}}, ("b", "v")):
        result = retrain(
            forest, X[:200], y[:200], trainable=train, validation=held_out, loss=likelihood,
            metric="log_loss", **FAST,
        )  # fmt: skip
        p = TorchEngine(result.forest).raw(X)
        assert np.allclose(p.sum(axis=1), 1, atol=1e-5)  # of the engine's float sums
        assert np.all(p >= 0)
        assert result.score <= 0


def test_a_loss_that_broadcasts_is_refused():
    X, _ = oblique_classes(60)
    y = X @ [1.0, -1.0, 0.5]
    forest = grown(X, y)
    with pytest.raises(InputError, match="beware of shapes that broadcast"):
        retrain(forest, X, y, loss=lambda raw, target: (raw[:, 0] - target).abs(), **FAST)


@pytest.mark.parametrize(
    "train",
    [{"v": {"levels": [1]}}, {"b": {"nodes": [-1]}}, {"S": 3}, {"base_score": {"nodes": []}}],
)
def test_messages_on_what_may_move_name_the_callers_argument(train):
    X, y = oblique_classes(60)
    forest = grown(X, y, classes=np.array(["no", "yes"]))
    with pytest.raises(InputError, match=r"`trainable\["):
        retrain(forest, X, y, trainable=train, **FAST)
