"""Laws of recognising models: files by content, objects by class, and nothing that runs code."""

from __future__ import annotations

import importlib.util
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import bitvec
from bitvec.converters import dispatch
from bitvec.converters.dispatch import FORMATS
from bitvec.errors import InputError, UnsupportedModelError

X, y = load_iris(return_X_y=True)


def _skops(path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    skops.dump(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y), path)


def _xgboost(suffix: str):
    def save(path: Path) -> None:
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X, y)
        path.write_bytes(model.get_booster().save_raw(suffix))

    return save


def _lightgbm(path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rows = lightgbm.Dataset(X, y, free_raw_data=False)
    options = {"verbose": -1, "num_threads": 1, "num_leaves": 4}
    path.write_text(lightgbm.train(options, rows, 2).model_to_string())


def _treelite(path: Path) -> None:
    treelite = pytest.importorskip("treelite")
    model = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y)
    treelite.sklearn.import_model(model).serialize(path)


def _onnx(path: Path) -> None:
    pytest.importorskip("onnx")
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    written = bitvec.export(bitvec.convert(tree), path.with_suffix(".onnx"))
    written.rename(path)


def _catboost(kind: str):
    def save(path: Path) -> None:
        catboost = pytest.importorskip("catboost")
        options = {"iterations": 2, "depth": 2, "verbose": 0, "allow_writing_files": False}
        catboost.CatBoostClassifier(**options).fit(X, y).save_model(str(path), format=kind)

    return save


def _forest(path: Path) -> None:
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    bitvec.save(bitvec.convert(tree), path.with_suffix(".safetensors"))
    path.with_suffix(".safetensors").rename(path)


FILES = {
    "skops": _skops,
    "xgboost JSON": _xgboost("json"),
    "xgboost UBJ": _xgboost("ubj"),
    "LightGBM": _lightgbm,
    "treelite": _treelite,
    "ONNX": _onnx,
    "CatBoost JSON": _catboost("json"),
    "forest": _forest,
}


@pytest.mark.parametrize("save", FILES.values(), ids=FILES)
@pytest.mark.parametrize("name", ["model.txt", "model.json", "model", "model.pkl"])
def test_a_file_is_recognised_by_its_content_not_by_its_name(save, name, tmp_path):
    path = tmp_path / name
    save(path)
    forest = bitvec.convert(path)
    assert forest.n_features == 4
    assert forest.n_trees >= 1


def test_a_pickle_is_refused_whatever_its_name_and_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    paths = []
    for protocol in range(6):
        path = tmp_path / f"{protocol}.ubj"
        path.write_bytes(pickle.dumps(Trap(), protocol))
        paths.append(path)
    joblib = pytest.importorskip("joblib")
    for name, compress in (("plain.onnx", 0), ("zlib.json", 3), ("xz.skops", ("xz", 3))):
        joblib.dump(Trap(), tmp_path / name, compress=compress)
        paths.append(tmp_path / name)
    for path in paths:
        with pytest.raises(UnsupportedModelError, match=r"pickle.*never loaded") as caught:
            bitvec.convert(path)
        assert "pass the model object" in str(caught.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"sepal,petal\n1,2\n", "or a model file"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}", "or a model file"),
        (b"<PMML version='4.4'/>", "or a model file"),
        (b"\x1f\x8b\x08\x00\x00", "compressed"),
        (
            json.dumps({"name": "tree", "max_feature_idx": 1, "tree_info": []}).encode(),
            "dump_model",
        ),
        (b"{}", "or a model file"),
        (b"\x00" * 300, "or a model file"),
    ],
)
def test_what_is_no_model_file_is_refused_in_one_sentence(content, says, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(UnsupportedModelError, match=says):
        bitvec.convert(path)


def test_a_file_must_exist_and_hold_something(tmp_path):
    with pytest.raises(InputError, match="must exist"):
        bitvec.convert(tmp_path / "none.ubj")
    (tmp_path / "empty.ubj").touch()
    with pytest.raises(InputError, match="must not be empty"):
        bitvec.convert(tmp_path / "empty.ubj")
    with pytest.raises(UnsupportedModelError, match="a directory"):
        bitvec.convert(tmp_path)


def test_objects_are_recognised_by_class_also_of_subclasses():
    class Mine(DecisionTreeClassifier):
        pass

    assert dispatch.format_of(Mine()).name == "scikit-learn"
    for thing in (3, np.zeros(3), {}, None):
        with pytest.raises(UnsupportedModelError, match="a model must come from one of"):
            bitvec.convert(thing)


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("xgboost", "XGBRegressor"),
        ("lightgbm", "LGBMRegressor"),
        ("catboost", "CatBoostRegressor"),
        ("sklearn.ensemble", "VotingRegressor"),
        ("sklearn.pipeline", "Pipeline"),
    ],
)
def test_a_subclass_that_answers_in_its_own_way_is_refused(library, name):
    base = getattr(pytest.importorskip(library), name)
    own = {"predict": lambda self, X: 2 * base.predict(self, X), "__init__": lambda self: None}
    with pytest.raises(UnsupportedModelError, match=f"subclass of {name} must inherit `predict`"):
        dispatch.format_of(type("Mine", (base,), own)())


def test_every_format_has_a_converter_and_says_what_it_supports():
    for source in FORMATS:
        for role in ("read", "oracle"):
            module = f"bitvec.converters.{source.folder}.{role}"
            assert importlib.util.find_spec(module) is not None, module
        assert source.supported, source.name
        assert len(set(source.supported)) == len(source.supported)
        assert (source.recognises is None) == (not source.made_by)
