"""Data frames go through a forest as through its source, or are refused: asked of each library.

A table says which kinds of frames the two answer alike, and who refuses the others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.certification import oracle_of
from bitvec.verify.certificates import load
from bitvec.verify.certificates.frame_comparison import compare_frames
from bitvec.verify.certificates.frame_result import DIFFER, EQUAL, FOREST, REFUSED, SOURCE
from bitvec.verify.oracle import FrameAnswers

pd = pytest.importorskip("pandas")
WORDS, NUMBERS = ["red", "green", "blue", "cyan"], [3, 7, 11, 20]


@cache
def table() -> tuple[Any, Any]:
    """Rows of a number, a word and a whole number that is a category, and a target."""
    rng = np.random.default_rng(0)
    word, number = rng.choice(WORDS, 400), rng.choice(NUMBERS, 400)
    frame = pd.DataFrame({"x": rng.normal(size=400).round(2), "c": word, "i": number})
    y = (word == "green") * 2.0 + (number == 11) * 3 + (word == "cyan") * 5 + (number == 20) * 9
    return frame, y + frame.x


def categories() -> Any:
    frame, _ = table()
    return frame.assign(c=pd.Categorical(frame.c, WORDS), i=pd.Categorical(frame.i, NUMBERS))


def xgboost() -> Any:
    xgb = pytest.importorskip("xgboost")
    model = xgb.XGBRegressor(n_estimators=3, max_depth=4, enable_categorical=True)
    return model.set_params(max_cat_to_onehot=1, n_jobs=1).fit(categories(), table()[1])


def lightgbm() -> Any:
    lgb = pytest.importorskip("lightgbm")
    options = {"min_data_in_leaf": 2, "cat_smooth": 1, "min_data_per_group": 2, "verbose": -1}
    model = lgb.LGBMClassifier(n_estimators=3, num_leaves=15, n_jobs=1, **options)
    return model.fit(categories(), np.where(table()[1] > 3, "high", "low"))


def catboost() -> Any:
    cb = pytest.importorskip("catboost")
    model = cb.CatBoostRegressor(iterations=8, depth=4, one_hot_max_size=10, thread_count=1)
    model.set_params(verbose=0, allow_writing_files=False)
    return model.fit(*table(), cat_features=["c", "i"])


def sklearn() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5).fit(
        categories(), table()[1]
    )


def sklearn_numbers() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    frame, y = table()
    return RandomForestClassifier(3, random_state=0).fit(frame[["x", "i"]], y > 3)


def ydf() -> Any:
    library = pytest.importorskip("ydf")
    library.verbose(0)
    frame, y = table()
    category = library.Semantic.CATEGORICAL
    words = [library.Feature(name, category) for name in "ci"]
    return library.GradientBoostedTreesLearner(
        label="y",
        task=library.Task.REGRESSION,
        num_trees=5,
        validation_ratio=0.0,
        min_vocab_frequency=1,
        features=[library.Feature("x"), *words, library.Feature("b")],
    ).train(frame.assign(y=y, b=frame.x > 0))


def both(kinds: str, outcome: str) -> dict[str, str]:
    return dict.fromkeys(kinds.split("; "), outcome)


CATEGORIES = (
    "numbers and categories; categories in another order; ordered categories; one category only"
)
PLAIN = "plain columns; plain columns, unseen; text"
WHOLE = "nullable whole numbers; whole numbers as floats"
NUMERIC = "integers; nullable integers"

EXPECTED: dict[str, tuple[Any, dict[str, str]]] = {
    "xgboost": (
        xgboost,
        both(f"{CATEGORIES}; missing categories; {NUMERIC}", EQUAL)
        | both(f"{PLAIN}; plain columns with None; whole numbers; {WHOLE}", REFUSED)
        | both("unseen categories; categories as text; a column too few", REFUSED)
        | both("columns in another order; a column too many", SOURCE),
    ),
    "lightgbm": (
        lightgbm,
        both(f"{CATEGORIES}; missing categories; unseen categories; {NUMERIC}", EQUAL)
        | both(f"{PLAIN}; plain columns with None; whole numbers; {WHOLE}", REFUSED)
        | both("a column too few", REFUSED)
        | both("columns in another order; a column too many", SOURCE)
        | both("categories as text", FOREST),
    ),
    "catboost": (
        catboost,
        both(f"{CATEGORIES}; unseen categories; {PLAIN}; {NUMERIC}", EQUAL)
        | both("categories as text; whole numbers; a column too many", EQUAL)
        | both("a column too few", REFUSED)
        | both(f"missing categories; plain columns with None; {WHOLE}", SOURCE)
        | both("columns in another order", SOURCE),
    ),
    "sklearn": (
        sklearn,
        both(f"{CATEGORIES}; missing categories; unseen categories; {NUMERIC}", EQUAL)
        | both(f"plain columns; plain columns, unseen; whole numbers; {WHOLE}", EQUAL)
        | both("plain columns with None; columns in another order; a column too many", EQUAL)
        | both("a column too few", REFUSED)
        | both("categories as text; text", FOREST),
    ),
    "sklearn_numbers": (
        sklearn_numbers,
        both(f"numbers; {NUMERIC}", EQUAL)
        | both("a column too few", REFUSED)
        | both("columns in another order; a column too many", SOURCE),
    ),
    "ydf": (
        ydf,
        both(f"{CATEGORIES}; unseen categories; {PLAIN}; {NUMERIC}", EQUAL)
        | both("plain columns with None; categories as text; whole numbers", EQUAL)
        | both("columns in another order; a column too many", EQUAL)
        | both(f"{WHOLE}; a column too few", REFUSED)
        | both("missing categories", SOURCE),
    ),
}


@cache
def certified(source: str) -> tuple[Any, Any, Any]:
    model = EXPECTED[source][0]()
    forest = bitvec.convert(model)
    return model, forest, bitvec.certify(forest, model)


@pytest.mark.parametrize("source", EXPECTED)
def test_frames_are_answered_alike_or_refused(source: str) -> None:
    _, _, certificate = certified(source)
    found = {frame.kind: frame.outcome for frame in certificate.frames}
    assert found == EXPECTED[source][1]
    assert certificate.passed
    assert "frames, equal: numbers" in certificate.summary()
    assert "data frames" not in certificate.summary()
    assert all(bool(f.said) is (f.outcome != EQUAL) for f in certificate.frames)


@pytest.mark.parametrize("source", [name for name in EXPECTED if name != "sklearn_numbers"])
def test_a_forest_that_takes_categories_for_others_fails_its_certificate(source: str) -> None:
    """Arrays of codes cannot tell: the code book alone is wrong."""
    model, forest, _ = certified(source)
    books = forest.inputs.categories
    wrong = list(books[1])
    kept = [at for at, label in enumerate(wrong) if label not in ("", "<OOD>")]
    for at, other in zip(kept, [*kept[1:], kept[0]], strict=True):
        wrong[at] = books[1][other]
    inputs = replace(forest.inputs, categories=(books[0], tuple(wrong), *books[2:]))
    certificate = bitvec.certify(replace(forest, inputs=inputs), model)
    assert certificate.n_raw_mismatches == certificate.n_leaf_mismatches == 0
    assert not certificate.passed
    assert any(frame.outcome == DIFFER for frame in certificate.frames)
    assert "frames, differ: numbers and categories (" in certificate.summary()


def test_a_forest_that_takes_whole_numbers_for_codes_fails_its_certificate() -> None:
    model, forest, _ = certified("ydf")
    codes = replace(forest, inputs=replace(forest.inputs, decimals=()))
    certificate = bitvec.certify(codes, model)
    assert not certificate.passed
    found = {frame.kind: frame.outcome for frame in certificate.frames}
    assert found["whole numbers"] == DIFFER


def test_a_certificate_of_frames_is_saved_and_read(tmp_path: Any) -> None:
    model, forest, certificate = certified("sklearn")
    path = certificate.save(tmp_path / "certificate.json")
    assert load(path) == certificate
    assert not certificate.changes(bitvec.certify(forest, model))
    text = path.read_text()
    for old, new in (('"equal"', '"differ"'), ('"n_mismatches": 0', '"n_mismatches": 1')):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(bitvec.errors.FileFormatError, match="agree with itself"):
            load(path)


def test_the_given_frame_is_handed_to_the_source_as_it_is() -> None:
    frame = categories().head(50)
    for source in ("xgboost", "lightgbm"):
        model, forest, without = certified(source)
        given = bitvec.certify(forest, model, frame).frames[0]
        assert (given.outcome, given.n_rows) == (EQUAL, 50)
        assert given.kind.startswith("the given frame")
        assert without.frames[0].kind != given.kind


def test_frames_of_a_file_are_not_compared_and_it_says_so(tmp_path: Any) -> None:
    model, forest, _ = certified("xgboost")
    path = tmp_path / "model.ubj"
    model.save_model(path)
    certificate = bitvec.certify(forest, path)
    assert certificate.frames == ()
    assert "data frames, by names and categories of their columns" in certificate.summary()


def other_frames() -> dict[str, Any]:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    words, x, i = WORDS * 3, np.linspace(-1, 1, 12), NUMBERS * 3
    number = pd.Categorical(i, NUMBERS)
    plain = pd.DataFrame({"x": x, "c": words, "i": i, "b": x > 0})
    return {
        "polars categories": pl.DataFrame(
            {"x": x, "c": pl.Series(words, dtype=pl.Categorical), "i": i, "b": x > 0}
        ),
        "polars enum": pl.DataFrame(
            {"x": x, "c": pl.Series(words, dtype=pl.Enum(WORDS[::-1])), "i": i, "b": x > 0}
        ),
        "polars text": pl.DataFrame({"x": x, "c": words, "i": i, "b": x > 0}),
        "arrow dictionary": pa.table(
            {"x": x, "c": pa.array(words).dictionary_encode(), "i": i, "b": x > 0}
        ),
        "arrow text": pa.table({"x": x, "c": words, "i": i, "b": x > 0}),
        "string[pyarrow]": plain.assign(c=pd.array(words, "string[pyarrow]"), i=number),
        "arrow categories": plain.assign(c=pd.array(words, "string[pyarrow]"), i=number).astype(
            {"c": "category"}
        ),
        "truths": plain.assign(x=x > 0, c=pd.Categorical(words, WORDS), i=number),
        "category of floats": plain.assign(
            c=pd.Categorical(words), i=pd.Categorical(np.array(i, float))
        ),
        "float32": plain.assign(x=x.astype(np.float32), c=pd.Categorical(words), i=number),
    }


OTHERS = "polars categories; polars enum; polars text"
EQUAL_IN_EVERY_VERSION = {
    "xgboost": "truths; float32",
    "lightgbm": "arrow categories; truths; category of floats; float32",
    "catboost": "string[pyarrow]; arrow categories; truths; float32",
    "sklearn": f"{OTHERS}; string[pyarrow]; arrow categories; truths; category of floats; float32",
    "sklearn_numbers": f"{OTHERS}; arrow dictionary; arrow text",
    "ydf": f"{OTHERS}; string[pyarrow]; arrow categories; truths; float32",
}
"""Frames that a source takes, of those below; newer versions take more."""


@pytest.mark.parametrize("source", EXPECTED)
def test_frames_of_every_library_are_answered_alike_or_refused(source: str) -> None:
    model, forest, _ = certified(source)
    names = forest.inputs.feature_names
    frames = {
        kind: frame.select(list(names)) if not hasattr(frame, "loc") else frame[list(names)]
        for kind, frame in other_frames().items()
    }
    predictor = bitvec.compile(forest)
    answers = FrameAnswers(predictor.raw, predictor.exit_leaves, predictor.predict)
    results = compare_frames(forest, oracle_of(model), answers, frames.items())
    assert not [one for one in results if one.outcome == DIFFER]
    equal = {one.kind for one in results if one.outcome == EQUAL}
    assert equal >= set(EQUAL_IN_EVERY_VERSION[source].split("; "))


# ---- -1 in an array, which pandas' `cat.codes` has for a missing category


ROWS = np.array([[0.2, code] for code in (-1, 99, np.nan, 0, 2, 4)])
"""-1, a code that was not trained on, a missing one, and known ones."""


def coded(low: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=600), rng.integers(low, 6, 600)], axis=1)
    X[:60, 1] = np.nan
    y = np.isin(X[:, 1], (-1, 2, 4)) * 3.0 + np.isnan(X[:, 1]) * 9 + X[:, 0]
    return X, y


def minus_one(name: str) -> tuple[Any, Any]:
    """Return a forest's and its library's answers to ROWS."""
    X, y = coded(-1 if name == "catboost" else 0)
    if name == "xgboost":
        xgb = pytest.importorskip("xgboost")
        kinds = {"feature_types": ["float", "c"], "enable_categorical": True}
        model = xgb.train({"max_depth": 4, "nthread": 1}, xgb.DMatrix(X, y, **kinds), 3)
        return model, model.predict(xgb.DMatrix(ROWS, **kinds), output_margin=True)
    if name in ("lightgbm", "treelite"):
        lgb = pytest.importorskip("lightgbm")
        options = {"verbose": -1, "min_data_per_group": 2, "cat_smooth": 1, "num_threads": 1}
        model = lgb.train(options, lgb.Dataset(X, y, categorical_feature=[1]), 3)
        if name == "lightgbm":
            return model, model.predict(ROWS)
        treelite = pytest.importorskip("treelite")
        model = treelite.frontend.from_lightgbm(model)
        return model, treelite.gtil.predict(model, ROWS).ravel()
    if name == "sklearn":
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(max_iter=3, categorical_features=[1]).fit(X, y)
        return model, model.predict(ROWS)
    cb = pytest.importorskip("catboost")
    whole = pd.DataFrame({0: X[60:, 0], 1: X[60:, 1].astype(int)})
    model = cb.CatBoostRegressor(iterations=9, depth=4, one_hot_max_size=10, thread_count=1)
    model.set_params(verbose=0, allow_writing_files=False).fit(whole, y[60:], cat_features=[1])
    # CatBoost takes no NaN for a category: it is asked for another text.
    asked = pd.DataFrame({0: ROWS[:, 0], 1: [-1, 99, "nan", 0, 2, 4]})
    return model, model.predict(asked)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "sklearn", "catboost", "treelite"])
def test_minus_one_in_an_array_means_what_it_means_to_the_source(name: str) -> None:
    model, expected = minus_one(name)
    got = bitvec.compile(bitvec.convert(model)).raw(ROWS)[:, 0]
    np.testing.assert_array_equal(got, expected.astype(got.dtype))
    code, other, missing = expected[:3]
    if name == "catboost":  # a category like others
        assert code != other == missing
    elif name in ("treelite", "xgboost"):  # in no list, no set
        assert code == other
    else:
        assert code == missing


def test_minus_one_is_missing_to_ydf_and_no_code_to_the_forest() -> None:
    library = pytest.importorskip("ydf")
    library.verbose(0)
    X, y = coded(0)
    codes = np.nan_to_num(X[:, 1], nan=-1).astype(np.int32)
    kinds = {"semantic": library.Semantic.CATEGORICAL, "is_already_integerized": True}
    model = library.GradientBoostedTreesLearner(
        label="y",
        task=library.Task.REGRESSION,
        num_trees=3,
        validation_ratio=0.0,
        features=[library.Feature("x"), library.Feature("c", **kinds)],
    ).train({"x": X[:, 0], "c": codes, "y": y})
    predictor = bitvec.compile(bitvec.convert(model))
    got = predictor.raw(ROWS)[:, 0]
    # 0 stands for all that is no code; YDF does not check codes beyond those that it knows.
    asked = np.array([0, 0, -1, 0, 2, 4], np.int32)
    expected = model.predict({"x": ROWS[:, 0], "c": asked})
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("make", [xgboost, lightgbm, catboost, sklearn, ydf])
def test_columns_of_another_name_or_code_book_fail(make: Any, tmp_path: Any) -> None:
    """A frame is read by names and code books, which arrays of numbers show nothing of."""
    model = make()
    right = bitvec.convert(model)
    inputs = right.inputs
    assert inputs.feature_names is not None
    changes = {
        "names exchanged": {"feature_names": inputs.feature_names[::-1]},
        "another name": {"feature_names": ("foo", *inputs.feature_names[1:])},
    }
    books = inputs.categories or ()
    for column in [column for column, book in enumerate(books) if book and len(book) > 1]:
        for what, book in {
            "one category less": books[column][:-1],
            "two exchanged": books[column][1::-1] + books[column][2:],
        }.items():
            other = (*books[:column], book, *books[column + 1 :])
            changes[f"{what} in column {column}"] = {"categories": other}
    for what, change in changes.items():
        wrong = replace(right, inputs=replace(inputs, refuses_unseen=False, **change))
        certificate = bitvec.certify(wrong, model, progress=False)
        assert not certificate.passed, what
        word = "name" if "feature_names" in change else "categories"
        assert any(f"'s {word}" in str(d) for d in certificate.differences), what
        assert load(certificate.save(tmp_path / "a.json")) == certificate
    lenient = replace(right, inputs=replace(inputs, refuses_unseen=False))
    assert bitvec.certify(lenient, model, progress=False).passed
