"""Laws of converting LightGBM models: the forest answers as the library does, bit for bit."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
from bitvec.errors import FileFormatError, MissingLibraryError, UnsupportedModelError

lgb = pytest.importorskip("lightgbm")
datasets = pytest.importorskip("sklearn.datasets")

QUIET = {"verbose": -1, "num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 5}
TINY = [0.0, -0.0, 5e-324, -5e-324, ZERO_THRESHOLD, -ZERO_THRESHOLD, 2e-35, -2e-35]
OTHERS = [np.inf, -np.inf, np.nan, 1e300, 2.7, -0.5, -1.0, 9.0, 40.0, 2.0**31, 2.0**40]
SPECIAL = np.array([*TINY, *OTHERS])


def real(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A data set of scikit-learn with a tenth of its values missing."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = X.astype(np.float64)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, y


def mixed(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Rows like those of a census: amounts with many zeros, codes, missing values."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5))
    X[:, 0] = np.where(rng.random(n) < 0.5, 0.0, X[:, 0])
    X[:, 3] = rng.integers(0, 9, n)
    X[:, 4] = rng.integers(0, 70, n)
    y = 1 + np.abs(X[:, 1]) + (X[:, 3] % 3 == 2) + (X[:, 4] % 5 == 1) + 0.3 * (X[:, 0] > 0)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def trained(objective: Any = "regression", rounds: int = 5, **options: Any) -> Any:
    """A Booster on mixed data with two columns of codes."""
    X, y = mixed()
    group = None
    if objective in ("cross_entropy", "cross_entropy_lambda"):
        y = y / y.max()
    elif objective == "binary":
        y = (y > np.median(y)).astype(int)
    elif objective in ("multiclass", "multiclassova"):
        y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
        options["num_class"] = 3
    elif objective in ("lambdarank", "rank_xendcg"):
        y, group = np.digitize(y, np.quantile(y, [0.3, 0.6])), [150, 250]
    rows = lgb.Dataset(X, y, group=group, categorical_feature=[3, 4])
    return lgb.train({**QUIET, "objective": objective, **options}, rows, rounds)


def probes(n_features: int = 5, n: int = 1500) -> np.ndarray:
    """Rows of the training data in which a third of the values are special ones."""
    rng = np.random.default_rng(2)
    X = mixed()[0][rng.integers(0, 400, n)][:, :n_features]
    special = rng.random(X.shape) < 0.35
    X[special] = rng.choice(SPECIAL, int(special.sum()))
    return X


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


OBJECTIVES = (
    *("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma"),
    *("tweedie", "binary", "multiclass", "multiclassova", "cross_entropy"),
    *("cross_entropy_lambda", "lambdarank", "rank_xendcg"),
)
BOOSTINGS: dict[str, dict[str, Any]] = {
    "gbdt": {},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "zero as missing": {"zero_as_missing": True},
    "no missing": {"use_missing": False},
    "linear": {"linear_tree": True},
    "sqrt": {"reg_sqrt": True},
    "few categories": {"max_cat_to_onehot": 100},
    "sigmoid": {"sigmoid": 0.7},
    "monotone": {"monotone_constraints": [1, -1, 0, 0, 0]},
    "extra trees": {"extra_trees": True},
    "few bins": {"max_bin": 5},
    "stumps": {"num_leaves": 2},
    "constant trees": {"min_data_in_leaf": 10**6},
    "linear, no missing": {"linear_tree": True, "use_missing": False},
}


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_raw_scores_of_a_random_forest_are_means_of_which_it_gives_the_sums(objective):
    model, X = trained(objective, **BOOSTINGS["rf"]), probes()
    forest = convert(model)
    sums = model.predict(X, raw_score=True, num_threads=1).reshape(len(X), -1)
    raw = bitvec.compile(forest).raw(X)
    assert np.array_equal(raw, sums / model.current_iteration())
    assert not np.array_equal(raw, sums)
    summing = replace(forest.output, aggregate="sum", divisor=None)
    assert np.array_equal(bitvec.compile(replace(forest, output=summing)).raw(X), sums)
    notes = bitvec.certify(forest, model).summary()
    assert "raw scores of a random forest are sums" in notes


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("boosting", ["gbdt", "rf", "sqrt"])
def test_every_objective_answers_alike(objective, boosting):
    model = trained(objective, **BOOSTINGS[boosting])
    X = probes()
    assert_same(model, X)
    forest = convert(model)
    got = transforms.transform(forest.output, reference.raw(forest, X[:300]))
    expected = model.predict(X[:300], num_threads=1).reshape(got.shape)
    # exp and log1p alone are NumPy's own, which may round otherwise than those of the C library
    np.testing.assert_array_max_ulp(got, expected, 1)


@pytest.mark.parametrize("objective", ["regression", "multiclass"])
@pytest.mark.parametrize("boosting", BOOSTINGS)
def test_every_booster_option_answers_alike(objective, boosting):
    assert_same(trained(objective, **BOOSTINGS[boosting]), probes())


CERTIFIED: dict[str, Callable[[], Any]] = {
    "breast cancer": lambda: lgb.LGBMClassifier(n_estimators=5, **QUIET).fit(
        *real("breast_cancer")
    ),
    "diabetes": lambda: lgb.LGBMRegressor(n_estimators=5, **QUIET).fit(*real("diabetes")),
    "digits": lambda: lgb.LGBMClassifier(n_estimators=2, **QUIET).fit(*real("digits")),
    "mixed": trained,
    "mixed, zero as missing": lambda: trained(zero_as_missing=True),
    "mixed, random forest": lambda: trained("binary", **BOOSTINGS["rf"]),
    "mixed, linear": lambda: trained(linear_tree=True),
    "mixed, multiclass": lambda: trained("multiclass"),
    "mixed, constant trees": lambda: trained(min_data_in_leaf=10**6),
    "mixed, poisson": lambda: trained("poisson"),
}


@pytest.mark.parametrize("name", CERTIFIED)
def test_certificates_are_perfect(name):
    model = CERTIFIED[name]()
    certificate = bitvec.certify(bitvec.convert(model), model)
    assert certificate.passed, str(certificate)
    assert "leaf values" in certificate.compared
    assert certificate.max_score_ulp <= 1


@pytest.mark.parametrize("kind", ["text", "whole", "real", "truth"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_wrappers_give_labels_of_any_kind_and_their_probabilities(kind, n_classes):
    X, y = mixed()
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


def test_a_text_of_classes_gives_probabilities_but_no_labels(tmp_path):
    trained("multiclass").save_model(tmp_path / "model.txt")
    oracle = oracle_of(tmp_path / "model.txt")
    assert oracle.predict is None
    assert oracle.scores is not None
    assert oracle_of(trained()).scores is None


def test_leaf_values_are_those_that_the_library_shows():
    model = trained("multiclass")
    tree, leaf, v = oracle_of(model).leaf_values()
    expected = [model.get_leaf_output(int(t), int(i)) for t, i in zip(tree, leaf, strict=True)]
    assert np.array_equal(v[:, 0], expected)


@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova", "cross_entropy"])
def test_probabilities_equal_the_library_s_bit_for_bit(objective):
    model, X = trained(objective, 20), probes()
    forest = convert(model)
    got = transforms.transform(forest.output, reference.raw(forest, X))
    assert np.array_equal(got, model.predict(X, num_threads=1).reshape(got.shape))


def test_linear_leaves_read_tiny_values_as_zero():
    k, text = ZERO_THRESHOLD, trained(rounds=1).model_to_string()
    x = np.r_[SPECIAL, 5e-36, -5e-36, np.nextafter(k, 1), np.nextafter(-k, -1), 1e-34]
    X = np.zeros((x.size, 5))
    X[:, 0] = x
    X[:, 1] = np.arange(x.size) % 2
    for weight in ("1e35", "-1e35", "1e300", "-1", "inf"):
        linear = (
            f"is_linear=1\nleaf_const=0 -0.0\nnum_features=1 1\nleaf_features=0  0 \n"
            f"leaf_coeff={weight}  {weight} "
        )
        stump = _with_tree(text, "threshold=0.5\ndecision_type=10", linear)
        model = lgb.Booster(model_str=stump)
        assert_same(model, X)
        forest = convert(model)
        expected = model.predict(X, num_threads=1)
        assert np.array_equal(bitvec.compile(forest).raw(X).ravel(), expected, equal_nan=True)


def test_tiny_values_route_as_the_dense_reader_makes_them_zero():
    text = trained(rounds=1).model_to_string()
    k = ZERO_THRESHOLD
    for t in (k, -k, 0.0, -0.0, 1e-40, -1e-40, np.nextafter(-k, -1), np.nextafter(k, 1)):
        stump = _with_tree(text, f"threshold={float(t)!r}\ndecision_type=10")
        model = lgb.Booster(model_str=stump)
        X = np.zeros((16, 5))
        X[:, 1] = np.r_[
            SPECIAL[:8], np.nextafter(k, 1), np.nextafter(-k, -1), 1, -1, np.nan, 0, k, -k
        ]
        assert_same(model, X)


def _with_tree(text: str, node: str, leaves: str = "is_linear=0") -> str:
    """Replace the first tree of a text by a stump on column 1."""
    start, end = text.index("Tree=0"), text.index("end of trees")
    tree = (
        f"Tree=0\nnum_leaves=2\nnum_cat=0\nsplit_feature=1\n{node}\nleft_child=-1\n"
        f"right_child=-2\nleaf_value=1 2\n{leaves}\nshrinkage=1\n\n\n"
    )
    head = text[: text.index("tree_sizes")] + f"tree_sizes={len(tree)}\n\n"
    assert start < end
    return head + tree + text[end:]


@pytest.mark.parametrize("decision", [0, 2, 4, 6, 8, 10])
@pytest.mark.parametrize("threshold", ["-0.5", "0.5", "inf", "-inf", "1e300"])
def test_each_missing_type_and_direction_answers_alike(decision, threshold):
    text = _with_tree(
        trained(rounds=1).model_to_string(), f"threshold={threshold}\ndecision_type={decision}"
    )
    assert_same(lgb.Booster(model_str=text), probes(n=300))


def test_codes_in_the_set_go_left_and_all_others_right():
    forest = convert(trained())
    is_set = forest.tests.kind == Kind.SET
    assert is_set.any()
    assert not is_set.all()
    assert np.all(forest.tests.code_rule[is_set] == CodeRule.TRUNCATE)
    assert np.all(forest.tests.missing_right[is_set] & forest.tests.other_right[is_set])


def test_zero_as_missing_is_a_missing_rule():
    rules = convert(trained(zero_as_missing=True)).tests.missing_rule
    assert np.any(rules == MissingRule.NAN_OR_ZERO)


def test_models_stop_at_their_best_iteration():
    X, y = real("breast_cancer")
    model = lgb.LGBMClassifier(n_estimators=60, **QUIET, learning_rate=0.5)
    model.fit(X[:300], y[:300], eval_set=[(X[300:], y[300:])], callbacks=[lgb.early_stopping(3)])
    assert model.best_iteration_ < 30
    assert convert(model).n_trees == model.best_iteration_
    assert convert(model.booster_).n_trees == model.best_iteration_
    assert_same(model, X)


def test_wrappers_give_labels_and_probabilities():
    X, y = real("breast_cancer")
    names = np.array(["bad", "good"])[y]
    model = lgb.LGBMClassifier(n_estimators=5, **QUIET).fit(X, names)
    predictor = bitvec.compile(bitvec.convert(model))
    assert np.array_equal(predictor.predict(X), model.predict(X))
    # one exponential of NumPy against the C library's
    np.testing.assert_array_max_ulp(predictor.predict_proba(X), model.predict_proba(X), 2)


def test_a_custom_objective_gives_raw_scores():
    X, y = real("diabetes")
    model = lgb.LGBMRegressor(
        objective=lambda label, score: (score - label, np.ones_like(score)), **QUIET
    ).fit(X, y)
    forest = convert(model)
    assert forest.output.classes is None
    assert forest.output.post_transform == "identity"
    assert_same(model, X)


def test_files_give_the_forest_of_their_model(tmp_path):
    model, path = trained("multiclass"), tmp_path / "model.txt"
    model.save_model(path)
    assert bitvec.certify(bitvec.convert(path), path).passed
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    X = probes(n=100)
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


def test_a_text_of_some_iterations_holds_these():
    model, X = trained("multiclass", 8), probes(n=200)
    part = {"start_iteration": 2, "num_iteration": 3}
    forest = _converted(model.model_to_string(**part))
    assert forest.n_trees == 9
    expected = model.predict(X, raw_score=True, num_threads=1, **part)
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
    "features": ("max_feature_idx=4", "max_feature_idx=9", FileFormatError, "10 entries"),
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
    text = trained().model_to_string()
    assert old in text
    with pytest.raises(error, match=message):
        _converted(text.replace(old, new, 1))


def test_cycles_and_shared_children_are_refused():
    text = trained(rounds=1).model_to_string()
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
    X, y = real("diabetes")
    model = lgb.LGBMRegressor(n_estimators=2, pred_early_stop=True, **QUIET).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="pred_early_stop"):
        convert(model)


def test_a_file_needs_no_lightgbm(tmp_path: Path, monkeypatch):
    path = tmp_path / "model.txt"
    trained().save_model(path)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert bitvec.convert(path).n_trees == 5
    with pytest.raises(MissingLibraryError):
        oracle_of(path)
