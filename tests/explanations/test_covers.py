"""Covers: those of the libraries, kept by files, counted by rows."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.explanations.covers import shares, with_cover
from bitvec.explanations.explainer import explain

STUMPS = Forest.from_matrices([[1, 0], [0, 1]], [0.5, 0], [[0, 1], [1, 0], [1, 1]], [1, 2, 4])


def test_rows_and_their_weights_are_counted(caplog):
    X = np.array([[0, 0], [1, -1], [1, 1], [2, 1]])
    source = with_cover(STUMPS, X).source
    assert source.node_cover.tolist() == [4, 3]
    assert source.leaf_cover.tolist() == [1, 1, 2]
    weighted = with_cover(STUMPS, X, weight=[0.5, 0, 1, 2]).source
    assert weighted.node_cover.tolist() == [3.5, 3]
    assert weighted.leaf_cover.tolist() == [0.5, 0, 3]
    with caplog.at_level(logging.WARNING, "bitvec"):
        unreached = with_cover(STUMPS, X[:1])
    assert "No row reaches 2 of 3 leaves" in caplog.text
    assert shares(unreached).tolist() == [[1, 0], [0.5, 0.5]]


def test_weights_must_fit():
    for weight in ([1.0], [1, -1], [1, np.nan], "a", [[1], [1, 2]]):
        with pytest.raises(InputError, match="`weight` must be one finite number"):
            with_cover(STUMPS, np.ones((2, 2)), weight=weight)


def test_covers_survive_a_file(tmp_path):
    forest = with_cover(STUMPS, np.random.default_rng(0).normal(size=(9, 2)))
    bitvec.save(forest, tmp_path / "forest.safetensors")
    again = bitvec.load(tmp_path / "forest.safetensors")
    np.testing.assert_array_equal(explain(again).values([[1, 1]]), explain(forest).values([[1, 1]]))


def test_recounted_rows_of_training_are_the_covers_of_scikit_learn():
    tree = pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(200, 3)).astype(np.float32), rng.integers(0, 4, 200)
    model = tree.DecisionTreeRegressor(max_leaf_nodes=9).fit(X, X[:, 0] * X[:, 1], weight)
    forest = bitvec.convert(model)
    counted = with_cover(forest, X, weight=weight)
    np.testing.assert_array_equal(counted.source.node_cover, forest.source.node_cover)
    np.testing.assert_array_equal(counted.source.leaf_cover, forest.source.leaf_cover)
