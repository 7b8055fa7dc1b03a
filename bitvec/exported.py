"""A forest's own export as the other side of a comparison: its leaves may be numbered anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.structure import Bitvectors
from bitvec.subject import Subject


def renumbered(forest: Forest, subject: Subject, lifted: Callable[[], Forest]) -> Subject:
    """Return a subject that numbers leaves as the forest does, from left to right in each tree.

    Parameters
    ----------
    subject : Subject
        Of what the forest was exported to.
    lifted : callable
        Called where the subject answers with ids of its own; returns the export, lifted again. If
        its trees are not those of the forest (a base score may become a tree, as a target's format
        asks), leaf ids say nothing about the forest and only scores are compared.
    """
    if subject.ids == "leaf number":
        return subject
    # Equal answers may lie in other trees and other leaf values there.
    subject = replace(subject, trees=None)
    again = lifted()
    if forest.output.is_classifier and not _same_labels(forest, again):
        note = f"{subject.name} does not hold the labels of classes: they were not compared"
        subject = replace(subject, predict=None, notes=(*subject.notes, note))
    if not _same_trees(forest.bitvectors, again.bitvectors) or again.source is None:
        note = f"{subject.name} holds other trees than the forest: leaves were not compared"
        return replace(
            subject,
            leaf_ids=None,
            leaf_values=None,
            ids="leaf number",
            n_trees=None,
            notes=(*subject.notes, note),
        )
    ids, leaf_ids = again.source.leaf_id, subject.leaf_ids
    assert ids is not None
    if leaf_ids is None:
        return replace(subject, leaf_values=None, ids="leaf number")
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

    return replace(subject, leaf_ids=numbers, leaf_values=None, ids="leaf number")


def _same_labels(forest: Forest, again: Forest) -> bool:
    ours, theirs = forest.output.classes, again.output.classes
    if ours is None or theirs is None or len(ours) != len(theirs):
        return ours is theirs
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _same_trees(ours: Bitvectors, theirs: Bitvectors) -> bool:
    names = ("lo", "mid", "hi", "leaf_ptr")
    return all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in names)
