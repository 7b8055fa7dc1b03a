"""onnxruntime-web under node answers as the reference does, where sets meet missing values too."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.nan_codes import n_misread
from bitvec.runtime.export.onnx_files import OnnxOptions, onnx_model, page_model

HERE = Path(__file__).parent


@pytest.fixture
def in_wasm(node, node_modules, tmp_path):
    """From a model and rows to an output's array."""

    def run(model, X, *outputs):
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        data = base64.b64encode(np.ascontiguousarray(X).tobytes()).decode()
        inputs = {"X": {"type": X.dtype.name, "dims": X.shape, "data": data}}
        asked = "".join(json.dumps({"output": o, "inputs": inputs}) + "\n" for o in outputs)
        command = [node, str(HERE / "wasm.mjs"), str(node_modules / "onnxruntime-web"), str(path)]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=120)
        head, *answers = map(json.loads, done.stdout.splitlines())
        assert "error" not in head, head
        found = []
        for answer in answers:
            assert "error" not in answer, answer
            held = np.frombuffer(base64.b64decode(answer["data"]), answer["type"])
            found.append(held.reshape(answer["dims"]))
        return found

    return run


def trained(library: str, n_codes: int) -> Forest:
    """Return a regressor of one column of categories with missing values, and one of numbers."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(n_codes)
    n, codes = 3000, rng.integers(0, n_codes, 3000)
    table = pd.DataFrame({"c": pd.Categorical(codes), "x": rng.normal(size=n)})
    table.loc[rng.random(n) < 0.1, "c"] = np.nan
    y = rng.normal(size=n_codes + 1)[table["c"].cat.codes] + table["x"]
    module = pytest.importorskip(library)
    if library == "lightgbm":
        few = {"cat_smooth": 1, "min_data_per_group": 2, "max_cat_to_onehot": 2, "verbose": -1}
        model = module.LGBMRegressor(n_estimators=10, min_child_samples=2, **few)
    else:
        model = module.XGBRegressor(n_estimators=10, enable_categorical=True, max_cat_to_onehot=2)
    return bitvec.convert(model.fit(table, y))


def rows_of(forest: Forest, n_codes: int) -> np.ndarray:
    """Return codes of all kinds, beside thresholds and their neighbours."""
    tests = forest.tests
    b = tests.b[tests.feature == 1][:3]
    x = np.concatenate([b, np.nextafter(b, b.dtype.type(np.inf)), [np.nan]])
    odd = [0.5, -0.5, 30.5, 2.0**24, 2.0**31, 3e9, -3e9, np.inf, -np.inf, np.nan]
    c = np.concatenate([np.arange(-2, n_codes + 3), odd])
    return np.stack(np.meshgrid(c, x), axis=-1).reshape(-1, 2).astype(forest.dtype)


def form_of(model) -> str:
    return next(p.value for p in model.metadata_props if p.key == "bitvec.form")


@pytest.mark.full
@pytest.mark.parametrize("n_codes", [1, 2, 30, 31, 32, 33, 40, 64, 300, 1000])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_leaves_and_raw_scores_are_the_references(in_wasm, library, n_codes):
    forest = trained(library, n_codes)
    X = rows_of(forest, n_codes)
    model = page_model(forest)
    assert form_of(model) == ("traversal" if n_misread(forest) else "tree_ensemble")
    assert n_codes > 31 or not n_misread(forest)
    leaves, raw = in_wasm(model, X, "leaves", "raw")
    assert np.array_equal(leaves, reference.exit_leaves(forest, X))
    assert np.array_equal(raw, reference.raw(forest, X))


@pytest.mark.full
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_the_refused_form_is_wrong_for_missing_values_alone(in_wasm, library):
    """Once this fails, the runtime was mended: then the target has to follow."""
    forest = trained(library, 40)
    X = rows_of(forest, 40)
    (leaves,) = in_wasm(onnx_model(forest, OnnxOptions("tree_ensemble", leaves=True)), X, "leaves")
    wrong = np.any(leaves != reference.exit_leaves(forest, X), axis=1)
    assert wrong.any()
    assert np.isnan(X[wrong, 0]).all()


@pytest.mark.parametrize("target", ["onnxruntime-web", "onnxruntime-mobile"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_the_form_that_reads_nan_as_code_0_is_refused_by_name(library, target):
    forest = trained(library, 40)
    with pytest.raises(UnsupportedModelError, match="NaN as code 0 there, so use the form trav"):
        onnx_model(forest, OnnxOptions("tree_ensemble", target=target))
    model = onnx_model(forest, OnnxOptions(target=target))
    assert form_of(model) == "traversal"
    assert any(p.key == "bitvec.instead_of" for p in model.metadata_props)
    assert form_of(onnx_model(trained(library, 20), OnnxOptions(target=target))) == "tree_ensemble"
