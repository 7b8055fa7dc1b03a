"""Explanations: equal to sums over all subsets, to the libraries, and in sum to the raw score."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import comb
from unittest.mock import patch

import explanation_games
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, KERNEL, ONE_HOT, SET, examples, forests, rows

import bitvec
from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Identity
from bitvec.core.forest import Forest
from bitvec.core.kernels import box
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.source import Source
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.explanations import background_values, subtree_tables
from bitvec.explanations.contributions import contribution_sums
from bitvec.explanations.covers import with_cover
from bitvec.explanations.explainer import DTYPES, explain
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.explanations.unsupported import UNSUPPORTED, Background, background_method

BOUNDS = {"float64": 1e-13, "float32": 1e-6}
"""Of the largest contribution: sums of some dozen terms, each exact to some units of the last
place, about 1e-15 and 1e-7."""
FLOAT64 = BOUNDS["float64"]


def covered(forest: Forest, rng: np.random.Generator) -> Forest:
    """Return a forest with random covers, many of them 0."""
    covers = (rng.integers(0, 4, n) * rng.random(n) for n in (forest.n_nodes, forest.n_leaves))
    node_cover, leaf_cover = covers
    source = Source("test", "1", node_cover=node_cover, leaf_cover=leaf_cover)
    return replace(forest, source=source)


@st.composite
def explained(draw: st.DrawFn, max_leaves: int = 12) -> tuple[Forest, Array]:
    """A forest that is explained, with covers, and rows for it."""
    kinds = draw(st.sampled_from([(AXIS,), (SET,), (EQUAL,), (*ONE_HOT, KERNEL)]))
    aggregates = (Aggregate.SUM, Aggregate.MEAN)
    forest = draw(forests(kinds=kinds, max_leaves=max_leaves, aggregates=aggregates, linear=False))
    X = draw(rows(forest, max_rows=4))
    seed = draw(st.integers(0, 2**32 - 1))
    return covered(forest, np.random.default_rng(seed)), X


def dense(forest: Forest, values: Array) -> Array:
    """Return values with an axis of outputs, of one output too."""
    return values[..., None] if forest.n_outputs == 1 else values


def size(forest: Forest) -> float:
    """Return the size of the numbers that are added."""
    base = np.abs(forest.output.base_score).max()
    return float(1 + base + np.abs(forest.leaves.v).max() * forest.n_trees * 4)


KEPT = st.sampled_from([0, 1 << 20])
"""Bytes of tables that are kept; others are made for each tree anew."""


@given(explained(), st.sampled_from(DTYPES), KEPT)
@examples(90)
def test_values_by_cover_are_the_sums_over_all_subsets(drawn, dtype, kept):
    forest, X = drawn
    with patch.object(subtree_tables, "KEPT_BYTES", kept):
        explainer = explain(forest, dtype=dtype)
        found = dense(forest, explainer.values(X))
    for x, values in zip(X.astype(forest.dtype), found, strict=True):
        game = explanation_games.path_game(forest, x)
        wanted = explanation_games.shapley_values(game, forest.n_features)
        np.testing.assert_allclose(values, wanted, rtol=0, atol=BOUNDS[dtype] * size(forest))
        np.testing.assert_allclose(
            np.atleast_1d(explainer.base_value),
            game(frozenset()),
            rtol=0,
            atol=FLOAT64 * size(forest),
        )


@given(explained(), st.sampled_from(DTYPES), KEPT)
@examples(60)
def test_interactions_by_cover_are_the_sums_over_all_subsets(drawn, dtype, kept):
    forest, X = drawn
    with patch.object(subtree_tables, "KEPT_BYTES", kept):
        found = explain(forest, dtype=dtype).interactions(X)
    found = found if forest.n_outputs > 1 else found[..., None]
    for x, values in zip(X.astype(forest.dtype), found, strict=True):
        wanted = explanation_games.shapley_interactions(
            explanation_games.path_game(forest, x), forest.n_features
        )
        np.testing.assert_allclose(values, wanted, rtol=0, atol=BOUNDS[dtype] * size(forest))


@given(explained(), st.integers(1, 20), st.integers(0, 99), st.booleans(), st.booleans())
@examples(60)
def test_values_with_a_background_are_the_sums_over_all_subsets(drawn, n, seed, one_row, kept):
    # Tables that are not kept are made anew for many rows, and not at all for one.
    forest, X = drawn
    background = X[np.random.default_rng(seed).integers(0, len(X), n)]
    repeated = X[:1] if one_row else np.repeat(X, 300, axis=0)
    step = 1 if one_row else 300
    with patch.object(background_values, "KEPT_BYTES", 2**27 if kept else 0):
        explainer = explain(forest, background=background)
        found = dense(forest, explainer.values(repeated))[::step]
        pairs = explainer.interactions(repeated)[::step]
    pairs = pairs if forest.n_outputs > 1 else pairs[..., None]
    atol = FLOAT64 * size(forest)
    for x, values, interactions in zip(X.astype(forest.dtype), found, pairs, strict=False):
        game = explanation_games.background_game(forest, x, background.astype(forest.dtype))
        wanted = explanation_games.shapley_values(game, forest.n_features)
        np.testing.assert_allclose(values, wanted, rtol=0, atol=atol)
        wanted = explanation_games.shapley_interactions(game, forest.n_features)
        np.testing.assert_allclose(interactions, wanted, rtol=0, atol=atol)
        none = game(frozenset())
        np.testing.assert_allclose(np.atleast_1d(explainer.base_value), none, rtol=0, atol=atol)


@given(explained(max_leaves=70))
@examples(60)
def test_base_and_values_sum_to_the_contributions_of_the_exit_leaves(drawn):
    forest, X = drawn
    wanted = contribution_sums(forest, reference.exit_leaves(forest, X))
    for dtype, bound in (("float64", 1e-12), ("float32", 2e-6)):
        explainer = explain(forest, dtype=dtype)
        found = dense(forest, explainer.values(X))
        gap = np.abs(explainer.base_value + found.sum(axis=1) - wanted)
        whole = np.abs(explainer.base_value) + np.abs(found).sum(axis=1)
        if dtype == "float32":  # whose rounding is of leaves, which may cancel between trees
            whole += size(forest)
        assert np.all(gap <= bound * whole)


@given(explained(max_leaves=70), st.booleans())
@examples(60)
def test_bytes_give_the_outcomes_of_all_kinds_of_tests(drawn, binned):
    forest, X = drawn
    outcomes = OutcomeBytes(forest, binned=binned)
    found = outcomes.fill(X)[outcomes.bin_column, : len(X)] >= outcomes.least[:, None]
    wanted = reference.hard_tests(forest, reference.columns(forest, X))
    np.testing.assert_array_equal(found.T, wanted)


@pytest.mark.parametrize("counted", [1 << 20, 15, 0])
def test_leaves_of_more_features_than_tables_have_are_the_sums_over_all_subsets(counted):
    # A chain of 10 features under which each leaf, and no pair of leaves, is a group of its own.
    n, rng = 10, np.random.default_rng(0)
    B, v = 1 - np.eye(n + 1, n), rng.normal(size=n + 1)
    forest = Forest.from_matrices(np.eye(n), np.zeros(n), B, v)
    X, background = (np.where(rng.random((m, n)) < 0.7, 1.0, -1.0) for m in (2, 12))
    with patch.object(background_values, "COUNTED", counted):
        explainer = explain(forest, background=background)
    for x, values, pairs in zip(X, explainer.values(X), explainer.interactions(X), strict=True):
        game = explanation_games.background_game(forest, x, background)
        wanted = explanation_games.shapley_values(game, n)[:, 0]
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-14)
        wanted = explanation_games.shapley_interactions(game, n)[..., 0]
        np.testing.assert_allclose(pairs, wanted, rtol=0, atol=1e-14)


def test_paths_of_more_than_63_features_are_refused_with_a_background():
    n = 64
    B, v = 1 - np.eye(n + 1, n), np.arange(n + 1.0)
    forest = Forest.from_matrices(np.eye(n), np.zeros(n), B, v)
    with pytest.raises(UnsupportedModelError, match=r"at most 63 columns .* got 64"):
        explain(forest, background=np.zeros((1, n)))


def test_paths_of_many_features_are_exact_to_rounding():
    # A chain of 40 features, one each, whose shares lie between 1e-6 and 1: where the row goes
    # along all edges, each value is that of the fractions below, in exact arithmetic.
    n, rng = 40, np.random.default_rng(0)
    share = 10 ** rng.uniform(-6, 0, n)
    S, b, B = np.eye(n), np.zeros(n), 1 - np.eye(n + 1, n)
    v = np.zeros(n + 1)
    v[-1] = 1.0
    forest = Forest.from_matrices(S, b, B, v)
    reached = np.concatenate([[1.0], np.cumprod(share)])
    leaf_cover = np.append(reached[:-1] * (1 - share), reached[-1])
    source = Source("test", "1", node_cover=reached[:-1], leaf_cover=leaf_cover)
    wanted = chain_values(share)
    for dtype, atol in (("float64", 1e-14), ("float32", 2e-6)):
        explainer = explain(replace(forest, source=source), dtype=dtype)
        found = explainer.values(np.ones((1, n)))[0]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e30, 1e300])
def test_leaves_that_float32_cannot_hold_are_explained_in_it(factor):
    stumps = [
        Forest.from_matrices([[1.0, 0]], [0.5], [[0], [1]], [one, 2.0]) for one in (1, factor)
    ]
    X = np.array([[0.0, 0], [1, 0]])
    small, large = (with_cover(stump, X) for stump in stumps)
    large = replace(large, leaves=Leaves(small.leaves.v * factor))
    wanted = explain(small).values(X) * factor
    np.testing.assert_allclose(explain(large).values(X), wanted, rtol=1e-6)


def test_a_mean_far_from_zero_leaves_small_differences_their_digits():
    X = np.random.default_rng(0).normal(size=(50, 2))
    v = np.array([1e6, 1e6 + 1e-3, 1e6 + 4e-3])
    forest = with_cover(
        Forest.from_matrices([[1, 0], [0, 1]], [0.5, 0], [[0, 1], [1, 0], [1, 1]], v), X
    )
    exact, found = (explain(forest, dtype=dtype).values(X) for dtype in ("float64", "float32"))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


def chain_values(share: Array) -> Array:
    """Return the values of a leaf of 1 whose edges a row all goes along, by counts of subsets."""
    z, n = [Fraction(float(one)) for one in share], share.size
    values = []
    for j in range(n):
        of_size = [Fraction(1)]  # sums of products of z over the unknown, by the number of known
        for i in range(n):
            if i != j:
                grown = [Fraction(0)] * (len(of_size) + 1)
                for known, total in enumerate(of_size):
                    grown[known] += total * z[i]
                    grown[known + 1] += total
                of_size = grown
        mean = sum(total / comb(n - 1, known) for known, total in enumerate(of_size)) / n
        values.append(float((1 - z[j]) * mean))
    return np.array(values)


def test_blocks_threads_and_streams_give_the_same():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 2))
    stump = Forest.from_matrices([[1, 0], [0, 1]], [0.5, 0], [[0, 1], [1, 0], [1, 1]], [1, 2, 4])
    forest = with_cover(stump, X)
    one_by_one = explain(forest)
    wanted = np.concatenate([one_by_one.values(x[None]) for x in X])
    done: list[float] = []
    found = explain(forest, n_jobs=2).values(X, progress=done.append)
    np.testing.assert_array_equal(found, wanted)
    assert done == sorted(done)
    assert done[-1] == 1
    streamed = explain(forest).values(iter([X[:5], X[5:]]))
    np.testing.assert_array_equal(streamed, wanted)


def test_forests_without_nodes_and_without_rows_are_explained():
    leaf = Forest.from_matrices(np.zeros((0, 3)), np.zeros(0), np.zeros((1, 0)), [7.0])
    explainer = explain(covered(leaf, np.random.default_rng(0)))
    assert explainer.base_value == 7
    np.testing.assert_array_equal(explainer.values(np.ones((2, 3))), np.zeros((2, 3)))
    assert explainer.values(np.ones((0, 3))).shape == (0, 3)


STUMP = Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [1, 2])
KERNEL_STUMP = replace(
    STUMP,
    tests=replace(STUMP.tests, kind=np.array([Kind.KERNEL], np.uint8)),
    kernel=(box(1.0), None),
)
LINEAR = LinearTerms(np.array([0, 1, 1]), np.zeros(1, np.int32), np.ones((1, 1)), np.ones((2, 1)))
REFUSED = {
    "oblique nodes and polytopes": Forest.from_matrices([[1.0, 1]], [0.5], [[0], [1]], [1, 2]),
    "feature maps": replace(STUMP, feature_map=Identity(2)),
    "prediction kernels": KERNEL_STUMP,
    "linear leaves": replace(STUMP, leaves=replace(STUMP.leaves, linear=LINEAR)),
    "minima, maxima and weighted medians over trees": replace(
        STUMP, output=replace(STUMP.output, aggregate=Aggregate.MIN)
    ),
    "leaves that are infinite or NaN, or add up to that": replace(
        STUMP, leaves=Leaves(np.array([[1.0], [np.inf]]))
    ),
    "scores after a link": replace(
        STUMP, output=replace(STUMP.output, post_transform=PostTransform.SIGMOID)
    ),
}


@pytest.mark.parametrize("one", UNSUPPORTED, ids=lambda one: one.part)
def test_each_refusal_names_its_part_and_rows_that_remedy_it(one):
    forest, X = covered(REFUSED[one.part], np.random.default_rng(0)), np.zeros((1, 2))
    response = "scores" if one.part == "scores after a link" else "raw"
    refused = pytest.raises(UnsupportedModelError, match=f"no {one.part} to be explained")
    with refused as found:
        explain(forest, response=response)
    assert ("pass rows as `background`" in str(found.value)) == (one.background < Background.NONE)
    if one.background is Background.NONE:
        with pytest.raises(UnsupportedModelError, match=f"no {one.part} to be explained"):
            explain(forest, background=X, response=response)
    else:
        assert background_method(forest, response) is one.background
        explainer = explain(forest, background=X, response=response)
        answer = getattr(bitvec.compile(forest), response)(X + 1)
        total = explainer.base_value + explainer.values(X + 1).sum()
        np.testing.assert_allclose(total, answer[0, 0], rtol=1e-14)


def test_leaves_and_covers_whose_sums_overflow_are_refused():
    huge = replace(STUMP, leaves=Leaves(np.array([[1.7e308], [-1.7e308]])))
    with pytest.raises(UnsupportedModelError, match="or add up to that to be explained"):
        explain(huge, background=np.zeros((1, 2)))
    covers = Source("test", "1", node_cover=np.array([1e308]), leaf_cover=np.full(2, 1e308))
    with pytest.raises(InputError, match=r"must have a finite sum, got numbers up to 1e\+308"):
        explain(replace(STUMP, source=covers))


def test_a_dtype_is_float32_or_float64():
    with pytest.raises(InputError, match=r"`dtype` must be one of float32, float64, got 'half'"):
        explain(STUMP, dtype="half")


def test_what_is_wrong_with_a_background_is_said_of_it():
    for background, message in (
        (np.zeros((3, 5)), "`background` must have 2 features"),
        (np.zeros((0, 2)), "`background` must have at least one row"),
    ):
        with pytest.raises(InputError, match=message):
            explain(STUMP, background=background)


def test_a_forest_without_covers_is_told_how_to_count_them():
    with pytest.raises(InputError, match=r"without it: count it by `bitvec.*with_cover"):
        explain(STUMP)
    negative = Source("test", "1", node_cover=np.array([1.0]), leaf_cover=np.array([-1.0, 2]))
    with pytest.raises(InputError, match=r"`source.leaf_cover` must be finite and not negative"):
        explain(replace(STUMP, source=negative))
