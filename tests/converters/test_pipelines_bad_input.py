"""Pipelines and rows that are refused: by the step's name and place, or in one clear sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

for library in ("lightgbm", "pandas", "scipy", "sklearn"):
    pytest.importorskip(library)

from scipy import sparse  # noqa: E402
from sklearn import config_context  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.ensemble import RandomForestClassifier, VotingClassifier  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV  # noqa: E402
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

import bitvec  # noqa: E402
from bitvec.converters.pipelines.oracle import oracle_of  # noqa: E402
from bitvec.errors import InputError, UnsupportedModelError  # noqa: E402
from tests.models.pipelines import OF_FRAMES, frame, numbers  # noqa: E402

X, Y = numbers("float64")


class Own(StandardScaler):
    pass


class OwnPipeline(Pipeline):
    pass


def piped(*steps: Any) -> Pipeline:
    return make_pipeline(*steps, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(X, Y)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((MinMaxScaler(), SplineTransformer()), r"'splinetransformer'.*not monotone"),
        ((Normalizer(),), r"'normalizer'.*mixes columns"),
        ((FunctionTransformer(np.log1p),), r"'functiontransformer'.*such as a SimpleImputer"),
        ((FunctionTransformer(validate=True),), "validate=False"),
        ((Own(),), r"'own'.*subclass of StandardScaler"),
        (
            (FeatureUnion([("a", MinMaxScaler()), ("b", make_pipeline(PCA(2)))]),),
            "'featureunion > b > pca'",
        ),
        (
            (ColumnTransformer([("kept", "passthrough", [0]), ("own", Own(), [1])]),),
            "'columntransformer > own'",
        ),
        ((OneHotEncoder(dtype=np.int8, handle_unknown="ignore"),), r"'onehotencoder'.*int8"),
    ],
)
def test_a_step_is_refused_by_its_name_and_place(steps: tuple[Any, ...], words: str) -> None:
    model = piped(*steps)
    for refused in (bitvec.convert, oracle_of):
        with pytest.raises(UnsupportedModelError, match=words):
            refused(model)


def test_what_is_no_plain_pipeline_of_fitted_steps_and_trees_is_refused() -> None:
    tree = DecisionTreeClassifier(max_depth=2)
    fitted = piped(MinMaxScaler())
    broken = Pipeline([("scale", StandardScaler()), ("tree", fitted[-1])])
    for model, words in (
        (make_pipeline(StandardScaler(), tree), "call fit first"),
        (broken, r"'scale' \(StandardScaler\).*not fitted"),
        (OwnPipeline(fitted.steps), "subclass"),
        (FeatureUnion([("a", MinMaxScaler())]), "own Pipeline"),
        (make_pipeline(MinMaxScaler(), LogisticRegression()).fit(X, Y), "must be one of"),
        (make_pipeline(tree, "passthrough"), "must be the last step"),
        (make_pipeline(RandomForestClassifier(2), MinMaxScaler()), "must be one of"),
        (GridSearchCV(fitted, {}), "call fit first"),
        (FixedThresholdClassifier(fitted).fit(X, Y > 0), "convert the classifier"),
        (VotingClassifier([("a", fitted)]).fit(X, Y), "hard voting counts labels"),
    ):
        with pytest.raises(UnsupportedModelError, match=words):
            bitvec.convert(model)


def test_a_damaged_step_is_refused() -> None:
    for attribute, value in (
        ("scale_", np.array([1.0, 0.0, 1.0, 1.0])),
        ("scale_", np.array([1.0, -1.0, 1.0, 1.0])),
        ("scale_", np.ones(3)),
        ("mean_", np.array([1.0, np.inf, 1.0, 1.0])),
        ("mean_", "text"),
        ("n_features_in_", 3),
    ):
        model = piped(StandardScaler())
        setattr(model[0], attribute, value)
        with pytest.raises(UnsupportedModelError, match="'standardscaler'"):
            bitvec.convert(model)
    model = piped(FeatureUnion([("part", MinMaxScaler())], transformer_weights={"part": 2.0}))
    for weight, dtype in ((np.inf, "float64"), (1e300, "float32"), (1e-300, "float32")):
        model[0].set_params(transformer_weights={"part": weight})
        with pytest.raises(UnsupportedModelError, match=r"'featureunion > part'.*finite"):
            bitvec.convert(model, dtypes=dtype)


def test_rows_of_another_dtype_are_refused() -> None:
    model = piped(StandardScaler())
    double, single = bitvec.convert(model), bitvec.convert(model, dtypes=np.float32)
    assert bitvec.compile(double).predict(X.tolist()).tolist() == model.predict(X).tolist()
    assert bitvec.compile(double).predict(X[:1]).tolist() == model.predict(X[:1]).tolist()
    whole = np.round(X).astype(np.int64)
    assert bitvec.compile(double).predict(whole).tolist() == model.predict(whole).tolist()
    for rows in (X.astype(np.float32), X[:1].astype(np.float32), X.astype(np.float16)):
        with pytest.raises(InputError, match="must have dtype float64"):
            bitvec.compile(double).predict(rows)
    for rows in (X, X[:1], X.tolist(), whole):
        with pytest.raises(InputError, match="must have dtype float32"):
            bitvec.compile(single).predict(rows)
    with pytest.raises(InputError, match="must be dense"):
        bitvec.compile(double).predict(sparse.csr_matrix(X))
    with pytest.raises(InputError, match="plain array"):
        bitvec.compile(double).predict(np.ma.masked_array(X))
    with pytest.raises(InputError, match=r"at most 2\*\*53"):
        bitvec.compile(double).predict(np.full((1, 4), 2**60))


def test_dtypes_are_of_pipelines_and_one_float_dtype() -> None:
    model = piped(StandardScaler())
    named = bitvec.convert(model, dtypes={"a": "float32", "b": "object", "c": "category"})
    assert named.dtype == np.float32
    for dtypes, words in (
        ({"a": "float32", "b": "int64"}, "got both"),
        ("float16", "must be float64, float32"),
        ("datetime64[ns]", "must be float64, float32"),
    ):
        with pytest.raises(InputError, match=words):
            bitvec.convert(model, dtypes=dtypes)
    with pytest.raises(InputError, match="must be left out"):
        bitvec.convert(model[-1], dtypes="float32")


def test_texts_and_numbers_are_not_taken_for_each_other() -> None:
    table, y = frame()
    model = make_pipeline(OF_FRAMES["one-hot, infrequent"](), DecisionTreeClassifier()).fit(
        table, y
    )
    predictor = bitvec.compile(bitvec.convert(model))
    for column, value, words in (
        ("sex", 1, "must hold texts"),
        ("fare", "much", "must hold real numbers"),
        ("city", None, "NaN"),
    ):
        changed = table.astype({column: object})
        changed.loc[3, column] = value
        with pytest.raises(InputError, match=words):
            predictor.predict(changed)


def test_a_text_column_in_a_scaler_is_refused() -> None:
    table, y = frame(missing=False)
    both = FeatureUnion(
        [
            ("places", ColumnTransformer([("places", OrdinalEncoder(), ["sex"])])),
            ("numbers", ColumnTransformer([("scaled", MinMaxScaler(), ["age"])])),
        ]
    )
    model = make_pipeline(both, DecisionTreeClassifier()).fit(table, y)
    wrong = model[0].transformer_list[1][1]
    wrong._transformer_to_input_indices["scaled"] = [2]
    with pytest.raises(UnsupportedModelError, match="texts and is computed with"):
        bitvec.convert(model)


def test_a_search_is_what_it_chose_and_a_frozen_model_what_it_holds() -> None:
    tree = DecisionTreeClassifier(random_state=0)
    inner = make_pipeline(StandardScaler(), tree)
    outer = make_pipeline(MinMaxScaler(), GridSearchCV(inner, {}, cv=2))
    search = GridSearchCV(outer, {}, cv=2).fit(X, Y)
    forest = bitvec.convert(FrozenEstimator(search))
    assert bitvec.compile(forest).predict(X).tolist() == search.predict(X).tolist()
    plain = GridSearchCV(tree, {"max_depth": [2, 3]}, cv=2).fit(X, Y)
    assert bitvec.certify(bitvec.convert(plain), plain, X, progress=False).grade == "proved"


def test_a_saved_forest_keeps_its_domains(tmp_path: Path) -> None:
    table, y = frame()
    model = make_pipeline(OF_FRAMES["one-hot, first dropped"](), DecisionTreeClassifier())
    forest = bitvec.convert(model.fit(table, y))
    path = tmp_path / "forest.safetensors"
    bitvec.save(forest, path)
    back = bitvec.load(path)
    assert back.inputs == forest.inputs
    table.loc[0, "sex"] = "x"
    with pytest.raises(InputError, match="known categories"):
        bitvec.compile(back).predict(table)


def test_a_frame_between_steps_keeps_dtypes_of_columns_and_is_refused():
    parts = [("codes", OrdinalEncoder(dtype=np.float32), [0]), ("kept", "passthrough", [1, 2])]
    cells = X.copy()
    cells[:, 0] = np.round(np.nan_to_num(cells[:, 0])) % 3
    trees = DecisionTreeClassifier(max_depth=2)
    straight = (
        make_pipeline(ColumnTransformer(parts), trees).set_output(transform="pandas").fit(cells, Y)
    )
    found = bitvec.compile(bitvec.convert(straight)).predict(cells)
    assert np.array_equal(found, straight.predict(cells))
    later = ColumnTransformer([("scaled", StandardScaler(), [0])], remainder="passthrough")
    model = make_pipeline(ColumnTransformer(parts), later, trees).fit(cells, Y)
    bitvec.convert(model)
    of_frames = pytest.raises(UnsupportedModelError, match="frame of pandas whose columns")
    with config_context(transform_output="pandas"), of_frames:
        bitvec.convert(model)
    with pytest.raises(UnsupportedModelError, match="frame of pandas whose columns"):
        bitvec.convert(model.set_output(transform="pandas"))


def test_columns_that_are_only_chosen_leave_others_unread():
    rows = frame()[0].copy()
    rows["text"] = "unread"
    column = next(name for name in rows if rows[name].dtype.kind == "f")
    kept = ColumnTransformer([("kept", "passthrough", [column])])
    y = (np.nan_to_num(rows[column]) > 0).astype(int)
    model = make_pipeline(kept, DecisionTreeClassifier(max_depth=2)).fit(rows, y)
    predictor = bitvec.compile(bitvec.convert(model))
    assert np.array_equal(predictor.predict(rows), model.predict(rows))
    assert np.array_equal(predictor.predict(rows[[column]]), model.predict(rows))
