"""Mutants of a forest: each has one field of one node, leaf, tree or of the output changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bitvec.core import structure
from bitvec.core.forest import Forest
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, Relation, set_codes
from bitvec.core.output import Aggregate, PostTransform, SoftmaxSum

MOST_BITS = 8
"""Bits of a set that are flipped, one mutant each: both ends of its range and some between."""


class Mutant(NamedTuple):
    """A change of a forest, and how the forest is made; making one may raise InvalidForestError."""

    name: str
    make: Callable[[], Forest]


def mutants(forest: Forest) -> list[Mutant]:
    """Return all mutants of a forest, in a fixed order."""
    parts = (_tests, _subtrees, _leaves, _source, _sums, _answers, _inputs)
    return [mutant for part in parts for mutant in part(forest)]


def _put(array: Any, at: Any, value: Any) -> Any:
    changed = array.copy()
    changed[at] = value
    return changed


def _ulps(value: Any) -> list[tuple[str, Any]]:
    """Return the two neighbours of a number; of 0 these are the smallest numbers."""
    kind = value.dtype.type
    with np.errstate(over="ignore"):
        pair = {"up": np.nextafter(value, kind(np.inf)), "down": np.nextafter(value, kind(-np.inf))}
    return [(f"one ulp {way}", near) for way, near in pair.items() if near != value]


def _tests(forest: Forest) -> Iterator[Mutant]:
    tests = forest.tests

    def of(name: str, at: int, value: Any, how: str) -> Mutant:
        def make() -> Forest:
            array = _put(getattr(tests, name), at, value)
            return replace(forest, tests=replace(tests, **{name: array}))

        return Mutant(f"tests.{name}[{at}] {how}", make)

    used = np.unique(tests.column)
    n_columns = forest.n_features if forest.feature_map is None else forest.feature_map.n_features
    for at, column in enumerate(tests.column.tolist()):
        other = int(used[(np.searchsorted(used, column) + 1) % used.size])
        for new in sorted({other, (column + 1) % n_columns} - {column}):
            yield of("column", at, new, f"is {new}")
    entry_node = np.repeat(
        np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr)), np.diff(tests.row_ptr)
    )
    plain = tests.is_one_hot
    for node in range(tests.n_nodes):
        kind = Kind(tests.kind[node])
        yield of("missing_right", node, not tests.missing_right[node], "flipped")
        rules = {*MissingRule} - {MissingRule(tests.missing_rule[node])}
        if forest.inputs.missing_sentinel is None:
            rules -= {MissingRule.NAN_OR_SENTINEL}
        for rule in sorted(rules):
            yield of("missing_rule", node, rule, f"is {rule.name}")
        if kind == Kind.SET:
            yield of("other_right", node, not tests.other_right[node], "flipped")
            for code_rule in sorted({*CodeRule} - {CodeRule(tests.code_rule[node])}):
                yield of("code_rule", node, code_rule, f"is {code_rule.name}")
            yield from _set_bits(forest, node, of)
        else:
            for how, near in _ulps(tests.b[node]):
                yield of("b", node, near, how)
        if kind == Kind.MARGIN:
            relation = Relation.GREATER + Relation.GREATER_EQUAL - tests.relation[node]
            yield of("relation", node, relation, "flipped")
        kinds = {Kind.MARGIN, Kind.EQUAL} - {kind} if plain[node] else set()
        for other_kind in sorted(kinds) if not np.isnan(tests.b[node]) else ():
            yield of("kind", node, other_kind, f"is {other_kind.name}")
    for entry, node in enumerate(entry_node.tolist()):
        if tests.kind[node] == Kind.MARGIN:
            for how, near in _ulps(tests.weight[entry]):
                yield of("weight", entry, near, how)
        if not plain[node]:
            yield from _replacements(forest, entry)
    for row, node in enumerate(np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))):
        if not plain[node]:
            yield of("activation", row, 1 - tests.activation[row], "flipped")
            for name in ("r", "offset"):
                for how, near in _ulps(getattr(tests, name)[row]):
                    yield of(name, row, near, how)


def _set_bits(forest: Forest, node: int, of: Callable[..., Mutant]) -> Iterator[Mutant]:
    tests = forest.tests
    first, last = int(tests.set_ptr[node]), int(tests.set_ptr[node + 1])
    n_bits = 32 * (last - first)
    codes = set_codes(tests, node)
    some = np.unique(np.linspace(0, max(n_bits - 1, 0), MOST_BITS - 2).astype(int))
    for bit in sorted({*some.tolist()[:n_bits], *codes[:1].tolist(), *codes[-1:].tolist()}):
        word = first + bit // 32
        flipped = tests.set_words[word] ^ np.uint32(1 << bit % 32)
        yield of("set_words", word, flipped, f"with bit {bit} flipped")


def _replacements(forest: Forest, entry: int) -> Iterator[Mutant]:
    """Yield other substitutes for a missing value, and other indicators, of an entry of a sum."""
    tests = forest.tests

    def of(name: str, array: Any, how: str) -> Mutant:
        return Mutant(
            f"tests.{name}[{entry}] {how}",
            lambda: replace(forest, tests=replace(tests, **{name: array})),
        )

    absent = np.full(tests.column.size, np.nan, tests.dtype)
    held = absent if tests.substitute is None else tests.substitute
    if np.isnan(held[entry]):
        yield of("substitute", _put(held, entry, 0), "is 0")
    else:
        yield of("substitute", _put(held, entry, np.nan), "is none")
        for how, near in _ulps(held[entry]):
            yield of("substitute", _put(held, entry, near), how)
    codes = np.full(tests.column.size, -1, np.int32)
    codes = codes if tests.indicator is None else tests.indicator
    yield of("indicator", _put(codes, entry, codes[entry] + 1), "of the next code")
    if codes[entry] >= 0:
        yield of("indicator", _put(codes, entry, -1), "is none")


def _subtrees(forest: Forest) -> Iterator[Mutant]:
    """Yield forests of which one node has its two sides exchanged, its test as it was."""
    B = forest.bitvectors

    def make(node: int) -> Forest:
        left, right = (side.copy() for side in structure.children(B))
        left[node], right[node] = right[node], left[node]
        roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
        turned, order = structure.arrange(left, right, roots)
        leaf = np.where(order.leaf < 0, ~order.leaf, order.leaf)
        source = forest.source
        return replace(
            forest,
            tests=forest.tests.take(order.node),
            bitvectors=turned,
            leaves=forest.leaves.take(leaf),
            source=None if source is None else source.take(order.node, leaf),
        )

    for node in range(forest.n_nodes):
        yield Mutant(f"sides of node {node} exchanged", lambda node=node: make(node))


def _leaves(forest: Forest) -> Iterator[Mutant]:
    leaves, linear = forest.leaves, forest.leaves.linear

    def of(name: str, at: Any, value: Any, how: str) -> Mutant:
        def make() -> Forest:
            array = _put(getattr(leaves, name), at, value)
            return replace(forest, leaves=replace(leaves, **{name: array}))

        return Mutant(f"leaves.{name}[{at}] {how}", make)

    for at in np.ndindex(leaves.v.shape):
        for how, near in _ulps(leaves.v[at]):
            yield of("v", at, near, how)
        if leaves.v[at] == 0:
            yield of("v", at, -leaves.v[at], "of the other sign")
    if leaves.output is not None and forest.n_outputs > 1:
        for leaf, output in enumerate(leaves.output.tolist()):
            yield of("output", leaf, (output + 1) % forest.n_outputs, "is the next")
    if linear is None:
        return

    def of_terms(name: str, value: Any, how: str) -> Mutant:
        return Mutant(
            f"leaves.linear.{name} {how}",
            lambda: replace(
                forest, leaves=replace(leaves, linear=replace(linear, **{name: value}))
            ),
        )

    for name in ("weight", "constant"):
        array = getattr(linear, name)
        for at in np.ndindex(array.shape):
            if name == "constant" and np.diff(linear.leaf_ptr)[at[0]] == 0:
                continue
            for how, near in _ulps(array[at]):
                yield of_terms(name, _put(array, at, near), f"{at} {how}")
    for term, column in enumerate(linear.column.tolist()):
        other = (column + 1) % forest.n_features
        yield of_terms("column", _put(linear.column, term, other), f"{term} is {other}")
    yield of_terms("zero_threshold", 0.0 if linear.zero_threshold else 1e-35, "is another")


def _source(forest: Forest) -> Iterator[Mutant]:
    source, B = forest.source, forest.bitvectors
    if source is None or source.leaf_id is None:
        return
    ids, tree = source.leaf_id, np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
    for leaf in np.flatnonzero((tree[1:] == tree[:-1]) & (ids[1:] != ids[:-1])).tolist():
        turned = _put(ids, [leaf, leaf + 1], ids[[leaf + 1, leaf]])
        yield Mutant(
            f"source.leaf_id {leaf} and {leaf + 1} exchanged",
            lambda turned=turned: replace(forest, source=replace(source, leaf_id=turned)),
        )


def _with(forest: Forest, how: str, **fields: Any) -> Mutant:
    name = ", ".join(f"output.{field}" for field in fields)
    return Mutant(f"{name} {how}", lambda: replace(forest, output=replace(forest.output, **fields)))


def _sums(forest: Forest) -> Iterator[Mutant]:
    """Yield what changes how leaf values are added up."""
    output, n_trees = forest.output, forest.n_trees
    one, trees = np.ones(forest.n_outputs, output.dtype), np.ones(n_trees, output.dtype)
    arrays = {"base_score": output.base_score}
    if output.aggregate is Aggregate.SUM and not output.base_first:
        arrays["scale"] = one if output.scale is None else output.scale
    if output.aggregate is Aggregate.MEAN:
        mean = one * output.dtype.type(n_trees)
        arrays["divisor"] = mean if output.divisor is None else output.divisor
    arrays["tree_weight"] = trees if output.tree_weight is None else output.tree_weight
    for name, array in arrays.items():
        for at in range(array.size):
            for how, near in _ulps(array[at]):
                yield _with(forest, f"[{at}] {how}", **{name: _put(array, at, near)})
    if 0 in output.base_score:
        zero = int(np.flatnonzero(output.base_score == 0)[0])
        tiny = _put(output.base_score.astype(np.float64), zero, 5e-324)
        yield _with(forest, f"[{zero}] is 5e-324", base_score=tiny)
        yield _with(forest, "of the other sign", base_score=-output.base_score)
    if not output.base_first and output.base_score.dtype == np.float64 != output.dtype:
        narrow = output.base_score.astype(output.dtype)
        if np.any(narrow != output.base_score):
            yield _with(forest, "is rounded", base_score=narrow)
    for aggregate in sorted({*Aggregate} - {output.aggregate}):
        yield _with(forest, f"is {aggregate}", aggregate=aggregate)
        fields = {"scale": None, "divisor": None, "base_first": False, "aggregate": aggregate}
        if aggregate is Aggregate.WEIGHTED_MEDIAN:
            fields["tree_weight"] = arrays["tree_weight"]
        yield _with(forest, f"is {aggregate}, plainly", **fields)
    yield _with(forest, "flipped", base_first=not output.base_first)
    for first in range(n_trees - 1):
        order = np.arange(n_trees)
        order[[first, first + 1]] = first + 1, first
        yield Mutant(
            f"trees {first} and {first + 1} exchanged", lambda order=order: forest.take(order)
        )
    other = np.dtype(np.float32 if output.dtype == np.float64 else np.float64)
    fields = {
        name: None if getattr(output, name) is None else getattr(output, name).astype(other)
        for name in ("base_score", "scale", "divisor", "tree_weight")
    }
    yield _with(forest, f"is {other}", **fields, dtype=other)


def _answers(forest: Forest) -> Iterator[Mutant]:
    """Yield what changes the answers that are made of raw scores."""
    output = forest.output
    for transform in sorted({*PostTransform} - {output.post_transform}):
        yield _with(forest, f"is {transform}", post_transform=transform)
    for how, near in [*_ulps(np.float64(output.parameter)), ("doubled", output.parameter * 2)]:
        yield _with(forest, how, parameter=float(near))
    for way in sorted({*SoftmaxSum} - {output.softmax_sum}):
        yield _with(forest, f"is {way}", softmax_sum=way)
    if forest.n_outputs > 1:
        apart = (1,) * forest.n_outputs
        groups = apart if output.groups != apart else (forest.n_outputs,)
        yield _with(forest, f"is {groups}", groups=groups)
    if output.classes is None:
        two = [np.array([0, 1])] * len(output.groups)
        yield _with(forest, "of two numbers", classes=tuple(two))
        return
    yield _with(forest, "is none", classes=None)
    yield _with(forest, "flipped", labels_from_raw=not output.labels_from_raw, tie_to_second=False)
    yield _with(forest, "flipped", tie_to_second=not output.tie_to_second)
    if 1 in output.groups:
        bounds = _ulps(np.float64(output.second_above))
        for how, near in [*bounds, ("a quarter higher", output.second_above + 0.25)]:
            yield _with(forest, how, boundary=float(near))
    for group, labels in enumerate(output.classes):
        for at in range(labels.size - 1):
            turned = _put(labels, [at, at + 1], labels[[at + 1, at]])
            yield _labelled(forest, group, turned, f"{at} and {at + 1} exchanged")
        words = labels.astype(str)
        kinds = [words] if labels.dtype.kind in "biuf" else [np.arange(labels.size)]
        if labels.dtype.kind in "iu":
            kinds.append(labels.astype(np.float64))
        for kind in kinds:
            yield _labelled(forest, group, kind, f"are {kind.dtype.kind}")


def _labelled(forest: Forest, group: int, labels: Any, how: str) -> Mutant:
    assert forest.output.classes is not None
    classes = list(forest.output.classes)
    classes[group] = labels
    return _with(forest, f"[{group}] {how}", classes=tuple(classes))


def _inputs(forest: Forest) -> Iterator[Mutant]:
    inputs = forest.inputs

    def of(how: str, **fields: Any) -> Mutant:
        name = ", ".join(f"inputs.{field}" for field in fields)
        return Mutant(f"{name} {how}", lambda: replace(forest, inputs=replace(inputs, **fields)))

    yield of("one more", n_features=inputs.n_features + 1)
    sentinel = inputs.missing_sentinel
    if sentinel is not None:
        yield of("is none", missing_sentinel=None)
        for how, near in _ulps(forest.dtype.type(sentinel)):
            yield of(how, missing_sentinel=float(near))
    yield of("flipped", absent_is_missing=not inputs.absent_is_missing)
    for column in range(inputs.n_features):
        book = inputs.book(column)
        if book is None or len(book) < 2:
            continue
        books = list(inputs.categories or ())
        books[column] = (book[1], book[0], *book[2:])
        yield of(f"[{column}] 0 and 1 exchanged", categories=tuple(books))
