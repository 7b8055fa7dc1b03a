"""A model folder of the Triton server holds a checkpoint that routes as the forest does."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import bitvec
from bitvec.cli.program import program
from bitvec.errors import InputError, UnsupportedModelError

treelite = pytest.importorskip("treelite")
MODELS = {
    "binary": (GradientBoostingClassifier(n_estimators=20, random_state=0), load_breast_cancer),
    "classes": (RandomForestClassifier(10, random_state=0), load_iris),
    "regression": (RandomForestRegressor(10, max_depth=6, random_state=0), load_diabetes),
    "extra": (ExtraTreesRegressor(5, random_state=0), load_diabetes),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    model, load = MODELS[request.param]
    X, y = load(return_X_y=True)
    return bitvec.convert(model.fit(X, y)), X.astype(np.float32)


def near_thresholds(forest, X):
    """Rows with a value at or beside a threshold in each column that is read."""
    rows = X[np.random.default_rng(0).integers(0, len(X), 4 * forest.n_nodes)].copy()
    node, column = np.arange(forest.n_nodes), forest.tests.feature
    at = forest.tests.b.astype(np.float32)
    beside = [at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))]
    for k, value in enumerate(beside):
        rows[k::4][: forest.n_nodes][node, column] = value
    return rows


def test_the_checkpoint_routes_rows_of_float32_as_the_forest(fitted, tmp_path):
    forest, X = fitted
    folder = bitvec.export(forest, tmp_path / "model", to="triton")
    model = treelite.Model.deserialize(folder / "1" / "checkpoint.tl")
    rows = near_thresholds(forest, X)
    leaves = bitvec.compile(bitvec.convert(model)).exit_leaves(rows)[:, -forest.n_trees :]
    assert np.array_equal(leaves, bitvec.compile(forest).exit_leaves(rows))  # a base may be a tree
    answers = treelite.gtil.predict(model, rows).reshape(len(rows), -1)
    predictor = bitvec.compile(forest)
    if forest.output.classes is None:
        expected = predictor.predict(rows)[:, None]
    else:
        expected = predictor.predict_proba(rows)[:, -answers.shape[1] :]
    assert np.allclose(answers, expected, rtol=1e-5, atol=1e-6)


def test_the_configuration_says_what_the_model_is(fitted, tmp_path):
    forest, X = fitted
    folder = bitvec.export(forest, tmp_path / "model", to="triton")
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "checkpoint.tl", "config.pbtxt", "files.json",
    ]  # fmt: skip
    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    facts = dict(re.findall(r'key: "(\w+)" value: { string_value: "(\w+)" }', text))
    is_classifier = "true" if forest.output.classes is not None else "false"
    assert facts == {
        "model_type": "treelite_checkpoint",
        "is_classifier": is_classifier,
        "output_class": is_classifier,
        "predict_proba": is_classifier,
    }
    dims = re.findall(r"dims: \[ (\d+) \]", text)
    width = treelite.gtil.predict(
        treelite.Model.deserialize(folder / "1" / "checkpoint.tl"), X[:2]
    ).reshape(2, -1)
    assert list(map(int, dims)) == [X.shape[1], width.shape[1]]


def test_the_configuration_is_read_by_the_servers_own_schema(fitted):
    text_format = pytest.importorskip("google.protobuf.text_format")
    schema = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    from bitvec.runtime.export.triton_folder import config

    forest, X = fitted
    found = text_format.Parse(config(forest), schema.ModelConfig())
    assert (found.backend, found.max_batch_size) == ("fil", 1 << 20)
    assert list(found.input[0].dims) == [X.shape[1]]
    assert found.parameters["model_type"].string_value == "treelite_checkpoint"


def test_only_an_earlier_model_folder_is_replaced(fitted, tmp_path):
    forest, _ = fitted
    folder = bitvec.export(forest, tmp_path / "model", to="triton")
    bitvec.export(forest, folder, to="triton")
    (folder / "2").mkdir()
    (folder / "2" / "checkpoint.tl").write_bytes(b"another's")
    with pytest.raises(InputError, match="must be empty or hold an earlier model folder"):
        bitvec.export(forest, folder, to="triton")
    assert (folder / "2" / "checkpoint.tl").read_bytes() == b"another's"


def test_several_targets_and_oblique_nodes_are_refused_before_a_folder_is_there(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    several = bitvec.convert(RandomForestRegressor(2, random_state=0).fit(X, np.c_[y, y]))
    with pytest.raises(UnsupportedModelError, match="must have one target, got 2"):
        bitvec.export(several, tmp_path / "several", to="triton")
    oblique = bitvec.Forest.from_matrices([[1.0, 1.0]], [0.5], [[0], [1]], [1.0, 2.0])
    with pytest.raises(UnsupportedModelError):
        bitvec.export(oblique, tmp_path / "oblique", to="triton")
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_folder_and_refuses_a_certificate(fitted, tmp_path):
    bitvec.save(fitted[0], tmp_path / "forest.safetensors")
    arguments = ["export", str(tmp_path / "forest.safetensors"), "-o", str(tmp_path / "m")]
    result = CliRunner().invoke(program, [*arguments, "--to", "triton"])
    assert result.exit_code == 0, result.output
    assert "put it into the server's model repository" in result.output
    assert (tmp_path / "m" / "config.pbtxt").exists()
    result = CliRunner().invoke(program, [*arguments, "--to", "triton", "--certify"])
    assert result.exit_code == 2
    assert "since no server is run here" in result.output
