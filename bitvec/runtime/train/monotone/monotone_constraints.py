"""Monotone constraints of a forest: given by the caller, or recorded by its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Int8
from bitvec.core.source import retrained_source
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.monotone.leaf_order import MOST_LEAVES, LeafOrder, in_order
from bitvec.runtime.train.monotone.monotone_check import trees_out_of_order
from bitvec.runtime.train.monotone.monotone_leaves import (
    constrained,
    node_directions,
    orientation,
)
from bitvec.runtime.train.relax import probability_leaves

RECORDED = ("monotone_constraints", "monotonic_cst")
"""Keys of a source's metadata: of a text, a sequence or a mapping."""
CUT = (
    "The forest that went in did not keep the monotone constraints: its leaves were cut, and that "
    "is the start."
)


@dataclass(frozen=True, slots=True, eq=False)
class Monotone:
    """Columns along which the raw scores of a forest never fall, or never rise.

    Values that count as missing at a test of the column are left out of the order. Of two classes
    with an output each the direction is the second one's, and the first one's is the opposite.

    Parameters
    ----------
    signs : int8, (n_features,)
        1 rising, -1 falling, 0 free.
    """

    signs: Int8[Array, " n_features"]

    @classmethod
    def of(cls, forest: Forest, given: Any = None) -> Monotone | None:
        """Return the constraints that are given, else those that the source records, if it does.

        Parameters
        ----------
        given : mapping from columns to 1 or -1, or a sequence of 1, 0 and -1, optional
            A column is a name or a number; an empty mapping drops what is recorded.

        Raises
        ------
        InputError
            If a column is unknown or a direction is another number.
        UnsupportedModelError
            If no check can prove that the constraints hold: see `node_directions`.
        """
        found = cls.asked(forest, given)
        if found is not None:
            found.require(forest)
        return found

    @classmethod
    def asked(cls, forest: Forest, given: Any = None) -> Monotone | None:
        """Return the same for other forests of these columns, be this one provable or not."""
        signs = by_column(forest, given)
        return cls(signs) if signs.any() else None

    def require(self, forest: Forest) -> None:
        """Refuse a forest of which no check can prove the directions; see `of`."""
        _require_provable(forest)
        node_directions(forest, self.signs)

    def holds(self, forest: Forest) -> bool:
        """Return whether every tree keeps the directions, by an exact check of its leaf boxes."""
        return not trees_out_of_order(forest, self.signs).any()

    def kept(self, forest: Forest) -> Forest:
        """Return the forest, the leaves of each tree that does not keep the directions cut.

        Of trees of up to `MOST_LEAVES` leaves no more than their boxes require: see
        `leaf_order.in_order`; of larger ones at each test of a column: see `constrained`.
        """
        falls = trees_out_of_order(forest, self.signs)
        if not falls.any():
            return forest
        directions = node_directions(forest, self.signs)
        ptr = forest.bitvectors.leaf_ptr
        is_large = falls & (np.diff(ptr) > MOST_LEAVES)
        of_large = np.where(is_large[forest.bitvectors.tree_of_node], directions, np.int8(0))
        result = constrained(forest, of_large)
        sign = np.broadcast_to(orientation(forest), forest.leaves.v.shape)
        v, order = result.leaves.v.copy(), LeafOrder(forest, directions)
        for tree in np.flatnonzero(falls & ~is_large).tolist():
            at = slice(ptr[tree], ptr[tree + 1])
            v[at] = in_order(v[at] * sign[at], order.of(tree)) * sign[at]
        leaves = replace(forest.leaves, v=v)
        return replace(forest, leaves=leaves, source=retrained_source(forest.source))

    def proved(self, forest: Forest) -> dict[str | int, int]:
        """Return the directions by column, where the forest keeps them.

        Raises
        ------
        UnsupportedModelError
            If it does not.
        """
        if not self.holds(forest):
            raise UnsupportedModelError(
                f"a forest must keep the directions {self.named(forest)}, got one that does not."
            )
        return self.named(forest)

    def named(self, forest: Forest) -> dict[str | int, int]:
        """Return the direction of each column that has one, by its name or else its number."""
        names = forest.inputs.feature_names
        return {
            column if names is None else names[column]: int(self.signs[column])
            for column in np.flatnonzero(self.signs).tolist()
        }


def by_column(forest: Forest, given: Any) -> Int8[Array, " n_features"]:
    """Return 1, 0 or -1 for each column; see `Monotone.of`."""
    signs = np.zeros(forest.n_features, np.int8)
    if given is None:
        recorded = _recorded(forest)
        return signs if recorded is None else recorded
    if isinstance(given, Mapping):
        pairs = [(_place(forest, column), sign) for column, sign in given.items()]
    elif isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str):
        if len(given) != forest.n_features:
            raise InputError(
                f"`monotone` must have a number for each of the {forest.n_features} columns, got "
                f"{len(given)}: pass 0 for those without a constraint."
            )
        pairs = list(enumerate(given))
    else:
        raise InputError(
            "`monotone` must map columns to 1 or -1, or hold one number for each column, got "
            f"{given!r}."
        )
    for column, sign in pairs:
        if isinstance(sign, bool) or sign not in (-1, 0, 1):
            raise InputError(
                f"`monotone` must hold 1 (rising), -1 (falling) or 0, got {sign!r}: choose one."
            )
        signs[column] = sign
    return signs


def _recorded(forest: Forest) -> Int8[Array, " n_features"] | None:
    """Return what the source records, None where that is nothing."""
    metadata = {} if forest.source is None else forest.source.metadata
    found: Any = next((metadata[key] for key in RECORDED if metadata.get(key)), None)
    if found is None:
        return None
    try:
        if isinstance(found, str):
            found = [int(part) for part in found.replace(",", " ").split()]
        signs = by_column(forest, found)
    except (InputError, ValueError):
        raise UnsupportedModelError(
            "the monotone constraints that the model records must fit its columns, got "
            f"{str(found)[:80]}: pass `monotone`, or {{}} for none."
        ) from None
    if signs.any() and "steps" in metadata:
        raise UnsupportedModelError(
            "monotone constraints must be of the columns that the forest reads, got those of "
            "columns that a pipeline makes: pass `monotone` by its own columns, or {} for none."
        )
    return signs


def _place(forest: Forest, column: Any) -> int:
    names = forest.inputs.feature_names or ()
    if isinstance(column, str) and column in names:
        return names.index(column)
    is_number = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
    if is_number and 0 <= column < forest.n_features:
        return int(column)
    raise InputError(
        f"`monotone` must name a column of the forest, got {column!r}: use its name, or its number "
        "from 0."
    )


def _require_provable(forest: Forest) -> None:
    """Refuse a forest whose leaves alone do not tell how its raw scores go."""
    parts = probability_leaves.groups(forest)
    for refused, what in (
        (forest.feature_map is not None, "read its columns as they are, got a feature map"),
        (forest.kernel is not None, "predict hard, got a prediction kernel"),
        (forest.leaves.linear is not None, "have constant leaves, got leaves that are linear in x"),
        (not np.all(np.isfinite(forest.leaves.v)), "have finite leaves, got others"),
        (
            parts is not None and any(part.stop - part.start > 2 for part in parts),
            "hold probabilities of two classes, got more, which cannot all rise",
        ),
    ):
        if refused:
            raise UnsupportedModelError(
                f"a forest with monotone constraints must {what}: pass monotone={{}} to leave the "
                "constraints out."
            )
