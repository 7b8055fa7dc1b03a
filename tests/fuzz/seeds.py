"""Small sound files of every format that is read, from the libraries that write them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xgboost_binary import binary

import bitvec
from bitvec.core.machine import from_forest
from bitvec.services import answer_files

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype(np.float32)
X[:, 2] = RNG.integers(0, 6, 120)
Y = X[:, 0] + (X[:, 2] % 3 == 1)
CLASS = np.digitize(Y, (0, 0.7))


def write_all(folder: Path) -> list[Path]:
    """Write the files; the first word of a name is how it is read."""
    for write in (_xgboost, _lightgbm, _catboost, _treelite, _onnx, _ydf, _skops, _own, _rows):
        write(folder)
    (folder / "convert-catboost.cbm").unlink()  # it is read by CatBoost, in a child process
    return sorted(folder.iterdir())


def write_run(folder: Path) -> list[Path]:
    """Write files of each library that is asked for its answers to them, in a child process."""
    for write in (_xgboost, _lightgbm, _catboost, _treelite, _onnx, _ydf, _skops):
        write(folder)
    for path in list(folder.iterdir()):
        if path.suffix == ".bin":  # no xgboost of today reads it
            path.unlink()
        else:
            path.rename(path.with_name(path.name.replace("convert-", "certify-", 1)))
    pytest.importorskip("onnxruntime")
    forest = bitvec.convert(_forests()["forest"])
    for form in ("tree_ensemble", "traversal"):
        bitvec.export(forest, folder / f"oracle-{form}.ort", form=form)
    return sorted(folder.iterdir())


def _xgboost(folder: Path) -> None:
    xgb = pytest.importorskip("xgboost")
    types = {"feature_types": ["q", "q", "c"], "enable_categorical": True}
    options: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
        "codes": ({"max_cat_to_onehot": 1}, Y, types),
        "dart": ({"booster": "dart", "rate_drop": 0.5}, Y, {}),
        "softprob": ({"objective": "multi:softprob", "num_class": 3, "base_score": 0.5}, CLASS, {}),
        "vectors": ({"multi_strategy": "multi_output_tree"}, np.stack([Y, -Y], axis=1), {}),
    }
    for name, (option, label, columns) in options.items():
        model = xgb.train(
            {"max_depth": 2, "nthread": 1, **option}, xgb.DMatrix(X, label, **columns), 2
        )
        (folder / f"convert-xgboost-{name}.json").write_bytes(model.save_raw("json"))
        (folder / f"convert-xgboost-{name}.ubj").write_bytes(model.save_raw("ubj"))
        if name in ("dart", "softprob"):  # the old binary format holds neither codes nor vectors
            old = binary(json.loads(model.save_raw("json")))
            (folder / f"convert-xgboost-{name}.bin").write_bytes(old)


def _lightgbm(folder: Path) -> None:
    lgb = pytest.importorskip("lightgbm")
    common = {"verbose": -1, "num_threads": 1, "num_leaves": 4, "min_data_in_leaf": 5}
    for name, option, label in (
        ("linear", {"linear_tree": True}, Y),
        ("classes", {"objective": "multiclass", "num_class": 3}, CLASS),
    ):
        rows = lgb.Dataset(X, label, categorical_feature=[2])
        model = lgb.train({**common, **option}, rows, 2)
        (folder / f"convert-lightgbm-{name}.txt").write_text(model.model_to_string())


def _catboost(folder: Path) -> None:
    cb = pytest.importorskip("catboost")
    frame = np.empty(X.shape, object)
    frame[:, :2], frame[:, 2] = X[:, :2], X[:, 2].astype(int)
    common = {"iterations": 2, "depth": 2, "one_hot_max_size": 9, "thread_count": 1, "verbose": 0}
    for name, option, label in (
        ("oblivious", {"loss_function": "RMSE"}, Y),
        ("lossguide", {"loss_function": "MultiClass", "grow_policy": "Lossguide"}, CLASS),
    ):
        pool = cb.Pool(frame, label, cat_features=[2])
        model = cb.CatBoost({**common, **option, "allow_writing_files": False}).fit(pool)
        path = folder / f"convert-catboost-{name}.json"
        model.save_model(str(path), format="json", pool=pool)
    model.save_model(str(folder / "convert-catboost.cbm"))


@cache
def _forests() -> dict[str, Any]:
    ensemble, tree = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.tree")
    small: dict[str, Any] = {"max_depth": 2, "random_state": 0}
    return {
        "tree": tree.DecisionTreeRegressor(**small).fit(X, Y),
        "forest": ensemble.RandomForestClassifier(2, **small).fit(X, np.array(list("abc"))[CLASS]),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=1, **small).fit(X, CLASS),
        "histogram": ensemble.HistGradientBoostingClassifier(
            max_iter=1, max_leaf_nodes=4, random_state=0, categorical_features=[2]
        ).fit(X, CLASS > 0),
        "isolation": ensemble.IsolationForest(n_estimators=2, max_samples=8, random_state=0).fit(X),
    }


def _skops(folder: Path) -> None:
    skops = pytest.importorskip("skops.io")
    for name, model in _forests().items():
        skops.dump(model, folder / f"convert-sklearn-{name}.skops")


def _treelite(folder: Path) -> None:
    treelite = pytest.importorskip("treelite")
    for name in ("boosting", "forest"):
        model = treelite.sklearn.import_model(_forests()[name])
        (folder / f"convert-treelite-{name}.tl").write_bytes(model.serialize_bytes())


def _onnx(folder: Path) -> None:
    pytest.importorskip("onnx")
    forests = {name: bitvec.convert(model) for name, model in _forests().items()}
    for name in ("tree", "forest", "histogram"):
        bitvec.export(forests[name], folder / f"convert-onnx-{name}.onnx")
    skl2onnx = pytest.importorskip("skl2onnx")
    for name in ("tree", "boosting"):
        model = skl2onnx.to_onnx(_forests()[name], X[:1], target_opset={"": 17, "ai.onnx.ml": 3})
        (folder / f"convert-skl2onnx-{name}.onnx").write_bytes(model.SerializeToString())


def _ydf(folder: Path) -> None:
    ydf = pytest.importorskip("ydf")
    ydf.verbose(0)
    data = {"a": X[:, 0], "b": X[:, 1], "c": np.array(list("uvwxyz"))[X[:, 2].astype(int)]}
    small: dict[str, Any] = {"num_trees": 2, "max_depth": 3}
    for name, label, learner in (
        ("boosted", CLASS, ydf.GradientBoostedTreesLearner(label="label", **small)),
        ("forest", Y, ydf.RandomForestLearner(label="label", task=ydf.Task.REGRESSION, **small)),
    ):
        model = learner.train({**data, "label": label})
        model.save(str(folder / f"convert-ydf-{name}"))


def _own(folder: Path) -> None:
    models = _forests()
    forests = {name: bitvec.convert(model) for name, model in models.items()}
    for name in ("tree", "forest", "histogram"):
        bitvec.save(forests[name], folder / f"load-{name}.safetensors")
        bitvec.save(forests[name], folder / f"convert-{name}.safetensors")
    from_forest(forests["tree"]).save(folder / "machine-tree.safetensors")
    for name in ("tree", "forest"):
        certified = bitvec.certify(forests[name], models[name], X[:5], engine="reference")
        certified.save(folder / f"certificate-{name}.json")


def _rows(folder: Path) -> None:
    numbers: dict[str, Any] = {"a": X[:20, 0], "b": X[:20, 2].astype(np.int64)}
    for end in (".csv", ".tsv", ".npy", ".parquet"):
        answer_files.save(folder / f"rows-numbers{end}", [numbers])
    np.save(folder / "rows-columns.npy", np.asfortranarray(X[:20].astype(">f4")))
    text = {**numbers, "c": np.array(["x", "y", "long text", ""] * 5)}
    for end in (".csv", ".parquet"):
        answer_files.save(folder / f"rows-text{end}", [text])
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({**text, "d": [None, 1.5] * 10, "e": [True, False] * 10})
    for codec in ("uncompressed", "zstd", "snappy", "gzip"):
        frame.write_parquet(folder / f"rows-{codec}.parquet", compression=codec)
