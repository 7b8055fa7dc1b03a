"""Large models of every format: a few trees of the catalogues, repeated until there are enough.

Training 556,000 leaves would take minutes a library; 5 trees as large as the 100 wanted take
seconds, and a file that repeats them holds what a file of 100 such trees holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn import datasets

import bitvec
from tests.models.samples import Sample
from tests.xgboost_binary import binary

GROWN: Final = 5
"""Trees that are trained; the others repeat them."""
LEAVES: Final = 5_560
"""Leaves of a tree, where a library lets one choose; else of about as many."""
N_FEATURES: Final = 30
DEPTH: Final = 12
"""Depth of an oblivious tree, which then has 4,096 leaves."""


def sample(label: str, n_rows: int = 21_500) -> Sample:
    """Return rows with the label "class" or "number": 10 classes and noise are hard to tell."""
    X, y = datasets.make_classification(
        n_rows, N_FEATURES, n_informative=15, n_classes=10, random_state=0
    )
    noise = np.random.default_rng(0).normal(size=n_rows)
    return Sample(X.astype(np.float32), y if label == "class" else X[:, 0] * X[:, 1] + noise)


def _sklearn(name: str, label: str, times: int, leaves: int) -> Any:
    from tests.models.sklearn import MODELS, train

    given = {"n_estimators": GROWN, "max_leaf_nodes": leaves, "max_depth": None}
    model = train(MODELS[name], sample(label), **given)
    model.estimators_ *= times
    model.n_estimators = len(model.estimators_)
    return model


def sklearn_classes(path: Path, times: int, leaves: int) -> Any:
    """A RandomForestClassifier of 10 classes."""
    return _sklearn("RandomForestClassifier", "class", times, leaves)


def sklearn_numbers(path: Path, times: int, leaves: int) -> Any:
    """A RandomForestRegressor."""
    return _sklearn("RandomForestRegressor", "number", times, leaves)


def _xgboost(times: int, leaves: int) -> Any:
    from tests.models.xgboost import MODELS, train

    given = {"max_depth": 0, "max_leaves": leaves, "grow_policy": "lossguide", "lambda": 0.0}
    given |= {"min_child_weight": 0, "tree_method": "hist"}
    plain = MODELS["reg:squarederror, base score estimated"]._replace(rounds=GROWN)
    document = json.loads(train(plain, sample("number"), **given).save_raw("json").decode())
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


def xgboost_binary(path: Path, times: int, leaves: int) -> Path:
    """xgboost's old binary format, which the installed version no longer writes."""
    path.write_bytes(binary(_xgboost(times, leaves)))
    return path


def lightgbm_text(path: Path, times: int, leaves: int) -> Path:
    """LightGBM's text."""
    from tests.models.lightgbm import MODELS, train

    given = {"num_leaves": leaves, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
    plain = MODELS["regression"]._replace(rounds=GROWN)
    text = train(plain, sample("number"), **given, max_bin=1023).model_to_string()
    head, rest = text.split("\nTree=0\n", 1)
    body, tail = rest.split("end of trees", 1)
    grown = [block.split("\n", 1)[1] for block in f"Tree=0\n{body}".split("Tree=") if block]
    blocks = [f"Tree={number}\n{block}" for number, block in enumerate(grown * times)]
    sizes = "tree_sizes=" + " ".join(str(len(block.encode())) for block in blocks)
    lines = [sizes if line.startswith("tree_sizes=") else line for line in head.split("\n")]
    path.write_text("\n".join(lines) + "\n" + "".join(blocks) + "end of trees" + tail)
    return path


def _catboost(path: Path, times: int, name: str, **options: Any) -> Path:
    from tests.models.catboost import MODELS, train

    model = train(MODELS[name], sample("number"), iterations=GROWN, min_data_in_leaf=1, **options)
    model.save_model(str(path), format="json")
    document = json.loads(path.read_bytes())
    for name in document.keys() & {"trees", "oblivious_trees"}:
        document[name] = document[name] * times
    path.write_text(json.dumps(document, indent=1))
    return path


def catboost_oblivious(path: Path, times: int, leaves: int) -> Path:
    """CatBoost's JSON of oblivious trees."""
    depth = min(DEPTH, leaves.bit_length())
    return _catboost(path, -(-times * LEAVES // 2**DEPTH), "RMSE, SymmetricTree", depth=depth)


def catboost_nested(path: Path, times: int, leaves: int) -> Path:
    """CatBoost's JSON of nested trees; depth 16 is the most that it grows."""
    return _catboost(path, times, "RMSE, Lossguide", depth=16, max_leaves=leaves)


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
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return one_operator(path.with_suffix(".onnx"), node.op_type, 5, given, np.float64)


def one_operator(
    path: Path, kind: str, version: int, given: dict[str, Any], dtype: type = np.float32
) -> Path:
    """Write a model of one operator with these attributes."""
    import onnx

    from tests.models.onnx import operator

    onnx.save(operator(kind, version, given, N_FEATURES, dtype), path)
    return path


def onnx_exported_classes(path: Path, times: int, leaves: int) -> Path:
    """TreeEnsemble and tables of 10 classes, as bitvec writes it."""
    forest = bitvec.convert(sklearn_classes(path, times, leaves))
    return bitvec.export(forest, path.with_suffix(".onnx"))


def _ydf(path: Path, times: int, name: str, **options: Any) -> Path:
    from tests.models.ydf import MODELS, train

    model = MODELS[name]
    X, y, _ = sample(model.label)
    columns = {f"f{number}": X[:, number] for number in range(X.shape[1])}
    given = {"max_depth": -1, "num_trees": GROWN, "compute_oob_performances": False}
    grown = train(model, columns | {model.label: y}, **given, num_threads=1, **options)
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
    return _ydf(path, times, "shares, class", min_examples=_SMALLEST[0])


def ydf_numbers(path: Path, times: int, leaves: int) -> Path:
    """A YDF directory of a random forest of numbers; the smallest leaf decides its size."""
    return _ydf(path, times, "RandomForest, number", min_examples=_SMALLEST[1])


_SMALLEST: Final = (1, 3)
"""Rows that a leaf of YDF's must have, for about `LEAVES` leaves."""
