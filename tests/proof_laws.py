"""Laws of proofs: a conversion is proved, and no forest that differs in one place is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, NodeTests, Relation
from bitvec.verify.certificates.proof import prove
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import SourceTrees


def assert_proved_alone(forest: Forest, oracle: Oracle) -> SourceTrees:
    """The forest is its source's trees by proof."""
    assert oracle.trees is not None
    trees = oracle.trees()
    proof = prove(forest, trees, **_told(oracle))
    assert proof.holds, (proof.refused, *map(str, proof.differences))
    return trees


def assert_proved(forest: Forest, oracle: Oracle) -> SourceTrees:
    """The forest is its source's trees by proof, and no mutant of it is."""
    trees = assert_proved_alone(forest, oracle)
    for name, mutant in mutants(forest, trees, missing=oracle.accepts_missing).items():
        assert prove(mutant, trees, **_told(oracle)).differences, name
    return trees


def _told(oracle: Oracle) -> dict[str, bool]:
    rows = {"missing": oracle.accepts_missing, "infinite": oracle.accepts_infinite}
    return {**rows, "leaf_ids": oracle.ids == "source"}


def mutants(forest: Forest, trees: SourceTrees, *, missing: bool = True) -> dict[str, Forest]:
    """The forest with one thing changed: at a root, in a leaf, in the output, or of the order.

    `missing` tells whether rows may hold NaN, so that the side of missing values matters.
    """
    if not forest.n_trees:
        return {}
    found = {
        name: replace(forest, tests=tests)
        for kind in (Kind.MARGIN, Kind.SET, Kind.EQUAL)
        for place in (0, -1)
        for name, tests in _tests(forest, kind, place, missing=missing).items()
    }
    leaves, output = forest.leaves, forest.output
    zeros = np.zeros((1, forest.n_features), forest.dtype)
    reached = reference.exit_leaves(forest, zeros)[0] + forest.bitvectors.leaf_ptr[:-1]
    for name, leaf, place in (("first", 0, 0), ("a reached", reached[-1], -1)):
        v = leaves.v.copy()
        v[leaf, place] = np.nextafter(v[leaf, place], v.dtype.type(np.inf))
        found[f"{name} leaf by an ulp"] = replace(forest, leaves=replace(leaves, v=v))
    if forest.n_trees > 1 and forest.n_nodes:
        found["order of trees"] = forest[::-1]
    base = output.base_score
    base = np.where(np.isinf(base), 1, np.nextafter(base, base.dtype.type(np.inf)))
    weight = np.ones(forest.n_trees) if output.tree_weight is None else output.tree_weight.copy()
    weight[:1] = np.nextafter(weight[:1], weight.dtype.type(np.inf))
    changed = {
        "base score by an ulp": {"base_score": base.astype(output.dtype)},
        "tree weight by an ulp": {"tree_weight": weight.astype(output.dtype)},
        "aggregate": {"aggregate": "max", "base_first": False, "scale": None, "divisor": None},
    }
    if output.classes is not None and "classes" in trees.stated and output.classes[0].size > 1:
        classes = tuple(labels[::-1] for labels in output.classes)
        changed["labels"] = {"classes": classes}
    for name, fields in changed.items():
        found[name] = replace(forest, output=replace(output, **fields))
    return found


def _tests(forest: Forest, kind: Kind, place: int, *, missing: bool) -> dict[str, NodeTests]:
    """Return the tests with one thing changed at a root of this kind, the first or the last."""
    tests, B = forest.tests, forest.bitvectors
    root = B.node_ptr[:-1][np.diff(B.node_ptr) > 0]
    root = root[(tests.kind[root] == kind) & np.isfinite(tests.b[root])]
    if not root.size:
        return {}
    root, found = root[[place]], {}
    if missing:
        other = _put(tests.missing_right, root, None)
        found["missing side"] = replace(tests, missing_right=other)
    if forest.n_features > 1:
        first, last = (tests.row_ptr[tests.node_ptr[root + at]] for at in (0, 1))
        column = (tests.column[first] + 1) % forest.n_features
        if column not in tests.column[first[0] : last[0]]:
            found["column"] = replace(tests, column=_put(tests.column, first, column))
    if kind == Kind.SET:
        word = tests.set_ptr[root]
        found["bit of a set"] = replace(
            tests, set_words=_put(tests.set_words, word, tests.set_words[word] ^ np.uint32(1))
        )
        found["codes beyond a set"] = replace(
            tests, other_right=_put(tests.other_right, root, None)
        )
    else:
        with np.errstate(over="ignore"):  # above the greatest number comes inf
            above = np.nextafter(tests.b[root], tests.b.dtype.type(np.inf))
        found["threshold by an ulp"] = replace(tests, b=_put(tests.b, root, above))
    if kind == Kind.MARGIN:
        other = Relation.GREATER + Relation.GREATER_EQUAL - tests.relation[root]
        found["relation"] = replace(tests, relation=_put(tests.relation, root, other))
    return {f"{name}, {kind.name.lower()}, {place}": changed for name, changed in found.items()}


def _put(values: np.ndarray, at: np.ndarray, new: np.ndarray | None) -> np.ndarray:
    changed = values.copy()
    changed[at] = ~values[at] if new is None else new
    return changed


def some_in_full(cases: list[tuple[str, ...]], one_in: int = 4) -> list[ParameterSet]:
    """The cases as parameters, of which one in so many is met without `-m full`."""
    return [
        pytest.param(*case, id=", ".join(case), marks=() if at % one_in == 0 else pytest.mark.full)
        for at, case in enumerate(dict.fromkeys(cases))
    ]
