"""Monotone constraints: leaves that never fall, or never rise, where a column rises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int8

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.errors import InputError, UnsupportedModelError

RECORDED = ("monotone_constraints", "monotonic_cst")
"""Keys of a source's metadata: of a text, and of a sequence or mapping."""


def directions(forest: Forest, given: Any = None) -> Int8[Array, " n_nodes"] | None:
    """Return 1, 0 or -1 for each node: how the leaves of its right side compare with the left.

    Parameters
    ----------
    given : mapping from columns to 1 or -1, or a sequence of 1, 0 and -1 for each column, optional
        A column is a name or a number. By default what the source records, if it does.

    Returns
    -------
    int8, (n_nodes,)
        None where nothing is constrained.

    Raises
    ------
    InputError
        If a column is unknown or a direction is another number.
    UnsupportedModelError
        If a test reads a constrained column together with others.
    """
    signs = by_column(forest, given)
    if not signs.any():
        return None
    tests = forest.tests
    result = np.zeros(tests.n_nodes, np.int8)
    entry = tests.row_ptr[tests.node_ptr]
    n_entries = np.diff(entry)
    for node in np.flatnonzero(tests.kind == Kind.MARGIN).tolist():
        at = slice(int(entry[node]), int(entry[node + 1]))
        bound = signs[tests.column[at]]
        if bound.any() and n_entries[node] != 1:
            raise UnsupportedModelError(
                "a test of a column with a monotone constraint must read that column alone, got "
                f"node {node} with {n_entries[node]} columns: leave the constraint out."
            )
        if bound.any():
            row = int(tests.node_ptr[node])
            sign = np.sign(tests.weight[at][0] * tests.r[row] * bound[0])
            result[node] = np.int8(sign)
    weight = forest.output.tree_weight
    if weight is not None:
        result *= np.sign(weight).astype(np.int8)[forest.bitvectors.tree_of_node]
    return result


def by_column(forest: Forest, given: Any) -> Int8[Array, " n_columns"]:
    """Return 1, 0 or -1 for each column; see `directions`."""
    signs = np.zeros(forest.n_features, np.int8)
    if given is None:
        metadata = {} if forest.source is None else forest.source.metadata
        recorded = [metadata[key] for key in RECORDED if metadata.get(key)]
        if not recorded:
            return signs
        given = recorded[0]
        if isinstance(given, str):
            given = [int(part) for part in given.replace(",", " ").split()]
    if isinstance(given, Mapping):
        pairs = [(_place(forest, column), sign) for column, sign in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
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
    if signs.any() and forest.feature_map is not None:
        raise UnsupportedModelError(
            "a forest with monotone constraints must read its columns as they are, got a feature "
            "map: leave the constraints out."
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


def constrained(forest: Forest, directions: Int8[Array, " n_nodes"]) -> Forest:
    """Return the forest with leaves clipped so that every constrained node keeps its direction.

    Of two classes with an output each, the direction is the second one's, and the first one's is
    the opposite.

    All leaves of a node's lower side are then at most all leaves of its upper side, whatever the
    thresholds are; so the answer is monotone. Where that holds already, nothing is changed. From
    the root down, a node whose sides overlap is cut at the middle of the overlap.

    Cost: O(n_leaves · depth).
    """
    B, v = forest.bitvectors, forest.leaves.v
    both = forest.output.is_classifier and forest.output.groups == (2,) and v.shape[1] == 2
    turned = np.array([-1.0, 1.0] if both else [1.0])
    new = v * turned
    first = B.leaf_ptr[:-1][B.tree_of_node]
    for node in np.flatnonzero(directions).tolist():
        lo, mid, hi = (int(first[node] + end[node]) for end in (B.lo, B.mid, B.hi))
        left, right = slice(lo, mid), slice(mid, hi)
        below, above = (left, right) if directions[node] > 0 else (right, left)
        top, bottom = new[below].max(axis=0), new[above].min(axis=0)
        # Within the range of the subtree, so that what holds further up still does.
        cut = (top + bottom) / 2
        new[below] = np.where(top > bottom, np.minimum(new[below], cut), new[below])
        new[above] = np.where(top > bottom, np.maximum(new[above], cut), new[above])
    new *= turned
    clipped = np.where(new == v, v, new.astype(v.dtype))
    return replace(forest, leaves=replace(forest.leaves, v=clipped))
