"""onnxruntime-web under node answers as the reference does, where sets meet missing values too."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.runtime.export.onnx_files import page_model

HERE = Path(__file__).parent


@pytest.fixture
def in_wasm(node, onnxruntime_web, tmp_path):
    """From a model and rows to an output's array."""

    def run(model, X, *outputs):
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        data = base64.b64encode(np.ascontiguousarray(X).tobytes()).decode()
        inputs = {"X": {"type": X.dtype.name, "dims": X.shape, "data": data}}
        asked = "".join(json.dumps({"output": o, "inputs": inputs}) + "\n" for o in outputs)
        command = [node, str(HERE / "wasm.mjs"), str(onnxruntime_web), str(path)]
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


ALWAYS = ("lightgbm", 40)
CASES = [
    pytest.param(*case, marks=() if case == ALWAYS else pytest.mark.full)
    for case in itertools.product(
        ["lightgbm", "xgboost"], [1, 2, 30, 31, 32, 33, 40, 64, 300, 1000]
    )
]


@pytest.mark.parametrize(("library", "n_codes"), CASES)
def test_leaves_and_raw_scores_are_the_references(in_wasm, library, n_codes):
    forest = trained(library, n_codes)
    X = rows_of(forest, n_codes)
    model = page_model(forest)
    assert any(node.op_type == "TreeEnsemble" for node in model.graph.node)
    held = any(node.name == "missing_is_no_code" for node in model.graph.node)
    assert held == (31 < n_codes < 1000)  # of 1000, code 0 is in no set without NaN
    leaves, raw = in_wasm(model, X, "leaves", "raw")
    assert np.array_equal(leaves, reference.exit_leaves(forest, X))
    assert np.array_equal(raw, reference.raw(forest, X))
