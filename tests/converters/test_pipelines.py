"""Laws of pipelines: the folded forest answers raw rows as scikit-learn's own pipeline does.

Rows stand on every folded threshold and on both its neighbours, on every text, on one that is not
known and on what is missing; raw scores are equal bit for bit, and so are labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

for library in ("lightgbm", "pandas", "sklearn", "xgboost"):
    pytest.importorskip(library)

import lightgbm  # noqa: E402
import pandas  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import GradientBoostingRegressor  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

import bitvec  # noqa: E402
from bitvec.converters.pipelines import fold  # noqa: E402
from bitvec.converters.pipelines.oracle import oracle_of, raw_rows  # noqa: E402
from bitvec.core.forest import Forest  # noqa: E402
from bitvec.core.node_tests import ZERO_THRESHOLD  # noqa: E402
from bitvec.errors import InputError  # noqa: E402
from tests.models.pipelines import (  # noqa: E402
    OF_FLOAT64,
    OF_FRAMES,
    OF_NUMBERS,
    REFUSED,
    TAKES_NAN,
    TREES,
    N,
    fits,
    frame,
    numbers,
)

REFUSALS = r"Input X|Found unknown|missing values|infin|strictly positive"
FAST = ("forest", "xgboost", "lightgbm")


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
            with pytest.raises(
                Exception, match=r"Input X|Found unknown|missing values|infin|strictly positive"
            ):
                pipeline.predict(raw_rows(row, inputs))


def check_numbers(steps: str, trees: str, dtype: str) -> None:
    if steps in REFUSED:
        pytest.skip(f"this scikit-learn computes {steps} by a formula that is refused")
    dtype = "float64" if steps in OF_FLOAT64 else dtype
    X, y = numbers(dtype, missing=steps in TAKES_NAN)
    pipeline = make_pipeline(OF_NUMBERS[steps](), TREES[trees]()).fit(X, y)
    forest = bitvec.convert(pipeline, dtypes=dtype)
    assert forest.dtype == dtype
    assert_answers_alike(pipeline, forest, X)
    assert_refuses_alike(pipeline, forest, X)


def check_frame(steps: str, trees: str) -> None:
    # Forests take no missing values of a sparse matrix.
    X, y = frame(missing=(steps, trees) != ("sparse, scaled", "forest"))
    pipeline = make_pipeline(OF_FRAMES[steps](), TREES[trees]()).fit(X, y)
    forest = bitvec.convert(pipeline)
    assert_answers_alike(pipeline, forest, X)
    assert_refuses_alike(pipeline, forest, X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("at", "steps"), [*enumerate(OF_NUMBERS)])
def test_rows_at_folded_thresholds_are_answered_as_by_the_pipeline(at: int, steps: str) -> None:
    check_numbers(steps, FAST[at % 3], ("float64", "float32")[at % 2])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("at", "steps"), [*enumerate(OF_FRAMES)])
def test_frames_are_answered_as_by_the_pipeline(at: int, steps: str) -> None:
    check_frame(steps, FAST[at % 3])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", ["standard", "imputed", "min-max, clipped", "places of bins"])
def test_moved_thresholds_are_the_nodes_of_folded_sets(
    steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = numbers("float64", missing=steps in TAKES_NAN)
    for trees in ("forest", "xgboost"):  # which compare by > and by >=
        pipeline = make_pipeline(OF_NUMBERS[steps](), TREES[trees]()).fit(X, y)
        fast = bitvec.convert(pipeline)
        with monkeypatch.context() as patch:
            patch.setattr(fold, "moved", lambda *_: None)
            slow = bitvec.convert(pipeline)
        rows = rows_at_thresholds(slow, X)
        compiled = [bitvec.compile(f, engine="reference").exit_leaves(rows) for f in (fast, slow)]
        np.testing.assert_array_equal(*compiled)
        assert (fast.tests.kind == slow.tests.kind).mean() > 0.5
        same = fast.tests.kind == slow.tests.kind
        np.testing.assert_array_equal(fast.tests.b[same], slow.tests.b[same])


EVERY = [(steps, trees) for trees in TREES for steps in OF_NUMBERS if fits(steps, trees)]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("steps", "trees"), EVERY)
def test_every_step_before_every_library(steps: str, dtype: str, trees: str) -> None:
    check_numbers(steps, trees, dtype)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("steps", "trees"),
    [(steps, trees) for trees in TREES for steps in OF_FRAMES if fits(steps, trees)],
)
def test_every_encoder_before_every_library(steps: str, trees: str) -> None:
    check_frame(steps, trees)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_row_is_answered_and_refused_as_many_are(dtype: str) -> None:
    X, y = numbers(dtype)
    pipeline = make_pipeline(OF_NUMBERS["min-max"](), TREES["boosting"]()).fit(X, y)
    predictor = bitvec.compile(bitvec.convert(pipeline, dtypes=dtype))
    expected = predictor.predict_proba(X)
    for at in range(0, N, 20):
        np.testing.assert_array_equal(predictor.predict_proba(X[at : at + 1])[0], expected[at])
    other = "float32" if dtype == "float64" else "float64"
    for row in (
        X[:1].astype(other),
        np.full((1, 4), np.nan, dtype),
        np.full((1, 4), np.inf, dtype),
    ):
        for verb in ("predict", "predict_proba", "raw"):
            with pytest.raises(InputError):
                getattr(predictor, verb)(row)


def _dropping() -> tuple[Any, Any]:
    """A pipeline that drops a column of texts and one of times, and its rows."""
    table, y = frame()
    table = table[[name for name in table if table[name].dtype.kind == "f"][:2]].copy()
    table.insert(1, "note", [f"row {at}" for at in range(len(table))])
    table["day"] = np.datetime64("2020-01-01") + np.arange(len(table))
    kept = [at for at, name in enumerate(table) if name not in ("note", "day")]
    steps = make_column_transformer((StandardScaler(), kept))
    return make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(table, y), table


def test_columns_that_a_pipeline_drops_hold_anything_and_need_not_be_there(tmp_path: Path) -> None:
    pipeline, table = _dropping()
    bitvec.save(bitvec.convert(pipeline), path := tmp_path / "forest.safetensors")
    expected, forest = pipeline.predict(table), bitvec.load(path)
    predictor = bitvec.compile(forest)
    without = table.drop(columns=["note", "day"])
    mixed = pandas.DataFrame({name: table[name] for name in reversed([*table])})
    for rows in (table, table[:3], without, without[:3], mixed, table.astype(object)):
        assert np.array_equal(predictor.predict(rows), expected[: len(rows)])
    for rows in (table.drop(columns="day").to_numpy(object), table.to_numpy(object)[:3, :3]):
        padded = np.column_stack([rows, np.full(len(rows), "any")])
        assert np.array_equal(predictor.predict(padded), expected[: len(rows)])
    for library in ("polars", "pyarrow"):
        made = pytest.importorskip(library)
        held = made.from_pandas(table) if library == "polars" else made.Table.from_pandas(table)
        assert np.array_equal(predictor.predict(held), expected)
    assert bitvec.certify(forest, pipeline, table, progress=False).passed
    with pytest.raises(InputError, match="none named"):
        predictor.predict(table.drop(columns=without.columns[0]))


@pytest.mark.parametrize("options", [{"version": 3}, {"input_dtype": "float32"}, {}])
def test_files_of_a_folded_pipeline_are_certified_in_the_dtype_that_they_read(
    options: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    X, y = numbers("float64")
    model = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=3))
    forest = bitvec.convert(model.fit(np.nan_to_num(X), y))
    path = bitvec.export(forest, tmp_path / "forest.onnx", **options)
    assert bitvec.certify(forest, path, progress=False, allow_values_only=True).passed
    if not options:
        path = bitvec.export(forest, tmp_path / "forest.skops")
        assert bitvec.certify(forest, path, progress=False).grade == "proved"


@pytest.mark.parametrize("zeros", [False, True])
def test_lightgbm_behind_a_sparse_matrix_reads_what_it_takes_for_zero_in_dense_rows(
    zeros: bool,
) -> None:
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((400, 2)) < 0.5, 0.0, rng.normal(size=(400, 2)))
    rows[:, 1] = rng.integers(0, 6, 400)
    y = (rows[:, 0] < 0) ^ (rows[:, 1] == 1)
    steps = make_column_transformer(
        (OneHotEncoder(), [1]), ("passthrough", [0]), sparse_threshold=1.0
    )
    trees = lightgbm.LGBMClassifier(
        n_estimators=5, min_child_samples=4, verbose=-1, n_jobs=1, zero_as_missing=zeros
    )
    model = make_pipeline(steps, trees).fit(rows, y)
    forest = bitvec.convert(model)
    certificate = bitvec.certify(forest, model, rows, progress=False)
    assert certificate.passed, str(certificate)
    for value in (ZERO_THRESHOLD, 1e-36, 0.0):
        for near in (value, -value):
            rows[:, 0] = near
            found = bitvec.compile(forest).predict_proba(rows)
            assert np.array_equal(found, model.predict_proba(rows)), near
