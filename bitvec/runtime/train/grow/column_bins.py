"""Binned columns of a forest's rows, and the tests that their bins stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, CodeRule, Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Bool, Int8, Int64, UInt8
from bitvec.runtime.train.grow.histogram_kernels import MOST_BINS, Columns


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins of columns, and what their tests take over from a forest.

    Parameters
    ----------
    forest : Forest
        Whose comparisons, missing rules and sets are taken over.
    cuts : tuple of arrays
        Of a column of numbers its thresholds, rising; of one of categories its codes.
    is_set : bool, (n_features,)
    missing_rule : uint8, (n_features,)
        A `MissingRule` for each column.
    relation : Relation
    code_rule : CodeRule
    others_right : bool
        Whether the forest's own sets send other categories right; those of bins send them left.
    """

    forest: Forest
    cuts: tuple[Array, ...]
    is_set: Bool[Array, " n_features"]
    missing_rule: UInt8[Array, " n_features"]
    relation: Relation
    code_rule: CodeRule
    others_right: bool

    @classmethod
    def of(cls, forest: Forest, X: Array) -> Bins:
        """Return bins of about as many rows each, whose edges lie between the values of some rows.

        A column of categories is binned where the forest's own sets tell how its codes are read;
        where it has none, the column has no bins, and no split is found in it.
        """
        tests = forest.tests
        of_sets, feature = tests.kind == Kind.SET, tests.feature
        relations, codes = tests.relation[tests.kind == Kind.MARGIN], tests.code_rule[of_sets]
        relation = Relation(int(relations[0])) if relations.size else Relation.GREATER
        is_set = category_columns(forest)
        rule = np.zeros(forest.n_features, np.uint8)
        known = (feature >= 0) & ~of_sets
        np.maximum.at(rule, feature[known], tests.missing_rule[known])
        if forest.inputs.missing_sentinel is not None and known.any():
            rule[:] = np.maximum(rule, tests.missing_rule[known].max())
        found = cls(
            forest,
            (),
            is_set,
            rule,
            relation,
            CodeRule(int(codes[0])) if codes.size else CodeRule.EXACT,
            bool(codes.size) and bool(np.all(tests.other_right[of_sets])),
        )
        cuts = [
            (found._codes(column, X) if codes.size else np.zeros(0))
            if is_set[column]
            else found._thresholds(column, X)
            for column in range(forest.n_features)
        ]
        return replace(found, cuts=tuple(cuts))

    def columns(self, X: Array, sign: Int8[Array, " n_features"]) -> Columns:
        """Return binned rows; see `histogram_kernels.Columns`."""
        code = np.empty((len(X), len(self.cuts)), np.uint8)
        for column, cuts in enumerate(self.cuts):
            x, missing = X[:, column], self._missing(column, X)
            if self.is_set[column]:
                read, missing = self._read(x), np.zeros(len(X), bool)
                place = np.searchsorted(cuts, read)
                known = np.append(cuts, np.nan)[place] == read
                code[:, column] = np.where(known, place, len(cuts))
                continue
            side: Literal["left", "right"]
            side = "left" if self.relation is Relation.GREATER else "right"
            code[:, column] = np.where(missing, len(cuts) + 1, np.searchsorted(cuts, x, side=side))
        sizes = [
            len(cuts) + (1 if s else 2) for cuts, s in zip(self.cuts, self.is_set, strict=True)
        ]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Columns(code, start, self.is_set, sign)

    def _missing(self, column: int, X: Array) -> Bool[Array, " n_rows"]:
        x, rule = X[:, column], self.missing_rule[column]
        missing = np.isnan(x)
        if rule == MissingRule.NAN_OR_ZERO:
            missing |= np.abs(x) <= ZERO_THRESHOLD
        elif (
            rule == MissingRule.NAN_OR_SENTINEL and self.forest.inputs.missing_sentinel is not None
        ):
            missing |= x == self.forest.inputs.missing_sentinel
        return missing

    def _read(self, x: Array) -> Array:
        """Return category codes as numbers; NaN where there is none."""
        whole = np.trunc(x) if self.code_rule is CodeRule.TRUNCATE else np.floor(x)
        if self.code_rule is CodeRule.EXACT:
            whole = np.where(whole == x, whole, np.nan)
        return np.where(np.isfinite(whole) & (whole >= 0) & (whole < 1 << 16), whole, np.nan)

    def _codes(self, column: int, X: Array) -> Array:
        """Return the most frequent codes, rising."""
        read = self._read(X[:, column])
        code, count = np.unique(read[~np.isnan(read)], return_counts=True)
        kept = np.argsort(-count, kind="stable")[:MOST_BINS]
        return np.sort(code[kept])

    def _thresholds(self, column: int, X: Array) -> Array:
        x = X[:, column]
        known = x[~self._missing(column, X) & np.isfinite(x)]
        value, count = np.unique(known, return_counts=True)
        cut = np.flatnonzero(np.diff(_bins(count)))
        return self._between(value[cut], value[cut + 1])

    def _between(self, below: Array, above: Array) -> Array:
        """Return thresholds that part values; one that nears 0 is as LightGBM writes it."""
        middle = below / 2 + above / 2
        if self.relation is Relation.GREATER:
            middle = np.where(middle < above, middle, below)
        else:
            middle = np.where(middle > below, middle, above)
        zero = middle.dtype.type(ZERO_THRESHOLD)
        near = np.abs(middle) <= zero
        middle = np.where(near, zero, middle)
        return np.unique(middle[~near | (above > zero)])


def _bins(count: Int64[Array, " n_values"]) -> Int64[Array, " n_values"]:
    """Return a bin for each of some rising values, by how many rows have each.

    A value of more rows than a bin has on average is a bin of its own, so that a column of many
    zeros is not left with few bins for all else; the other bins are of about as many rows each.
    """
    n, left, rows = len(count), MOST_BINS, count.sum()
    if n <= MOST_BINS:
        return np.arange(n)
    heavy = np.zeros(n, bool)
    while True:
        more = ~heavy & (count * left >= rows)
        if not more.any():
            break
        heavy |= more
        left, rows = MOST_BINS - int(heavy.sum()), int(count[~heavy].sum())
    light = np.where(heavy, 0, count)
    place = np.maximum(np.cumsum(light) - 1, 0) * left // max(rows, 1)
    new = np.diff(place, prepend=place[0]) > 0
    new |= heavy | np.concatenate([[False], heavy[:-1]])
    return np.cumsum(new)


def category_columns(forest: Forest) -> Bool[Array, " n_features"]:
    """Return which columns hold codes of categories."""
    inputs, tests = forest.inputs, forest.tests
    named = [column for column in range(inputs.n_features) if inputs.book(column) is not None]
    asked = tests.feature[np.isin(tests.kind, (Kind.SET, Kind.EQUAL))]
    result = np.zeros(forest.n_features, bool)
    result[[*named, *inputs.whole_numbers, *asked.tolist()]] = True
    return result
