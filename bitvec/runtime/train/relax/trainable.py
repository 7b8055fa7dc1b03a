"""Selection of the trainable parts of a soft forest, node by node and leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core import options, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError

TRAINABLE = ("S", "b", "v", "r", "base_score", "phi")
_OF_NODES = ("S", "b", "r")


@dataclass(frozen=True, slots=True, eq=False)
class Trainable:
    """Parameters that may move.

    Parameters
    ----------
    names : tuple of str
        Those among `TRAINABLE` of which anything may move.
    S, b, r : bool, (n_nodes,)
    v : bool, (n_leaves,)
    """

    names: tuple[str, ...]
    S: Array
    b: Array
    r: Array
    v: Array


def find(trainable: Any, forest: Forest) -> Trainable:
    """Read what may move.

    Parameters
    ----------
    trainable : names among `TRAINABLE`, or a mapping from them
        A name alone, or with the value "all", is all of it. {"levels": depths} are the nodes at
        these depths, the root at 0; {"nodes": ...} and {"leaves": ...} are a mask of bools or
        positions, in the forest's order.

    Raises
    ------
    InputError
        If a name is unknown, a choice is none of these or outside the forest, a forest without a
        feature map is to move one, or a part of linear leaves is to move.
    """
    chosen = (
        trainable if isinstance(trainable, Mapping) else dict.fromkeys(_names(trainable), "all")
    )
    names = _names(chosen)
    masks = {
        name: np.zeros(forest.n_leaves if name == "v" else forest.n_nodes, bool)
        for name in (*_OF_NODES, "v")
    }
    for name in names:
        if name in masks:
            masks[name] = _mask(name, chosen[name], forest)
        elif chosen[name] != "all":
            raise InputError(f'`trainable[{name!r}]` must be "all", got {chosen[name]!r}.')
    if "phi" in names and forest.feature_map is None:
        raise InputError(
            "`trainable` must not name 'phi' where a forest has no feature map: leave it out."
        )
    if forest.leaves.linear is not None and masks["v"].any() and not masks["v"].all():
        raise InputError(
            "`trainable['v']` must be \"all\" where leaves are linear, got a part of them: move "
            "all, or none."
        )
    found = tuple(name for name in names if name not in masks or masks[name].any())
    # A forest without nodes has nothing of S to move; naming it is no mistake.
    return Trainable(found if isinstance(trainable, Mapping) else names, **masks)


def require_range(name: str, given: Array, held: Array) -> None:
    """Raise InputError if a finite number that may move has overflowed where it is held."""
    if np.any(np.isfinite(given) & ~np.isfinite(held)):
        largest = float(np.abs(given[np.isfinite(given)]).max())
        raise InputError(
            f"`{name}` must fit torch.{held.dtype} while it may move, got values up to "
            f"{largest:.3g}: scale the targets, leave {name!r} out of `trainable`, or relax with "
            "SoftForest.from_forest(..., dtype=torch.float64)."
        )


def _names(trainable: Any) -> tuple[str, ...]:
    return options.names(trainable, TRAINABLE)


def _mask(name: str, choice: Any, forest: Forest) -> Array:
    size = forest.n_leaves if name == "v" else forest.n_nodes
    if isinstance(choice, str) and choice == "all":
        return np.ones(size, bool)
    ways = ("leaves",) if name == "v" else ("levels", "nodes")
    if not isinstance(choice, Mapping) or len(choice) != 1 or next(iter(choice)) not in ways:
        raise InputError(
            f'`trainable[{name!r}]` must be "all" or a mapping from {" or ".join(ways)} to which, '
            f"got {choice!r}."
        )
    ((way, which),) = choice.items()
    place = f"trainable[{name!r}][{way!r}]"
    if way == "levels":
        depth = tree_paths.node_depth(forest.bitvectors)
        wanted = _positions(place, which, None)
        at_level: Array = np.isin(depth, wanted)
        return at_level
    array = np.asarray(which)
    if array.dtype == bool:
        if array.shape != (size,):
            raise InputError(
                f"`{place}` must have one bool for each of {size} {way}, got shape {array.shape}."
            )
        return array.copy()
    mask = np.zeros(size, bool)
    mask[_positions(place, which, size)] = True
    return mask


def _positions(place: str, which: Any, size: int | None) -> Array:
    if not isinstance(which, Iterable) or isinstance(which, str):
        raise InputError(f"`{place}` must hold whole numbers, got {which!r}: pass a list.")
    array = np.asarray(list(which))
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"`{place}` must hold whole numbers, got {which!r}: pass a list.")
    largest = np.inf if size is None else size
    if array.min() < 0 or array.max() >= largest:
        end = "" if size is None else f" and below {size}"
        raise InputError(
            f"`{place}` must hold numbers from 0{end}, got {int(array.min())} to "
            f"{int(array.max())}."
        )
    return array.astype(np.int64)
