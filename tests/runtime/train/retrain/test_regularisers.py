"""Regularisers: the penalty that is stated, its gradient; exact zeros."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from retraining import grown, oblique_classes

from bitvec.core import reference
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax.harden import harden  # noqa: E402
from bitvec.runtime.train.relax.module import SoftForest  # noqa: E402
from bitvec.runtime.train.retrain import regularisers  # noqa: E402
from bitvec.runtime.train.retrain.regularisers import L1, L2, Regularisers, Spatial  # noqa: E402

CLASSES = np.array(["no", "yes"])


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors are small here: a second thread only waits, as `retrain` knows."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def relaxed(n_columns=3, trainable=("S", "b", "v"), depth=2, n_trees=1):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(80, n_columns)) * 1.5 ** np.arange(n_columns)).astype(np.float32)
    y = CLASSES[(X[:, 0] > 0).astype(int)]
    forest = grown(X, y, depth=depth, n_trees=n_trees, classes=CLASSES)
    module = SoftForest.from_forest(forest, trainable=trainable, dtype=torch.float64).calibrate(X)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.tensor(rng.normal(size=tuple(parameter.shape))))
    return module


def laplacian(height, width):
    """The Laplacian of the 4-neighbour grid, entry by entry."""
    M = np.zeros((height * width,) * 2)
    for r in range(height):
        for c in range(width):
            for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                if 0 <= r + dr < height and 0 <= c + dc < width:
                    M[r * width + c, r * width + c] += 1
                    M[r * width + c, (r + dr) * width + c + dc] -= 1
    return M


def test_the_grid_penalty_is_its_dense_Laplacian():
    module = relaxed(6)
    M = laplacian(2, 3)
    S = module.rows.S.detach().numpy()
    got = Spatial(0.3, (1, 2, 3), units="standardised").penalty(module)
    assert np.isclose(float(got.detach()), 0.3 * np.einsum("ij,jk,ik", S, M, S), rtol=1e-12)
    for matrix in (torch.tensor(M), torch.tensor(M).to_sparse_coo()):
        same = Spatial(0.3, matrix=matrix, units="standardised").penalty(module)
        assert np.isclose(float(same.detach()), float(got.detach()), rtol=1e-12)
    channels = Spatial(0.3, (3, 1, 2), units="standardised").penalty(module)
    M = np.kron(np.eye(3), laplacian(1, 2))
    assert np.isclose(float(channels.detach()), 0.3 * np.einsum("ij,jk,ik", S, M, S), rtol=1e-12)


def test_raw_units_are_those_of_the_columns_but_for_their_common_unit():
    module, M = relaxed(6), laplacian(2, 3)
    spread = module.scaling.spread
    beta = module.rows.S.detach().numpy() / spread * np.sqrt(np.mean(spread**2))
    got = float(Spatial(0.3, (1, 2, 3)).penalty(module).detach())
    assert np.isclose(got, 0.3 * np.einsum("ij,jk,ik", beta, M, beta), rtol=1e-12)
    module.scaling = replace(module.scaling, spread=255 * spread)  # other units of the pixels
    assert np.isclose(float(Spatial(0.3, (1, 2, 3)).penalty(module).detach()), got, rtol=1e-12)


PARTS = [
    L1(0.2),
    L1(0.2, by_column=True),
    L2(0.2),
    L2(0.2, ("S", "b", "v")),
    Spatial(0.2, (1, 2, 3)),
    Spatial(0.2, (3, 2, 1), units="standardised"),
    Spatial(0.2, matrix=torch.tensor(laplacian(2, 3))),
    Regularisers((L2(0.1), Spatial(0.2, (1, 2, 3)))),
]


@pytest.mark.parametrize("part", PARTS)
def test_every_penalty_has_its_gradient(part):
    module = relaxed(6)
    whole = Penalty(module, part)
    names = ("module.rows.S", "module.b", "module.v")

    def penalty(*values):
        return torch.func.functional_call(whole, dict(zip(names, values, strict=True)), ())

    values = [p.detach().clone().requires_grad_() for p in (module.rows.S, module.b, module.v)]
    assert float(penalty(*values).detach()) > 0
    torch.autograd.gradcheck(penalty, values)


class Penalty(torch.nn.Module):
    def __init__(self, module, part):
        super().__init__()
        self.module, self.part = module, part

    def forward(self):
        return self.part.penalty(self.module)


@pytest.mark.parametrize("by_column", [False, True])
def test_the_step_of_l1_is_the_proximal_point(by_column):
    module, part = relaxed(4), L1(0.7, by_column)
    S = module.rows.S
    before = S.detach().clone()
    part.after_step(module, 0.9)

    def total(at):
        with torch.no_grad():
            S.copy_(at)
            return float(((at - before) ** 2).sum() / 2 + 0.9 * part.penalty(module))

    point = S.detach().clone()
    least = total(point)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        for size in (1e-3, 0.1, 1.0):
            step = torch.randn(S.shape, generator=generator, dtype=S.dtype)
            assert total(point + size * step) >= least
            # Where a zero was made, a step of that number alone is no better.
            assert total(point + size * step * (point == 0)) >= least
    if not by_column:
        assert (point == 0).any()
    strong = L1(100.0, by_column)
    strong.after_step(module, 1.0)
    assert not S.detach().any()
    strong.after_step(module, 1.0)  # of zeros too
    assert not S.detach().any()


def test_columns_vanish_as_a_whole():
    module = relaxed(4)
    with torch.no_grad():
        module.rows.S[:, 1] *= 1e-3
    L1(0.5, by_column=True).after_step(module, 0.1)
    S = module.rows.S.detach()
    assert not S[:, 1].any()
    assert (S[:, [0, 2, 3]] != 0).all()


OPTIMIZERS = {
    "AdamW": {"weight_decay": 0.0},
    "Adam": {},
    "NAdam": {},
    "RMSprop": {},
    "SGD": {"momentum": 0.9, "nesterov": True},
    "plain SGD": {},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("by_column", [False, True])
def test_l1_ends_at_the_least_of_loss_and_penalty_with_any_optimiser(name, by_column):
    module = relaxed(5, depth=3)
    S = module.rows.S
    aim = torch.linspace(-1, 1, S.numel(), dtype=S.dtype).reshape(S.shape)
    aim *= 10.0 ** torch.linspace(-2, 1, S.shape[1])  # gradients of several sizes
    part = L1(0.5, by_column)
    make = getattr(torch.optim, name.split()[-1])
    optimizer = make([{"params": [module.b]}, {"params": [S]}], lr=0.1, **OPTIMIZERS[name])
    for step in range(750):
        rate = 0.2 * (1 - step / 750)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        ((S - aim) ** 2 / 2).sum().backward()
        optimizer.step()
        part.after_step(module, rate, optimizer)
    if by_column:
        size = torch.linalg.vector_norm(aim, dim=0)
        least = aim * (1 - 0.5 * len(S) ** 0.5 / size).clamp_min(0)
    else:
        least = aim.sign() * (aim.abs() - 0.5).clamp_min(0)
    assert torch.equal(S == 0, least == 0)
    # What is far takes long by steps of at most the learning rate, whose sum is 75.
    assert torch.allclose(S, least, atol=0.05)


def test_l1_makes_rows_that_read_few_columns():
    X, y = oblique_classes(400)
    noise = np.random.default_rng(1).normal(size=(400, 5)).astype(np.float32)
    X = np.concatenate([X, noise], axis=1)
    forest = grown(X, y, classes=CLASSES, depth=1, seed=1)
    label = torch.tensor((y == "yes").astype(int))
    kept = {}
    for strength in (0.0, 0.02):
        module = SoftForest.from_forest(forest, leaves="logits").calibrate(X)
        smooth = regularisers.build(module, l1=strength)
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.03)
        rows = module.prepare(X)
        for step in range(200):
            rate = optimizer.param_groups[0]["lr"] = 0.03 * (1 - step / 200)
            loss = -module(rows).gather(1, label[:, None]).log().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            smooth.after_step(module, rate, optimizer)
        hard = harden(module)
        kept[strength] = hard.tests.column.tolist()
        right = (reference.raw(hard, X).argmax(axis=1) == label.numpy()).mean()
        assert right > 0.95
    assert len(kept[0.0]) == 8
    assert kept[0.02] == [0, 1, 2]  # those that the labels depend on


def test_none_is_false_and_adds_nothing():
    module = relaxed()
    none = regularisers.build(module)
    assert not none
    assert float(none.penalty(module)) == 0.0
    before = module.rows.S.detach().clone()
    none.after_step(module, 0.1)
    assert torch.equal(module.rows.S.detach(), before)


def test_what_is_built_is_what_was_asked_for():
    module = relaxed(6)
    M = laplacian(2, 3)
    S = module.rows.S
    for choice in (
        {"spatial_shape": (2, 3)},
        {"spatial_shape": (1, 2, 3)},
        {"spatial_matrix": M},
        {"spatial_matrix": scipy.sparse.csr_array(M)},
    ):
        built = regularisers.build(module, spatial=0.3, l2=0.1, l1=0.2, **choice)
        expected = Spatial(0.3, (1, 2, 3)).penalty(module) + 0.1 * S.square().sum()
        assert torch.isclose(built.penalty(module), expected, rtol=1e-12)
        assert built.proximal == (L1(0.2),)
    both = regularisers.build(module, l2=0.1, l2_of=("b", "v"))
    expected = 0.1 * (module.b.square().sum() + module.v.square().sum())
    assert torch.isclose(both.penalty(module), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"l1": -1}, "`l1`"),
        ({"l2": "much"}, "`l2`"),
        ({"spatial": np.nan}, "`spatial`"),
        ({"l2": 1, "l2_of": "r"}, "got 'r'"),
        ({"spatial": 1}, "neither"),
        ({"spatial": 1, "spatial_shape": (2, 3), "spatial_matrix": np.eye(6)}, "both"),
        ({"spatial": 1, "spatial_shape": (2, 2)}, "6 columns"),
        ({"spatial": 1, "spatial_shape": (2, 3.0)}, "6 columns"),
        ({"spatial": 1, "spatial_shape": (6,)}, "6 columns"),
        ({"spatial": 1, "spatial_shape": (-2, -3)}, "6 columns"),
        ({"spatial": 1, "spatial_matrix": np.eye(5)}, "6 x 6"),
        ({"spatial": 1, "spatial_matrix": np.full((6, 6), np.inf)}, "finite"),
        ({"spatial": 1, "spatial_shape": (2, 3), "spatial_units": "px"}, "spatial_units"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(choices, message):
    with pytest.raises(InputError, match=message) as caught:
        regularisers.build(relaxed(6), **choices)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("choices", [{"l1": 1}, {"spatial": 1, "spatial_shape": (1, 3)}])
def test_rows_that_may_not_move_are_not_regularised(choices):
    with pytest.raises(InputError, match="while S may not move"):
        regularisers.build(relaxed(trainable=("b", "v")), **choices)
