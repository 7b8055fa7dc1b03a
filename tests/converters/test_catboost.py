"""Laws of converting CatBoost models: the forest answers as the library does, bit for bit."""

from __future__ import annotations

import json
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from proof_laws import some_in_full

import bitvec
from bitvec.cli.given_files import read_rows
from bitvec.converters.catboost.oracle import is_x86, oracle_of
from bitvec.converters.catboost.read import convert
from bitvec.core import reference, transforms
from bitvec.core.city_hash import category_hash, text_with_hash
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.output import PostTransform
from bitvec.errors import FileFormatError, InputError, MissingLibraryError, UnsupportedModelError

cb = pytest.importorskip("catboost")

from tests.models.catboost import (  # noqa: E402  # noqa: E402
    CLASSIFICATIONS,
    MODELS,
    POLICIES,
    QUIET,
    Model,
    saved,
    train,
    with_texts,
)

CATEGORIES = [3, 4, 5]
N = 400


TEXTS = with_texts()
X, Y = TEXTS.X, TEXTS.y - np.median(TEXTS.y)
THIRDS = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))


def trained(loss: str = "RMSE", policy: str = "SymmetricTree", **options: Any) -> Any:
    """A plain CatBoost of this loss, of the table with texts."""
    return train(Model(loss, {"grow_policy": policy, **options}), TEXTS)


def probes(forest: Forest, n: int = 300) -> np.ndarray:
    """Rows on thresholds and codes, one ulp to each side, missing, infinite and unheard-of."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(n, forest.n_features)).astype(np.float32)
    others = [0, -0.0, 1, 2, 3, 4, 5, 2.5, -1, 1e9, 1e-40, np.nan, np.inf, -np.inf]
    for column in range(forest.n_features):
        b = forest.tests.b[forest.tests.feature == column]
        with np.errstate(over="ignore"):  # below the least float32 comes -inf
            near = [np.nextafter(b, np.float32(side)) for side in (np.inf, -np.inf)]
        values = np.concatenate([b, *near, np.array(others, np.float32)])
        special = rng.random(n) < 0.8
        rows[special, column] = rng.choice(values, int(special.sum()))
    return rows


def assert_same(model: Any) -> Forest:
    """The forest of a model and the model agree on leaves, raw scores and labels."""
    forest, oracle = convert(model), oracle_of(model)
    rows = probes(forest)
    exits = reference.exit_leaves(forest, rows)
    raw = reference.raw(forest, rows)
    assert forest.source is not None
    assert forest.source.leaf_id is not None
    assert oracle.leaf_ids is not None
    ids = forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]
    assert np.array_equal(ids, oracle.leaf_ids(rows))
    assert np.array_equal(raw, oracle.raw(rows))
    if forest.output.is_classifier:
        assert oracle.predict is not None
        assert np.array_equal(transforms.predictions(forest.output, raw), oracle.predict(rows))
    return forest


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS], one_in=2))
def test_every_model_answers_alike(name, tmp_path):
    about = MODELS[name]
    model = train(about, TEXTS)
    for source in (model, saved(model, tmp_path / "m.json")):
        forest = assert_same(source)
        assert forest.output.is_classifier == (about.loss in CLASSIFICATIONS)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", ["RMSE", "Logloss", "MultiClass"])
def test_hashes_of_categories_answer_alike(policy, loss, tmp_path):
    assert_same(saved(trained(loss, policy), tmp_path / "hashes.json", texts=False))


def test_a_binary_file_answers_alike(tmp_path):
    trained("MultiClass", "Lossguide").save_model(str(tmp_path / "m.cbm"))
    forest = convert(tmp_path / "m.cbm")
    assert bitvec.certify(forest, oracle_of(tmp_path / "m.cbm")).passed


@pytest.mark.parametrize(
    ("loss", "policy"),
    [("Quantile", "SymmetricTree"), ("MultiClassOneVsAll", "Depthwise"), ("Logloss", "Lossguide")],
)
def test_certificates_are_perfect(loss, policy):
    model = trained(loss, policy)
    forest = convert(model)
    certificate = bitvec.certify(forest, oracle_of(model))
    assert certificate.passed, certificate.summary()


@pytest.mark.parametrize("n", [1, 3, 4, 16, 17, 127, 128, 129, 300])
@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
def test_raw_scores_do_not_depend_on_the_number_of_rows(n, policy):
    model = trained("RMSE", policy, iterations=30, depth=4)
    forest, oracle = convert(model), oracle_of(model)
    rows = probes(forest)
    expected = reference.raw(forest, rows)
    parts = [oracle.raw(rows[at : at + n]) for at in range(0, len(rows), n)]
    assert np.array_equal(np.concatenate(parts), expected)


def test_deep_oblivious_trees_answer_alike():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 6))
    model = cb.CatBoostRegressor(**{**QUIET, "depth": 10}).fit(Z, Z[:, 0] * Z[:, 1])
    assert_same(model)


LABELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "integers": lambda y: y * 3 - 2,
    "floats": lambda y: y * 1.5,
    "texts": lambda y: np.array(["no", "ja", "vielleicht"])[y],
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_are_the_classifiers_own(kind, n_classes, tmp_path):
    y = LABELS[kind](np.minimum(THIRDS, n_classes - 1))
    model = cb.CatBoostClassifier(**QUIET, cat_features=CATEGORIES).fit(X, y)
    for source in (model, saved(model, tmp_path / "m.json")):
        forest = assert_same(source)
        assert forest.output.classes is not None
        labels = forest.output.classes[0]
        assert labels.tolist() == list(model.classes_)
        assert labels.dtype.kind == np.asarray(y).dtype.kind


def test_boolean_labels_are_the_classifiers_own():
    model = cb.CatBoostClassifier(**QUIET, cat_features=CATEGORIES).fit(X, Y > 0)
    forest = assert_same(model)
    assert forest.output.classes is not None
    assert forest.output.classes[0].dtype == bool


def test_a_probability_threshold_moves_the_boundary(tmp_path):
    model = cb.CatBoostClassifier(**QUIET, cat_features=CATEGORIES).fit(X, (Y > 0).astype(int))
    model.set_probability_threshold(0.7)
    forest = assert_same(model)
    assert forest.output.boundary == -np.log(1 / 0.7 - 1)
    assert_same(saved(model, tmp_path / "m.json"))
    model.set_probability_threshold(1.0)
    with pytest.raises(UnsupportedModelError, match="between 0 and 1"):
        convert(model)


@pytest.mark.parametrize("options", [{"classes_count": 6}, {"class_names": [7, 2, 0, 1]}])
@pytest.mark.filterwarnings("ignore")
def test_classes_absent_from_training_have_no_score(options):
    y = THIRDS * 2 if "classes_count" in options else THIRDS
    model = cb.CatBoostClassifier(**QUIET, cat_features=CATEGORIES, **options).fit(X, y)
    forest = assert_same(model)
    raw = reference.raw(forest, probes(forest))
    assert np.isneginf(raw).all(axis=0).sum() == forest.n_outputs - 3
    assert bitvec.certify(forest, oracle_of(model)).passed


def test_permuted_class_names_permute_the_outputs():
    model = cb.CatBoostClassifier(
        **QUIET, cat_features=CATEGORIES, class_names=[2, 0, 1], grow_policy="Lossguide"
    ).fit(X, THIRDS)
    forest = assert_same(model)
    assert forest.output.classes is not None
    assert forest.output.classes[0].tolist() == [2, 0, 1]


@pytest.mark.parametrize("loss", ["RMSE", "MultiRMSE"])
@pytest.mark.parametrize("scale", [0.37, -3.0])
def test_a_sum_is_scaled_before_the_bias(loss, scale, tmp_path):
    model = trained(loss)
    model.set_scale_and_bias(scale, [1.1] if loss == "RMSE" else [1.1, -0.3, 0.7])
    assert_same(model)
    assert_same(saved(model, tmp_path / "m.json"))


def test_a_scale_of_zero_is_refused():
    model = trained()
    model.set_scale_and_bias(0.0, [1.0])
    with pytest.raises(UnsupportedModelError, match="scale"):
        convert(model)


@pytest.mark.parametrize("mode", ["Min", "Max", "Forbidden"])
def test_missing_values_go_by_the_nan_mode(mode):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N, 3)).astype(np.float32)
    y = Z[:, 0] + Z[:, 1]
    if mode != "Forbidden":
        Z[::5, 1] = np.nan
        y[::5] += 3
    model = cb.CatBoostRegressor(**QUIET, nan_mode=mode).fit(Z, y)
    forest = assert_same(model)
    expected = (forest.tests.feature == 1) & (mode == "Max")
    assert np.array_equal(forest.tests.missing_right, expected)
    assert bitvec.certify(forest, oracle_of(model)).passed


def test_a_model_of_the_best_iterations_holds_these_only():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N, 3))
    model = cb.CatBoostRegressor(**{**QUIET, "iterations": 60}).fit(
        Z, Z[:, 0], eval_set=(Z[:99], Z[:99, 0] / 3 + rng.normal(size=99)), use_best_model=True
    )
    assert model.tree_count_ < 60
    assert assert_same(model).n_trees == model.tree_count_


def test_a_sum_of_models_answers_alike():
    parts = [trained(policy=policy, iterations=3) for policy in ("SymmetricTree",) * 2]
    assert_same(cb.sum_models(parts, weights=[0.5, 0.3]))
    forest = assert_same(cb.sum_models([trained("Logloss"), trained("Logloss")]))
    assert forest.output.is_classifier


def test_a_wrapper_that_answers_otherwise_than_its_loss_is_refused(tmp_path):
    path = saved(trained("Logloss"), tmp_path / "m.json")
    for wrapper in (cb.CatBoostRegressor(), cb.CatBoostRanker()):
        with pytest.raises(UnsupportedModelError, match="plain CatBoost"):
            convert(wrapper.load_model(str(path), format="json"))


class _Squares:
    def calc_ders_range(self, approxes, targets, weights):
        # Compiled by numba where that is installed, so nothing but plain indexing.
        return [(targets[i] - approxes[i], -1.0) for i in range(len(targets))]


def test_a_loss_of_the_callers_own_answers_by_its_wrapper():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N, 3))
    options = {**QUIET, "iterations": 2, "loss_function": _Squares()}
    regressor = cb.CatBoostRegressor(**options, eval_metric="RMSE").fit(Z, Z[:, 0])
    assert assert_same(regressor).output.post_transform is PostTransform.IDENTITY
    for labels in ([0, 1], [-3, 7], [False, True], ["no", "ja"], [0.5, 2.0]):
        y = np.array(labels)[(Z[:, 0] > 0).astype(int)]
        classifier = cb.CatBoostClassifier(**options, eval_metric="Logloss").fit(Z, y)
        forest = assert_same(classifier)
        assert forest.output.post_transform is PostTransform.SIGMOID
        got = bitvec.compile(forest).predict(Z)
        assert got.tolist() == np.asarray(classifier.predict(Z)).ravel().tolist()


@pytest.mark.parametrize("loss", ["Poisson", "Tweedie:variance_power=1.5", "MultiClass"])
def test_links_by_catboosts_own_exponential_are_its_bits(loss, monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N, 3)).astype(np.float32)
    options = {**QUIET, "iterations": 60, "loss_function": loss}
    y = np.exp(Z[:, 0]) if loss != "MultiClass" else np.digitize(Z[:, 0], [-0.5, 0.5])
    model = cb.CatBoost(options).fit(Z, y)
    forest, oracle = convert(model), oracle_of(model)
    got = transforms.transform(forest.output, reference.raw(forest, Z))
    kind = "Probability" if loss == "MultiClass" else "Exponent"
    expected = model.predict(Z, prediction_type=kind).reshape(got.shape)
    if is_x86():
        assert np.array_equal(got, expected)
        assert np.array_equal(bitvec.compile(forest).scores(Z), expected)
        certificate = bitvec.certify(forest, oracle)
        assert (certificate.passed, certificate.max_score_ulp) == (True, 0)
    # Elsewhere CatBoost takes the C library's: this one of x is off by up to |x| ulp and a little.
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    oracle = oracle_of(model)
    assert any("exponential" in note for note in oracle.notes)
    certificate = bitvec.certify(forest, oracle)
    assert (certificate.passed, certificate.allowed_score_ulp) == (True, 512)


@pytest.mark.skipif(not is_x86(), reason="CatBoost's exponential is of x86")
@pytest.mark.parametrize("n_classes", [3, 4, 5, 6, 7, 8, 11])
def test_probabilities_at_the_ends_of_the_exponentials_range_are_catboosts(n_classes):
    rng = np.random.default_rng(n_classes)
    Z, y = rng.normal(size=(64, 2)).astype(np.float32), np.arange(64) % n_classes
    model = cb.CatBoostClassifier(iterations=1, depth=4, verbose=0, allow_writing_files=False)
    model.fit(Z, y)
    ends = [0, -0.0, -5e-324, -36.7, -708.3, -708.39641853226408, -708.5, -745, -2000, 3, 1e300]
    model.set_leaf_values(rng.choice(ends, model.get_leaf_values().size))
    forest, expected = convert(model), model.predict_proba(Z)
    output, raw = forest.output, reference.raw(forest, Z)
    assert np.array_equal(transforms.transform(output, raw), expected)
    predictor = bitvec.compile(forest)
    assert np.array_equal(predictor.predict_proba(Z), expected)
    for k in range(8):
        assert np.array_equal(predictor.predict_proba(Z[k : k + 1]), expected[k : k + 1])


def test_the_second_output_of_an_uncertain_regressor_stays_raw():
    forest = convert(trained("RMSEWithUncertainty"))
    assert forest.n_outputs == 2
    assert forest.output.post_transform is PostTransform.IDENTITY
    notes = oracle_of(trained("RMSEWithUncertainty")).notes
    assert any("exp(2x)" in note for note in notes)


def test_a_file_holds_the_model_to_the_last_bit(tmp_path):
    model = trained(policy="Depthwise")
    path = saved(model, tmp_path / "m.json")
    a, b = convert(model), convert(path)
    assert np.array_equal(a.v, b.v)
    assert np.array_equal(np.asarray(a.output.base_score), np.asarray(b.output.base_score))


def test_a_file_is_converted_without_the_library(tmp_path, monkeypatch):
    path = saved(trained(), tmp_path / "m.json")
    binary = tmp_path / "m.cbm"
    trained().save_model(str(binary))
    monkeypatch.setitem(sys.modules, "catboost", None)
    assert convert(path).n_trees == QUIET["iterations"]
    with pytest.raises(MissingLibraryError):
        oracle_of(path)
    # A binary file is opened by the library in a process of its own.
    assert convert(binary).n_trees == QUIET["iterations"]


# Categories


def test_hashes_are_the_librarys_own(tmp_path):
    rng = np.random.default_rng(0)
    texts = ["a" * n for n in range(150)] + ["é漢 b"[n % 4] * n for n in range(150)]
    texts += [str(n) for n in range(-50, 3000, 61)]
    Z = np.array([[text, rng.normal()] for text in texts * 2], object)
    rows = cb.Pool(Z, rng.normal(size=len(Z)), cat_features=[0])
    model = cb.CatBoostRegressor(**{**QUIET, "iterations": 1, "one_hot_max_size": 2}).fit(rows)
    model.save_model(str(tmp_path / "m.json"), format="json", pool=rows)
    info = json.loads((tmp_path / "m.json").read_bytes())["features_info"]
    found = {entry["value"]: entry["hash"] for entry in info["cat_features_hash"]}
    assert found.keys() == set(texts)
    for text, hashed in found.items():
        assert category_hash(text) % 2**32 == hashed


@pytest.mark.parametrize("hashed", [0, 1, -1, 2**31 - 1, -(2**31), 123456789])
def test_texts_of_a_hash_have_it(hashed):
    text = text_with_hash(hashed)
    assert text.isascii()
    assert text.isprintable()
    assert category_hash(text) == hashed


def test_texts_of_a_frame_find_their_categories(tmp_path):
    pandas = pytest.importorskip("pandas")
    model = trained("Logloss", "Depthwise")
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame({str(j): X[:, j] for j in range(6)})
    for column in range(3):
        frame[str(column)] = frame[str(column)].astype(np.float32)
    frame["3"] = rng.choice(["x", "y", "zé", "", "new", "nan", " x"], N)
    frame["4"] = rng.integers(-3, 9, N)
    frame["5"] = rng.choice(["1", "2", "unknown", "3", "01", "1.0"], N)
    expected = model.predict(cb.Pool(frame, cat_features=CATEGORIES))
    path = saved(model, tmp_path / "m.json")
    every = {*X[:, 3], *X[:, 5]}
    model.save_model(str(tmp_path / "m.cbm"))
    without = saved(model, tmp_path / "without.json", texts=False)
    converted = [convert(each) for each in (path, model, without, tmp_path / "m.cbm")]
    converted += [convert(model, categories=texts) for texts in (every, ["x", "1", "new"])]
    assert [forest.inputs.hashed != () for forest in converted] == [0, 1, 1, 1, 0, 1]
    for forest in converted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unseen categories
            rows = bitvec.compile(forest).rows(frame)
        assert np.array_equal(reference.raw(forest, rows)[:, 0], expected)


def test_given_texts_are_those_that_a_file_holds(tmp_path):
    model = trained(policy="Depthwise")
    a = convert(saved(model, tmp_path / "m.json"))
    b = convert(model, categories=[*X[:, 3], *X[:, 4], *X[:, 5]])
    assert a.inputs.categories == b.inputs.categories
    rows = probes(b)
    assert np.array_equal(
        oracle_of(model, categories={*X[:, 3], *X[:, 5]}).raw(rows),
        reference.raw(b, rows),
    )


def test_whole_numbers_are_codes_themselves():
    forest = convert(trained(policy="Depthwise"))
    on_wholes = forest.tests.feature == 4
    assert on_wholes.any()
    assert set(forest.tests.kind[on_wholes]) == {Kind.EQUAL}
    assert set(forest.tests.b[on_wholes]) <= set(range(5))
    assert forest.inputs.categories is not None
    assert forest.inputs.categories[4] is None


def test_hashes_stand_for_texts_that_are_not_known():
    forest = convert(trained(policy="Depthwise"))
    assert forest.inputs.categories is not None
    book = forest.inputs.categories[3]
    assert book is not None
    assert set(book) <= {category_hash(text) for text in ("x", "y", "zé", "")}


@pytest.mark.parametrize("kind", ["str", "category"])
def test_texts_are_found_by_hashes_through_every_way_in(tmp_path, kind):
    pandas = pytest.importorskip("pandas")
    texts = ["a", "b", "", "NA", "nan", "100000", "true", "ü"]
    frame = pandas.DataFrame({"c": texts * 10, "n": range(80)})
    y = np.array([texts.index(c) * 3.7 for c in frame.c]) + frame.n / 100
    model = cb.CatBoostRegressor(**{**QUIET, "iterations": 20, "one_hot_max_size": 10})
    model.fit(frame, y, cat_features=["c"])
    unheard = [*texts, "A", "zz", " NA", "7", "1.0", "b "]
    rows = pandas.DataFrame({"c": unheard, "n": np.arange(len(unheard)) * 5}).astype({"c": kind})
    expected = model.predict(rows)
    assert len(set(model.predict(rows.assign(n=0)))) == len(texts) + 1
    bitvec.save(bitvec.convert(model), tmp_path / "m.safetensors")
    forest = bitvec.load(tmp_path / "m.safetensors")
    predict = bitvec.compile(forest).predict
    with pytest.warns(UserWarning, match="6 values in column 'c'.*'A'"):
        assert np.array_equal(predict(rows), expected)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(UserWarning, match="no category for"):
        assert np.array_equal(predict(read_rows(tmp_path / "rows.csv", forest, None)), expected)
    assert bitvec.certify(forest, model, rows[: len(texts)]).passed


def test_whole_numbers_and_booleans_among_texts_are_hashed_as_catboost_hashes_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"c": ["a", "b", "1", "100000"] * 25, "n": range(100)})
    y = np.array([len(c) + 9 * (c == "b") for c in frame.c]) + frame.n / 100
    model = cb.CatBoostRegressor(**{**QUIET, "one_hot_max_size": 10})
    predict = bitvec.compile(bitvec.convert(model.fit(frame, y, cat_features=["c"]))).predict
    n = [1.0, 2.0, 50.0]
    for known in (["a", True, np.bool_(True)], pandas.Categorical([100000, 1, 1])):
        rows = pandas.DataFrame({"c": known, "n": n})
        assert np.array_equal(predict(rows), model.predict(rows))
    with pytest.raises(InputError, match="'c' of `X` must hold texts"):
        predict(pandas.DataFrame({"c": [1, 1, 100000], "n": n}))


def test_numbers_of_a_frame_are_not_taken_for_codes_of_texts(tmp_path):
    """A category 1 that tests do not know must not become the text of code 1."""
    pandas = pytest.importorskip("pandas")
    forest = convert(saved(trained(policy="Depthwise"), tmp_path / "m.json"))
    frame = pandas.DataFrame({str(j): X[:, j] for j in range(6)})
    for column in ("3", "5"):
        wrong = frame.copy()
        wrong[column] = np.arange(N) % 3
        with pytest.raises(InputError, match="category"):
            bitvec.compile(forest).rows(wrong)


def test_a_text_that_is_a_number_is_the_number(tmp_path):
    pandas = pytest.importorskip("pandas")
    model = trained(policy="Depthwise")
    forest = convert(saved(model, tmp_path / "m.json"))
    frame = pandas.DataFrame({str(j): X[:, j] for j in range(6)})
    texts = frame.assign(**{"5": pandas.Categorical(np.where(X[:, 5] == "1", "1", "2"))})
    numbers = frame.assign(**{"5": pandas.Categorical(np.where(X[:, 5] == "1", 1, 2))})
    predictor = bitvec.compile(forest)
    expected = model.predict(cb.Pool(texts, cat_features=CATEGORIES))
    for table_ in (texts, numbers):
        assert np.array_equal(reference.raw(forest, predictor.rows(table_))[:, 0], expected)


# Refusals


def document(**changes: Any) -> dict[str, Any]:
    """A model of two stumps, with some members changed."""
    split = {
        "border": 0.5,
        "float_feature_index": 0,
        "split_index": 0,
        "split_type": "FloatFeature",
    }
    feature = {
        "borders": [0.5],
        "feature_id": "a",
        "feature_index": 0,
        "flat_feature_index": 0,
        "has_nans": False,
        "nan_value_treatment": "AsIs",
    }
    tree = {"leaf_values": [1.0, 2.0], "leaf_weights": [3, 4], "splits": [split]}
    return {
        "features_info": {"float_features": [feature]},
        "model_info": {"params": {"loss_function": {"type": "RMSE"}}},
        "oblivious_trees": [tree, tree],
        "scale_and_bias": [1, [0.25]],
        **changes,
    }


def converted(tmp_path: Path, **changes: Any) -> Forest:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document(**changes)))
    return convert(path)


def test_a_document_is_read_as_it_says(tmp_path):
    forest = converted(tmp_path)
    rows = np.array([[0.5], [np.nextafter(np.float32(0.5), np.float32(1))], [np.nan]], np.float32)
    assert reference.raw(forest, rows).ravel().tolist() == [2.25, 4.25, 2.25]
    assert forest.inputs.feature_names == ("a",)


def test_a_constant_tree_is_one_leaf(tmp_path):
    tree = {"leaf_values": [1.5], "splits": None}
    forest = converted(tmp_path, oblivious_trees=[tree])
    assert reference.raw(forest, np.zeros((1, 1))).item() == 1.75


def nested(depth: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"value": 1.0, "weight": 1}
    for _ in range(depth):
        split = document()["oblivious_trees"][0]["splits"][0]
        tree = {"left": tree, "right": {"value": 2.0, "weight": 1}, "split": split}
    return tree


def test_trees_of_other_shapes_are_chains_too(tmp_path):
    changed = document(trees=[nested(90)])
    del changed["oblivious_trees"]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(changed))
    assert convert(path).n_nodes == 90


DAMAGED: dict[str, dict[str, Any]] = {
    "no tree": {"oblivious_trees": []},
    "a deep tree": {
        "oblivious_trees": [
            {
                "leaf_values": [1.0, 2.0],
                "splits": document()["oblivious_trees"][0]["splits"] * 30,
            }
        ]
    },
    "an endless tree": {
        "oblivious_trees": [
            {"leaf_values": [1.0], "splits": document()["oblivious_trees"][0]["splits"] * 9000}
        ]
    },
    "both kinds of trees": {"trees": []},
    "a bias too many": {"scale_and_bias": [1, [0, 0]]},
    "booleans as numbers": {"scale_and_bias": [True, [0]]},
    "a number beyond float64": {"scale_and_bias": [1, [10**400]]},
    "no features": {"features_info": {}},
    "info that is none": {"model_info": []},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_refused(name, tmp_path):
    with pytest.raises(FileFormatError):
        converted(tmp_path, **DAMAGED[name])


FEATURE = document()["features_info"]["float_features"][0]
UNKNOWN: dict[str, dict[str, Any]] = {
    "a member": {"surprise": 1},
    "a loss": {"model_info": {"params": {"loss_function": {"type": "Surprise"}}}},
    "text features": {"features_info": {"float_features": [FEATURE], "text_features": [{}]}},
    "a feature's member": {"features_info": {"float_features": [{**FEATURE, "surprise": 1}]}},
    "a treatment of NaN": {
        "features_info": {"float_features": [{**FEATURE, "nan_value_treatment": "AsRandom"}]}
    },
    "a scale of 0": {"scale_and_bias": [0, [1]]},
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_meanings_are_refused(name, tmp_path):
    with pytest.raises(UnsupportedModelError):
        converted(tmp_path, **UNKNOWN[name])


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"oblivious_trees": NaN}', b'{"a":' * 100_000, b"[" * 10**6],
)
def test_what_is_no_document_is_refused(data, tmp_path):
    path = tmp_path / "m.json"
    path.write_bytes(data)
    with pytest.raises((FileFormatError, UnsupportedModelError)):
        convert(path)


def test_a_split_must_say_what_its_feature_says(tmp_path):
    tree = json.loads(json.dumps(document()["oblivious_trees"][0]))
    tree["splits"][0]["border"] = 0.75
    with pytest.raises(FileFormatError, match="split"):
        converted(tmp_path, oblivious_trees=[tree])


@pytest.mark.parametrize("kind", ["text", "embedding"])
def test_texts_and_embeddings_are_refused_by_name(kind):
    rng = np.random.default_rng(0)
    Z = np.empty((N, 2), object)
    Z[:, 0] = rng.normal(size=N)
    Z[:, 1] = [f"{'abcd'[k]} e" for k in rng.integers(0, 4, N)]
    if kind == "embedding":
        Z[:, 1] = list(rng.normal(size=(N, 3)))
    rows = cb.Pool(Z, (Y > 0).astype(int), **{f"{kind}_features": [1]}, feature_names=["a", "b"])
    model = cb.CatBoostClassifier(**{**QUIET, "iterations": 3}).fit(rows)
    with pytest.raises(UnsupportedModelError, match=r"'b'"):
        convert(model)


def test_an_unfitted_model_is_refused():
    with pytest.raises(UnsupportedModelError, match="fitted"):
        convert(cb.CatBoostClassifier())


def test_another_object_is_refused():
    with pytest.raises(UnsupportedModelError, match="CatBoost"):
        convert(3)


def test_a_damaged_binary_file_is_refused(tmp_path):
    path = tmp_path / "m.cbm"
    trained().save_model(str(path))
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFormatError, match="catboost"):
        convert(path)


def test_rows_of_another_width_are_refused():
    oracle = oracle_of(trained())
    with pytest.raises(InputError, match="6 features"):
        oracle.raw(np.zeros((2, 5), np.float32))


def test_no_rows_have_no_answers():
    for loss in ("RMSE", "MultiClass", "Logloss"):
        model = trained(loss)
        forest, oracle = convert(model), oracle_of(model)
        none = np.zeros((0, 6), np.float32)
        assert oracle.raw(none).shape == reference.raw(forest, none).shape
        assert oracle.leaf_ids is not None
        assert oracle.leaf_ids(none).shape == (0, forest.n_trees)


def test_rows_may_hold_texts_in_a_column_that_no_test_reads(tmp_path: Path) -> None:
    text = np.array([["x"], ["y"]] * 50, object)
    table = np.concatenate([np.arange(100.0)[:, None], text], axis=1)
    pool = cb.Pool(table, np.arange(100.0) > 50, cat_features=[1])
    model = cb.CatBoost({**QUIET, "iterations": 1, "depth": 1}).fit(pool)
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json", pool=pool)
    forest = bitvec.convert(path)
    assert not np.any(forest.tests.feature == 1)
    with pytest.warns(UserWarning, match="no category for"):
        raw = bitvec.compile(forest).raw(table)
    assert np.array_equal(raw[:, 0], model.predict(table))
