"""Laws of the walkers: rows at thresholds, walked literally through a library's own trees."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np

from bitvec.node_tests import (
    ZERO_THRESHOLD,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
    set_codes,
)
from bitvec.source_trees import SourceTrees
from bitvec.subject import Subject


def rows_about(trees: SourceTrees, n_rows: int = 400, seed: int = 0) -> np.ndarray:
    """Rows of thresholds and codes, one ulp to each side, and values that are missing or none."""
    rng = np.random.default_rng(seed)
    tests, dtype = trees.tests, trees.row_dtype
    values = [
        [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, -0.5, 1e30] for _ in range(trees.n_features)
    ]
    entry_node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    entry_node = np.repeat(entry_node, np.diff(tests.row_ptr))
    for column, node in zip(tests.column.tolist(), entry_node.tolist(), strict=True):
        if tests.kind[node] == Kind.SET:
            codes = set_codes(tests, node)
            codes = np.concatenate([codes, codes + 1, codes - 1, codes + 0.5, [2.5]])
            values[column] += codes.tolist()
        else:
            with np.errstate(over="ignore"):
                t = tests.b[node].astype(dtype)
                values[column] += [t, *np.nextafter(t, np.array([-np.inf, np.inf], dtype))]
    with np.errstate(over="ignore"):
        columns = [rng.choice(np.array(v, dtype), n_rows) for v in values]
    return np.stack(columns, axis=1)


def walked(trees: SourceTrees, X: np.ndarray) -> np.ndarray:
    """The leaf of each row in each tree, node by node."""
    leaf = np.zeros((len(X), trees.root.size), np.int64)
    for i, x in enumerate(X.astype(trees.row_dtype)):
        for tree, at in enumerate(trees.root.tolist()):
            while at >= 0:
                at = int((trees.right if _right(trees, at, x) else trees.left)[at])
            leaf[i, tree] = ~at
    return leaf


def summed(trees: SourceTrees, X: np.ndarray, n_outputs: int) -> np.ndarray:
    """Raw scores of what the leaves hold, added tree by tree in the dtype of the leaves."""
    dtype, leaf = trees.v.dtype, walked(trees, X)
    add = {"min": np.minimum, "max": np.maximum}.get(trees.stated["aggregate"], np.add)
    start = {"min": np.inf, "max": -np.inf}.get(trees.stated["aggregate"], 0)
    total = np.full((len(X), n_outputs), start, dtype)
    for tree in range(trees.root.size):
        v = trees.v[leaf[:, tree]]
        if trees.output is not None:
            v = np.where(np.arange(n_outputs) == trees.output[leaf[:, tree], None], v, 0)
        total = add(total, v.astype(dtype))
    if trees.stated["aggregate"] == "mean":
        divisor = trees.stated["divisor"]
        total = total / np.array(trees.root.size if divisor is None else divisor, dtype)
    return total + trees.stated["base_score"]


def _right(trees: SourceTrees, node: int, x: np.ndarray) -> bool:
    tests = trees.tests
    z = np.zeros((), tests.dtype)
    row = tests.node_ptr[node]
    entries = range(tests.row_ptr[row], tests.row_ptr[row + 1])
    one = len(entries) == 1 and tests.weight[entries[0]] == 1
    for entry in entries:
        value = x[tests.column[entry]].astype(tests.dtype)
        if _missing(trees, node, value):
            if tests.substitute is None or np.isnan(tests.substitute[entry]):
                return bool(tests.missing_right[node])
            value = tests.substitute[entry]
        with np.errstate(all="ignore"):
            z = value if one else z + tests.weight[entry] * value
    kind = tests.kind[node]
    if kind == Kind.EQUAL:
        return bool(z == tests.b[node])
    if kind == Kind.SET:
        return _in_set(tests, node, float(z))
    if np.isnan(z):
        return bool(tests.missing_right[node])
    if tests.relation[node] == Relation.GREATER:
        return bool(z > tests.b[node])
    return bool(z >= tests.b[node])


def _missing(trees: SourceTrees, node: int, value: np.generic) -> bool:
    rule = trees.tests.missing_rule[node]
    if rule == MissingRule.NAN_OR_ZERO:
        return bool(np.isnan(value) or abs(value) <= ZERO_THRESHOLD)
    return bool(
        np.isnan(value) or (rule == MissingRule.NAN_OR_SENTINEL and value == trees.missing_sentinel)
    )


def _in_set(tests: NodeTests, node: int, value: float) -> bool:
    code = value
    if np.isfinite(value) and tests.code_rule[node] != CodeRule.EXACT:
        code = np.trunc(value) if tests.code_rule[node] == CodeRule.TRUNCATE else np.floor(value)
    n_codes = 32 * int(tests.set_ptr[node + 1] - tests.set_ptr[node])
    if not (0 <= code < n_codes and code == np.floor(code)):
        return bool(tests.other_right[node])
    return int(code) in set_codes(tests, node)


def assert_walks_to_the_leaves_of(
    subject: Subject, n_rows: int = 400, X: np.ndarray | None = None
) -> SourceTrees:
    """The trees lead each row to the leaf that the library names."""
    assert subject.trees is not None
    assert subject.leaf_ids is not None
    trees = subject.trees()
    X = rows_about(trees, n_rows) if X is None else X
    if not subject.accepts_infinite:
        X[np.isinf(X)] = 0
    np.testing.assert_array_equal(trees.leaf_id[walked(trees, X)], subject.leaf_ids(X))
    return trees


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
