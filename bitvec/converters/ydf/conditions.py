"""Conditions that the nodes of a YDF model test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from bitvec.converters.ydf import schema
from bitvec.converters.ydf.data_spec import Columns, ColumnType
from bitvec.converters.ydf.protobuf import Messages
from bitvec.core.arrays import Array, ranges
from bitvec.core.shape_annotations import Bool, Float32, Float64, Int64, UInt8
from bitvec.errors import FileFormatError, UnsupportedModelError

CODES_LIMIT: Final = 1 << 28
"""Codes that the sets of one model may have, in or out, before anything is allocated."""


class ConditionType(IntEnum):
    """The types of conditions, by their field in the message."""

    NA = 1
    HIGHER = 2
    TRUE_VALUE = 3
    CONTAINS = 4
    CONTAINS_BITMAP = 5
    DISCRETIZED_HIGHER = 6
    OBLIQUE = 7


READS: Final[dict[ConditionType, tuple[ColumnType, ...]]] = {
    ConditionType.NA: tuple(ColumnType),
    ConditionType.HIGHER: (ColumnType.NUMERICAL,),
    ConditionType.TRUE_VALUE: (ColumnType.BOOLEAN,),
    ConditionType.CONTAINS: (ColumnType.CATEGORICAL,),
    ConditionType.CONTAINS_BITMAP: (ColumnType.CATEGORICAL,),
    ConditionType.DISCRETIZED_HIGHER: (ColumnType.DISCRETIZED_NUMERICAL,),
    ConditionType.OBLIQUE: (ColumnType.NUMERICAL,),
}
"""The columns that each condition reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """The conditions of all nodes, in the order of the file.

    Parameters
    ----------
    test : int64, (n_nodes,)
        A `ConditionType`.
    column : int64, (n_nodes,)
        Of the data specification.
    na_value : bool, (n_nodes,)
        The outcome for a missing value, as YDF's slow engine has it.
    threshold : float32, (n_nodes,)
        x >= threshold is true; 0.5 for a truth value, 0 for other tests.
    member : uint8, (n_codes,)
        By code, whether it is in a node's set: `n_codes` of its column for each set node in turn.
    term_ptr : int64, (n_nodes + 1,)
        The terms of each oblique node; others have none.
    term_column : int64, (n_terms,)
    weight : float32, (n_terms,)
    replacement : float32, (n_terms,)
        What the slow engine reads for a missing value, NaN if the outcome is `na_value` instead.
    cover, gain : float64, (n_nodes,)
    """

    test: Int64[Array, " n_nodes"]
    column: Int64[Array, " n_nodes"]
    na_value: Bool[Array, " n_nodes"]
    threshold: Float32[Array, " n_nodes"]
    member: UInt8[Array, " n_codes"]
    term_ptr: Int64[Array, " n_nodes_plus_1"]
    term_column: Int64[Array, " n_terms"]
    weight: Float32[Array, " n_terms"]
    replacement: Float32[Array, " n_terms"]
    cover: Float64[Array, " n_nodes"]
    gain: Float64[Array, " n_nodes"]

    @property
    def is_set(self) -> Bool[Array, " n_nodes"]:
        """Mark the nodes that test whether a category is in a set."""
        return (self.test == ConditionType.CONTAINS) | (self.test == ConditionType.CONTAINS_BITMAP)


def joined(parts: list[Conditions]) -> Conditions:
    """Return the conditions of several parts of the nodes, one after the other.

    Raises
    ------
    UnsupportedModelError
        If their sets have too many codes.
    """
    _require_few_codes(sum(part.member.size for part in parts))
    n_terms = [part.term_column.size for part in parts]
    first_term = np.cumsum([0, *n_terms])
    term_ptr = [part.term_ptr[:-1] + first for part, first in zip(parts, first_term, strict=False)]
    whole = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Conditions.__slots__
        if name != "term_ptr"
    }
    return Conditions(**whole, term_ptr=np.concatenate([*term_ptr, first_term[-1:]]))


def _require_few_codes(n_codes: int) -> None:
    if n_codes > CODES_LIMIT:
        raise UnsupportedModelError(
            f"category sets must have at most {CODES_LIMIT} codes in all, got {n_codes}."
        )


def read_conditions(nodes: Messages, columns: Columns) -> Conditions:
    """Read the conditions of the nodes that have one.

    Raises
    ------
    UnsupportedModelError
        For a condition on a column of another type, or on sequences of vectors.
    FileFormatError
        If a condition is damaged.
    """
    outer, _ = nodes.nested("condition", schema.NODE_CONDITION)
    inner, owner = outer.nested("condition", schema.CONDITION)
    n = outer.size
    if inner.fields.owner.size != n or not np.array_equal(inner.fields.owner, np.arange(n)):
        raise FileFormatError("a node must have one condition, got none or several.")
    test = inner.fields.number
    if owner.size != n or np.any(test > max(ConditionType)):
        raise UnsupportedModelError(
            "a condition must be on numbers, categories, truth values or missing values, got one "
            "on a sequence of vectors."
        )
    column = outer.ints("attribute", -1)
    if not np.all(np.isin(column, columns.features)):
        raise FileFormatError("a condition must read one of the model's features, got another.")
    for kind in np.unique(test).tolist():
        _require_types(columns, column[test == kind], ConditionType(kind))
    threshold = np.zeros(n, np.float32)
    for name, of in (("na", schema.EMPTY), ("true_value", schema.EMPTY)):
        inner.nested(name, of)
    threshold[test == ConditionType.TRUE_VALUE] = 0.5
    higher, at = inner.nested("higher", schema.HIGHER)
    threshold[at] = higher.floats("threshold")
    threshold[test == ConditionType.DISCRETIZED_HIGHER] = _bins(inner, columns, column)
    member = _members(inner, columns, column)
    oblique, at = inner.nested("oblique", schema.OBLIQUE)
    threshold[at] = oblique.floats("threshold")
    if np.any(np.isnan(threshold)):
        raise FileFormatError("a threshold must be a number, got NaN.")
    return Conditions(
        test,
        column,
        outer.bools("na_value"),
        threshold,
        member,
        *_terms(oblique, at, columns, n),
        outer.doubles("num_training_examples_with_weight"),
        outer.floats("split_score").astype(np.float64),
    )


def _require_types(columns: Columns, column: Array, test: ConditionType) -> None:
    wrong = column[~np.isin(columns.type[column], READS[test])]
    if wrong.size:
        raise UnsupportedModelError(
            f"a condition {test.name} must read a column of type "
            f"{' or '.join(t.name for t in READS[test])}, got {columns.names[wrong[0]]!r}."
        )


def _bins(inner: Messages, columns: Columns, column: Array) -> Float32[Array, " n"]:
    found, at = inner.nested("discretized_higher", schema.DISCRETIZED_HIGHER)
    threshold = np.zeros(found.size, np.float32)
    bin_ = found.ints("threshold")
    for which in np.unique(column[at]).tolist():
        bound = columns.boundaries[which]
        here = column[at] == which
        if np.any((bin_[here] < 1) | (bin_[here] > bound.size)):
            raise FileFormatError("a condition must name one of the boundaries of its column.")
        threshold[here] = bound[bin_[here] - 1]
    return threshold


def _members(inner: Messages, columns: Columns, column: Array) -> UInt8[Array, " n_codes"]:
    listed, list_node = inner.nested("contains", schema.CONTAINS)
    mapped, map_node = inner.nested("contains_bitmap", schema.BITMAP)
    node = np.sort(np.concatenate([list_node, map_node]))
    n_codes = columns.n_codes[column[node]]
    _require_few_codes(int(n_codes.sum()))
    member = np.zeros(int(n_codes.sum()), np.uint8)
    first = np.cumsum(n_codes) - n_codes
    element, of = listed.repeated("elements")
    place = np.searchsorted(node, list_node)[of]
    rising = (np.diff(element) > 0) | (np.diff(of) > 0)  # YDF looks them up by bisection
    if np.any((element < 0) | (element >= n_codes[place])) or not np.all(rising):
        raise FileFormatError("a set must list codes of its column, ascending.")
    member[first[place] + element] = 1
    place = np.searchsorted(node, map_node)
    words = mapped.texts("elements_bitmap")
    for i, bitmap in zip(place.tolist(), words, strict=True):
        count = int(n_codes[i])
        if len(bitmap) * 8 < count:
            raise FileFormatError("a bitmap must have a bit for each code of its column.")
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
        member[first[i] : first[i] + count] = bits[:count]
    return member


def _terms(
    oblique: Messages, at: Array, columns: Columns, n: int
) -> tuple[Array, Array, Array, Array]:
    attribute, of = oblique.repeated("attributes")
    weight, weight_of = oblique.repeated("weights")
    given, given_of = oblique.repeated("na_replacements")
    count = np.bincount(of, minlength=oblique.size)
    replaced = np.bincount(given_of, minlength=oblique.size)
    if not np.array_equal(of, weight_of) or not np.all((replaced == 0) | (replaced == count)):
        raise FileFormatError("an oblique condition must have a weight for each attribute.")
    if np.any(count == 0):
        raise FileFormatError("an oblique condition must have attributes, got none.")
    if not np.all(np.isin(attribute, columns.features)):
        raise FileFormatError("a condition must read one of the model's features, got another.")
    _require_types(columns, attribute, ConditionType.OBLIQUE)
    if not np.all(np.isfinite(weight)):
        raise FileFormatError("the weights of an oblique condition must be finite.")
    replacement = np.full(attribute.size, np.nan, np.float32)
    start = np.cumsum(count) - count
    replacement[ranges(start[replaced > 0], count[replaced > 0])] = given
    each = np.zeros(n, np.int64)
    each[at] = count
    term_ptr = np.concatenate([[0], np.cumsum(each)]).astype(np.int64)
    return term_ptr, attribute, weight, replacement
