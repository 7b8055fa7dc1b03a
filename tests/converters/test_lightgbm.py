"""Laws of converting LightGBM models: the forest answers as the library does, bit for bit."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.converters.lightgbm.model_text import parse
from bitvec.converters.lightgbm.open import Opened
from bitvec.converters.lightgbm.oracle import oracle_of
from bitvec.converters.lightgbm.read import convert, forest_of
from bitvec.converters.lightgbm.write import to_lightgbm
from bitvec.core import reference, transforms
from bitvec.core.node_tests import ZERO_THRESHOLD, CodeRule, Kind, MissingRule
from bitvec.errors import FileFormatError, InputError, MissingLibraryError, UnsupportedModelError

lgb = pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")

from proof_laws import some_in_full  # noqa: E402

from tests.models.lightgbm import MODELS, SPECIAL, Model, probes, stump, train, trained  # noqa: E402
from tests.models.samples import small  # noqa: E402

QUIET = {"verbose": -1, "num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 5}


def assert_same(model: Any, X: np.ndarray) -> None:
    """The forest of a model and the model agree on leaves and raw scores."""
    forest, oracle = convert(model), oracle_of(model)
    predictor = bitvec.compile(forest, engine="reference")
    exits = predictor.engine.exit_leaves(X)
    assert forest.source is not None
    assert forest.source.leaf_id is not None
    ids = forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]
    assert np.array_equal(ids, oracle.leaf_ids(X))
    assert np.array_equal(predictor.engine.raw(X), oracle.raw(X), equal_nan=True)


@pytest.mark.parametrize("objective", some_in_full([("binary",), ("regression",), ("multiclass",)]))
def test_raw_scores_of_a_random_forest_are_means_of_which_it_gives_the_sums(objective):
    model, X = trained(f"{objective}, rf"), probes()
    forest = convert(model)
    sums = model.predict(X, raw_score=True, num_threads=1).reshape(len(X), -1)
    raw = bitvec.compile(forest).raw(X)
    assert np.array_equal(raw, sums / model.current_iteration())
    assert not np.array_equal(raw, sums)
    summing = replace(forest.output, aggregate="sum", divisor=None)
    assert np.array_equal(bitvec.compile(replace(forest, output=summing)).raw(X), sums)
    notes = bitvec.certify(forest, model).summary()
    assert "raw scores of a random forest are sums" in notes


@pytest.mark.parametrize("name", MODELS)
def test_every_model_answers_alike(name):
    model, X = trained(name), probes()
    assert_same(model, X)
    forest = convert(model)
    got = transforms.transform(forest.output, reference.raw(forest, X[:300]))
    booster = model.booster_ if MODELS[name].wrapper else model
    expected = booster.predict(X[:300], num_threads=1).reshape(got.shape)
    # exp and log1p alone are NumPy's own, which may round otherwise than those of the C library
    np.testing.assert_array_max_ulp(got, expected, 1)


CERTIFIED = (
    *("regression", "multiclass", "poisson", "binary, rf", "regression, zero as missing"),
    *("regression, linear", "regression, constant trees", "classifier of two", "classifier"),
    "regressor",
)


@pytest.mark.parametrize("name", CERTIFIED)
def test_certificates_are_perfect(name):
    model = trained(name)
    certificate = bitvec.certify(bitvec.convert(model), model)
    assert certificate.passed, str(certificate)
    assert "leaf values" in certificate.compared
    assert certificate.max_score_ulp <= 1


@pytest.mark.parametrize("kind", ["text", "whole", "real", "truth"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_wrappers_give_labels_of_any_kind_and_their_probabilities(kind, n_classes):
    X, y = small().X, small().y
    y = np.digitize(y, np.quantile(y, [0.3, 0.6][: n_classes - 1]))
    if kind == "truth" and n_classes == 3:
        pytest.skip("there are two truth values")
    names = {"text": ["b", "a", "c"], "whole": [7, -3, 12], "real": [4.0, -1.0, 2.0]}
    labels = np.array(names.get(kind, [True, False]))[y]
    model = lgb.LGBMClassifier(n_estimators=4, **QUIET).fit(X, labels)
    forest, oracle = bitvec.convert(model), oracle_of(model)
    certificate = bitvec.certify(forest, model, X)
    assert certificate.passed, str(certificate)
    assert "labels" in certificate.compared
    predictor, rows = bitvec.compile(forest), probes()
    assert np.array_equal(predictor.predict(rows), model.predict(rows))
    assert np.array_equal(predictor.predict_proba(rows), model.predict_proba(rows))
    assert oracle.n_trees == forest.n_trees


def test_a_classifier_of_one_class_is_refused():
    model = lgb.LGBMClassifier(n_estimators=2, **QUIET).fit(small().X, np.full(len(small().X), 7))
    with pytest.raises(UnsupportedModelError, match="fitted to two classes or more"):
        bitvec.convert(model)


def test_a_text_of_classes_gives_probabilities_but_no_labels(tmp_path):
    trained("multiclass").save_model(tmp_path / "model.txt")
    oracle = oracle_of(tmp_path / "model.txt")
    assert oracle.predict is None
    assert oracle.scores is not None
    assert oracle_of(trained("regression")).scores is None


def test_leaf_values_are_those_that_the_library_shows():
    model = trained("multiclass")
    tree, leaf, v = oracle_of(model).leaf_values()
    expected = [model.get_leaf_output(int(t), int(i)) for t, i in zip(tree, leaf, strict=True)]
    assert np.array_equal(v[:, 0], expected)


@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova", "cross_entropy"])
def test_probabilities_equal_the_library_s_bit_for_bit(objective):
    model, X = train(MODELS[objective]._replace(rounds=20)), probes()
    forest = convert(model)
    got = transforms.transform(forest.output, reference.raw(forest, X))
    assert np.array_equal(got, model.predict(X, num_threads=1).reshape(got.shape))


def test_linear_leaves_read_tiny_values_as_zero():
    x = np.r_[SPECIAL, 1e-34]
    X = np.zeros((x.size, 4))
    X[:, 0] = x
    X[:, 1] = np.arange(x.size) % 2
    for weight in ("1e35", "-1e35", "1e300", "-1", "inf"):
        linear = (
            f"is_linear=1\nleaf_const=0 -0.0\nnum_features=1 1\nleaf_features=0  0 \n"
            f"leaf_coeff={weight}  {weight} "
        )
        model = stump("threshold=0.5\ndecision_type=10", linear)
        assert_same(model, X)
        forest = convert(model)
        expected = model.predict(X, num_threads=1)
        assert np.array_equal(bitvec.compile(forest).raw(X).ravel(), expected, equal_nan=True)


def test_tiny_values_route_as_the_dense_reader_makes_them_zero():
    k = ZERO_THRESHOLD
    X = np.zeros((SPECIAL.size + 4, 4))
    X[:, 1] = [*SPECIAL, 1, -1, 1e-34, -1e-34]
    for t in (k, -k, 0.0, -0.0, 1e-40, -1e-40, np.nextafter(-k, -1), np.nextafter(k, 1)):
        assert_same(stump(f"threshold={float(t)!r}\ndecision_type=10"), X)


@pytest.mark.parametrize("decision", [0, 2, 4, 6, 8, 10])
@pytest.mark.parametrize("threshold", ["-0.5", "0.5", "inf", "-inf", "1e300"])
def test_each_missing_type_and_direction_answers_alike(decision, threshold):
    assert_same(stump(f"threshold={threshold}\ndecision_type={decision}"), probes(300))


def test_codes_in_the_set_go_left_and_all_others_right():
    forest = convert(trained("regression"))
    is_set = forest.tests.kind == Kind.SET
    assert is_set.any()
    assert not is_set.all()
    assert np.all(forest.tests.code_rule[is_set] == CodeRule.TRUNCATE)
    assert np.all(forest.tests.missing_right[is_set] & forest.tests.other_right[is_set])


def test_zero_as_missing_is_a_missing_rule():
    rules = convert(trained("regression, zero as missing")).tests.missing_rule
    assert np.any(rules == MissingRule.NAN_OR_ZERO)


def test_models_stop_at_their_best_iteration():
    model = trained("stopped classifier")
    assert model.best_iteration_ < MODELS["stopped classifier"].rounds
    assert convert(model).n_trees == model.best_iteration_
    assert convert(model.booster_).n_trees == model.best_iteration_


def test_a_custom_objective_gives_raw_scores():
    model = lgb.LGBMRegressor(
        objective=lambda label, score: (score - label, np.ones_like(score)), **QUIET
    ).fit(small().X, small().y)
    forest = convert(model)
    assert forest.output.classes is None
    assert forest.output.post_transform == "identity"
    assert_same(model, probes(300))


def test_files_give_the_forest_of_their_model(tmp_path):
    model, path = trained("multiclass"), tmp_path / "model.txt"
    model.save_model(path)
    assert bitvec.certify(bitvec.convert(path), path).passed
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    X = probes(100)
    windows, plain = bitvec.convert(path), bitvec.convert(model)
    assert np.array_equal(reference.raw(windows, X), reference.raw(plain, X))


def test_code_books_come_from_the_data_frame():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=300), "town": rng.choice([*"abcd"], 300)})
    frame["town"] = frame["town"].astype("category")
    y = frame["size"] + (frame["town"] == "c")
    model = lgb.LGBMRegressor(n_estimators=4, **QUIET).fit(frame, y)
    forest = bitvec.convert(model)
    assert forest.inputs.feature_names == ("size", "town")
    assert forest.inputs.categories == (None, ("a", "b", "c", "d"))
    other = pd.DataFrame({"town": ["d", "zz", None, "c"], "size": [0.1, 0.2, 0.3, np.nan]})
    other["town"] = other["town"].astype("category")
    got = bitvec.compile(forest).predict(other)
    assert np.array_equal(got, model.predict(other[["size", "town"]], num_threads=1))


def framed(**kinds: str) -> Any:
    """A frame with a column of each kind, and a target that depends on all of them."""
    pd = pytest.importorskip("pandas")
    rng, columns = np.random.default_rng(0), {}
    for name, kind in kinds.items():
        if kind == "number":
            columns[name] = rng.normal(size=300)
        elif kind == "whole":
            columns[name] = rng.integers(0, 9, 300)
        elif kind == "constant":
            columns[name] = np.zeros(300)
        elif kind == "ordered":
            columns[name] = pd.Categorical(rng.integers(0, 3, 300), ordered=True)
        else:
            columns[name] = pd.Categorical(rng.choice(kind.split(","), 300))
    frame = pd.DataFrame(columns)
    y = sum(c.cat.codes % 2 if hasattr(c, "cat") else c for _, c in frame.items())
    return frame, y


ABC = ("a", "b", "c")
FRAMES: dict[str, tuple[dict[str, str], list[str] | str, Any]] = {
    "one": ({"x": "number", "t": "a,b,c", "i": "whole"}, "auto", (None, ABC, None)),
    "two": ({"s": ",p,q", "c": "constant", "t": "a,b,c"}, "auto", (("", "p", "q"), None, ABC)),
    "ordered": ({"o": "ordered", "i": "whole", "t": "a,b,c"}, "auto", (None, None, ABC)),
    "codes beside": ({"i": "whole", "t": "a,b,c"}, ["i", "t"], (None, ABC)),
    "codes only": ({"i": "whole", "t": "a,b,c"}, ["i"], None),
    "either": ({"i": "whole", "t": "a,b,c,d,e,f,g,h,i,j"}, ["i", "t"], None),
}


@pytest.mark.parametrize("name", FRAMES)
def test_code_books_go_to_the_columns_they_belong_to_or_to_none(name):
    kinds, categorical, expected = FRAMES[name]
    frame, y = framed(**kinds)
    model = lgb.LGBMRegressor(n_estimators=4, **QUIET)
    model.fit(frame, y, categorical_feature=categorical)
    forest = bitvec.convert(model)
    assert forest.inputs.categories == expected
    metadata = forest.source.metadata
    placed = sum(book is not None for book in expected or ())
    all_placed = placed == sum(
        kind not in ("number", "whole", "constant") for kind in kinds.values()
    )
    assert ("code_books" in metadata) == ("pandas_categorical" in metadata) == (not all_placed)
    again = to_lightgbm(forest)
    assert again.pandas_categorical == model.booster_.pandas_categorical
    other, _ = framed(**kinds)
    if not all_placed:
        with pytest.raises(bitvec.errors.InputError, match="no categories in this forest"):
            bitvec.compile(forest).predict(other)
        return
    for column in other.columns[[hasattr(c, "cat") for _, c in other.items()]]:
        values = other[column].astype(object)
        values.iloc[:6] = ["unseen", "", None, np.nan, "unseen", "a"]
        other[column] = values.astype("category")
    with pytest.warns(UserWarning, match="no category for"):
        got = bitvec.compile(forest).predict(other)
    assert np.array_equal(got, model.predict(other, num_threads=1))


@pytest.mark.parametrize(("name", "n_trees"), [("some iterations", 9), ("some iterations, rf", 3)])
def test_a_text_of_some_iterations_holds_these(name, n_trees):
    model, X, part = trained(name), probes(200), MODELS[name].saved
    forest = _converted(model.model_to_string(**part))
    assert forest.n_trees == n_trees
    expected = model.predict(X, raw_score=True, num_threads=1, **part).reshape(len(X), -1)
    expected = expected / (3 if name.endswith("rf") else 1)
    assert np.array_equal(reference.raw(forest, X), expected)


@pytest.mark.full
def test_a_chain_of_a_hundred_thousand_nodes_converts():
    depth = 100_000

    def joined(values: Any) -> str:
        return " ".join(map(str, values))

    tree = (
        f"Tree=0\nnum_leaves={depth + 1}\nnum_cat=0\nsplit_feature={joined([0] * depth)}\n"
        f"threshold={joined(range(depth))}\ndecision_type={joined([2] * depth)}\n"
        f"left_child={joined(~i for i in range(depth))}\n"
        f"right_child={joined([*range(1, depth), ~depth])}\n"
        f"leaf_value={joined(range(depth + 1))}\nis_linear=0\nshrinkage=1\n\n\n"
    )
    head = (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
        "max_feature_idx=0\nfeature_names=Column_0\nfeature_infos=none\n"
        f"tree_sizes={len(tree)}\n\n"
    )
    forest = _converted(head + tree + "end of trees\n")
    assert forest.n_leaves == depth + 1
    assert np.array_equal(forest.leaves.v[:, 0], np.arange(depth + 1))


def _converted(text: str) -> Any:
    return forest_of(Opened("text", parse(text.encode())))


EDITS: dict[str, tuple[str, str, type[Exception], str]] = {
    "old text": ("tree\n", "gbdt\n", FileFormatError, "line `tree`"),
    "version": ("version=v4", "version=v5", UnsupportedModelError, "version"),
    "header key": ("label_index=0", "new_option=0", UnsupportedModelError, "not known"),
    "objective": ("objective=regression", "objective=new", UnsupportedModelError, "objective"),
    "option": ("objective=regression", "objective=regression x:1", UnsupportedModelError, "option"),
    "classes": ("num_class=1", "num_class=2", FileFormatError, "one tree per class"),
    "features": ("max_feature_idx=3", "max_feature_idx=9", FileFormatError, "10 entries"),
    "tree key": ("is_linear=0", "is_wonder=0", UnsupportedModelError, "not known"),
    "sizes": ("num_leaves=8", "num_leaves=18", FileFormatError, "tree_sizes"),
    "leaves": ("num_leaves=8", "num_leaves=9", FileFormatError, "must have 8 values"),
    "ending": ("end of trees", "", FileFormatError, "end of trees"),
    "parameters": ("end of parameters", "", FileFormatError, "end of parameters"),
    "books": ("pandas_categorical:null", "pandas_categorical:[[", FileFormatError, "JSON"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_texts_are_refused_with_the_reason(edit):
    old, new, error, message = EDITS[edit]
    text = trained("regression").model_to_string()
    assert old in text
    with pytest.raises(error, match=message):
        _converted(text.replace(old, new, 1))


def test_cycles_and_shared_children_are_refused():
    text = train(Model(rounds=1)).model_to_string()
    line = next(line for line in text.split("\n") if line.startswith("left_child="))
    children = line.partition("=")[2].split(" ")
    for value in (children[1], "0", "-1"):
        edited = " ".join([children[0], *[value] * (len(children) - 1)])
        with pytest.raises(FileFormatError, match="one parent"):
            _converted(text.replace(line, "left_child=" + edited))


def test_what_is_no_fitted_model_is_refused():
    with pytest.raises(UnsupportedModelError, match="fitted"):
        convert(lgb.LGBMRegressor())
    with pytest.raises(UnsupportedModelError, match="Booster"):
        convert(object())
    model = lgb.LGBMRegressor(n_estimators=2, pred_early_stop=True, **QUIET)
    model.fit(small().X, small().y)
    with pytest.raises(UnsupportedModelError, match="pred_early_stop"):
        convert(model)


def test_a_file_needs_no_lightgbm(tmp_path: Path, monkeypatch):
    path = tmp_path / "model.txt"
    trained("regression").save_model(path)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert bitvec.convert(path).n_trees == 5
    with pytest.raises(MissingLibraryError):
        oracle_of(path)


def test_a_frame_whose_names_hold_blanks_is_read_as_lightgbm_names_it():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(60, 2)), columns=["sepal length", "petal width (cm)"])
    data = lgb.Dataset(frame, frame["sepal length"] > 0)
    model = lgb.train({"verbose": -1, "min_data_in_leaf": 5}, data, 2)
    predictor = bitvec.compile(bitvec.convert(model))
    expected = model.predict(frame)
    assert np.array_equal(predictor.predict(frame), expected)
    assert np.array_equal(predictor.predict(frame[frame.columns[::-1]]), expected)
    both = frame.assign(sepal_length=frame["sepal length"], **{"sepal length": 0.0})
    with pytest.warns(UserWarning, match="'sepal length'"):
        assert np.array_equal(predictor.predict(both), expected)
    with pytest.raises(InputError, match="none named 'sepal_length'"):
        predictor.predict(frame.rename(columns={"sepal length": "length"}))
