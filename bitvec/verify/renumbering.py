"""A forest's own export as the other side of a comparison: its leaves may be numbered anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.structure import Bitvectors
from bitvec.core.to_float32 import fold_weights, narrow_scores
from bitvec.errors import UnsupportedModelError
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import SourceTrees


def renumbered(forest: Forest, oracle: Oracle, converted: Callable[[], Forest]) -> Oracle:
    """Return an oracle that numbers leaves as the forest does, from left to right in each tree.

    Parameters
    ----------
    oracle : Oracle
        Of what the forest was exported to.
    converted : callable
        Called where the oracle answers with ids of its own; returns the export, converted again. If
        its trees are not those of the forest (a base score may become a tree, as a target's format
        asks), leaf ids say nothing about the forest and only scores are compared.
    """
    if oracle.ids == "leaf number":
        return oracle
    # Equal answers may lie in other trees and other leaf values there.
    oracle = replace(oracle, trees=None)
    again = converted()
    if forest.output.is_classifier and not _same_labels(forest, again):
        note = f"{oracle.name} does not hold the labels of classes: they were not compared"
        oracle = replace(oracle, predict=None, notes=(*oracle.notes, note))
    if not _same_trees(forest.bitvectors, again.bitvectors) or again.source is None:
        note = f"{oracle.name} holds other trees than the forest: leaves were not compared"
        return replace(
            oracle,
            leaf_ids=None,
            leaf_values=None,
            ids="leaf number",
            n_trees=None,
            notes=(*oracle.notes, note),
        )
    ids, leaf_ids = again.source.leaf_id, oracle.leaf_ids
    assert ids is not None
    if leaf_ids is None:
        return replace(oracle, leaf_values=None, ids="leaf number")
    first = again.bitvectors.leaf_ptr[:-1]
    tree = np.repeat(np.arange(again.n_trees), np.diff(again.bitvectors.leaf_ptr))
    place = np.lexsort((ids, tree))  # leaves by tree, then by the library's id
    most = 1 + int(ids.max(initial=0))
    keys = tree[place] * most + ids[place]

    def numbers(X: Array) -> Array:
        asked = np.arange(again.n_trees) * most + leaf_ids(X)
        at = np.minimum(np.searchsorted(keys, asked), keys.size - 1)
        known = keys[at] == asked
        return np.where(known, place[at] - first, -1)

    return replace(oracle, leaf_ids=numbers, leaf_values=None, ids="leaf number")


def _same_labels(forest: Forest, again: Forest) -> bool:
    ours, theirs = forest.output.classes, again.output.classes
    if ours is None or theirs is None or len(ours) != len(theirs):
        return ours is theirs
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _same_trees(ours: Bitvectors, theirs: Bitvectors) -> bool:
    names = ("lo", "mid", "hi", "leaf_ptr")
    return all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in names)


def with_written_trees(forest: Forest, oracle: Oracle) -> Oracle:
    """Return an oracle whose trees hold the forest's leaves, if it is a file that holds these."""
    if oracle.written is None:
        return oracle
    written = oracle.written()
    trees = None if written is None else as_written(forest, written)
    return oracle if trees is None else replace(oracle, trees=lambda: trees)


def as_written(forest: Forest, trees: SourceTrees) -> SourceTrees | None:
    """Return the trees of a forest's own export with the forest's leaves, where they hold these.

    An export may hold leaves as vectors of all outputs, times their trees' weights, divided, or
    rounded to float32, and the base score as trees of one leaf. None if it holds other values: then
    only answers to rows can tell whether these are the same.

    Parameters
    ----------
    trees : SourceTrees
        With numbers of leaves, from left to right in each tree, as leaf ids.
    """
    B, extra = forest.bitvectors, trees.root.size - forest.n_trees
    base = forest.output.base_score
    if extra > 0:
        root = trees.root[extra:] if forest.output.base_first else trees.root[:-extra]
        alone = trees.root[:extra] if forest.output.base_first else trees.root[-extra:]
        if np.any(alone >= 0) or not np.array_equal(
            trees.v[~alone].sum(axis=0), base.astype(trees.v.dtype), equal_nan=True
        ):
            return None
        trees = replace(trees, root=root)
    tree = trees.tree_of_leaf
    leaf = B.leaf_ptr[tree] + trees.leaf_id
    if trees.root.size != forest.n_trees or np.any((leaf >= B.leaf_ptr[1:][tree])[tree >= 0]):
        return None
    leaf[tree < 0] = 0
    for written in _written(forest):
        if written.shape[1:] == trees.v.shape[1:] and np.array_equal(
            written[leaf][tree >= 0], trees.v[tree >= 0], equal_nan=True
        ):
            held = forest.leaves.take(leaf)
            return replace(trees, v=held.v, output=held.output)
    return None


def _written(forest: Forest) -> Iterator[Array]:
    """Yield what the leaves are written as, (n_leaves, n_outputs): weighted, or a plain sum."""
    output, leaves = forest.output, forest.leaves
    v = leaves.v.astype(output.dtype)
    if output.tree_weight is not None and output.aggregate in (Aggregate.SUM, Aggregate.MEAN):
        v = v * np.repeat(output.tree_weight, np.diff(forest.bitvectors.leaf_ptr))[:, None]
    yield _for_all_outputs(v, leaves.output, forest.n_outputs)
    try:
        plain = narrow_scores(fold_weights(forest))
    except UnsupportedModelError:
        return
    yield _for_all_outputs(plain.leaves.v, plain.leaves.output, forest.n_outputs)


def _for_all_outputs(v: Array, output: Array | None, n_outputs: int) -> Array:
    if output is None:
        return v
    return np.where(output[:, None] == np.arange(n_outputs), v, v.dtype.type(0))
