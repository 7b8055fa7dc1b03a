"""Laws of pipelines: the folded forest answers raw rows as scikit-learn's own pipeline does.

Rows stand on every folded threshold and on both its neighbours, on every text, on one that is not
known and on what is missing; raw scores are equal bit for bit, and so are labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")
lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

from sklearn.compose import ColumnTransformer, make_column_transformer  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold  # noqa: E402
from sklearn.impute import MissingIndicator, SimpleImputer  # noqa: E402
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    Binarizer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import bitvec  # noqa: E402
from bitvec.converters.pipelines.oracle import oracle_of, raw_rows  # noqa: E402
from bitvec.core.forest import Forest  # noqa: E402
from bitvec.errors import InputError  # noqa: E402

N = 160
NUMBERS, TEXTS = ["age", "fare"], ["sex", "city", "klass"]
TREES: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(3, max_depth=5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=4),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=3, max_depth=4, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(
        n_estimators=3, min_child_samples=4, verbose=-1, n_jobs=1
    ),
}
OF_NUMBERS: dict[str, Callable[[], Any]] = {
    "standard": StandardScaler,
    "standard, no mean": lambda: StandardScaler(with_mean=False),
    "standard, no deviation": lambda: StandardScaler(with_std=False),
    "min-max": MinMaxScaler,
    "min-max, clipped": lambda: MinMaxScaler((-2, 3), clip=True),
    "max-abs": MaxAbsScaler,
    "robust": RobustScaler,
    "three deep": lambda: make_pipeline(MinMaxScaler(), make_pipeline(RobustScaler(), Binarizer())),
    "imputed": lambda: make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
    "imputed by a number": lambda: SimpleImputer(strategy="constant", fill_value=-7.25),
    "a number is missing": lambda: SimpleImputer(missing_values=0.0, strategy="median"),
    "indicated": lambda: make_union(
        make_pipeline(SimpleImputer(strategy="most_frequent"), MinMaxScaler()),
        MissingIndicator(features="all"),
    ),
    "chosen": lambda: make_pipeline(RobustScaler(), VarianceThreshold(), SelectKBest(k=2)),
    "binarized": lambda: Binarizer(threshold=0.3),
    "places of bins": lambda: KBinsDiscretizer(4, encode="ordinal"),
    "bins": lambda: KBinsDiscretizer(4, encode="onehot-dense"),
    "bins, sparse": lambda: KBinsDiscretizer(3),
    "weighted union": lambda: FeatureUnion(
        [("a", StandardScaler()), ("b", MaxAbsScaler()), ("c", "passthrough"), ("d", "drop")],
        transformer_weights={"a": 0.3},
    ),
}
TAKES_NAN = ("standard", "min-max", "max-abs", "robust", "imputed", "indicated")


def _one_hot(**options: Any) -> Callable[[], Any]:
    return lambda: ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
            ("texts", OneHotEncoder(**options), TEXTS),
        ]
    )


OF_FRAMES: dict[str, Callable[[], Any]] = {
    "one-hot, sparse": _one_hot(handle_unknown="ignore"),
    "one-hot, dense": _one_hot(handle_unknown="ignore", sparse_output=False),
    "one-hot, first dropped": _one_hot(drop="first"),
    "one-hot, binary dropped": _one_hot(drop="if_binary", handle_unknown="ignore"),
    "one-hot, infrequent": _one_hot(handle_unknown="infrequent_if_exist", min_frequency=12),
    "one-hot, few": _one_hot(handle_unknown="ignore", max_categories=3),
    "sparse, scaled": lambda: make_pipeline(
        ColumnTransformer(
            [("texts", OneHotEncoder(handle_unknown="ignore"), [*TEXTS, "rating"])],
            remainder=MinMaxScaler(),
        ),
        MaxAbsScaler(),
    ),
    "places": lambda: ColumnTransformer(
        [("texts", OrdinalEncoder(), [*TEXTS, "rating"])], remainder="passthrough"
    ),
    "places, unknown": lambda: ColumnTransformer(
        [
            (
                "texts",
                OrdinalEncoder(
                    handle_unknown="use_encoded_value",
                    unknown_value=-1,
                    encoded_missing_value=-2,
                    min_frequency=12,
                ),
                [*TEXTS, "rating"],
            ),
            ("fare", "passthrough", ["fare"]),
        ]
    ),
    "imputed texts": lambda: make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["sex", "city"]),
        (SimpleImputer(strategy="constant", fill_value=-1), ["fare"]),
    ),
    "imputed by a text": lambda: make_column_transformer(
        (
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="none", add_indicator=True),
                OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            ),
            ["sex", "city"],
        ),
        (MinMaxScaler(clip=True), slice(0, 2)),
    ),
}


def numbers(dtype: str, *, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) * [1, 10, 1000, 1e-3] + [0, 3, -50, 7]
    y = (X[:, 0] + X[:, 1] / 10 > 0.1).astype(int) + (X[:, 3] > 7)
    X[::9, 1] = 0.0
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(dtype), y


def frame(*, missing: bool = True) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(1)
    city = rng.choice(["rome", "oslo", "paris", "lima", "bonn"], N, p=[0.5, 0.3, 0.1, 0.05, 0.05])
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "fare": rng.gamma(2, 20, N),
            "sex": rng.choice(["m", "f"], N),
            "city": city.astype(object),
            "klass": rng.choice([1, 2, 3], N),
            "rating": rng.choice([-1.5, -0.5, 0.25, 1.75], N),
        }
    )
    if missing:
        table.loc[rng.random(N) < 0.1, "fare"] = np.nan
        table.loc[rng.random(N) < 0.15, "city"] = np.nan
    y = ((table.sex == "f") ^ (table.age > 50) ^ (table.klass == 2) ^ (city == "lima")).astype(int)
    return table, y.to_numpy()


def rows_at_thresholds(forest: Forest, X: Any) -> np.ndarray:
    """Return rows of the forest: each threshold, its neighbours, each code, NaN; none refused."""
    rng, tests, inputs = np.random.default_rng(2), forest.tests, forest.inputs
    base = bitvec.compile(forest).rows(X)
    rows = [base]
    for column in range(forest.n_features):
        b = tests.b[(tests.feature == column) & np.isfinite(tests.b)]
        to = [np.nextafter(b, b.dtype.type(end)) for end in (-np.inf, np.inf)]
        known = np.arange(len(inputs.book(column) or ()))
        values = np.unique(np.concatenate([b, *to, known, [-1, 0, 1, np.inf, -np.inf, np.nan]]))
        part = base[rng.integers(len(base), size=3 * len(values))]
        part[:, column] = np.tile(values, 3)
        rows.append(part)
    every = np.concatenate(rows).astype(forest.dtype)
    return every[inputs.takes(every)]


def assert_answers_alike(pipeline: Any, forest: Forest, X: Any) -> None:
    rows, predictor = rows_at_thresholds(forest, X), bitvec.compile(forest, engine="reference")
    oracle = oracle_of(pipeline, forest=forest)
    finite = rows[np.isfinite(rows).any(axis=1)]
    assert len(finite) > N
    np.testing.assert_array_equal(predictor.raw(rows), oracle.raw(rows))
    raw = raw_rows(rows, forest.inputs)
    np.testing.assert_array_equal(predictor.predict(rows), pipeline.predict(raw))
    np.testing.assert_array_equal(predictor.predict(raw), pipeline.predict(raw))
    if hasattr(pipeline, "predict_proba"):
        expected = pipeline.predict_proba(raw)
        np.testing.assert_allclose(predictor.predict_proba(raw), expected, rtol=1e-6)


def assert_refuses_alike(pipeline: Any, forest: Forest, X: Any) -> None:
    """A value just outside a column's domain is refused by both."""
    predictor, inputs = bitvec.compile(forest, engine="reference"), forest.inputs
    good = predictor.rows(X)
    good = good[inputs.takes(good)][:1]
    for column, domain in enumerate(inputs.domains or ()):
        ends = np.array([end for pair in domain.intervals for end in pair], forest.dtype)
        outside = [np.nextafter(ends, ends.dtype.type(to)) for to in (-np.inf, np.inf)]
        values = np.concatenate([*outside, [-1, np.nan]]).astype(forest.dtype)
        for value in values[~domain.holds(values)]:
            row = good.copy()
            row[0, column] = value
            with pytest.raises(InputError):
                predictor.predict(row)
            with pytest.raises(Exception, match=r"Input X|Found unknown|missing values|infin"):
                pipeline.predict(raw_rows(row, inputs))


def check_numbers(steps: str, trees: str, dtype: str) -> None:
    if steps == "bins, sparse" and trees == "histogram":
        pytest.skip("histogram boosting takes no sparse matrix")
    takes_nan = steps in TAKES_NAN and (trees != "boosting" or steps in ("imputed", "indicated"))
    X, y = numbers(dtype, missing=takes_nan)
    pipeline = make_pipeline(OF_NUMBERS[steps](), TREES[trees]()).fit(X, y)
    forest = bitvec.convert(pipeline, dtypes=dtype)
    assert forest.dtype == dtype
    assert_answers_alike(pipeline, forest, X)
    assert_refuses_alike(pipeline, forest, X)


def check_frame(steps: str, trees: str) -> None:
    X, y = frame(missing=steps != "places" or trees != "boosting")
    if trees == "boosting" and steps in ("places, unknown", "imputed by a text", "sparse, scaled"):
        pytest.skip("gradient boosting takes no missing values")
    if trees == "histogram" and steps in ("sparse, scaled", "imputed texts"):
        pytest.skip("histogram boosting takes no sparse matrix")
    pipeline = make_pipeline(OF_FRAMES[steps](), TREES[trees]()).fit(X, y)
    forest = bitvec.convert(pipeline)
    assert_answers_alike(pipeline, forest, X)
    assert_refuses_alike(pipeline, forest, X)


FAST = ("forest", "xgboost", "lightgbm")
SAMPLE = [*zip(OF_NUMBERS, ["float64", "float32"] * len(OF_NUMBERS), strict=False)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("steps", "dtype"), SAMPLE)
def test_rows_at_folded_thresholds_are_answered_as_by_the_pipeline(steps: str, dtype: str) -> None:
    check_numbers(steps, FAST[[*OF_NUMBERS].index(steps) % 3], dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", OF_FRAMES)
def test_frames_are_answered_as_by_the_pipeline(steps: str) -> None:
    check_frame(steps, FAST[[*OF_FRAMES].index(steps) % 3])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trees", TREES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("steps", OF_NUMBERS)
def test_every_step_before_every_library(steps: str, dtype: str, trees: str) -> None:
    check_numbers(steps, trees, dtype)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trees", TREES)
@pytest.mark.parametrize("steps", OF_FRAMES)
def test_every_encoder_before_every_library(steps: str, trees: str) -> None:
    check_frame(steps, trees)
