"""Bins go through a forest as the values do of which they were made."""

from __future__ import annotations

import json
from shutil import which

import numpy as np
import pytest
from hypothesis import assume, given, settings
from sklearn.datasets import load_breast_cancer
from strategies import AXIS, forests_with_rows

import bitvec
from bitvec.certification import oracle_of
from bitvec.core import reference
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError
from bitvec.runtime.export.binned_rows import Bins, binned_forest, bins_of, through
from bitvec.runtime.export.c import compiled, to_c

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def boosted():
    xgboost = pytest.importorskip("xgboost")
    X, y = load_breast_cancer(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return bitvec.convert(xgboost.XGBClassifier(n_estimators=5, max_depth=4).fit(X, y))


@settings(max_examples=40)
@given(forests_with_rows(kinds=(AXIS,), linear=False))
def test_bins_reach_the_leaves_of_their_rows(tmp_path_factory, drawn):
    forest, X = drawn
    assume(forest.n_nodes)
    bins = bins_of(forest)
    found = Bins.load(bins.save(tmp_path_factory.mktemp("bins") / "x.bins.json")).of(X)
    assert np.array_equal(found, bins.of(X))
    leaves = reference.exit_leaves(binned_forest(forest, bins), found.astype(np.float32))
    assert np.array_equal(leaves, reference.exit_leaves(forest, X))


def test_a_file_of_bins_is_certified_with_its_table(boosted, tmp_path):
    path = bitvec.export(boosted, tmp_path / "m.onnx", target="edge", input="bins", leaves=True)
    bins = Bins.load(tmp_path / "m.bins.json")
    certificate = bitvec.certify(boosted, through(bins, oracle_of(path)), exported=True)
    assert certificate.passed
    assert certificate.grade == "two-sided"


@pytest.mark.skipif(not any(map(which, ("cc", "gcc", "clang"))), reason="needs a C compiler")
@pytest.mark.parametrize("form", ["tables", "levels", "unrolled"])
def test_a_header_of_bins_is_certified_with_its_table(boosted, form):
    source = to_c(boosted, form=form, input="bins")
    assert "typedef uint8_t model_input;" in source.text
    header = compiled.oracle_of(source, classes=boosted.output.classes)
    certificate = bitvec.certify(boosted, through(bins_of(boosted), header))
    assert certificate.passed
    assert certificate.grade == "two-sided"


def test_leaves_of_bins_are_exact_in_float16(boosted, tmp_path):
    onnx = pytest.importorskip("onnx")
    path = bitvec.export(boosted, tmp_path / "m.onnx", target="edge", input="bins", leaves=True)
    graph = onnx.load(path).graph
    X = load_breast_cancer(return_X_y=True)[0][:200]
    X[::3, ::4] = np.nan
    held = {t.name: onnx.numpy_helper.to_array(t).astype(np.float16) for t in graph.initializer}
    held["X"] = bins_of(boosted).of(X).astype(np.float16)
    for node in graph.node:
        held[node.output[0]] = _IN_FLOAT16[node.op_type](*[held[name] for name in node.input])
    assert held["leaves"].dtype == np.float16
    expected = reference.exit_leaves(boosted, X.astype(np.float32))
    assert np.array_equal(held["leaves"], expected)


_IN_FLOAT16 = {
    "Add": np.add,
    "Ceil": np.ceil,
    "Clip": np.clip,
    "Identity": np.copy,
    "MatMul": np.matmul,
    "Relu": lambda x: np.maximum(x, np.float16(0)),
}


def test_bins_that_cannot_be_are_refused(boosted, tmp_path):
    oblique = bitvec.Forest.from_matrices([[1.0, 2.0]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(UnsupportedModelError, match="nodes that compare one column"):
        bins_of(oblique)
    with pytest.raises(InputError, match="`thresholds` must be left out with rows of bins"):
        to_c(boosted, thresholds="ranks", input="bins")
    with pytest.raises(InputError, match="`input` must be left out where xgboost is written"):
        bitvec.export(boosted, tmp_path / "m.ubj", input="bins")


@pytest.mark.parametrize(
    "change",
    [
        {"format": "bins"},
        {"n_features": 1},
        {"passes": "<"},
        {"bins": "int64"},
        {"channels": []},
        {"channels": [{"column": 0, "rule": "nan", "missing": 0, "thresholds": ["0x1p1", "1"]}]},
    ],
)
def test_a_damaged_table_is_refused(boosted, tmp_path, change):
    path = bins_of(boosted).save(tmp_path / "x.bins.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileFormatError, match="must be a table of bins"):
        Bins.load(path)
