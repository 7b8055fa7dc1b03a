"""Hardening: what may not move comes back bit for bit, what moved is what the module computed."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, OBLIQUE, POLYTOPE, forests, rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.source import Source
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, from_torch, harden, node_margins  # noqa: E402
from bitvec.runtime.train.relax.relaxations import RELAXATIONS  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def same(one, other, name):
    one, other = getattr(one, name), getattr(other, name)
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def shaken(forest, trainable, X=None, amount=0.1, **options):
    """Return a module whose trainable parameters have all been moved."""
    module = SoftForest.from_forest(forest, trainable=trainable, **options)
    if X is not None:
        module.calibrate(X)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter.add_(amount * noise)
    return module


@given(st.data(), st.sampled_from([(), ("v",), ("b",), ("r",), ("b", "v"), ("v", "base_score")]))
def test_what_may_not_move_comes_back_bit_for_bit(data, trainable):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=20))
    module = shaken(forest, trainable, data.draw(rows(forest)))
    hard = harden(module)
    moving = {"b": "b", "r": "r"}
    for field in fields(forest.tests):
        if field.name not in [moving.get(name) for name in trainable]:
            assert same(hard.tests, forest.tests, field.name), field.name
    if "v" not in trainable:
        assert same(hard.leaves, forest.leaves, "v")
    if "base_score" not in trainable:
        assert same(hard.output, forest.output, "base_score")
    assert hard.bitvectors is forest.bitvectors
    assert hard.inputs is forest.inputs


@given(st.data())
def test_fixed_thresholds_survive_rows_that_move(data):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=20))
    hard = harden(shaken(forest, ("S",), data.draw(rows(forest))))
    for name in ("b", "r", "kind", "relation", "missing_right"):
        assert same(hard.tests, forest.tests, name)


@given(st.data(), st.booleans())
def test_what_has_not_moved_comes_back_bit_for_bit(data, calibrated):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=20))
    module = SoftForest.from_forest(forest, trainable=("S", "b", "v", "r", "base_score"))
    if calibrated:
        module.calibrate(data.draw(rows(forest)))
    hard = harden(module)
    for field in fields(forest.tests):
        assert same(hard.tests, forest.tests, field.name), field.name
    assert same(hard.leaves, forest.leaves, "v")
    assert same(hard.output, forest.output, "base_score")


@pytest.mark.parametrize("v", [[np.inf, 2.0], [1 / 3, 1e-300], [np.nan, 1e38]])
def test_leaves_that_float32_cannot_tell_come_back_where_they_have_not_moved(v):
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], v)
    module = SoftForest.from_forest(forest)
    assert same(harden(module).leaves, forest.leaves, "v")
    with torch.no_grad():
        module.v[1] += 0.25 * module.v[1].abs() + 1
    hard = harden(module).leaves.v[:, 0]
    assert hard[:1].tobytes() == forest.leaves.v[:1].tobytes()
    assert hard[1] > v[1]


def test_only_the_leaves_whose_logits_moved_change():
    v = np.array([[0.3, 0.7], [0.6, 0.4]])
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], v)
    module = SoftForest.from_forest(forest, leaves="logits")
    with torch.no_grad():
        module.v[1, 0] += 1
    hard = harden(module).leaves.v
    assert hard[0].tobytes() == v[0].tobytes()
    assert np.all(hard[1] != v[1])


def test_only_the_nodes_whose_rows_moved_change():
    X = np.random.default_rng(0).normal(size=(30, 2)) + 5
    forest = Forest.from_matrices([[1, 0], [0, 1]], [0.1, 0.3], [[0, 1], [1, 0], [1, 1]], [1, 2, 3])
    module = SoftForest.from_forest(forest).calibrate(X)
    with torch.no_grad():
        module.rows.S[1] += 0.5
    hard = harden(module).tests
    assert hard.b[0] == 0.1
    assert hard.weight[:1].tolist() == [1.0]
    assert np.diff(hard.row_ptr).tolist() == [1, 2]
    with torch.no_grad():
        module.b[0] += 0.5
    assert harden(module).tests.b[0] != 0.1


def test_leaves_beyond_the_dtype_are_refused_before_they_become_infinite():
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [1e200, 2e200])
    with pytest.raises(InputError, match="float32 while it may move, got values up to 2e\\+200"):
        SoftForest.from_forest(forest)
    wide = SoftForest.from_forest(forest, dtype=torch.float64)
    assert wide(np.array([[9.0, 0.0]])).isfinite().all()
    for module in (wide, SoftForest.from_forest(forest, trainable=("S", "b"))):
        assert same(from_torch(module).leaves, forest.leaves, "v")


@given(st.data(), st.sampled_from([("S", "b", "v"), ("S", "v"), ("b",), ("S", "b", "r")]))
def test_the_hardened_forest_routes_as_the_module_does(data, trainable):
    forest = data.draw(
        forests(
            kinds=(AXIS, OBLIQUE, POLYTOPE),
            linear=False,
            aggregates=SUMMED,
            max_leaves=12,
            dtypes=(np.float64,),
        )
    )
    # Moderate rows, some missing: at 1e300 the module clips and the forest does not.
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(20, forest.n_features))
    X[rng.random(X.shape) < 0.1] = np.nan
    module = shaken(forest, trainable, X, dtype=torch.float64)
    hard = harden(module)
    B = forest.bitvectors
    got = module.exit_leaves(X).numpy().T - B.leaf_ptr[:-1]
    assert np.array_equal(got, reference.exit_leaves(hard, X))
    # The same sums of few float64 terms, the leaves rounded once to their dtype.
    assert np.allclose(module.hard(X).detach(), reference.raw(hard, X), rtol=1e-5, atol=1e-5)


@given(st.data(), st.sampled_from(list(RELAXATIONS)))
def test_soft_scores_tend_to_the_hardened_forest(data, relaxation):
    forest = data.draw(
        forests(
            kinds=(AXIS, OBLIQUE),
            linear=False,
            aggregates=SUMMED,
            max_leaves=12,
            dtypes=(np.float64,),
        )
    )
    X = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=(20, forest.n_features))
    module = shaken(forest, ("S", "b", "v"), X, dtype=torch.float64, relaxation=relaxation)
    ready, shift = module.prepare(X), module.plan().shift
    clear = np.ones(len(X), bool)
    for block, parameters in module.parts():
        margin = node_margins.margins(block.tests, parameters, ready, shift, decided=False).value
        clear &= (margin.abs() > 1e-3).all(dim=0).numpy()
    module.gamma = 1e6
    soft = module(X).detach().numpy()[clear]
    # exp(-1000) is left of a wrong leaf; the leaves are rounded once to their dtype.
    assert np.allclose(soft, reference.raw(harden(module), X)[clear], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("amount", [0.0, 0.1])
@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_missing_values_turn_soft_rows_as_the_hardened_ones(relaxation, amount):
    B = [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]]
    forest = Forest.from_matrices(np.eye(3)[[2, 0, 1]], [0.2, 0.1, -0.3], B, [1, 2, 4, 8])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    module = shaken(forest, ("S", "b", "v"), X, amount, dtype=torch.float64, relaxation=relaxation)
    module.gamma = 1e8
    # Columns that had values where the module was calibrated: no weight reads their mean instead.
    X[rng.random(X.shape) < 0.2] = np.nan
    for routing in ("dense", *(["sparse"] if relaxation == "smooth_step" else [])):
        module.routing = routing
        expected = reference.raw(harden(module), X)
        assert np.allclose(module(X).detach(), expected, rtol=1e-5, atol=1e-5)


def stump(**options):
    return replace(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]), **options)


def test_zero_weights_leave_their_row():
    module = SoftForest.from_forest(stump(), trainable=("S",))
    assert harden(module).tests.column.tolist() == [0]
    with torch.no_grad():
        module.rows.S.zero_()
    assert harden(module).tests.weight.tolist() == [0.0]


def test_columns_that_were_missing_get_their_mean_in_a_dense_row():
    X = np.array([[0.0, 1.0], [1.0, 3.0], [0.2, np.nan], [np.nan, 2.0]])
    module = SoftForest.from_forest(stump(), trainable=("S", "b")).calibrate(X)
    with torch.no_grad():
        module.rows.S.fill_(0.25)
    hard = harden(module)
    assert np.isnan(hard.tests.substitute[0])  # its own column still goes the node's direction
    assert hard.tests.substitute[1] == 2.0
    leaf = module.exit_leaves(X).numpy().T
    assert np.array_equal(leaf, reference.exit_leaves(hard, X))


def test_the_source_says_what_it_was_retrained_from():
    source = Source("sklearn", "1.9", gain=np.ones(1), leaf_id=np.array([1, 2]))
    forest = stump(source=source)
    hard = from_torch(SoftForest.from_forest(forest))
    assert hard.source.metadata["retrained_from"] == "sklearn 1.9"
    assert hard.source.gain is None
    assert hard.source.leaf_id.tolist() == [1, 2]


def test_a_parameter_that_is_not_finite_is_refused():
    for name in ("v", "b", "rows.S"):
        module = SoftForest.from_forest(stump())
        with torch.no_grad():
            module.get_parameter(name)[0] = torch.nan
        with pytest.raises(InvalidForestError, match="must be finite"):
            harden(module)


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="trainable"):
        SoftForest.from_forest(stump(), trainable=("B",))
    with pytest.raises(InputError, match="relaxation"):
        SoftForest.from_forest(stump(), "softmax of B h")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("trainable", 3),
        ("trainable", ["b", 2]),
        ("relaxation", ["sigmoid"]),
        ("gamma", "steep"),
        ("gamma", 0),
        ("gamma", np.nan),
        ("dtype", torch.int32),
        ("leaves", "odds"),
        ("device", "gpu"),
        ("device", "meta"),
    ],
)
def test_an_option_out_of_place_is_refused_in_one_sentence(option, value):
    with pytest.raises(InputError, match=f"`{option}` must") as caught:
        SoftForest.from_forest(stump(), **{option: value})
    assert "\n" not in str(caught.value)


@given(forests(aggregates=(Aggregate.MIN, Aggregate.MAX), linear=False))
@settings(max_examples=5)
def test_an_aggregate_without_a_soft_form_is_refused(forest):
    with pytest.raises(UnsupportedModelError, match="sum or average"):
        SoftForest.from_forest(forest)
