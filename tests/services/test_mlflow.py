"""Forests as models of MLflow: its own loader gives the predictor's answers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bitvec

mlflow = pytest.importorskip("mlflow")
lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from bitvec.services.mlflow import load_model, log_model, save_model  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
TOWNS = ["Bern", "Ürümqi", "Oslo"]


@pytest.fixture(scope="module")
def towns():
    """A booster of numbers, missing ones, and names of towns, and its rows."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({f"x{at}": rng.normal(size=400) for at in range(3)})
    rows["x1"] = rows["x1"].where(rng.random(400) < 0.8)
    rows["town"] = pd.Categorical(rng.choice(TOWNS, 400), TOWNS)
    label = (rows["x0"] + (rows["town"] == "Oslo") > rows["x1"].fillna(0)).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=7, verbose=-1, n_jobs=1)
    return model.fit(rows, label).booster_, rows


def test_the_program_of_the_page_answers_as_the_predictor(towns, tmp_path, monkeypatch):
    booster, rows = towns
    monkeypatch.chdir(tmp_path)
    booster.save_model("model.ubj")  # what it is shows in its content
    rows.to_parquet("rows.parquet")
    [program] = re.findall(
        r"## In MLflow\n.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    names: dict = {}
    exec(program, names)
    predictor = bitvec.compile(bitvec.convert(booster))
    answers = names["answers"]
    assert list(answers.columns) == ["prediction", "probability_0", "probability_1"]
    expected = predictor.predict_proba(rows)
    assert np.array_equal(answers[["probability_0", "probability_1"]], expected)
    assert np.array_equal(answers["prediction"], predictor.predict(rows))
    assert np.array_equal(names["scores"], predictor.raw(rows))
    assert bitvec.files.identical(names["again"], names["forest"])
    files = {path.name for path in Path("model").rglob("*") if path.is_file()}
    assert "forest.safetensors" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib", ".py"))]


@pytest.mark.parametrize("example", [True, False], ids=["signature", "no signature"])
def test_rows_of_every_form_are_answered_alike(towns, tmp_path, example):
    booster, rows = towns
    forest = bitvec.convert(booster)
    save_model(forest, tmp_path / "m", input_example=rows.head(9) if example else None)
    model = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    expected = bitvec.compile(forest).predict(rows)
    texts = rows.assign(town=rows["town"].astype(object))
    for form in (rows, texts, texts.to_dict("records"), texts.iloc[:, ::-1]):
        assert np.array_equal(model.predict(form)["prediction"], expected)
    assert (model.metadata.get_input_schema() is not None) is example
    if example:
        with pytest.raises(mlflow.exceptions.MlflowException, match="x0"):
            model.predict(rows.assign(x0="seven"))
    with pytest.raises(ValueError, match="x2"):  # MLflow's own error is none
        model._model_impl.predict(rows.drop(columns="x2"))
    with pytest.raises(bitvec.BitvecError, match="must be among label, proba"):
        model.predict(rows, params={"outputs": ["secret"]})


def test_a_matrix_is_answered_and_its_signature_kept(tmp_path):
    from mlflow.models import infer_signature

    X = np.random.default_rng(0).normal(size=(20, 2))
    forest = bitvec.Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    signature = infer_signature(X)
    save_model(forest, tmp_path / "m", outputs="raw", signature=signature)
    model = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert np.array_equal(model.predict(X), bitvec.compile(forest).raw(X))
    assert model.metadata.get_input_schema() == signature.inputs


def test_a_logged_model_is_loaded_from_its_run(towns, tmp_path, monkeypatch):
    booster, rows = towns
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs the whole of MLflow
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    try:
        forest = bitvec.convert(booster)
        with mlflow.start_run():
            address = log_model(forest, "towns", input_example=rows.head()).model_uri
        assert bitvec.files.identical(load_model(address), forest)
        model = mlflow.pyfunc.load_model(address)
    finally:
        mlflow.set_tracking_uri(before)
    assert np.array_equal(model.predict(rows)["prediction"], bitvec.compile(forest).predict(rows))


def test_what_is_wrong_is_refused_in_a_sentence(towns, tmp_path):
    booster, _ = towns
    stump = bitvec.Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(bitvec.BitvecError, match="needs a classifier"):
        save_model(stump, tmp_path / "m", outputs=["proba"])
    assert not (tmp_path / "m").exists()
    with pytest.raises(TypeError, match="Forest"):
        save_model(booster, tmp_path / "m")
    mlflow.models.Model().add_flavor("other").save(str(tmp_path / "MLmodel"))
    with pytest.raises(bitvec.BitvecError, match="must be a model of the flavor 'bitvec', got oth"):
        load_model(tmp_path)
    save_model(stump, tmp_path / "m")
    (tmp_path / "m" / "data" / "forest.safetensors").write_bytes(b"no forest")
    for load in (load_model, mlflow.pyfunc.load_model):
        with pytest.raises(bitvec.BitvecError):
            load(str(tmp_path / "m"))
