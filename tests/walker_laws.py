"""Laws of the walkers: rows at thresholds lead to the library's leaves, which hold what it adds."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
from source_walks import exit_leaves, leaf_ids

from bitvec.core.node_tests import Kind, set_codes
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


def accepted(oracle: Oracle, X: np.ndarray) -> np.ndarray:
    """The rows with zeros for what the library does not take."""
    X = X if oracle.accepts_infinite else np.where(np.isinf(X), X.dtype.type(0), X)
    return X if oracle.accepts_missing else np.where(np.isnan(X), X.dtype.type(0), X)


def assert_walks_to_the_leaves_of(
    oracle: Oracle, n_rows: int = 400, X: np.ndarray | None = None
) -> SourceTrees:
    """The trees lead each row to the leaf that the library names."""
    assert oracle.trees is not None
    assert oracle.leaf_ids is not None
    trees = oracle.trees()
    X = accepted(oracle, rows_about(trees, n_rows) if X is None else X)
    np.testing.assert_array_equal(leaf_ids(trees, X), oracle.leaf_ids(X))
    return trees


def summed(
    trees: SourceTrees, X: np.ndarray, n_outputs: int, *, base_first: bool = False
) -> np.ndarray:
    """Raw scores of what the leaves hold, added tree by tree in the dtype of the leaves."""
    dtype, leaf, stated = trees.v.dtype, exit_leaves(trees, X), trees.stated
    aggregate, base = stated["aggregate"], stated["base_score"]
    if aggregate == "weighted_median":
        return weighted_median(trees.v[leaf][:, :, 0], stated["tree_weight"])
    add = {"min": np.minimum, "max": np.maximum}.get(aggregate, np.add)
    start = {"min": np.inf, "max": -np.inf}.get(aggregate, base if base_first else 0)
    total = np.full((len(X), n_outputs), start, dtype)
    for tree in range(trees.root.size):
        v = trees.v[leaf[:, tree]]
        if trees.output is not None:
            v = np.where(np.arange(n_outputs) == trees.output[leaf[:, tree], None], v, 0)
        total = add(total, v.astype(dtype))
    if aggregate == "mean":
        divisor = stated["divisor"]
        total = total / np.array(trees.root.size if divisor is None else divisor, dtype)
    return total if base_first else total + base


def weighted_median(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The value at which half of the trees' weight is reached, of each row."""
    order = np.argsort(values, axis=1)
    share = np.cumsum(weight[order], axis=1)
    median = (share >= 0.5 * share[:, -1:]).argmax(axis=1)
    return np.take_along_axis(values, order, 1)[np.arange(len(values)), median][:, None]
