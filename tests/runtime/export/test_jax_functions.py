"""A forest in JAX: hard it has the reference's bits, soft the scores and gradients of torch."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from same_bits import assert_same_bits
from strategies import examples, forests, rows, special_values

import bitvec
from bitvec.core import reference
from bitvec.core.feature_maps import Concatenate, Identity, KeyTable, KeyTables
from bitvec.core.feature_maps.key_tables import Part
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import box
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.to_float32 import narrow_scores, narrow_tests
from bitvec.core.transforms import predictions, probabilities
from bitvec.errors import InputError, UnsupportedModelError

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

from relaxed_forests import CASES, axis, close, soft, some_rows  # noqa: E402

from bitvec.runtime.train.relax import SoftForest  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS  # noqa: E402
from bitvec.runtime.train.relax.torch_map import TorchMap  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)
STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
SMALL = 1e-30
"""Products and sums of what is smaller may be subnormal, which XLA takes for 0 on a CPU."""


@contextmanager
def float64(enabled):
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", enabled)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(autouse=True)
def _float64():
    with float64(True):
        yield


def without_small(forest, X):
    """Return a forest and rows whose sums over columns hold nothing subnormal."""
    tests = forest.tests
    if np.all(tests.is_one_hot):
        return forest, X

    def cleared(values):
        return np.where(np.abs(values) < SMALL, np.copysign(values.dtype.type(0), values), values)

    if tests.substitute is not None:
        tests = replace(tests, substitute=cleared(tests.substitute))
    return replace(forest, tests=tests), cleared(X)


def expected_raw(forest, X):
    with np.errstate(all="ignore"):
        return reference.raw(forest, X)


def assert_hard(forest, X, *, unfused=False):
    """Compare raw scores and leaves with the reference's: of all rows, one and none, one by one."""
    forest, X = without_small(forest, X)
    expected = expected_raw(forest, X)
    params, apply = bitvec.to_jax(forest)
    for n in (len(X), 1, 0):
        assert_same_bits(np.asarray(apply(params, X[:n])), expected[:n])
    assert_same_bits(np.asarray(jax.vmap(apply, (None, 0))(params, X)), expected)
    # Without params as arguments all tables are constants, which XLA likes to merge.
    assert_same_bits(np.asarray(jax.jit(lambda x: apply(params, x))(X)), expected)
    if unfused:
        with jax.disable_jit():
            assert_same_bits(np.asarray(apply(params, X)), expected)
    leaves = np.asarray(bitvec.to_jax(forest, output="leaves")[1]({}, X))
    assert np.array_equal(leaves, reference.exit_leaves(forest, X))


@examples(3)
@given(data=st.data())
def test_raw_scores_and_leaves_of_every_kind_are_the_references(data):
    forest = data.draw(forests(max_leaves=20))
    assert_hard(forest, data.draw(rows(forest)))


@pytest.mark.full
@examples(12)
@given(data=st.data())
def test_raw_scores_and_leaves_of_large_trees_are_the_references(data):
    forest = data.draw(forests(max_leaves=70))
    assert_hard(forest, data.draw(rows(forest)))


def test_tests_of_subnormals_and_sums_that_start_from_zeros_are_the_references():
    S, b, B = [[1, 0], [0, 1], [0, 1]], [-0.0, 1e-310, -5e-324], 1 - np.eye(4, 3)
    tree = Forest.from_matrices(S, b, B, [-0.0, 0.1, 0.0, -0.3])
    special = np.append(special_values(np.dtype(np.float64)), [np.nan, np.inf, -np.inf])
    X = np.stack(np.meshgrid(special, special), axis=-1).reshape(-1, 2)
    for base in (-0.0, 0.0):
        output = Output(1, np.float64, base_score=np.array([base]), base_first=True)
        assert_hard(replace(tree, output=output), X, unfused=base == 0)


def test_a_product_and_a_sum_are_rounded_apart():
    rng = np.random.default_rng(0)
    weights, B = rng.normal(size=(3, 4)), [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    X = rng.normal(size=(500, 4))
    b = [np.dot(row, X[k]) for k, row in enumerate(weights)]  # ties, but for the last bit
    tree = Forest.from_matrices(weights, b, B, rng.normal(size=(4, 3)))
    output = Output(3, np.float64, aggregate=Aggregate.MEAN, base_score=rng.normal(size=3))
    assert_hard(replace(tree.take([0] * 3), output=output), X)
    assert_hard(replace(tree.take([0] * 40), output=output), X)


def test_a_forest_of_float32_needs_no_float64():
    forest = narrow_scores(narrow_tests(axis()))
    with float64(False):
        assert_hard(forest, some_rows().astype(np.float32))
        assert bitvec.to_jax(forest, output="leaves")[1]({}, np.zeros((2, 4), "f4")).dtype == "i4"


@pytest.mark.parametrize("n_keys", [0, 20])
def test_looked_up_columns_are_the_references(n_keys):
    rng, multiplier = np.random.default_rng(2), 0x4906BA494954CB65
    X = rng.integers(-9, 9, (40, 2)).astype(np.float64)
    part = np.zeros(1, np.int32), np.array([Part.WHOLE], np.uint8), np.zeros(1), np.zeros(1, bool)
    none = np.zeros(0, np.uint64), np.zeros((0, 1), np.float32), np.ones(1, np.float32)
    table = KeyTable(*part, *none)
    key = np.unique(table.keys(X[:n_keys], multiplier)[0])
    table = replace(table, key=key, value=rng.normal(size=(key.size, 1)).astype(np.float32))
    feature_map = Concatenate((Identity(2), KeyTables(2, (table,), multiplier)))
    S, B = [[0, 0, 1], [0, 1, 0]], [[0, 0], [0, 1], [1, 1]]
    forest = Forest.from_matrices(S, [0.1, 1.0], B, [1.0, 2.0, 3.0])
    X[30], X[31] = np.nan, 0.5
    assert_hard(replace(forest, inputs=Inputs(2), feature_map=feature_map), X)


def test_a_weighted_median_is_the_references():
    forest = axis(1).take([0] * 5)
    v = np.random.default_rng(0).normal(size=forest.leaves.v.shape)
    weight = np.array([0.25, 0.3, 1.0, 2.5, 0.3])
    output = replace(forest.output, aggregate=Aggregate.WEIGHTED_MEDIAN, tree_weight=weight)
    assert_hard(replace(forest, output=output, leaves=replace(forest.leaves, v=v)), some_rows())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_and_labels_are_within_ulps(n_classes):
    link = PostTransform.SIGMOID if n_classes == 2 else PostTransform.SOFTMAX
    forest, names = axis(1 if n_classes == 2 else 3), np.array(list("abc"))[:n_classes]
    output = replace(forest.output, post_transform=link, classes=(names,))
    forest, X = replace(forest, output=output), some_rows(40)
    raw = expected_raw(forest, X)
    got = bitvec.to_jax(forest, output="probabilities")[1]
    params, label = bitvec.to_jax(forest, output="label")
    # An exponential, a sum and a quotient are each a unit or two in the last place off.
    found = np.asarray(got(params, X))
    np.testing.assert_allclose(found, probabilities(output, raw)[0], rtol=16 * 2.0**-52)
    assert np.array_equal(names[np.asarray(label(params, X))], predictions(output, raw))


def slopes(module, X):
    """Return the scores of a torch module, and the gradients of the sum of their squares."""
    x = torch.tensor(X, requires_grad=True)
    scores = module(x)
    scores.square().sum().backward()
    held = {name: p for name, p in module.named_parameters() if p.requires_grad}
    zero = torch.zeros_like
    own = {name: zero(p) if p.grad is None else p.grad for name, p in held.items()}
    return scores.detach(), own, zero(x) if x.grad is None else x.grad


@pytest.mark.parametrize(("kind", "relaxation"), CASES)
def test_scores_and_gradients_are_those_of_the_soft_module(kind, relaxation):
    module, X = soft(kind, relaxation), some_rows(holes=kind != "learned map")
    expected, of_params, of_rows = slopes(module, X)
    # That map is a network of float32, whose sums are in another order.
    dtype = torch.float32 if kind == "fixed map" else torch.float64
    params, apply = bitvec.to_jax(module)
    assert close(torch.tensor(np.asarray(apply(params, X))), expected, dtype)

    def loss(params, x):
        return (apply(params, x) ** 2).sum()

    found, row_slopes = jax.grad(loss, (0, 1))(params, X)
    assert found.keys() == of_params.keys()
    for name, slope in found.items():
        assert close(torch.tensor(np.asarray(slope)), of_params[name], dtype), name
    assert close(torch.tensor(np.asarray(row_slopes)), of_rows, dtype)


@pytest.mark.full
@examples(5)
@given(data=st.data())
def test_soft_scores_of_every_kind_are_torchs_one_by_one(data):
    name = data.draw(st.sampled_from(list(RELAXATIONS)))
    forest = data.draw(forests(aggregates=SUMMED, max_leaves=12, soft=name == "kernel"))
    X = np.clip(data.draw(rows(forest, finite=True)), -1e3, 1e3)  # whose sums do not overflow
    module = SoftForest.from_forest(forest, name, gamma=0.5, dtype=torch.float64)
    params, apply = bitvec.to_jax(module)
    expected = module(torch.tensor(X)).detach().numpy()
    got = np.asarray(jax.vmap(apply, (None, 0))(params, X))
    # Rows of several columns are summed in the forest's dtype, in another order; a margin that is
    # subnormal is 0 to XLA, which counts as 1e-6 of the margin's scale.
    few = 4096 * max(np.finfo(forest.dtype).eps, 1e-9)
    size = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
    np.testing.assert_allclose(got, expected, rtol=few, atol=few * size)


@pytest.mark.parametrize(
    "name",
    [n if n == "smooth_step" else pytest.param(n, marks=pytest.mark.full) for n in RELAXATIONS],
)
def test_it_tends_to_the_hard_answer_with_finite_gradients(name):
    X = np.random.default_rng(3).normal(size=(20, 4))
    expected, far = expected_raw(axis(), X), []
    for gamma in (1.0, 1e3, 1e7):
        module = SoftForest.from_forest(axis(), name, gamma=gamma, dtype=torch.float64)
        params, apply = bitvec.to_jax(module.calibrate(X))
        scores, back = jax.vjp(apply, params, X)
        assert all(np.isfinite(np.asarray(one)).all() for one in jax.tree.leaves(back(scores)))
        far.append(float(np.abs(scores - expected).max()))
    assert far[-1] <= min(far[0], 1e-12)


def test_what_jax_has_trained_is_hardened_by_torch():
    rng, module = np.random.default_rng(0), soft("axis", "sigmoid")
    X = rng.normal(size=(60, 4))
    y = (X[:, :1] > 0.3) + 0.0
    params, apply = bitvec.to_jax(module)

    @jax.jit
    def step(params):
        slope = jax.grad(lambda p: ((apply(p, X) - y) ** 2).mean())(params)
        return jax.tree.map(lambda p, s: p - 0.3 * s, params, slope)

    for _ in range(200):
        params = step(params)
    own = {name: torch.tensor(np.asarray(p)) for name, p in params.items()}
    module.load_state_dict(own, strict=False)
    assert close(torch.tensor(np.asarray(apply(params, X))), module(X).detach())
    before, after = (bitvec.compile(f).raw(X) for f in (axis(), bitvec.from_torch(module)))
    assert np.square(after - y).mean() < 0.7 * np.square(before - y).mean()


def test_a_hard_forest_has_gradients_of_its_leaves_and_none_of_its_rows():
    params, apply = bitvec.to_jax(STUMP)
    X = np.array([[0.0, 9.0], [1.0, 9.0], [2.0, np.nan]])
    slope = jax.grad(lambda params: apply(params, X).sum())(params)
    assert slope["v"].tolist() == [[1.0], [2.0]]
    with pytest.raises(InputError, match=r"must not require a gradient, .* name a relaxation"):
        jax.grad(lambda x: apply(params, x).sum())(X)
    with pytest.raises(InputError, match="must not require a gradient"):
        jax.jit(jax.jacfwd(lambda x: apply(params, x)))(X)


@pytest.mark.parametrize(
    ("x", "must"),
    [
        ([[0.0, 9.0]], "rows must be an array of NumPy or JAX, got list"),
        (np.zeros((3, 3)), r"shape \(batch, 2\) or \(2,\), got \(3, 3\)"),
        (np.zeros((1, 3, 2)), r"shape \(batch, 2\) or \(2,\), got \(1, 3, 2\)"),
        (np.zeros((3, 2), np.float32), "must be float64, .* got float32"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_sentence(x, must):
    params, apply = bitvec.to_jax(STUMP)
    with pytest.raises(InputError, match=must) as caught:
        apply(params, x)
    assert "\n" not in str(caught.value)


def test_float64_that_jax_has_not_is_refused():
    params, apply = bitvec.to_jax(STUMP)
    wide = bitvec.to_torch(STUMP, "sigmoid", dtype=torch.float64)
    with float64(False):
        for call in (
            lambda: apply(params, np.zeros((1, 2))),
            lambda: bitvec.to_jax(STUMP),
            lambda: bitvec.to_jax(wide),
        ):
            with pytest.raises(InputError, match="got `jax_enable_x64` off"):
                call()
        params, apply = bitvec.to_jax(STUMP, "sigmoid")
        assert apply(params, np.array([[0.5, 0.0]])) == pytest.approx(15.0, abs=1e-5)


def test_what_is_not_held_is_refused_by_name():
    own = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())
    mapped = replace(STUMP, feature_map=TorchMap(own, 2, 2))
    tests = replace(STUMP.tests, kind=np.array([Kind.KERNEL], np.uint8))
    leaves = replace(STUMP.leaves, v=np.array([[5e-324], [1.0]]))
    for call, must in (
        (lambda: bitvec.to_jax(mapped, "sigmoid"), "got torch's gelu"),
        (lambda: bitvec.to_jax(mapped), "got the feature map TorchMap"),
        (lambda: bitvec.to_jax(replace(STUMP, tests=tests, kernel=(box(1.0),) * 2)), "kernel"),
        (lambda: bitvec.to_jax(replace(STUMP, leaves=leaves)), "e-324 in `sums.v`"),
        (lambda: bitvec.to_jax(STUMP, "sigmoid", output="leaves"), "`output` with a relaxation"),
    ):
        with pytest.raises((UnsupportedModelError, InputError), match=must) as caught:
            call()
        assert "\n" not in str(caught.value)
