"""Rules that a forest must keep to be written as a model of another library."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Int64
from bitvec.errors import UnsupportedModelError


def require_rules(library: str, is_broken: Mapping[str, bool | np.bool], *, written: str) -> None:
    """Refuse a forest that breaks a rule of a library, naming all that it breaks.

    Raises
    ------
    UnsupportedModelError
    """
    broken = [rule for rule, is_so in is_broken.items() if is_so]
    if broken:
        raise UnsupportedModelError(
            f"{library} must have {'; '.join(broken)}: the forest cannot be written as {written}."
        )


def output_of_tree(forest: Forest) -> Int64[Array, " n_trees"] | None:
    """Return the output that each tree adds to; 0 where it adds to all.

    None if the leaves of some tree name several outputs.
    """
    named = forest.leaves.output
    if named is None:
        return np.zeros(forest.n_trees, np.int64)
    leaf_ptr = forest.bitvectors.leaf_ptr
    first = named[leaf_ptr[:-1]].astype(np.int64)
    return first if np.array_equal(np.repeat(first, np.diff(leaf_ptr)), named) else None
