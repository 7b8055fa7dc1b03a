"""Rows that walk trees in step, straight over X or by oblique sums, answer as the reference."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from oblique_forests import hostile_rows, oblique, rows_at_thresholds
from row_answers import DTYPES, answers_to, drawn_rows, grown, quiet, same

from bitvec.core.output import PostTransform
from bitvec.runtime.predict.cpu import choice
from bitvec.runtime.predict.cpu.few_rows import forest_rows
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.predictor import compile

CLASSES = (np.array(["no", "yes"]),)
PATHS = pytest.mark.skipif(vectors() == "none", reason="paths need explicit vectors")


def batches(forest, kernel, n_threads=1):
    """Calls that leave nothing to few rows."""
    batch = (choice.Choice(kernel, "", 100.0),) * 2
    pack = cache(lambda name: choice.pack(name, forest))
    few = forest_rows.FewRows(forest, batch, pack, n_threads=n_threads)
    few.most_rows = lambda layout: 0
    return few


def check(forest, kernel, X, expected, n_rows, *, n_threads=1, finite=False):
    few = batches(forest, kernel, n_threads)
    for verb in sorted(set(expected) - {"exit_leaves", "apply"}):
        call = few.call(verb, finite=finite)
        for n in n_rows:
            got = call.answer(X[:n])
            assert got is not None, (verb, n)
            same(got, expected[verb][:n])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compared", DTYPES)
@pytest.mark.parametrize("n_trees", [2, 9])
def test_rows_walk_several_trees_straight_over_x(compared, dtype, n_trees):
    forest = grown(n_trees, 90, 7, compared, post_transform=PostTransform.SIGMOID, classes=CLASSES)
    X = drawn_rows(forest, 1000, dtype)
    sound = ~np.isnan(X).any(axis=1) & np.isfinite(X).all(axis=1)
    # Blocks of rows without and with NaN and infinities: they are walked in two ways.
    X = np.concatenate([X[sound][:300], X])
    expected = answers_to(forest, X)
    check(forest, "single", X, expected, (1, 3, 4, 15, 16, 17, 63, 64, 65, 200, len(X)))
    check(forest, "single", X, expected, (len(X),), n_threads=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_the_source_refuses_are_left_to_others(dtype):
    forest = grown(3, 90, 7, post_transform=PostTransform.SIGMOID, classes=CLASSES)
    X = np.nan_to_num(drawn_rows(forest, 300, dtype), posinf=3e38, neginf=-3e38)
    expected = answers_to(forest, X)
    check(forest, "single", X, expected, (1, 5, 64, 300), finite=True)
    predict = batches(forest, "single").call("predict", finite=True)
    for wrong, row in ((np.nan, 0), (np.inf, 63), (-np.inf, 64), (np.nan, 299)):
        refused = X.copy()
        refused[row, 6] = wrong
        assert predict.answer(refused) is None


@PATHS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compared", DTYPES)
@pytest.mark.parametrize(("n_trees", "width"), [(1, 1), (3, 4), (7, 19), (20, 33)])
def test_rows_walk_oblique_trees_by_pairs_of_row_and_tree(compared, dtype, n_trees, width):
    forest = oblique(n_trees, 4, width, compared, exact=width == 4)
    output = replace(
        forest.output, post_transform="softmax", classes=(np.array([3, 5]),), groups=(2,)
    )
    forest = replace(forest, output=output)
    X = np.concatenate([rows_at_thresholds(forest, 40), hostile_rows(forest, 300)]).astype(dtype)
    expected = quiet(answers_to, forest, X)
    check(forest, "paths", X, expected, (1, 2, 3, 7, 16, 17, 63, 64, 65, len(X)))
    for n_jobs in (1, 2):
        predictor = compile(forest, n_jobs=n_jobs)
        for verb, answer in expected.items():
            for n in (1, 5, len(X)):
                same(quiet(getattr(predictor, verb), X[:n]), answer[:n])


@PATHS
def test_many_rows_of_oblique_trees_are_answered_by_threads():
    forest = oblique(12, 6, 30, np.float32)
    X = hostile_rows(forest, 5000)
    expected = quiet(compile(forest, engine="reference").raw, X)
    same(compile(forest, n_jobs=2).raw(X), expected)
    same(compile(forest, n_jobs=2).raw(np.asfortranarray(X)), expected)
