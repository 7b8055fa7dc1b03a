"""Soft forests with linear leaves, and with a feature map that moves: gradients, the way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from strategies import AXIS, OBLIQUE, forests_with_rows

from bitvec.core import reference, structure
from bitvec.core.feature_maps import Concatenate, Identity, Layers, Linear, ReLU, StackedForest
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import LinearTerms
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, block_scores, harden  # noqa: E402
from bitvec.runtime.train.relax.block_scores import RECOMPUTE_BEYOND  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS  # noqa: E402
from bitvec.runtime.train.relax.torch_map import TorchMap  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)
ROUNDING = {"rtol": 1e-8, "atol": 1e-8}
"""Of sums in another order, in float64."""


def with_linear_leaves(forest, seed=0):
    """Return a forest of three leaves, of which the second and the third have one linear term."""
    rng = np.random.default_rng(seed)
    terms = LinearTerms(
        np.array([0, 0, 1, 2]),
        np.array([0, 1], np.int32),
        rng.normal(size=(2, 1)),
        rng.normal(size=(3, 1)),
    )
    return replace(forest, leaves=replace(forest.leaves, linear=terms))


def three_leaves(S=((0.0, 1.0), (1.0, 0.5))):
    return Forest.from_matrices(np.array(S), [0.0, 0.1], [[0, 0], [0, 1], [1, 1]], [0.0, 1.0, 2.0])


def network(seed=0):
    rng = np.random.default_rng(seed)
    return Layers((Linear(rng.normal(size=(3, 2)), rng.normal(size=3)), ReLU()))


def behind(phi, S, *, linear=False):
    """Return a forest of two features that reads φ by these rows of S."""
    forest = three_leaves(S)
    forest = with_linear_leaves(forest) if linear else forest
    return replace(forest, feature_map=phi, inputs=Inputs(2))


def behind_network(*, linear=False):
    S = [[0, 0, 1, 0, 0], [1, 0, 0.5, -1, 2]]
    return behind(Concatenate((Identity(2), network())), S, linear=linear)


def rows_of(seed=1, n=6):
    return np.random.default_rng(seed).normal(size=(n, 2))


def shake(module, amount=0.05):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter += amount * noise
    return module


def moving(module):
    return {name: part for name, part in module.named_parameters() if part.requires_grad}


def has_right_gradient(module, X):
    named, rows = moving(module), module.prepare(X)

    def run(*values):
        return torch.func.functional_call(module, dict(zip(named, values, strict=True)), (rows,))

    return torch.autograd.gradcheck(run, tuple(named.values()))


def assert_numbers_are_kept(old, new, *names):
    for name in names:
        assert getattr(new, name).tobytes() == getattr(old, name).tobytes(), name


MOVES = [("phi",), ("phi", "b"), ("phi", "v", "base_score"), ("phi", "S", "b", "v")]


@pytest.mark.parametrize("trainable", MOVES)
@pytest.mark.parametrize("calibrated", [False, True])
def test_gradients_reach_the_feature_map_and_linear_leaves(trainable, calibrated):
    forest, X = behind_network(linear=True), rows_of()
    X[0, 0] = np.nan
    module = SoftForest.from_forest(forest, trainable=trainable, dtype=torch.float64)
    if calibrated:
        module.calibrate(X)
    assert has_right_gradient(module, X)


@pytest.mark.parametrize("relaxation", sorted(set(RELAXATIONS) - {"straight_through"}))
def test_every_relaxation_has_a_gradient_to_the_feature_map(relaxation):
    S = [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]  # of one column each, as the kernel gate reads them
    forest = behind(Concatenate((Identity(2), network())), S, linear=True)
    module = SoftForest.from_forest(
        forest, relaxation, trainable=("phi", "b", "v"), gamma=0.3, dtype=torch.float64
    )
    assert has_right_gradient(module, rows_of())


def test_a_straight_through_forest_is_hard_and_moves_its_feature_map():
    forest, X = behind_network(linear=True), rows_of(n=20)
    module = SoftForest.from_forest(
        forest, "straight_through", trainable=("phi", "v"), dtype=torch.float64
    )
    soft = module(X)
    np.testing.assert_allclose(soft.detach().numpy(), reference.raw(forest, X), **ROUNDING)
    soft.square().sum().backward()
    assert all(part.grad.abs().sum() > 0 for name, part in moving(module).items() if "map" in name)


@pytest.mark.parametrize("trainable", MOVES)
def test_what_has_not_moved_comes_back_itself(trainable):
    forest, X = behind_network(linear=True), rows_of()
    for module in (
        SoftForest.from_forest(forest, trainable=trainable),
        SoftForest.from_forest(forest, trainable=trainable).calibrate(X),
    ):
        hard = harden(module)
        assert hard.feature_map is forest.feature_map
        assert hard.leaves is forest.leaves or "base_score" in trainable
        assert_numbers_are_kept(forest.tests, hard.tests, "b", "weight", "column")
        assert_numbers_are_kept(forest.leaves, hard.leaves, "v")
        assert_numbers_are_kept(forest.leaves.linear, hard.leaves.linear, "weight", "constant")


def test_a_feature_map_that_moves_alone_leaves_S_b_and_v_bit_for_bit():
    forest, X = behind_network(linear=True), rows_of()
    hard = harden(shake(SoftForest.from_forest(forest, trainable="phi").calibrate(X)))
    assert hard.feature_map is not forest.feature_map
    assert hard.leaves is forest.leaves
    assert_numbers_are_kept(forest.tests, hard.tests, "b", "weight", "column", "offset", "r")


@pytest.mark.parametrize("trainable", MOVES)
@pytest.mark.parametrize("calibrated", [False, True])
def test_the_hardened_forest_answers_as_the_module_does_and_soft_scores_tend_to_it(
    trainable, calibrated
):
    forest, X = behind_network(linear=True), rows_of(n=40)
    X[0, 0] = np.nan
    module = SoftForest.from_forest(forest, trainable=trainable, dtype=torch.float64)
    if calibrated:
        module.calibrate(X)
    expected = reference.raw(forest, X)
    np.testing.assert_allclose(module.hard(X).detach().numpy(), expected, **ROUNDING)
    expected = reference.raw(harden(shake(module)), X)
    np.testing.assert_allclose(module.hard(X).detach().numpy(), expected, **ROUNDING)
    module.gamma = 1e9
    np.testing.assert_allclose(module(X).detach().numpy(), expected, **ROUNDING)


@given(forests_with_rows(kinds=(AXIS, OBLIQUE), linear=True, aggregates=SUMMED, max_leaves=8))
def test_drawn_forests_with_linear_leaves_route_as_they_do_and_come_back_bit_for_bit(drawn):
    forest, X = drawn
    if forest.n_trees == 0:
        return
    module = SoftForest.from_forest(forest, trainable=("b", "v"), dtype=torch.float64)
    exits = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    assert np.array_equal(module.exit_leaves(X).T.numpy(), exits)
    assert module(X).shape == (len(X), forest.n_outputs)
    for hard in (harden(module), harden(module.calibrate(X)) if len(X) else forest):
        assert_numbers_are_kept(forest.tests, hard.tests, "b", "weight")
        assert_numbers_are_kept(forest.leaves, hard.leaves, "v")
        if forest.leaves.linear is not None:
            assert hard.leaves.linear is forest.leaves.linear


def test_a_torch_module_as_feature_map_trains_and_hardens():
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()).to(torch.float64)
    phi = TorchMap(body, 2, 2)
    forest = behind(phi, np.eye(2))
    X = rows_of(n=200)
    y = torch.tensor(np.where(X.sum(axis=1) > 0, 2.0, 0.0))
    module = SoftForest.from_forest(forest, trainable=("phi", "v"), gamma=2.0).calibrate(X)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    rows, losses = module.prepare(X), []
    for _ in range(60):
        loss = (module(rows)[:, 0] - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    hard = harden(module)
    assert isinstance(hard.feature_map, TorchMap)
    before, after = (
        np.mean((reference.raw(model, X)[:, 0] - y.numpy()) ** 2) for model in (forest, hard)
    )
    assert after < 0.7 * before
    for old, kept in zip(body.parameters(), phi.module.parameters(), strict=True):
        assert torch.equal(old, kept)  # the caller's module and the forest's are left alone


def stacked(*, values, linear=False):
    inner = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [0.0, 1.0])
    if linear:
        terms = LinearTerms(
            np.array([0, 1, 1]), np.array([1], np.int32), np.ones((1, 1)), np.zeros((2, 1))
        )
        inner = replace(inner, leaves=replace(inner.leaves, linear=terms))
    outer = Forest.from_matrices(np.eye(3 if values else 4)[[-1]], [0.5], [[0], [1]], [10.0, 20.0])
    return replace(outer, feature_map=StackedForest(inner, values), inputs=Inputs(2))


@pytest.mark.parametrize("values", [False, True])
def test_a_forest_in_front_is_hard_while_it_stays_and_soft_while_it_moves(values):
    forest, X = stacked(values=values), np.array([[0.4, 0.0], [0.7, 0.0]])
    still = SoftForest.from_forest(forest, trainable=("b",), dtype=torch.float64)
    left = torch.tensor([[0.0], [1.0]], dtype=torch.float64)  # what the outer test reads
    share = (left - 0.5).sigmoid()
    np.testing.assert_allclose(still(X).detach(), 10 + 10 * share, **ROUNDING)
    module = SoftForest.from_forest(forest, trainable=("phi",), gamma=3.0, dtype=torch.float64)
    inner = torch.sigmoid(3 * (torch.tensor(X[:, :1]) - 0.5))
    np.testing.assert_allclose(
        module(X).detach(), 10 + 10 * (3 * (inner - 0.5)).sigmoid(), **ROUNDING
    )
    assert has_right_gradient(module.calibrate(X), X)
    assert harden(module).feature_map is forest.feature_map
    hard = harden(shake(module, 0.01))
    assert hard.feature_map is not forest.feature_map
    assert_numbers_are_kept(forest.tests, hard.tests, "b", "weight")


def test_linear_leaves_of_a_forest_in_front_stay_where_only_its_exits_are_read():
    forest = stacked(values=False, linear=True)
    module = SoftForest.from_forest(forest, trainable=("phi",))
    module([[0.4, 0.0]]).sum().backward()
    assert harden(module).feature_map is forest.feature_map
    with pytest.raises(UnsupportedModelError, match="constant leaves"):
        SoftForest.from_forest(stacked(values=True, linear=True), trainable=("phi",))


def test_the_forest_in_front_grows_as_steep_as_the_one_behind():
    module = SoftForest.from_forest(stacked(values=True), trainable=("phi",), gamma=1.0)
    X = [[0.4, 0.0], [0.7, 0.0]]
    module.gamma = 1e6
    assert module(X)[:, 0].tolist() == [10.0, 20.0]


def test_linear_leaves_fall_back_to_their_constants_where_a_value_is_missing():
    forest = with_linear_leaves(three_leaves(np.eye(2)))
    X = np.array([[np.nan, 1.0], [1.0, np.nan], [np.nan, np.nan], [1.0, 1.0], [-1.0, -1.0]])
    module = SoftForest.from_forest(forest, trainable=("b", "v"), gamma=1e9, dtype=torch.float64)
    np.testing.assert_allclose(module(X).detach(), reference.raw(forest, X), **ROUNDING)
    assert has_right_gradient(
        SoftForest.from_forest(forest, trainable=("b", "v"), dtype=torch.float64), X
    )


def test_linear_trees_of_lightgbm_train_and_harden():
    lightgbm = pytest.importorskip("lightgbm")
    from bitvec import convert

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[::7, 1] = np.nan
    y = np.where(X[:, 0] > 0, 2 * X[:, 0], np.nan_to_num(X[:, 1]))
    data = lightgbm.Dataset(X, y, params={"linear_tree": True, "verbose": -1})
    options = {"linear_tree": True, "num_leaves": 5, "verbose": -1, "num_threads": 1}
    forest = convert(lightgbm.train(options, data, 6))
    assert forest.leaves.linear is not None
    module = SoftForest.from_forest(forest, trainable=("b", "v"), dtype=torch.float64).calibrate(X)
    assert harden(module).leaves is forest.leaves
    np.testing.assert_allclose(module.hard(X).detach(), reference.raw(forest, X), **ROUNDING)
    module.gamma = 60.0
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    rows, wanted = module.prepare(X), torch.tensor(y)[:, None]
    first = float((module(rows) - wanted).square().mean().detach())
    for _ in range(20):
        optimizer.zero_grad()
        loss = (module(rows) - wanted).square().mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < first
    hard = harden(module)
    np.testing.assert_allclose(module.hard(X).detach(), reference.raw(hard, X), **ROUNDING)
    assert hard.leaves.linear is not forest.leaves.linear


def several(forest, n=5):
    B, place = structure.select(forest.bitvectors, np.zeros(n, np.int64))
    tests, leaves = forest.tests.take(place.node), forest.leaves.take(place.leaf)
    return replace(forest, tests=tests, bitvectors=B, leaves=leaves)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("trainable", [("b", "v"), ("phi", "b", "v"), ("phi", "S", "b", "v")])
def test_runs_of_trees_and_of_rows_give_the_same_scores_and_gradients(
    monkeypatch, linear, trainable
):
    phi = behind_network(linear=linear).feature_map
    bare = replace(behind_network(linear=linear), feature_map=None, inputs=Inputs(5))
    forest = replace(several(bare), feature_map=phi, inputs=Inputs(2))
    X = rows_of(n=150)
    X[3, 1] = np.nan

    def found(tree_chunk):
        module = SoftForest.from_forest(
            forest, trainable=trainable, dtype=torch.float64, tree_chunk=tree_chunk
        ).calibrate(X)
        scores = module(X)
        scores.square().sum().backward()
        return [scores.detach(), *(part.grad for part in moving(module).values())]

    expected = found(None)
    for limit in (RECOMPUTE_BEYOND, 1):
        monkeypatch.setattr(block_scores, "RECOMPUTE_BEYOND", limit)
        for chunk in (None, 2):
            for one, other in zip(found(chunk), expected, strict=True):
                assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)  # of sums reordered


def test_bfloat16_gives_the_scores_to_its_digits_and_gradients_in_float32():
    forest, X = behind_network(linear=True), rows_of(n=30)
    exact, rough = (
        SoftForest.from_forest(forest, trainable=("phi", "b", "v"), dtype=dtype)
        for dtype in (torch.float64, torch.bfloat16)
    )
    difference = (rough(X).double() - exact(X)).abs().max()
    assert difference < 0.1  # 2⁻⁸ of each membership per level, times leaves of up to 5
    rough(X).square().sum().backward()
    assert all(part.grad.dtype == torch.float32 for part in moving(rough).values())


@pytest.mark.parametrize(
    ("forest", "choices", "message"),
    [
        (three_leaves(), {"trainable": ("phi",)}, "no feature map"),
        (three_leaves(), {"trainable": {"phi": {"nodes": [0]}}}, 'must be "all"'),
        (with_linear_leaves(three_leaves()), {"leaves": "logits"}, "to hold logits"),
        (
            with_linear_leaves(three_leaves()),
            {"trainable": {"v": {"leaves": [0]}}},
            "a part of them",
        ),
        (
            with_linear_leaves(three_leaves()),
            {"relaxation": "smooth_step", "routing": "sparse"},
            "constant leaves",
        ),
        (
            behind_network(),
            {"relaxation": "smooth_step", "routing": "sparse", "trainable": ("phi",)},
            "feature map that stays",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_sentence(forest, choices, message):
    with pytest.raises((InputError, UnsupportedModelError), match=message) as caught:
        SoftForest.from_forest(forest, **choices)
    assert "\n" not in str(caught.value)


def test_a_feature_map_that_stays_and_constant_leaves_take_the_plain_way():
    module = SoftForest.from_forest(behind_network(), trainable=("b", "v"))
    assert module.phi is None
    assert module.leaf_functions is None
    rows = module.prepare(rows_of())
    assert rows.x is None
    assert rows.leaves is None
    assert module.blocks()[0].tests.fixed.learned is None


@pytest.mark.parametrize("linear", [False, True])
def test_retraining_moves_the_feature_map_with_S_b_and_v(linear):
    from retraining import retrain

    forest, X = behind_network(linear=linear), rows_of(n=240)
    y = np.where(X[:, 0] > X[:, 1], 3.0, -1.0) + X[:, 0]
    result = retrain(
        forest, X[:160], y[:160], trainable=("phi", "S", "b", "v"),
        validation=(X[160:], y[160:]), steps=60, evaluations=3,
    )  # fmt: skip
    assert result.forest.feature_map is not forest.feature_map
    before, after = (
        np.mean((reference.raw(model, X)[:, 0] - y) ** 2) for model in (forest, result.forest)
    )
    assert after < before
