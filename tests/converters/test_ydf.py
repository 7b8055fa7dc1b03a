"""Laws of the YDF converter: a converted model answers as YDF's default engine does."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from proof_laws import some_in_full

import bitvec
from bitvec.converters.ydf.oracle import oracle_of
from bitvec.converters.ydf.read import convert, convert_directory
from bitvec.core import reference
from bitvec.core.node_tests import Kind
from bitvec.errors import FileFormatError, InvalidForestError, UnsupportedModelError

ydf = pytest.importorskip("ydf")

from tests.models.ydf import COMMON, DATA, ISOLATION, MODELS, WORDS, table, train, trained  # noqa: E402

BINARY, MULTINOMIAL = "BINOMIAL_LOG_LIKELIHOOD", "MULTINOMIAL_LOG_LIKELIHOOD"
VOTES, OBLIQUE = "RandomForest, two", "GradientBoostedTrees, oblique, two"
LOCAL = {"missing_value_policy": "LOCAL_IMPUTATION"}


def codes(n: int = 200, seed: int = 1) -> np.ndarray:
    """Rows with every kind of code and missing value."""
    rng = np.random.default_rng(seed)
    X = np.stack([*rng.normal(size=(2, n)), rng.integers(-2, 9, n), rng.random(n) < 0.5], axis=1)
    X = X.astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:4, :2] = [[np.inf, -np.inf], [-np.inf, np.inf], [0.0, -0.0], [1e30, -1e-40]]
    X[4:6, 2] = [1.5, np.inf]
    return X


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS], one_in=5))
def test_a_converted_model_is_certified_against_ydf(name):
    model = trained(name)
    forest = convert(model)
    if MODELS[name].learner != ISOLATION:
        quick = "QuickScorer" in model.list_compatible_engines()[0]
        assert forest.output.base_first == quick
    certificate = bitvec.certify(forest, oracle_of(model), codes())
    assert certificate.passed, certificate.summary()
    assert {"leaf ids", "raw scores"} <= set(certificate.parts)


def test_missing_numbers_go_where_nodes_say_without_global_imputation():
    numbers = {name: DATA[name] for name in ("a", "b", "two")}
    model = train(MODELS[BINARY], numbers, **LOCAL)
    forest = convert(model)
    mean = np.array([c.numerical.mean for c in model.data_spec().columns[1:3]], np.float32)
    imputed = mean[forest.tests.feature] >= forest.tests.b
    assert np.any(imputed != forest.tests.missing_right)
    assert bitvec.certify(forest, oracle_of(model), codes()[:, :2]).passed


def test_a_model_that_no_fast_engine_answers_is_refused():
    for seed in range(5):
        model = train(MODELS[BINARY], table(seed), **LOCAL, max_depth=6)
        if model.list_compatible_engines():
            assert bitvec.certify(convert(model), oracle_of(model), codes()).passed
        else:
            with pytest.raises(UnsupportedModelError, match="GLOBAL_IMPUTATION"):
                convert(model)


def test_words_of_the_dictionary_are_read_from_a_data_frame():
    pandas = pytest.importorskip("pandas")
    model = trained(VOTES)
    words = [*WORDS, "", "never seen", "<OOD>", None]
    frame = pandas.DataFrame(
        {"d": [True] * 9, "c": words, "b": [0.5] * 9, "a": [0.1] * 9}, columns=list("dcba")
    )
    asked = {**frame, "c": np.array([w or "" for w in words], object)}
    asked = {k: np.array(v, object if k == "c" else None) for k, v in asked.items()}
    expected = model.predict({**asked, "a": asked["a"].astype(np.float32)})
    with pytest.warns(UserWarning, match="no category"):
        got = bitvec.compile(convert(model)).predict_proba(frame)[:, 1]
    assert np.array_equal(np.minimum(got, np.float32(1)), expected)


def test_a_missing_truth_value_of_a_file_goes_as_in_ydf(tmp_path):
    model = trained(BINARY)
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c,d\n0,0,x,\n0,0,x,1\n0,0,x,0\n")
    code = float(convert(model).inputs.categories[2].index("x"))
    X = np.array([[0, 0, code, d] for d in (np.nan, 1, 0)], np.float32)
    got = bitvec.compile(convert(model)).predict_proba(X)[:, 1]
    expected = model.predict(f"csv:{path}")
    assert len(set(expected.tolist())) == 2
    assert np.array_equal(got, expected)


def test_integer_categories_are_codes_themselves():
    rng = np.random.default_rng(0)
    c = rng.integers(0, 40, 600).astype(np.int32)
    data = {"c": c, "label": (c % 3 == 1) ^ (rng.random(600) < 0.1)}
    columns = [ydf.Column("c", ydf.Semantic.CATEGORICAL, is_already_integerized=True)]
    learner = ydf.RandomForestLearner(label="label", features=columns, **COMMON["RandomForest"])
    model = learner.train(data)
    forest = convert(model)
    assert forest.inputs.categories is None
    assert np.any(forest.tests.kind == Kind.SET)
    X = np.arange(-1, 40, dtype=np.float32)[:, None]
    X[0] = np.nan
    got = reference.raw(forest, X)[:, 0]
    raw = np.minimum(got, np.float32(1))
    codes = np.arange(-1, 40, dtype=np.int32)
    assert np.array_equal(raw, model.predict({"c": codes}))
    assert bitvec.certify(forest, oracle_of(model)).passed


def test_columns_of_several_numbers_are_unstacked():
    rng = np.random.default_rng(0)
    f = rng.normal(size=(300, 3)).astype(np.float32)
    data = {"f": f, "label": f[:, 0] + f[:, 2] > 0}
    model = ydf.RandomForestLearner(label="label", **COMMON["RandomForest"]).train(data)
    forest = convert(model)
    assert forest.inputs.feature_names == ("f.0_of_3", "f.1_of_3", "f.2_of_3")
    assert bitvec.certify(forest, oracle_of(model), f).passed


def test_logits_are_predictions_where_the_model_says_so():
    model = train(MODELS[BINARY])
    model.set_output_logits(True)
    forest = convert(model)
    assert bitvec.certify(forest, oracle_of(model), codes()).passed
    X = codes()
    assert np.array_equal(bitvec.compile(forest).predict(X), oracle_of(model).predict(X))


def test_an_initial_prediction_of_each_class_is_added(tmp_path):
    model = trained(MULTINOMIAL)
    model.save(str(tmp_path / "m"))
    header = tmp_path / "m" / "gradient_boosted_trees_header.pb"
    content = header.read_bytes()
    zero = b"\x25" + bytes(4)
    assert content.count(zero * 4) == 1
    values = np.array([0.1, -0.7, 3.3, 0.0], "<f4")
    header.write_bytes(content.replace(zero * 4, b"".join(b"\x25" + v.tobytes() for v in values)))
    certificate = bitvec.certify(convert(tmp_path / "m"), oracle_of(tmp_path / "m"), codes())
    assert certificate.passed, certificate.summary()


@pytest.mark.parametrize("format_", list(ydf.NodeFormat))
def test_a_directory_converts_as_the_model_does(tmp_path, format_):
    model = train(MODELS[OBLIQUE])
    model.set_node_format(format_)
    model.save(str(tmp_path / "m"))
    forest = convert(tmp_path / "m")
    assert np.array_equal(reference.raw(forest, codes()), oracle_of(model).raw(codes()))
    assert bitvec.certify(forest, oracle_of(str(tmp_path / "m"))).passed


def test_nodes_in_several_files_are_one_sequence(tmp_path):
    model = trained(BINARY)
    path = tmp_path / "m"
    model.save(str(path))
    content = (path / "nodes-00000-of-00001").read_bytes()
    first = 8 + 4 + int.from_bytes(content[8:12], "little")
    (path / "nodes-00000-of-00001").unlink()
    (path / "nodes-00000-of-00002").write_bytes(content[:first])
    (path / "nodes-00001-of-00002").write_bytes(content[:8] + content[first:])
    header = path / "gradient_boosted_trees_header.pb"
    header.write_bytes(b"\x08\x02" + header.read_bytes()[2:])
    assert np.array_equal(reference.raw(convert(path), codes()), oracle_of(model).raw(codes()))
    assert np.array_equal(oracle_of(path).raw(codes()), oracle_of(model).raw(codes()))


def test_a_tree_of_one_leaf_converts():
    data = {"a": np.zeros(50, np.float32), "label": np.arange(50) % 2 == 0}
    model = ydf.RandomForestLearner(label="label", num_trees=3, features=["a"]).train(data)
    forest = convert(model)
    assert forest.n_nodes == 0
    assert bitvec.certify(forest, oracle_of(model), data["a"][:, None]).passed


def test_a_category_set_is_refused_by_name():
    words = np.array([["a", "b"], ["b", "c"], ["a"], ["c"]] * 30, object)
    data = {"s": words, "label": np.array(["x", "y", "x", "y"] * 30)}
    columns = [ydf.Feature("s", ydf.Semantic.CATEGORICAL_SET)]
    model = ydf.RandomForestLearner(label="label", num_trees=2, features=columns).train(data)
    with pytest.raises(UnsupportedModelError, match="'s', which is CATEGORICAL_SET"):
        convert(model)


def test_uplift_is_refused():
    rng = np.random.default_rng(0)
    data = {
        "a": rng.normal(size=300).astype(np.float32),
        "treatment": rng.choice(["t", "u"], 300),
        "outcome": rng.normal(size=300).astype(np.float32),
    }
    learner = ydf.RandomForestLearner(
        label="outcome", task=ydf.Task.NUMERICAL_UPLIFT, uplift_treatment="treatment", num_trees=2
    )
    with pytest.raises(UnsupportedModelError, match="NUMERICAL_UPLIFT"):
        convert(learner.train(data))


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match=r"header\.pb"):
        convert(tmp_path)
    with pytest.raises(FileFormatError):
        convert(tmp_path / "nowhere")
    with pytest.raises(UnsupportedModelError, match="a path or a model of ydf"):
        convert(3)


@pytest.mark.parametrize("missing", ["header.pb", "data_spec.pb", "nodes-00000-of-00001"])
def test_a_directory_without_one_of_its_files_is_refused(tmp_path, missing):
    trained(BINARY).save(str(tmp_path / "m"))
    (tmp_path / "m" / missing).unlink()
    with pytest.raises(FileFormatError, match=missing):
        convert(tmp_path / "m")


def test_a_deep_chain_converts_without_recursion(tmp_path):
    trained(VOTES).save(str(tmp_path / "m"))
    path = tmp_path / "m"

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while size >= 128:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    inner = field(2, b"\x0d" + np.float32(0.5).tobytes())
    node = field(3, b"\x08\x00\x10\x01" + field(3, inner))
    leaf = field(1, b"\x08\x01")
    depth = 20_000
    nodes = [*[node] * depth, *[leaf] * (depth + 1)]
    records = b"".join(len(n).to_bytes(4, "little") + n for n in nodes)
    (path / "nodes-00000-of-00001").write_bytes(b"BS\x01" + bytes(5) + records)
    header = path / "random_forest_header.pb"
    header.write_bytes(b"\x08\x01\x10\x01\x3a\x0dBLOB_SEQUENCE")
    forest = convert_directory(path).forest
    assert forest.n_leaves == depth + 1
    shutil.rmtree(path)


def test_a_header_of_damaged_numbers_is_refused(tmp_path):
    trained(VOTES).save(str(tmp_path / "m"))
    header = tmp_path / "m" / "random_forest_header.pb"
    header.write_bytes(b"\x08\x01\x10" + b"\xff" * 9 + b"\x01\x3a\x0dBLOB_SEQUENCE")
    with pytest.raises((FileFormatError, InvalidForestError), match="trees"):
        convert(tmp_path / "m")
