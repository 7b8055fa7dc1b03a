"""Laws of the walkers: rows at thresholds, sums of leaves, and forests that no proof lets pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
from source_walks import exit_leaves, leaf_ids

from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, set_codes
from bitvec.verify.certificates.proof import Proof, prove
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import SourceTrees


def catalogue(name: str) -> ModuleType:
    """A module of tests beside this one, for the models that it trains."""
    path = Path(__file__).parent / "converters" / f"{name}.py"
    spec = spec_from_file_location(f"catalogue_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def rows_about(trees: SourceTrees, n_rows: int = 400, seed: int = 0) -> np.ndarray:
    """Rows of thresholds and codes, one ulp to each side, and values that are missing or none."""
    rng = np.random.default_rng(seed)
    tests, dtype = trees.tests, trees.row_dtype
    anywhere = [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, -0.5, 1e30]
    values = [list(anywhere) for _ in range(trees.n_features)]
    entry_node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    entry_node = np.repeat(entry_node, np.diff(tests.row_ptr))
    with np.errstate(over="ignore"):
        for column, node in zip(tests.column.tolist(), entry_node.tolist(), strict=True):
            if tests.kind[node] == Kind.SET:
                codes = set_codes(tests, node)
                values[column] += np.concatenate([codes, codes + 1, codes - 0.5, [2.5]]).tolist()
            else:
                t = tests.b[node].astype(dtype)
                values[column] += [t, *np.nextafter(t, np.array([-np.inf, np.inf], dtype))]
        columns = [rng.choice(np.array(v, dtype), n_rows) for v in values]
    return np.stack(columns, axis=1)


def assert_walks_to_the_leaves_of(
    oracle: Oracle, n_rows: int = 400, X: np.ndarray | None = None
) -> SourceTrees:
    """The trees lead each row to the leaf that the library names."""
    assert oracle.trees is not None
    assert oracle.leaf_ids is not None
    trees = oracle.trees()
    X = rows_about(trees, n_rows) if X is None else X
    if not oracle.accepts_infinite:
        X[np.isinf(X)] = 0
    np.testing.assert_array_equal(leaf_ids(trees, X), oracle.leaf_ids(X))
    return trees


def summed(trees: SourceTrees, X: np.ndarray, n_outputs: int) -> np.ndarray:
    """Raw scores of what the leaves hold, added tree by tree in the dtype of the leaves."""
    dtype, leaf = trees.v.dtype, exit_leaves(trees, X)
    aggregate = trees.stated["aggregate"]
    add = {"min": np.minimum, "max": np.maximum}.get(aggregate, np.add)
    total = np.full((len(X), n_outputs), {"min": np.inf, "max": -np.inf}.get(aggregate, 0), dtype)
    for tree in range(trees.root.size):
        v = trees.v[leaf[:, tree]]
        if trees.output is not None:
            v = np.where(np.arange(n_outputs) == trees.output[leaf[:, tree], None], v, 0)
        total = add(total, v.astype(dtype))
    if aggregate == "mean":
        divisor = trees.stated["divisor"]
        total = total / np.array(trees.root.size if divisor is None else divisor, dtype)
    return total + trees.stated["base_score"]


def proof_of(forest: Forest, oracle: Oracle) -> Proof:
    """Prove a forest against the library's own trees, as a certificate does."""
    assert oracle.trees is not None
    return prove(
        forest,
        oracle.trees(),
        missing=oracle.accepts_missing,
        infinite=oracle.accepts_infinite,
        leaf_ids=oracle.ids == "source",
    )


def mutants(forest: Forest) -> Iterator[tuple[str, Forest]]:
    """Forests with one field changed at the root of a tree, at a leaf, or in the output."""
    B, tests, leaves, output = forest.bitvectors, forest.tests, forest.leaves, forest.output
    roots = B.node_ptr[:-1][np.diff(B.node_ptr) > 0]

    def changed(name: str, at: int, value: object) -> Forest:
        array = getattr(tests, name).copy()
        array[at] = value
        return replace(forest, tests=replace(tests, **{name: array}))

    for root in roots[[0, -1]]:
        kind, entry = tests.kind[root], tests.row_ptr[tests.node_ptr[root]]
        column = (tests.column[entry] + 1) % forest.n_features
        if column != tests.column[entry]:
            yield "column", changed("column", entry, column)
        yield "missing side", changed("missing_right", root, ~tests.missing_right[root])
        if kind == Kind.MARGIN:
            yield "relation", changed("relation", root, 1 - tests.relation[root])
        if kind != Kind.SET:
            up = np.nextafter(tests.b[root], tests.dtype.type(np.inf))
            yield "threshold", changed("b", root, up)
    for node in np.flatnonzero(tests.kind == Kind.SET)[:1]:
        word = tests.set_ptr[node]
        if word < tests.set_ptr[node + 1]:
            yield "set bit", changed("set_words", word, tests.set_words[word] ^ np.uint32(2))
    for leaf in (0, forest.n_leaves - 1):
        v = leaves.v.copy()
        v[leaf, -1] = np.nextafter(v[leaf, -1], v.dtype.type(np.inf))
        yield "leaf", replace(forest, leaves=replace(leaves, v=v))
    base = output.base_score.copy()
    base[-1] = np.nextafter(base[-1], base.dtype.type(np.inf))
    yield "base score", replace(forest, output=replace(output, base_score=base))
    if output.classes is not None:
        labels = (np.roll(output.classes[0], 1), *output.classes[1:])
        yield "label", replace(forest, output=replace(output, classes=labels))
    if forest.n_trees > 1:
        order = np.arange(forest.n_trees)
        order[:2] = 1, 0
        yield "order", forest.take(order)


def assert_proved(forest: Forest, oracle: Oracle) -> None:
    """The library's own trees prove the forest."""
    proof = proof_of(forest, oracle)
    assert proof.holds, (proof.refused, [str(one) for one in proof.differences])


def assert_mutants_refuted(forest: Forest, oracle: Oracle) -> None:
    """The library's own trees prove no forest of which one field was changed."""
    trees = oracle.trees()
    for name, mutant in mutants(forest):
        found = prove(mutant, trees, missing=True, infinite=True, leaf_ids=oracle.ids == "source")
        assert found.differences, f"a forest of another {name} was proved"
