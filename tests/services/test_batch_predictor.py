"""One callable answers batches of every library as the predictor answers whole tables."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.services.answer_columns import OUTPUTS

pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A classifier with a text category, its file, and rows with a key and a label."""
    lightgbm = pytest.importorskip("lightgbm")
    frame = pd.DataFrame({
        "size": RNG.normal(size=300),
        "colour": pd.Categorical(RNG.choice(["red", "green", "blue"], 300)),
    })  # fmt: skip
    y = (frame["size"] + (frame.colour == "red") + RNG.normal(size=300) * 0.3 > 0).astype(int)
    fitted = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1).fit(frame, y)
    path = tmp_path_factory.mktemp("batches") / "model.txt"
    fitted.booster_.save_model(path)
    rows = frame.assign(key=np.arange(300), y=y)
    return path, rows, bitvec.convert(path)


def tables(rows):
    text = rows.assign(colour=rows.colour.astype(str))
    return {
        "pandas": text,
        "polars": pl.from_pandas(text),
        "pyarrow": pa.Table.from_pandas(text, preserve_index=False),
        "batch": pa.RecordBatch.from_pandas(text, preserve_index=False),
        "dict": {name: text[name].to_numpy() for name in text},
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "batch", "dict"])
def test_answers_are_those_of_the_predictor_in_the_same_library(model, kind):
    path, rows, forest = model
    predictor = bitvec.compile(forest)
    X = rows[["size", "colour"]]
    predict = bitvec.BatchPredictor(path, outputs=OUTPUTS, keep=["key"])
    given = tables(rows)[kind]
    found = predict(given)
    assert type(found) is type(given)
    column = {name: np.asarray(found[name]) for name in ("key", "prediction", "raw")}
    np.testing.assert_array_equal(column["key"], rows.key)
    np.testing.assert_array_equal(column["prediction"], predictor.predict(X))
    np.testing.assert_array_equal(column["raw"], predictor.raw(X)[:, 0])
    np.testing.assert_array_equal(
        np.asarray(found["probability_1"]), predictor.predict_proba(X)[:, 1]
    )
    np.testing.assert_array_equal(np.asarray(found["tree_3"]), predictor.apply(X)[:, 3])
    np.testing.assert_array_equal(
        np.asarray(found["shap_size"]), bitvec.explain(forest).values(X)[:, 0]
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "batch"])
def test_a_batch_without_rows_has_the_same_columns(model, kind):
    path, rows, _ = model
    predict = bitvec.BatchPredictor(path, outputs=["label", "proba"], keep=["key"])
    empty, full = (predict(tables(part)[kind]) for part in (rows[:0], rows))
    names = "column_names" if kind == "pyarrow" else "columns"
    if kind == "batch":
        assert empty.schema.equals(full.schema)
        assert empty.num_rows == 0
    else:
        assert list(getattr(empty, names)) == list(getattr(full, names))
        assert len(empty) == 0


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("keep", [[], ["key"]])
def test_labels_of_text_have_their_dtype_without_rows_too(model, tmp_path, kind, keep):
    _, rows, forest = model
    named = replace(forest, output=replace(forest.output, classes=(np.array(["no", "yes"]),)))
    bitvec.save(named, tmp_path / "named.safetensors")
    predict = bitvec.BatchPredictor(tmp_path / "named.safetensors", keep=keep)
    empty, full = (predict(tables(part)[kind]) for part in (rows[:0], rows))
    assert len(empty) == 0
    if kind == "pandas":
        pd.testing.assert_series_equal(empty.dtypes, full.dtypes)
    else:
        assert empty.schema == full.schema


def test_columns_of_arrow_are_read_as_polars_reads_them(model):
    path, rows, _ = model
    predict = bitvec.BatchPredictor(path, outputs=["raw"])
    null = rows.assign(size=rows["size"].where(rows["size"] > 0), colour=rows.colour.astype(str))
    for frame in (rows.assign(colour=rows.colour.astype(str)), null):
        whole = pa.Table.from_pandas(frame, preserve_index=False)
        chunked = pa.concat_tables([whole[:100], whole[100:]])
        expected = predict(pl.from_arrow(whole))["raw"].to_numpy()
        for table in (whole, chunked, whole.slice(0, 300), whole.cast(_narrow(whole.schema))):
            found = predict(table)["raw"]
            assert found.type == pa.float64()
            if table.schema == whole.schema:
                assert found.to_pylist() == expected.tolist()
        assert predict(whole[50:90])["raw"].to_pylist() == expected[50:90].tolist()


def _narrow(schema):
    """The schema with numbers of 32 bits."""
    narrow = {pa.float64(): pa.float32(), pa.int64(): pa.int32()}
    return pa.schema([(field.name, narrow.get(field.type, field.type)) for field in schema])


def test_who_only_hands_out_work_loads_no_kernels(model):
    path = model[0]
    program = (
        "import sys; from bitvec.services.batch_predictor import BatchPredictor\n"
        f"BatchPredictor({str(path)!r}, outputs=['label', 'proba', 'leaves'], keep=['key'])\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]


def test_getting_ready_changes_no_answer(model):
    path, rows, _ = model
    predict = bitvec.BatchPredictor(path, outputs=["label", "proba"], keep=["key"])
    expected = predict(rows)
    predict.get_ready()
    pd.testing.assert_frame_equal(predict(rows), expected)


def test_an_index_of_pandas_stays(model):
    path, rows, _ = model
    part = rows[["size", "key"]].assign(colour=rows.colour.astype(str))[100:110]
    found = bitvec.BatchPredictor(path, keep=["key"])(part)
    assert found.index.tolist() == part.index.tolist()
    assert found.key.tolist() == part.key.tolist()


def test_a_copy_in_another_process_loads_the_model_once(model, tmp_path):
    path, rows, forest = model
    predict = bitvec.BatchPredictor(path)
    assert len(pickle.dumps(predict)) < 1000
    (tmp_path / "predict").write_bytes(pickle.dumps(predict))
    rows[["size"]].assign(colour=rows.colour.astype(str)).to_parquet(tmp_path / "rows.parquet")
    program = (
        "import pickle, sys, polars; from bitvec import api\n"
        "calls = []; convert = api.convert; api.convert = lambda p: calls.append(p) or convert(p)\n"
        f"predict = pickle.load(open({str(tmp_path / 'predict')!r}, 'rb'))\n"
        f"rows = polars.read_parquet({str(tmp_path / 'rows.parquet')!r})\n"
        "first, second = predict(rows), predict(rows[:1])\n"
        "print(len(calls), first['prediction'].sum())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    expected = bitvec.compile(forest).predict(rows[["size", "colour"]]).sum()
    assert done.stdout.split() == ["1", str(expected)]


def test_a_changed_model_is_refused(tmp_path):
    path = tmp_path / "stump.safetensors"
    bitvec.save(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]), path)
    predict = pickle.dumps(bitvec.BatchPredictor(path))
    bitvec.save(Forest.from_matrices([[1, 0]], [0.7], [[0], [1]], [10, 20]), path)
    from bitvec.services import batch_predictor

    batch_predictor._loaded.clear()  # as in another process
    batch_predictor._models.clear()
    with pytest.raises(InputError, match="got another one"):
        pickle.loads(predict)(pl.DataFrame({"a": [0.0], "b": [1.0]}))


def test_wrong_batches_and_options_are_refused(model, tmp_path):
    path, rows, _ = model
    with pytest.raises(InputError, match="`outputs` must be among label, proba"):
        bitvec.BatchPredictor(path, outputs=["labels"])
    with pytest.raises(InputError, match="one at least"):
        bitvec.BatchPredictor(path, outputs=[])
    with pytest.raises(InputError, match="no column that an answer has"):
        bitvec.BatchPredictor(path, keep=["prediction"])
    with pytest.raises(InputError, match="must have the column 'id'"):
        bitvec.BatchPredictor(path, keep=["id"])(tables(rows)["polars"])
    with pytest.raises(InputError, match="none named 'colour'"):
        bitvec.BatchPredictor(path)(pl.DataFrame({"size": [1.0]}))
    with pytest.raises(InputError, match="got list"):
        bitvec.BatchPredictor(path)([[1.0, 2.0]])
    with pytest.raises(InputError, match="must be of one length"):
        bitvec.BatchPredictor(path)({"size": np.ones(2), "colour": np.array(["red"])})
    stump = tmp_path / "stump.safetensors"
    bitvec.save(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]), stump)
    with pytest.raises(InputError, match="needs a classifier"):
        bitvec.BatchPredictor(stump, outputs=["proba"])
    dropped = bitvec.BatchPredictor(stump, drop=["y"])
    table = pl.DataFrame({"a": [0.0], "y": [3], "b": [9.0]})
    assert dropped(table)["prediction"].to_list() == [10.0]
    with pytest.raises(FileNotFoundError):
        bitvec.BatchPredictor(tmp_path / "none.ubj")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_batch_whose_names_hold_blanks_is_read_as_lightgbm_names_it(kind, tmp_path):
    forest = Forest.from_matrices([[0, 1]], [0.5], [[0], [1]], [10, 20])
    inputs = Inputs(2, feature_names=("sepal_length", "width"))
    path = tmp_path / "forest.safetensors"
    bitvec.save(replace(forest, inputs=inputs), path)
    columns = {"width": [0.0, 1.0], "note": ["a", "b"], "sepal length": [3.0, 4.0]}
    module = pytest.importorskip(kind)
    batch = module.table(columns) if kind == "pyarrow" else module.DataFrame(columns)
    for predict in (
        bitvec.BatchPredictor(path, keep=["note"]),
        bitvec.BatchPredictor(path, drop=["note"]),
    ):
        for _ in range(2):  # the first batch warns of further columns
            answers = predict(batch)
            assert [float(value) for value in answers["prediction"]] == [10.0, 20.0]
