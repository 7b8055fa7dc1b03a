"""The fold: tests of derived columns become tests of the raw columns that these are made of.

The values that go right at a node are a set. Its preimage, operation by operation, is the set of
raw values that go right, and that is tested. What the steps refuse bounds each raw column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.converters.pipelines.derived_columns import Derived, Place
from bitvec.converters.pipelines.moved_thresholds import moved
from bitvec.converters.pipelines.node_forms import of_texts, single_node
from bitvec.converters.pipelines.operations import (
    DOUBLE,
    UNSEEN,
    Encode,
    Replace,
    Rising,
)
from bitvec.converters.pipelines.split_nodes import Node, with_nodes
from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats
from bitvec.core.forest import Forest
from bitvec.core.inputs import Domain, Inputs, Label
from bitvec.core.key_intervals import Values, everything, intersection, right_values
from bitvec.core.node_tests import Relation


@dataclass(frozen=True, eq=False)
class RawColumn:
    """One column of the raw rows.

    Parameters
    ----------
    place : int
    dtype : numpy dtype
        Of its numbers.
    domain : Values
        Its numbers that every step takes; of texts, nothing.
    book : tuple of str, optional
        The texts that the steps know.
    taken : bool, (n_texts,), optional
        Which of `texts` every step takes.
    null : "any", "nan" or "none"
        The missing text, as of `Domain`.
    is_dropped : bool
        Whether no step takes it.
    """

    place: int
    dtype: np.dtype
    domain: Values
    book: tuple[str, ...] | None = None
    taken: Array | None = None
    null: str = "any"
    is_dropped: bool = False

    @property
    def texts(self) -> Array:
        """The texts, another text, and what is missing."""
        missing = None if self.null == "none" else np.nan
        result = np.empty(len(self.book or ()) + 2, object)
        result[:] = [*(self.book or ()), UNSEEN, missing]
        return result

    def stated(self) -> Domain:
        """Return the domain as a forest states it."""
        if self.is_dropped:
            return Domain("dropped")
        if self.book is None:
            ends = [
                tuple(floats(np.array(interval), self.dtype).tolist())
                for interval in self.domain.intervals
            ]
            return Domain(self.dtype.name, tuple(ends), self.domain.nan)
        assert self.taken is not None
        *known, unseen, missing = self.taken.tolist()
        whole = ((-np.inf, np.inf),)
        codes = tuple((float(at), float(at)) for at, taken in enumerate(known) if taken)
        return Domain("text", whole if unseen else codes, missing, self.null)


def raw_columns(
    derived: list[Derived], n_features: int, dtype: np.dtype, step: Place
) -> list[RawColumn]:
    """Return the raw columns with what all derived ones, used or not, say of them."""
    made_of: list[list[Derived]] = [[] for _ in range(n_features)]
    for column in derived:
        made_of[column.raw].append(column)
    columns = []
    for place, own in enumerate(made_of):
        labels = {
            label: None for column in own for op in column.operations for label in op.labels or ()
        }
        if labels:
            columns.append(_of_texts(place, own, tuple(labels), dtype, step))
            continue
        domain = everything(dtype)
        for column in own:
            if (taken := _domain(column)) != domain:
                domain = intersection(domain, taken)
        columns.append(RawColumn(place, dtype, domain, is_dropped=not own))
    return columns


def _of_texts(
    place: int, own: list[Derived], book: tuple[str, ...], dtype: np.dtype, step: Place
) -> RawColumn:
    answers = {}
    for null in ("nan", "none"):
        column = RawColumn(place, dtype, Values((), False), book, null=null)
        taken, results = np.ones(len(book) + 2, np.bool_), []
        for one in own:
            _require_reads_texts(one, place, step)
            values, accepted = forward(one, column.texts)
            taken &= accepted
            results.append(values)
        answers[null] = taken, results
    (taken, with_nan), (none_taken, with_none) = answers["nan"], answers["none"]
    alike = taken[-1] == none_taken[-1] and (
        not taken[-1] or all(_equal(a[-1], b[-1]) for a, b in zip(with_nan, with_none, strict=True))
    )
    names_none = any(
        None in getattr(op, "categories", ()) or (isinstance(op, Replace) and op.missing is None)
        for one in own
        for op in one.operations
    )
    null = "any" if alike else "none" if names_none or not taken[-1] else "nan"
    chosen = none_taken if null == "none" else taken
    return RawColumn(place, dtype, Values((), False), book, chosen, null)


def _equal(a: object, b: object) -> bool:
    return a is b or a == b or (a != a and b != b)


def _require_reads_texts(column: Derived, place: int, step: Place) -> None:
    """Refuse arithmetic with texts."""
    for operation in column.operations:
        if isinstance(operation, Encode) or (
            isinstance(operation, Replace) and operation.other is not None
        ):
            return
        if isinstance(operation, Rising):
            raise step.refuse(
                f"column {place} of the raw rows holds texts and is computed with before it is "
                "encoded"
            )


def forward(column: Derived, texts: Array) -> tuple[Array, Array]:
    """Return what the operations make of texts, and which of them they take."""
    x, taken = texts, np.ones(len(texts), np.bool_)
    for operation in column.operations:
        x, accepted = operation.apply(x)
        taken = taken & accepted
    return x, taken


def _domain(column: Derived) -> Values:
    """Return the raw numbers that each operation takes."""
    domain = everything(column.values)
    for operation in reversed(column.operations):
        if domain == everything(operation.target):  # whatever is taken leads there
            domain = operation.domain()
        else:
            domain = intersection(operation.preimages([domain])[0], operation.domain())
    return domain


def folded(
    forest: Forest,
    columns: list[Derived],
    raw: list[RawColumn],
    names: tuple[str, ...] | None,
    step: Place,
) -> Forest:
    """Return the forest over the raw columns.

    Parameters
    ----------
    forest : Forest
        Of axis-aligned tests, over the derived columns.
    columns : list of Derived
        One for each column of the forest, in its dtype.
    raw : list of RawColumn
    names : tuple of str, optional
        Of the raw columns.
    step : Place
        The pipeline, for messages.
    """
    tests = forest.tests
    dtype = raw[0].dtype if raw else DOUBLE
    nodes: list[Node | None] = [None] * tests.n_nodes
    feature = tests.feature
    for place in np.unique(feature).tolist():
        at = np.flatnonzero(feature == place)
        column = columns[place]
        source = raw[column.raw]
        found = None
        if source.book is None:
            found = moved(tests, at, column.operations, source.domain, source.dtype)
        if found is None:
            for node, one in zip(
                at.tolist(), _nodes(column, source, forest, at, step), strict=True
            ):
                nodes[node] = one
        else:
            for node, (form, values) in zip(at.tolist(), found, strict=True):
                nodes[node] = Node(source.place, form, values, source.domain)
    books: list[tuple[Label, ...] | None] = [column.book for column in raw]
    inputs = Inputs(
        len(raw),
        names,
        categories=tuple(books) if any(book is not None for book in books) else None,
        domains=tuple(column.stated() for column in raw),
    )
    return with_nodes(forest, [node for node in nodes if node is not None], inputs, dtype, step)


def _nodes(
    column: Derived, source: RawColumn, forest: Forest, at: Array, step: Place
) -> list[Node]:
    """Return the nodes of a derived column by the sets of its values that go right."""
    every_set = list(right_values(forest.tests, at, forest.inputs.missing_sentinel))
    sets = list(dict.fromkeys(every_set))
    place = {values: number for number, values in enumerate(sets)}
    if source.book is not None:
        values, _ = forward(column, source.texts)
        try:
            values = values.astype(column.values)
        except (TypeError, ValueError):
            raise step.refuse(
                f"column {source.place} of the raw rows holds texts that reach the trees"
            ) from None
        nodes = [_text_node(source, s.holds(values)) for s in sets]
        return [nodes[place[s]] for s in every_set]
    for operation in reversed(column.operations):
        sets = operation.preimages(sets)
    relations = map(Relation, forest.tests.relation[at].tolist())
    pairs = [*zip((place[s] for s in every_set), relations, strict=True)]
    known = {pair: _number_node(source, sets[pair[0]], pair[1]) for pair in dict.fromkeys(pairs)}
    return [known[pair] for pair in pairs]


def _text_node(source: RawColumn, right: Array) -> Node:
    *known, other, missing = right.tolist()
    codes = [at for at, goes in enumerate(known) if goes]
    form = of_texts(codes, len(known), missing_right=missing, other_right=other)
    return Node(source.place, form)


def _number_node(source: RawColumn, values: Values, relation: Relation) -> Node:
    form = single_node(values, source.domain, relation, source.dtype)
    return Node(source.place, form, intersection(values, source.domain), source.domain)
