"""Conditions of rules in words, with the names of columns and categories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, key_of, keys
from bitvec.core.key_intervals import (
    Interval,
    Values,
    complement,
    everything,
    intersection,
    joined,
    missing_of,
    union,
)
from bitvec.core.node_tests import Kind, Relation
from bitvec.core.plain_text import number, plain
from bitvec.core.shape_annotations import Int64
from bitvec.core.tree_text import Trees, book_of, column_name, sum_text
from bitvec.core.value_sets import code_values, n_codes

MAX_CODES = 1 << 12
"""Codes of a column that are written by name; a larger range is written as intervals."""


@dataclass(frozen=True)
class _Column:
    """Facts about a column that its conditions are worded by."""

    name: str
    above: frozenset[int]
    """Keys of what nodes compare it with by >, so that a bound is written as they write it."""
    from_on: frozenset[int]
    """The same by >=."""
    cells: tuple[Interval, ...]
    """Values of each category code; empty for a column of numbers."""
    codes: tuple[str, ...]
    missing: tuple[Interval, ...]
    """Values besides NaN that count as missing at all of its nodes."""


class RuleTexts:
    """Words for the conditions of one forest."""

    def __init__(self, forest: Trees) -> None:
        self.forest = forest
        tests = forest.tests
        self.dtype, self._feature = tests.dtype, tests.feature
        self._every = everything(self.dtype)
        self._columns = {
            int(column): self._facts(int(column), np.flatnonzero(self._feature == column))
            for column in np.unique(self._feature[self._feature >= 0])
        }

    def _facts(self, column: int, nodes: Int64[Array, " n"]) -> _Column:
        tests = self.forest.tests
        compares = (tests.kind[nodes] != Kind.SET) & (tests.kind[nodes] != Kind.EQUAL)
        above, from_on = (
            frozenset(keys(tests.b[nodes[compares & (tests.relation[nodes] == one)]]).tolist())
            for one in (Relation.GREATER, Relation.GREATER_EQUAL)
        )
        missing = missing_of(tests, nodes, self.forest.inputs.missing_sentinel)
        cells, codes = self._codes(column, nodes[tests.kind[nodes] == Kind.SET])
        return _Column(
            column_name(self.forest, column),
            above,
            from_on,
            cells,
            codes,
            missing or (),
        )

    def _codes(
        self, column: int, sets: Int64[Array, " n"]
    ) -> tuple[tuple[Interval, ...], tuple[str, ...]]:
        """Return the values and the names of the codes that set nodes of a column read."""
        tests, book = self.forest.tests, book_of(self.forest, column)
        if not sets.size or np.unique(tests.code_rule[sets]).size > 1:
            return (), ()
        size = max(int(n_codes(tests, sets).max()), 0 if book is None else len(book))
        if size > MAX_CODES:
            return (), ()
        code = np.arange(size)
        first, last = code_values(tests, np.repeat(sets[:1], size), self.dtype, code)
        known = () if book is None else tuple(plain(str(label)) for label in book)
        beyond = "" if book is None else "code "
        cells = tuple(zip(first.tolist(), last.tolist(), strict=True))
        return cells, (*known, *(f"{beyond}{c}" for c in range(len(known), size)))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader of the rules needs."""
        return tuple(
            f"{facts.name}: {self._pieces('a value', facts, facts.missing)} counts as missing"
            for facts in self._columns.values()
            if facts.missing
        )

    def label(self, label: Any) -> str:
        """Return a class or a value as text."""
        return number(label) if isinstance(label, float) else plain(str(label))

    def test(self, node: int, right: bool) -> str:
        """Return a test of several columns, or its opposite, and where a missing value belongs."""
        tests = self.forest.tests
        above, below = (">", "<=") if tests.relation[node] == Relation.GREATER else (">=", "<")
        text = f"{sum_text(self.forest, node)} {above if right else below} {tests.b[node]}"
        return f"({text} or missing)" if bool(tests.missing_right[node]) == right else text

    def condition(self, column: int, values: Values) -> str:
        """Return the condition that a column has one of some values."""
        facts = self._columns[column]
        absent = Values(facts.missing, True)
        is_missing = intersection(values, absent) == absent
        told = bool(facts.missing) and intersection(values, absent) == Values((), False)
        if is_missing or told:
            # What counts as missing is said apart, so that it may fill a gap or not.
            forms = union(values, absent), intersection(values, complement(absent, self.dtype))
            filled, bare = (Values(form.intervals, False) for form in forms)
            body = filled if len(filled.intervals) <= len(bare.intervals) else bare
        else:
            body = values
        told = told and bool(intersection(body, Values(facts.missing, False)))
        text = self._body(facts, Values(body.intervals, False))
        name = facts.name
        if is_missing:
            return f"({text} or {name} is missing)" if text else f"{name} is missing"
        if body.intervals == self._every.intervals:
            return f"{name} is not missing"
        text = f"{text} or {name} is NaN" if values.nan else text
        text = f"({text})" if " or " in text else text
        return f"{text} and {name} is not missing" if told else text

    def _body(self, facts: _Column, values: Values) -> str:
        """Return a condition on values that are no NaN; empty for no values."""
        return self._category(facts, values) or self._pieces(facts.name, facts, values.intervals)

    def _category(self, facts: _Column, values: Values) -> str:
        """Return a condition on categories, empty if the values are not just categories."""
        if not facts.cells:
            return ""
        held = [
            at
            for at, cell in enumerate(facts.cells)
            if intersection(values, Values((cell,), False)).intervals == (cell,)
        ]
        inside = joined(facts.cells[at] for at in held)
        if inside == values.intervals:
            return f"{facts.name} in {self._listed(facts, held)}" if held else ""
        out = sorted(set(range(len(facts.cells))) - set(held))
        outside = Values(joined(facts.cells[at] for at in out), True)
        if complement(outside, self.dtype).intervals == values.intervals:
            return f"{facts.name} not in {self._listed(facts, out)}"
        return ""

    def _listed(self, facts: _Column, codes: list[int]) -> str:
        return "{" + ", ".join(facts.codes[code] for code in codes) + "}"

    def _pieces(self, name: str, facts: _Column, intervals: tuple[Interval, ...]) -> str:
        gaps = complement(Values(intervals, True), self.dtype).intervals
        if gaps and all(first == last for first, last in gaps):
            texts = [self._number(first) for first, _ in gaps]
            is_one = len(texts) == 1
            return f"{name} != {texts[0]}" if is_one else f"{name} is none of {', '.join(texts)}"
        return " or ".join(self._interval(name, facts, *interval) for interval in intervals)

    def _interval(self, name: str, facts: _Column, first: int, last: int) -> str:
        top = key_of(np.inf, self.dtype)
        if first == last:
            return f"{name} = {self._number(first)}"
        is_open, ends = first - 1 in facts.above, last + 1 in facts.from_on
        low = self._number(first - 1 if is_open else first)
        high, below = self._number(last + 1 if ends else last), "<" if ends else "<="
        if first == -top:
            return f"{name} {below} {high}" if last != top else f"{name} is not missing"
        if last == top:
            return f"{name} {'>' if is_open else '>='} {low}"
        return f"{low} {'<' if is_open else '<='} {name} {below} {high}"

    def _number(self, key: int) -> str:
        # The shortest text that names this number of its dtype and no other.
        return str(floats(np.array(key), self.dtype)[()])
