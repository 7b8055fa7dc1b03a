"""Trees of one path: each node has a leaf on its left, so the depth is the number of nodes."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import bitvec
from benchmarks.conversion.models import N_FEATURES, one_operator, ydf_forest
from benchmarks.report import Row
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Relation, axis_aligned
from bitvec.core.output import Output
from bitvec.core.structure import from_children
from tests.xgboost_binary import binary


def chain(depth: int, dtype: type = np.float32) -> Forest:
    """Return a tree whose left children are leaves, each of another value."""
    node = np.arange(depth)
    return Forest(
        axis_aligned(
            node % N_FEATURES,
            (1 + node).astype(dtype),
            relation=Relation.GREATER,
            missing_right=np.zeros(depth, np.bool_),
        ),
        from_children(~node, np.append(node[1:], ~depth), [0]),
        Leaves(np.arange(depth + 1, dtype=dtype)[:, None]),
        Output(1, np.dtype(dtype)),
        Inputs(N_FEATURES),
    )


def _exported(suffix: str, dtype: type = np.float32) -> Callable[[Path, int], Path]:
    return lambda path, depth: bitvec.export(chain(depth, dtype), path.with_suffix(suffix))


def _sklearn(path: Path, depth: int) -> Any:
    from bitvec.converters.sklearn.write import to_sklearn

    return to_sklearn(chain(depth))


def _treelite(path: Path, depth: int) -> Any:
    from bitvec.converters.treelite.write import to_treelite

    return to_treelite(chain(depth))


def _xgboost_binary(path: Path, depth: int) -> Path:
    from bitvec.converters.xgboost.write import to_document

    path.write_bytes(binary(to_document(chain(depth))))
    return path


def _onnx_v3(path: Path, depth: int) -> Path:
    node, zero, leaf = np.arange(depth), np.zeros(depth + 1, int), np.arange(depth + 1) + depth
    right = np.append(node[1:], leaf[-1])
    attributes = {
        "nodes_treeids": [0] * (2 * depth + 1),
        "nodes_nodeids": [*range(2 * depth + 1)],
        "nodes_featureids": [*(node % N_FEATURES).tolist(), *zero.tolist()],
        "nodes_values": [*(1.0 + node).tolist(), *zero.astype(float).tolist()],
        "nodes_modes": ["BRANCH_LEQ"] * depth + ["LEAF"] * (depth + 1),
        "nodes_truenodeids": [*leaf[:-1].tolist(), *zero.tolist()],
        "nodes_falsenodeids": [*right.tolist(), *zero.tolist()],
        "target_treeids": zero.tolist(),
        "target_nodeids": leaf.tolist(),
        "target_ids": zero.tolist(),
        "target_weights": np.arange(1.0, depth + 2).tolist(),
        "n_targets": 1,
    }
    return one_operator(path, "TreeEnsembleRegressor", 3, attributes)


def _onnx_v5(path: Path, depth: int) -> Path:
    node = np.arange(depth)
    attributes = {
        "tree_roots": [0],
        "nodes_featureids": (node % N_FEATURES).tolist(),
        "nodes_splits": (1 + node).astype(np.float32),
        "nodes_modes": np.zeros(depth, np.uint8),
        "nodes_truenodeids": node.tolist(),
        "nodes_trueleafs": [1] * depth,
        "nodes_falsenodeids": [*node[1:].tolist(), depth],
        "nodes_falseleafs": [0] * (depth - 1) + [1],
        "leaf_targetids": [0] * (depth + 1),
        "leaf_weights": np.arange(1, depth + 2, dtype=np.float32),
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
    }
    return one_operator(path, "TreeEnsemble", 5, attributes)


def _ydf(path: Path, depth: int) -> Path:
    import ydf

    X = np.random.default_rng(0).normal(size=(100, 2))
    learner = ydf.RandomForestLearner(label="y", task=ydf.Task.REGRESSION, num_trees=1)
    learner.train({"f0": X[:, 0], "f1": X[:, 1], "y": X.sum(axis=1)}, verbose=0).save(str(path))
    (column,) = _inputs(path)[:1]

    def message(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    def record(content: bytes) -> bytes:
        return struct.pack("<I", len(content)) + content

    def leaf(value: int) -> bytes:
        return record(message(2, bytes([0x0D]) + struct.pack("<f", value)))

    def node(threshold: int) -> bytes:
        higher = message(2, bytes([0x0D]) + struct.pack("<f", threshold))
        return record(message(3, bytes([0x10, column]) + message(3, higher)))

    records = [node(1 + number) + leaf(number) for number in range(depth)]
    ydf_forest(path, b"".join([*records, leaf(depth)]), 1)
    return path


def _inputs(path: Path) -> list[int]:
    from bitvec.converters.ydf.directory import read

    columns: list[int] = read(path).model.repeated("input_features")[0].tolist()
    return columns


CHAINS: Final[dict[str, Callable[[Path, int], Any]]] = {
    "scikit-learn": _sklearn,
    "scikit-learn file": _exported(".skops"),
    "xgboost JSON": _exported(".json"),
    "xgboost UBJ": _exported(".ubj"),
    "xgboost legacy binary": _xgboost_binary,
    "LightGBM text": _exported(".txt", np.float64),
    "treelite Model": _treelite,
    "treelite checkpoint": _exported(".tl"),
    "ONNX v3": _onnx_v3,
    "ONNX v5": _onnx_v5,
    "YDF directory": _ydf,
}
"""By format; CatBoost is not there, whose trees are at most 16 deep."""


def measure_chain(name: str, make: Callable[[Path], Any], folder: Path) -> Row:
    """Return the row of a chain: whether it is converted to the chain, and CPU seconds."""
    model = make(folder / "chain")
    start = time.process_time()
    forest = bitvec.convert(model)
    seconds = time.process_time() - start
    left_is_leaf = forest.bitvectors.mid - forest.bitvectors.lo == 1
    return {
        "what": "chain",
        "format": name,
        "depth": forest.n_nodes if bool(np.all(left_is_leaf)) else 0,
        "seconds": seconds,
    }
