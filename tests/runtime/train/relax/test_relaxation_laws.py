"""The laws of all relaxations, each for every legal combination of a gate, a map and a score."""

from __future__ import annotations

import dense_relaxations
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import bitvectors, forests, rows

from bitvec.core import reference, structure
from bitvec.core.output import Aggregate

torch = pytest.importorskip("torch")

from bitvec.errors import InputError  # noqa: E402
from bitvec.runtime.train.relax import Relaxation, SoftForest  # noqa: E402
from bitvec.runtime.train.relax.path_layout import PathLayout  # noqa: E402
from bitvec.runtime.train.relax.relaxations import LEGAL, RELAXATIONS, find  # noqa: E402
from bitvec.runtime.train.relax.soft_leaves import Margins, Setting, log_memberships, memberships  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def softplus_like(m):
    """A positivity-augmented activation of one's own: m · (1 − exp(−m)) for m > 0."""
    if isinstance(m, np.ndarray):
        return np.where(m > 0, m * -np.expm1(-np.abs(m)), 0)
    return torch.where(m > 0, m * -torch.expm1(-m.abs()), 0.0)


EVERY = [
    Relaxation(gate, leaf_map, score)
    for (leaf_map, score), gates in LEGAL.items()
    for gate in gates
] + [Relaxation(softplus_like, "index_sparsemax")]
OF_MARGINS = [kind for kind in EVERY if kind.gate != "kernel"]  # that gate reads columns too
SMOOTH = [kind for kind in OF_MARGINS if kind.gate != "straight_through"]


def named(kind):
    gate = kind.gate if isinstance(kind.gate, str) else "function"
    return f"{gate}-{kind.leaf_map}-{kind.score}"


for_every = pytest.mark.parametrize("kind", OF_MARGINS, ids=named)


def soft(kind, B, margin, gamma, hard=None, right=None, relaxed=memberships):
    """Return u, (n_leaves, batch), for margins in the forest's order."""
    layout = PathLayout(B)

    def put(values):
        return None if values is None else layout.by_level(torch.as_tensor(values))

    m = put(margin)
    h = m > 0 if right is None else put(right)
    return relaxed(kind, Margins(m, put(hard), h), Setting(layout, gamma, m.dtype))


def drawn_margins(B, seed, batch=3):
    """Return margins of at least 1/4 in size, of both signs."""
    rng = np.random.default_rng(seed)
    size = (B.n_nodes, batch)
    return rng.uniform(0.25, 2.0, size) * rng.choice([-1.0, 1.0], size)


def per_tree(B, u):
    return torch.stack(
        [u[a:b].sum(0) for a, b in zip(B.leaf_ptr[:-1], B.leaf_ptr[1:], strict=True)]
    )


@for_every
@settings(max_examples=6)
@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_u_is_not_negative_and_sums_to_one_per_tree(kind, B, seed):
    u = soft(kind, B, drawn_margins(B, seed), 1.5)
    assert torch.all(u >= 0)
    assert torch.all((per_tree(B, u) - 1).abs() < 1e-12)  # rounding of up to 70 terms


@for_every
@settings(max_examples=6)
@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_u_tends_to_the_exit_leaf(kind, B, seed):
    m = drawn_margins(B, seed)
    expected = np.zeros((B.n_leaves, m.shape[1]))
    leaf = (reference.exit_leaf_bitvector(B, m.T > 0) + B.leaf_ptr[:-1]).T
    np.put_along_axis(expected, leaf, 1.0, axis=0)
    # Margins are at least 1/4: of a wrong turn exp(-250) is left, divided by a depth of up to 70
    # exp(-14) where the score is per depth.
    gamma = 1000.0 if kind.score != "ternary_per_depth" else 70_000.0
    assert np.allclose(soft(kind, B, m, gamma).numpy(), expected, rtol=0, atol=1e-12)


@for_every
@settings(max_examples=6)
@given(bitvectors(max_leaves=16), st.integers(0, 2**32 - 1), st.booleans())
def test_u_is_that_of_the_dense_matrices(kind, B, seed, some_hard):
    m, rng = drawn_margins(B, seed), np.random.default_rng(seed)
    hard, right = rng.random((2, *m.shape)) < 0.3 if some_hard else (None, None)
    expected = dense_relaxations.memberships(kind, B, m, 1.25, hard, right)
    if not some_hard:
        right = None
    elif kind.gate == "straight_through":
        right = np.where(hard, right, m > 0)
    got = soft(kind, B, m, 1.25, hard, right).numpy()
    assert np.allclose(got, expected, rtol=1e-9, atol=1e-12)  # sums in another order


@for_every
@settings(max_examples=4)
@given(bitvectors(max_leaves=16), st.integers(0, 2**32 - 1))
def test_log_u_is_the_logarithm_of_u(kind, B, seed):
    m = drawn_margins(B, seed)
    log_u = soft(kind, B, m, 2.0, relaxed=log_memberships)
    assert torch.allclose(log_u.exp(), soft(kind, B, m, 2.0), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kind", SMOOTH, ids=named)
@pytest.mark.parametrize("relaxed", [memberships, log_memberships])
def test_gradients_are_exact(kind, relaxed):
    left, right = np.array([1, ~0, ~2, ~4]), np.array([2, ~1, ~3, ~5])
    B = structure.arrange(left, right, np.array([0, 3]))[0]
    m = torch.tensor(np.random.default_rng(3).normal(size=(B.n_nodes, 4)), requires_grad=True)

    def u(m):
        found = soft(kind, B, m, 1.3, relaxed=relaxed)
        return torch.where(found.isfinite(), found, 0.0)  # log u is −inf, flat, where u is 0

    assert torch.autograd.gradcheck(u, (m,))


def test_straight_through_has_the_gradient_of_the_sigmoid():
    B = structure.arrange([1, ~0], [~2, ~1], [0])[0]
    m = torch.randn((2, 5), dtype=torch.float64, requires_grad=True)
    weight = torch.randn((3, 5), dtype=torch.float64)
    grads = [
        torch.autograd.grad((soft(find(name), B, m, 1.3) * weight).sum(), m)[0]
        for name in ("straight_through", "sigmoid")
    ]
    assert torch.equal(*grads)


@for_every
def test_margins_that_overflow_keep_sums_and_gradients_sound(kind):
    B = structure.arrange([1, ~0, 3, ~3], [2, ~1, ~2, ~4], [0])[0]
    m = torch.tensor([[3e38, -3e38, 1e-45, 0.0, -0.0]] * 4, requires_grad=True)
    u = soft(kind, B, m, 50.0)
    (u * torch.arange(5.0)[:, None]).sum().backward()
    assert torch.all((u.sum(0) - 1).abs() < 1e-5)
    assert torch.all(m.grad.isfinite())


@pytest.mark.parametrize("kind", EVERY, ids=named)
@settings(max_examples=3)
@given(st.data())
def test_hostile_rows_keep_sums_and_gradients_sound(kind, data):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=16))
    X = data.draw(rows(forest))
    module = SoftForest.from_forest(forest, kind, trainable=("S", "b", "v", "r")).calibrate(X)
    module(X).sum().backward()
    u = module.memberships(X).detach().T
    assert torch.all(u >= 0)
    # In float32; where one test's share is 1 + eps, the next one's is added on top.
    assert torch.all((per_tree(forest.bitvectors, u) - 1).abs() < 1e-4)
    for name, parameter in module.named_parameters():
        assert parameter.grad is None or torch.all(parameter.grad.isfinite()), name


@pytest.mark.parametrize("kind", EVERY, ids=named)
@settings(max_examples=3)
@given(st.data())
def test_hard_tests_pass_as_0_or_1(kind, data):
    forest = data.draw(
        forests(kinds=("set", "equal"), linear=False, aggregates=SUMMED, max_leaves=20)
    )
    X = data.draw(rows(forest))
    module = SoftForest.from_forest(forest, kind, trainable=(), dtype=torch.float64, gamma=0.3)
    expected = np.zeros((len(X), forest.n_leaves))
    leaf = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    np.put_along_axis(expected, leaf, 1.0, axis=1)
    # Maps end in a division or a subtraction of whole scores.
    assert np.allclose(module.memberships(X).numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY, ids=named)
def test_gradients_through_the_module_are_exact(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5, 3))
    X[0, 0] = np.nan
    for wide in (False, True):
        S = rng.normal(size=(3, 3)) if wide else np.eye(3)[[0, 1, 0]]
        forest = from_tree(S, rng)
        trainable = ("S", "b", "v") if wide else ("b", "v")
        module = SoftForest.from_forest(forest, kind, trainable=trainable, dtype=torch.float64)
        module.calibrate(X)
        rows_ = module.prepare(X)
        names = [name for name, p in module.named_parameters() if p.requires_grad]
        start = [module.get_parameter(name).detach().clone() for name in names]

        def raw(*values, module=module, rows_=rows_, names=names):
            given = dict(zip(names, values, strict=True))
            return torch.func.functional_call(module, given, (rows_,))

        if kind.gate == "straight_through":  # its gradient is not that of its value
            continue
        values = [value.requires_grad_() for value in start]
        # The offset of plain rows has no effect, and so no numerical gradient.
        assert torch.autograd.gradcheck(raw, values)


def from_tree(S, rng):
    from bitvec.core.forest import Forest

    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    return Forest.from_matrices(S, rng.normal(size=3) / 2, B, rng.normal(size=(4, 2)))


def test_softmax_sparsemax_and_entmax_of_the_bitvector_score_are_refused():
    for name in ("softmax", "sparsemax", "entmax15"):
        with pytest.raises(
            InputError, match="uniform distribution over the leaves that share its maximum"
        ):
            Relaxation(leaf_map=name, score="bitvector")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gate": "relu"}, "the gate of product must be sigmoid or"),
        ({"gate": "kernel", "leaf_map": "softmax"}, "the gate of softmax of the score two_sided"),
        ({"gate": "smooth_step", "leaf_map": "sparsemax"}, "choose another gate or leaf map"),
        ({"gate": torch.relu}, "must go with index_sparsemax"),
        ({"gate": torch.sigmoid, "leaf_map": "index_sparsemax"}, "positive for m > 0 and 0"),
        ({"gate": lambda m: m[0], "leaf_map": "index_sparsemax"}, "positive for m > 0 and 0"),
        ({"gate": lambda: 1, "leaf_map": "index_sparsemax"}, "must take a tensor of margins"),
        ({"gate": "step"}, "`gate` must be one of"),
        ({"leaf_map": "argmax"}, "`leaf_map` must be one of"),
        ({"score": "two_sided"}, "the score of product must be None"),
        ({"score": 3}, "`score` must be one of"),
        ({"leaf_map": "index_sparsemax", "score": "ternary"}, "must be bitvector"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(options, said):
    with pytest.raises(InputError, match=said) as caught:
        Relaxation(**options)
    assert "\n" not in str(caught.value)


def test_short_names_stand_for_combinations():
    assert {find(name) for name in RELAXATIONS} <= set(EVERY)
    assert find("softmax_ternary") == Relaxation(leaf_map="softmax", score="ternary")
    assert find(Relaxation("smooth_step")) is not None
    with pytest.raises(InputError, match="`relaxation` must be one of"):
        find("bitvector_softmax")
