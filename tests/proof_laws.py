"""Laws of proofs: a conversion is proved, and no forest that differs in one place is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, NodeTests, Relation
from bitvec.verify.certificates.proof import prove
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import SourceTrees


def assert_proved(forest: Forest, oracle: Oracle) -> SourceTrees:
    """The forest is its source's trees by proof, and no mutant of it is."""
    assert oracle.trees is not None
    trees = oracle.trees()
    rows = {"missing": oracle.accepts_missing, "infinite": oracle.accepts_infinite}
    proof = prove(forest, trees, **rows)
    assert proof.holds, (proof.refused, *map(str, proof.differences))
    for name, mutant in mutants(forest, trees).items():
        assert prove(mutant, trees, **rows).differences, name
    return trees


def mutants(forest: Forest, trees: SourceTrees) -> dict[str, Forest]:
    """The forest with one thing changed: at a root, in a leaf, in the output, or of the order."""
    if not forest.n_trees:
        return {}
    found = {
        name: replace(forest, tests=tests)
        for kind in (Kind.MARGIN, Kind.SET, Kind.EQUAL)
        for name, tests in _tests(forest, kind).items()
    }
    leaves, output = forest.leaves, forest.output
    v = leaves.v.copy()
    v[0] = np.nextafter(v[0], v.dtype.type(np.inf))
    found["leaf by an ulp"] = replace(forest, leaves=replace(leaves, v=v))
    if forest.n_trees > 1 and forest.n_nodes:
        found["order of trees"] = forest[::-1]
    base = output.base_score
    base = np.where(np.isinf(base), 1, np.nextafter(base, base.dtype.type(np.inf)))
    weight = np.ones(forest.n_trees) if output.tree_weight is None else output.tree_weight.copy()
    weight[:1] *= 0.5
    changed = {
        "base score by an ulp": {"base_score": base.astype(output.dtype)},
        "tree weight": {"tree_weight": weight.astype(output.dtype)},
        "aggregate": {"aggregate": "max", "base_first": False, "scale": None, "divisor": None},
    }
    if output.classes is not None and "classes" in trees.stated:
        classes = tuple(labels[::-1] for labels in output.classes)
        changed["labels"] = {"classes": classes}
    for name, fields in changed.items():
        found[name] = replace(forest, output=replace(output, **fields))
    return found


def _tests(forest: Forest, kind: Kind) -> dict[str, NodeTests]:
    """Return the tests with one thing changed at the first root of this kind."""
    tests, B = forest.tests, forest.bitvectors
    root = B.node_ptr[:-1][np.diff(B.node_ptr) > 0]
    root = root[(tests.kind[root] == kind) & np.isfinite(tests.b[root])][:1]
    if not root.size:
        return {}
    found = {"missing side": replace(tests, missing_right=_put(tests.missing_right, root, None))}
    if forest.n_features > 1:
        column = _put(tests.column, root, (tests.column[root] + 1) % forest.n_features)
        found["column"] = replace(tests, column=column)
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
    return {f"{name}, {kind.name.lower()}": changed for name, changed in found.items()}


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
