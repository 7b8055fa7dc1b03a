"""Large models of every format: a few trees that a library grew, repeated until there are enough.

Training 556,000 leaves would take minutes a library; 5 trees as large as the 100 wanted take
seconds, and a file that repeats them holds what a file of 100 such trees holds.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import bitvec

GROWN: Final = 5
"""Trees that are trained; the others repeat them."""
LEAVES: Final = 5_560
"""Leaves of a tree, where a library lets one choose; else of about as many."""
N_FEATURES: Final = 30
DEPTH: Final = 12
"""Of an oblivious tree, which then has 4,096 leaves."""


def rows(n_rows: int = 21_500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, classes and numbers that 10 classes and noise make hard to tell."""
    X, y = datasets.make_classification(
        n_rows, N_FEATURES, n_informative=15, n_classes=10, random_state=0
    )
    noise = np.random.default_rng(0).normal(size=n_rows)
    return X.astype(np.float32), y, X[:, 0] * X[:, 1] + noise


def _forest(kind: Any, target: np.ndarray, times: int, leaves: int) -> Any:
    X = rows()[0]
    model = kind(GROWN, max_leaf_nodes=leaves, n_jobs=1, random_state=0).fit(X, target)
    model.estimators_ *= times
    model.n_estimators = len(model.estimators_)
    return model


def sklearn_classes(path: Path, times: int, leaves: int) -> Any:
    """A RandomForestClassifier of 10 classes."""
    return _forest(RandomForestClassifier, rows()[1], times, leaves)


def sklearn_numbers(path: Path, times: int, leaves: int) -> Any:
    """A RandomForestRegressor."""
    return _forest(RandomForestRegressor, rows()[2], times, leaves)


def _xgboost(times: int, leaves: int) -> Any:
    import xgboost

    X, _, y = rows()
    options = {"max_depth": 0, "max_leaves": leaves, "grow_policy": "lossguide", "lambda": 0.0}
    options |= {"min_child_weight": 0, "nthread": 1, "tree_method": "hist"}
    document = json.loads(
        xgboost.train(options, xgboost.DMatrix(X, y), GROWN).save_raw("json").decode()
    )
    model = document["learner"]["gradient_booster"]["model"]
    model["trees"] = [tree | {"id": number} for number, tree in enumerate(model["trees"] * times)]
    n_trees = len(model["trees"])
    model["tree_info"] = [0] * n_trees
    model["iteration_indptr"] = [*range(n_trees + 1)]
    model["gbtree_model_param"]["num_trees"] = str(n_trees)
    return document


def xgboost_json(path: Path, times: int, leaves: int) -> Path:
    """xgboost's JSON."""
    path.write_text(json.dumps(_xgboost(times, leaves), separators=(",", ":")))
    return path


def xgboost_ubj(path: Path, times: int, leaves: int) -> Path:
    """xgboost's UBJSON, as the library itself writes it."""
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(_xgboost(times, leaves)).encode()))
    path.write_bytes(booster.save_raw("ubj"))
    return path


_LEGACY_NODE: Final = np.dtype(
    [("parent", "<i4"), ("left", "<i4"), ("right", "<i4"), ("test", "<u4"), ("value", "<f4")]
)
_LEGACY_STATISTICS: Final = np.dtype(
    [("gain", "<f4"), ("cover", "<f4"), ("weight", "<f4"), ("n_leaf_children", "<i4")]
)


def xgboost_binary(path: Path, times: int, leaves: int) -> Path:
    """xgboost's old binary format, which the installed version no longer writes."""
    trees = _xgboost(times, leaves)["learner"]["gradient_booster"]["model"]["trees"]
    path.write_bytes(binary_of(trees))
    return path


def binary_of(trees: list[dict[str, Any]]) -> bytes:
    """Return a model of these trees in the old binary format."""
    parts = [b"binf", struct.pack("<fIiiiIIIi100x", 0.5, N_FEATURES, 0, 0, 0, 3, 0, 1, 0)]
    parts += [struct.pack("<Q", len(text)) + text for text in (b"reg:squarederror", b"gbtree")]
    parts.append(struct.pack("<ii152x", len(trees), 1))
    for tree in trees:
        size = len(tree["left_children"])
        parts.append(struct.pack("<iiiiii124x", 1, size, 0, 0, N_FEATURES, 0))
        nodes, statistics = np.zeros(size, _LEGACY_NODE), np.zeros(size, _LEGACY_STATISTICS)
        nodes["parent"] = np.array(tree["parents"], np.int64).astype(np.int32)
        nodes["left"], nodes["right"] = tree["left_children"], tree["right_children"]
        direction = np.array(tree["default_left"], np.uint32) << np.uint32(31)
        nodes["test"] = np.array(tree["split_indices"], np.uint32) | direction
        nodes["value"] = tree["split_conditions"]
        statistics["gain"], statistics["cover"] = tree["loss_changes"], tree["sum_hessian"]
        statistics["weight"] = tree["base_weights"]
        parts += [nodes.tobytes(), statistics.tobytes()]
    parts.append(bytes(4 * len(trees)))
    return b"".join(parts)


def lightgbm_text(path: Path, times: int, leaves: int) -> Path:
    """LightGBM's text."""
    import lightgbm

    X, _, y = rows()
    options = {"num_leaves": leaves, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
    options |= {"verbose": -1, "num_threads": 1, "max_bin": 1023}
    text = lightgbm.train(options, lightgbm.Dataset(X, y), GROWN).model_to_string()
    head, rest = text.split("\nTree=0\n", 1)
    body, tail = rest.split("end of trees", 1)
    grown = [block.split("\n", 1)[1] for block in f"Tree=0\n{body}".split("Tree=") if block]
    blocks = [f"Tree={number}\n{block}" for number, block in enumerate(grown * times)]
    sizes = "tree_sizes=" + " ".join(str(len(block.encode())) for block in blocks)
    lines = [sizes if line.startswith("tree_sizes=") else line for line in head.split("\n")]
    path.write_text("\n".join(lines) + "\n" + "".join(blocks) + "end of trees" + tail)
    return path


def _catboost(path: Path, times: int, **options: Any) -> Path:
    import catboost

    X, _, y = rows()
    model = catboost.CatBoostRegressor(
        iterations=GROWN,
        min_data_in_leaf=1,
        thread_count=1,
        verbose=0,
        allow_writing_files=False,
        random_seed=0,
        **options,
    )
    model.fit(X, y).save_model(str(path), format="json")
    document = json.loads(path.read_bytes())
    for name in document.keys() & {"trees", "oblivious_trees"}:
        document[name] = document[name] * times
    path.write_text(json.dumps(document, indent=1))
    return path


def catboost_oblivious(path: Path, times: int, leaves: int) -> Path:
    """CatBoost's JSON of oblivious trees."""
    depth = min(DEPTH, leaves.bit_length())
    return _catboost(path, -(-times * LEAVES // 2**DEPTH), depth=depth)


def catboost_nested(path: Path, times: int, leaves: int) -> Path:
    """CatBoost's JSON of nested trees; depth 16 is the most that it grows."""
    return _catboost(path, times, depth=16, grow_policy="Lossguide", max_leaves=leaves)


def treelite_model(path: Path, times: int, leaves: int) -> Any:
    """A treelite Model of 10 classes, imported from scikit-learn."""
    import treelite

    return treelite.sklearn.import_model(sklearn_classes(path, times, leaves))


def treelite_checkpoint(path: Path, times: int, leaves: int) -> Path:
    """A treelite checkpoint of 10 classes."""
    treelite_model(path, times, leaves).serialize(path)
    return path


def treelite_numbers(path: Path, times: int, leaves: int) -> Path:
    """A treelite checkpoint of one number a leaf."""
    import treelite

    treelite.sklearn.import_model(sklearn_numbers(path, times, leaves)).serialize(path)
    return path


def _onnx_v3(path: Path, times: int, model: Any) -> Path:
    """Write the grown trees by skl2onnx, lists repeated with other tree numbers."""
    import onnx
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    options = {id(model): {"zipmap": False}} if hasattr(model, "classes_") else None
    exported = skl2onnx.to_onnx(
        model,
        initial_types=[("X", FloatTensorType([None, N_FEATURES]))],
        options=options,
        target_opset={"": 18, "ai.onnx.ml": 3},
    )
    (node,) = (n for n in exported.graph.node if n.op_type.startswith("TreeEnsemble"))
    for attribute in node.attribute:
        if attribute.name.endswith("_treeids"):
            one = np.array(attribute.ints)
            every = (one[None, :] + GROWN * np.arange(times)[:, None]).ravel()
            attribute.ints[:] = every.tolist()
        elif attribute.type == onnx.AttributeProto.INTS and attribute.name != "classlabels_int64s":
            attribute.ints[:] = list(attribute.ints) * times
        elif attribute.type == onnx.AttributeProto.FLOATS and attribute.name != "base_values":
            attribute.floats[:] = list(attribute.floats) * times
        elif attribute.name == "nodes_modes":
            attribute.strings[:] = list(attribute.strings) * times
    onnx.save(exported, path.with_suffix(".onnx"))
    return path.with_suffix(".onnx")


def onnx_v3_numbers(path: Path, times: int, leaves: int) -> Path:
    """TreeEnsembleRegressor, as skl2onnx writes it."""
    return _onnx_v3(path, times, sklearn_numbers(path, 1, leaves))


def onnx_v3_classes(path: Path, times: int, leaves: int) -> Path:
    """TreeEnsembleClassifier of 10 classes, as skl2onnx writes it."""
    return _onnx_v3(path, times, sklearn_classes(path, 1, leaves))


def onnx_exported_numbers(path: Path, times: int, leaves: int) -> Path:
    """TreeEnsemble of version 5, as bitvec writes it."""
    forest = bitvec.convert(sklearn_numbers(path, times, leaves))
    return bitvec.export(forest, path.with_suffix(".onnx"))


def onnx_v5_numbers(path: Path, times: int, leaves: int) -> Path:
    """TreeEnsemble of version 5 alone, without what bitvec adds around it."""
    import onnx

    exported = onnx.load(onnx_exported_numbers(path, times, leaves))
    (node,) = (n for n in exported.graph.node if n.op_type == "TreeEnsemble")
    node.input[:], node.output[:] = ["X"], ["Y"]
    return one_operator(path.with_suffix(".onnx"), node, 5, onnx.TensorProto.DOUBLE)


def one_operator(path: Path, node: Any, version: int, element: int = 1) -> Path:
    """Write a model of one operator of ai.onnx.ml that reads `X` and answers `Y`.

    `element` is ONNX's number of their type, float32 if none is given.
    """
    import onnx
    from onnx import helper

    values = [
        helper.make_tensor_value_info(name, element, [None, width])
        for name, width in (("X", N_FEATURES), ("Y", 1))
    ]
    graph = helper.make_graph([node], "trees", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


def onnx_exported_classes(path: Path, times: int, leaves: int) -> Path:
    """TreeEnsemble and tables of 10 classes, as bitvec writes it."""
    forest = bitvec.convert(sklearn_classes(path, times, leaves))
    return bitvec.export(forest, path.with_suffix(".onnx"))


def _ydf(path: Path, times: int, target: np.ndarray, **options: Any) -> Path:
    import ydf

    X = rows()[0]
    columns = {f"f{number}": X[:, number] for number in range(X.shape[1])}
    grown = ydf.RandomForestLearner(
        label="y",
        num_trees=GROWN,
        max_depth=-1,
        compute_oob_performances=False,
        winner_take_all=False,
        num_threads=1,
        **options,
    ).train(columns | {"y": target}, verbose=0)
    grown.save(str(path))
    (nodes,) = path.glob("nodes-*")
    stored = nodes.read_bytes()
    ydf_forest(path, stored[8:] * times, GROWN * times)
    return path


def ydf_forest(path: Path, records: bytes, n_trees: int) -> None:
    """Replace the trees of a saved random forest."""
    (nodes,) = path.glob("nodes-*")
    nodes.write_bytes(nodes.read_bytes()[:8] + records)
    # num_node_shards, num_trees as two bytes, winner_take_all_inference, node_format
    head = bytes([0x08, 1, 0x10, n_trees & 127 | 128, n_trees >> 7, 0x18, 0, 0x3A, 13])
    (path / "random_forest_header.pb").write_bytes(head + b"BLOB_SEQUENCE")


def ydf_classes(path: Path, times: int, leaves: int) -> Path:
    """A YDF directory of a random forest of 10 classes; the smallest leaf decides its size."""
    import ydf

    return _ydf(path, times, rows()[1], task=ydf.Task.CLASSIFICATION, min_examples=_SMALLEST[0])


def ydf_numbers(path: Path, times: int, leaves: int) -> Path:
    """A YDF directory of a random forest of numbers; the smallest leaf decides its size."""
    import ydf

    return _ydf(path, times, rows()[2], task=ydf.Task.REGRESSION, min_examples=_SMALLEST[1])


_SMALLEST: Final = (1, 3)
"""Rows that a leaf of YDF's must have, for about `LEAVES` leaves."""
