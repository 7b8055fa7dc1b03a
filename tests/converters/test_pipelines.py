"""Laws of pipelines: the folded forest answers raw rows as scikit-learn's own pipeline does.

Rows stand on every folded threshold and on both its neighbours, on every text, on one that is not
known and on what is missing; raw scores are equal bit for bit, and so are labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

for library in ("lightgbm", "pandas", "sklearn", "xgboost"):
    pytest.importorskip(library)

from sklearn.pipeline import make_pipeline  # noqa: E402

import bitvec  # noqa: E402
from bitvec.converters.pipelines import fold  # noqa: E402
from bitvec.converters.pipelines.oracle import oracle_of, raw_rows  # noqa: E402
from bitvec.core.forest import Forest  # noqa: E402
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
