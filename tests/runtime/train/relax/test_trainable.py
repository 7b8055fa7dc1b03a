"""What may move, node by node and leaf by leaf: the rest has no gradient and keeps its bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, OBLIQUE, POLYTOPE, forests

from bitvec.core import reference, tree_paths
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, harden  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def small():
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    return Forest.from_matrices(np.eye(3) + 0.5, [0.1, 0.2, 0.3], B, np.arange(8.0).reshape(4, 2))


def trained(forest, trainable, X, steps=2):
    """Return a module after a few steps, with a weight decay that touches every element."""
    module = SoftForest.from_forest(forest, trainable=trainable, dtype=torch.float64).calibrate(X)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.05, weight_decay=0.5)
    rows = module.prepare(X)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (module(rows) - 1).square().mean()
        if loss.requires_grad:
            loss.backward()
        optimizer.step()
    return module


def draw_choice(data, forest):
    """Return a mapping of what may move, and which nodes and leaves those are."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    trainable, masks = {}, {}
    depth = tree_paths.node_depth(forest.bitvectors)
    for name in ("S", "b", "r"):
        way = data.draw(st.sampled_from(["none", "all", "levels", "mask", "indices"]))
        mask = np.zeros(forest.n_nodes, bool)
        if way == "all":
            trainable[name], mask = "all", ~mask
        elif way == "levels":
            trainable[name], mask = {"levels": [0, 2]}, (depth == 0) | (depth == 2)
        elif way != "none":
            mask = rng.random(forest.n_nodes) < 0.5
            trainable[name] = {"nodes": mask if way == "mask" else np.flatnonzero(mask)}
        masks[name] = mask
    masks["v"] = rng.random(forest.n_leaves) < 0.5
    trainable["v"] = {"leaves": masks["v"]}
    return trainable, masks


@given(st.data())
def test_what_may_not_move_keeps_its_bits_whatever_an_optimiser_does(data):
    forest = data.draw(
        forests((AXIS, OBLIQUE, POLYTOPE), linear=False, aggregates=SUMMED, max_leaves=12)
    )
    trainable, may = draw_choice(data, forest)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, forest.n_features)).astype(forest.dtype)
    hard = harden(trained(forest, trainable, X))
    assert hard.tests.b[~may["b"]].tobytes() == forest.tests.b[~may["b"]].tobytes()
    assert hard.leaves.v[~may["v"]].tobytes() == forest.leaves.v[~may["v"]].tobytes()
    for node in np.flatnonzero(~may["S"] & ~may["r"]):
        old, new = forest.tests.take(np.array([node])), hard.tests.take(np.array([node]))
        for name in ("column", "weight", "offset", "r", "activation"):
            assert getattr(new, name).tobytes() == getattr(old, name).tobytes(), name
    for node in np.flatnonzero(~may["S"]):
        assert (
            forest.tests.take(np.array([node])).weight.tobytes()
            == hard.tests.take(np.array([node])).weight.tobytes()
        )
    for node in np.flatnonzero(~may["r"]):
        assert (
            forest.tests.take(np.array([node])).r.tobytes()
            == hard.tests.take(np.array([node])).r.tobytes()
        )


@given(st.data())
def test_the_hardened_forest_routes_as_the_module_does(data):
    forest = data.draw(
        forests(
            (AXIS, OBLIQUE, POLYTOPE),
            linear=False,
            aggregates=SUMMED,
            max_leaves=12,
            dtypes=(np.float64,),
        )
    )
    trainable, _ = draw_choice(data, forest)
    X = np.random.default_rng(0).normal(size=(16, forest.n_features))
    module = trained(forest, trainable, X)
    got = module.exit_leaves(X).numpy().T - forest.bitvectors.leaf_ptr[:-1]
    assert np.array_equal(got, reference.exit_leaves(harden(module), X))


def test_what_may_not_move_has_no_gradient():
    trainable = {"S": {"nodes": [0, 2]}, "b": {"levels": [1]}, "v": {"leaves": [3]}}
    module = SoftForest.from_forest(small(), trainable=trainable, dtype=torch.float64)
    X = np.random.default_rng(0).normal(size=(9, 3))
    module(X).square().sum().backward()
    assert module.trainable == ("S", "b", "v")
    assert (module.b.grad != 0).tolist() == [False, True, True]
    assert (module.v.grad != 0).any(dim=1).tolist() == [False, False, False, True]
    assert module.rows.nodes.tolist() == [0, 2]
    assert (module.rows.S.grad != 0).all()


def test_the_forward_pass_reads_what_may_not_move_as_it_started():
    module = SoftForest.from_forest(small(), trainable={"b": {"nodes": [1]}, "v": {"leaves": [0]}})
    X = np.random.default_rng(0).normal(size=(9, 3))
    before = module(X)
    with torch.no_grad():
        module.b[0] = 9.0
        module.v[2] = 9.0
    assert torch.equal(module(X), before)


def test_a_mapping_that_lets_all_move_is_that_of_the_names():
    names = SoftForest.from_forest(small(), trainable=("b", "v", "base_score"))
    mapped = SoftForest.from_forest(
        small(), trainable={"b": "all", "v": {"leaves": range(4)}, "base_score": "all"}
    )
    assert names.trainable == mapped.trainable
    moving = [[n for n, p in m.named_parameters() if p.requires_grad] for m in (names, mapped)]
    assert moving[0] == moving[1]


def test_a_choice_of_nothing_is_none():
    module = SoftForest.from_forest(small(), trainable={"b": {"nodes": []}, "v": {"leaves": [1]}})
    assert module.trainable == ("v",)
    assert not module.b.requires_grad


@pytest.mark.parametrize(
    ("trainable", "said"),
    [
        ({"B": "all"}, "`trainable` must hold names"),
        ({"b": "some"}, '"all" or a mapping from levels or nodes'),
        ({"b": {"leaves": [0]}}, "levels or nodes"),
        ({"v": {"nodes": [0]}}, "mapping from leaves"),
        ({"b": {"levels": [0], "nodes": [1]}}, "levels or nodes"),
        ({"b": {"nodes": [3]}}, "from 0 and below 3"),
        ({"b": {"nodes": [-1]}}, "from 0 and below 3"),
        ({"b": {"nodes": [True, False]}}, "one bool for each of 3 nodes"),
        ({"b": {"nodes": [0.5]}}, "whole numbers"),
        ({"b": {"nodes": 1}}, "whole numbers"),
        ({"b": {"levels": "01"}}, "whole numbers"),
        ({"base_score": {"nodes": [0]}}, 'must be "all"'),
    ],
)
def test_a_choice_out_of_place_is_refused_in_one_sentence(trainable, said):
    with pytest.raises(InputError, match=said) as caught:
        SoftForest.from_forest(small(), trainable=trainable)
    assert "\n" not in str(caught.value)
