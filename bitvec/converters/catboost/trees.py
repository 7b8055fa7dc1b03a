"""The trees of a CatBoost model, as the child arrays that `structure.arrange` takes.

A row passes a test and goes right, or does not. An oblivious tree asks one test per level; bit i of
a leaf's number says whether its split i was passed, so the last split stands at the root and leaves
are numbered from left to right. Other trees are nested objects, which `nested` took apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from bitvec.converters.catboost.model_features import Features
from bitvec.converters.catboost.model_json import Document, as_object, items, numbers
from bitvec.converters.catboost.nested import LEAF, NODE, At, Nested
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.errors import FileFormatError

TestsOf: TypeAlias = Callable[[list[Any]], Array]
"""The numbers of the tests that splits name."""

_OBLIVIOUS: Final = frozenset({"leaf_values", "leaf_weights", "splits"})


@dataclass(frozen=True, slots=True)
class Trees:
    """All trees of a model, one after the other.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
        Children; a leaf is `~leaf`, numbered across trees.
    roots : int64, (n_trees,)
    test : int64, (n_nodes,)
        The number of each node's test.
    v : float64, (n_leaves, dimension)
    weight : float64, (n_leaves,), optional
    """

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    roots: Int64[Array, " n_trees"]
    test: Int64[Array, " n_nodes"]
    v: Float64[Array, "n_leaves dimension"]
    weight: Float64[Array, " n_leaves"] | None


def read_trees(document: Document, nested: Nested, features: Features) -> Trees:
    """Read the trees of a model.

    Parameters
    ----------
    document : JSON object
    nested : Nested
        The nodes and leaves that were taken out of it.
    features : Features

    Raises
    ------
    FileFormatError
        If they are damaged, or there is none.
    UnsupportedModelError
        If a split is neither on a border nor on a category.
    """
    oblivious = "oblivious_trees" in document
    trees = items(document, "oblivious_trees" if oblivious else "trees")
    if not trees:
        raise FileFormatError("a model must hold at least one tree, got none: fit it first.")
    tests_of = _remembering(features)
    return _oblivious(trees, tests_of) if oblivious else _nested(trees, nested, tests_of)


def _remembering(features: Features) -> TestsOf:
    """Return `features.test_of` of many splits, which looks at an object that recurs once."""
    known: dict[int, int] = {}

    def tests_of(splits: list[Any]) -> Int64[Array, " n"]:
        for at, split in {id(split): split for split in splits}.items():
            if at not in known:
                known[at] = features.test_of(split)
        return np.fromiter(map(known.__getitem__, map(id, splits)), np.int64, len(splits))

    return tests_of


def _oblivious(trees: list[Any], tests_of: TestsOf) -> Trees:
    left: list[Array] = []
    right: list[Array] = []
    roots: list[int] = []
    test: list[Array] = []
    values: list[Array] = []
    weights: list[Array | None] = []
    n_nodes = n_leaves = dimension = 0
    for number, tree in enumerate(trees):
        tree = as_object(tree, f"tree {number}", _OBLIVIOUS)
        splits = items(tree, "splits")
        v = numbers(tree.get("leaf_values"), "leaf_values")
        # Compared as Python integers: a depth of thousands is a number, not an allocation.
        size = 1 << min(len(splits), 64)
        dimension = dimension or max(v.size // size, 1)
        if v.size != size * dimension:
            raise FileFormatError(
                f"tree {number} of depth {len(splits)} must have {size} leaves of {dimension} "
                f"values, got {v.size} values."
            )
        levels = tests_of(splits)[::-1]
        heap = np.arange(size - 1)
        last_level = heap >= size // 2 - 1
        for side, first in ((left, 1), (right, 2)):
            child = 2 * heap + first
            side.append(np.where(last_level, ~(child - (size - 1) + n_leaves), child + n_nodes))
        roots.append(n_nodes if size > 1 else ~n_leaves)
        test.append(np.repeat(levels, 1 << np.arange(levels.size)))
        values.append(v.reshape(size, dimension))
        weights.append(_weights(tree, size))
        n_nodes += size - 1
        n_leaves += size
    empty = np.zeros(0, np.int64)
    return Trees(
        np.concatenate([empty, *left]),
        np.concatenate([empty, *right]),
        np.array(roots, np.int64),
        np.concatenate([empty, *test]),
        np.concatenate(values),
        _joined(weights),
    )


def _weights(tree: Document, size: int) -> Float64[Array, " n"] | None:
    weights = numbers(items(tree, "leaf_weights"), "leaf_weights")
    if weights.size not in (0, size):
        raise FileFormatError(f"`leaf_weights` must have {size} values, got {weights.size}.")
    return weights if weights.size else None


def _joined(weights: list[Array | None]) -> Float64[Array, " n_leaves"] | None:
    known = [part for part in weights if part is not None]
    return np.concatenate(known) if len(known) == len(weights) else None


def _nested(trees: list[Any], nested: Nested, tests_of: TestsOf) -> Trees:
    if set(map(type, chain(trees, nested.left, nested.right))) != {At}:
        others = (at for at in chain(trees, nested.left, nested.right) if type(at) is not At)
        as_object(next(others), "a node or a leaf", NODE | LEAF)
        raise FileFormatError("a node must have a split, a left and a right child.")
    left, right, roots = (
        np.fromiter(side, np.int64, len(side)) for side in (nested.left, nested.right, trees)
    )
    weights = nested.weight
    return Trees(
        left,
        right,
        roots,
        tests_of(nested.split),
        _vectors(nested.value),
        None if None in weights else numbers(weights, "weight"),
    )


def _vectors(leaves: list[Any]) -> Float64[Array, "n_leaves dimension"]:
    """Return leaves that are all numbers, or all lists of as many numbers."""
    dimension = len(leaves[0]) if isinstance(leaves[0], list) else 1
    if isinstance(leaves[0], list):
        if dimension == 0 or not all(isinstance(v, list) and len(v) == dimension for v in leaves):
            raise FileFormatError(f"each leaf must have {dimension or 'some'} values.")
        leaves = [number for leaf in leaves for number in leaf]
    return numbers(leaves, "value").reshape(-1, dimension)
