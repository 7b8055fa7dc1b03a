"""Checks of the trees that are drawn: End-to-End Decision Trees, small enough, with titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bitvec.converters.native.e2edt import E2EDT
from bitvec.errors import InputError

MOST_LEAVES = 64

Stages = Sequence[tuple[str, E2EDT]]
"""Trees, each with a title."""


def titled(name: str, stages: Any) -> list[tuple[str, E2EDT]]:
    """Return pairs of a title and a tree, checked."""
    try:
        found = [(str(title), tree) for title, tree in stages]
    except (TypeError, ValueError):
        found = []
    if not found:
        raise InputError(
            f"`{name}` must be pairs of a title and an E2EDT, one at least, got "
            f"{type(stages).__name__}: pass `tree_` of an estimator, with a title."
        )
    for _, tree in found:
        require_tree(tree)
    return found


def require_tree(tree: Any) -> None:
    """Raise unless it is a tree of this paper."""
    if not isinstance(tree, E2EDT):
        raise InputError(
            f"`tree` must be an E2EDT, got {type(tree).__name__}: pass `tree_` of an estimator, or "
            "one of the `trees_` of a forest."
        )


def require_small(tree: E2EDT) -> None:
    """Raise if it has too many leaves to be drawn."""
    if tree.n_leaves > MOST_LEAVES:
        raise InputError(
            f"`tree` must have at most {MOST_LEAVES} leaves to be drawn, got {tree.n_leaves}: grow "
            "it with `max_leaves`, or draw a smaller one."
        )
