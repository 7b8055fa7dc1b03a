"""A pipeline's own answers to raw rows: its steps transform them, its last model is asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters import dispatch
from bitvec.converters.pipelines.read import (
    below_zero,
    chosen,
    convert,
    is_pipeline,
    parts_of,
    tells_zeros,
)
from bitvec.converters.sklearn.skops import load
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import ZERO_THRESHOLD
from bitvec.errors import UnsupportedModelError, needs
from bitvec.verify.oracle import FrameAnswers, Oracle, require_columns

Answer = Callable[[Array], Array]

NOTE = (
    "raw scores and leaf ids are those of the last model on what the steps made of the raw rows, "
    "predictions those of the whole pipeline"
)
HUGE = (
    "xgboost's wrapper takes what overflows float32, its DMatrix does not: raw scores and leaf ids "
    "are those of the largest float32 instead"
)
UNKNOWN = "no text that the steps know"


def oracle_of(model: Any, *, forest: Forest | None = None) -> Oracle:
    """Return a pipeline as the other side of a comparison.

    Parameters
    ----------
    model : Pipeline, or path of a .skops file of one
    forest : Forest, optional
        Converted from it, whose dtype says what the pipeline is handed; float64 if not given.

    Raises
    ------
    UnsupportedModelError
        As `convert`.
    """
    with needs("scikit-learn", "sklearn", "Asking a pipeline"):
        import sklearn
    if isinstance(model, str | PathLike):
        model = load(Path(model), convert)
    if not is_pipeline(chosen(model)):
        return dispatch.oracle_of(chosen(model))
    if forest is None:
        forest = dispatch.convert_forest(model, allow_rounding=True)
    parts = parts_of(model)
    last = dispatch.oracle_of(parts.last)
    steps = [step.model for step in parts.steps if not isinstance(step.model, str | None)]
    trees = dispatch.convert_forest(parts.last)
    absent = np.nan if trees.inputs.absent_is_missing else 0.0
    told = tells_zeros(trees)
    inputs = forest.inputs

    def derived(raw: Any) -> Array:
        with _quiet():
            for step in steps:
                raw = step.transform(raw)
        rows = _dense(raw, absent)
        if told.any() and hasattr(raw, "tocsr"):  # the rows were sparse, and are dense now
            rows[told & (rows == -ZERO_THRESHOLD)] = below_zero(rows.dtype)
        if last.name != "xgboost":
            return rows
        most = float(np.finfo(np.float32).max)
        return np.clip(rows.astype(np.float64), -most, most)

    def of_columns(answer: Answer) -> Answer:
        def asked(X: Array) -> Array:
            require_columns(X, inputs.n_features)
            return answer(derived(raw_rows(X, inputs)))

        return asked

    def whole(answer: Callable[[Any], Any]) -> Answer:
        def asked(X: Array) -> Array:
            require_columns(X, inputs.n_features)
            with _quiet():
                return np.asarray(answer(raw_rows(X, inputs)))

        return asked

    is_classifier = forest.output.is_classifier
    single = len(forest.output.groups) == 1
    is_one = single if is_classifier else forest.n_outputs == 1
    predict = whole(lambda raw: np.reshape(model.predict(raw), len(raw))) if is_one else None
    accepts_missing, accepts_infinite = last.accepts_missing, last.accepts_infinite
    # Of "any", columns were only chosen, and the model's own rules hold.
    if inputs.domains is not None and all(domain.dtype != "any" for domain in inputs.domains):
        accepts_missing = any(domain.missing for domain in inputs.domains)
        accepts_infinite = any(np.isinf(domain.intervals).any() for domain in inputs.domains)
    scores = None
    if is_classifier and single and hasattr(model, "predict_proba"):
        width = forest.n_outputs
        scores = whole(lambda raw: np.asarray(model.predict_proba(raw))[:, -width:])

    def framed(answer: Answer) -> Callable[[Any], Array]:
        return lambda frame: answer(derived(frame))

    return replace(
        last,
        raw=of_columns(last.raw),
        leaf_ids=None if last.leaf_ids is None else of_columns(last.leaf_ids),
        accepts_missing=accepts_missing,
        accepts_infinite=accepts_infinite,
        predict=predict or (of_columns(last.predict) if last.predict else None),
        scores=scores or (of_columns(last.scores) if last.scores else None),
        trees=None,
        copied_leaves=True,
        rounds_columns=forest.feature_map is not None,
        n_features=inputs.n_features,
        n_trees=forest.n_trees,
        of_frame=FrameAnswers(
            raw=framed(last.raw),
            labels=model.predict if is_classifier and single else None,
        ),
        notes=(
            *last.notes,
            *((HUGE,) if last.name == "xgboost" else ()),
            *_rounding(forest),
            f"scikit-learn {sklearn.__version__}: {NOTE}",
        ),
    )


def _rounding(forest: Forest) -> tuple[str, ...]:
    """Return for which libraries a forest is exact, where it was made of their own last bits."""
    metadata = {} if forest.source is None else forest.source.metadata
    if "dispatch" not in metadata:
        return ()
    return (
        f"its thresholds are exact for NumPy {metadata['numpy']} and scipy {metadata['scipy']} on "
        f"a processor with {', '.join(metadata['dispatch'])}, whose last bits they follow",
    )


def raw_rows(X: Array, inputs: Inputs) -> Any:
    """Return rows of a forest as its pipeline is handed them: texts instead of their codes.

    A frame where the columns have names, else an array, of objects where it holds texts.
    """
    domains = inputs.domains
    if domains is None and inputs.feature_names is None:
        return X
    columns = []
    for at in range(inputs.n_features):
        values, book = X[:, at], inputs.book(at)
        if domains is not None and domains[at].dtype == "text" and book is not None:
            columns.append(_texts(values, book, domains[at].null))
        else:
            columns.append(values)
    if inputs.feature_names is None:
        if all(values.dtype != object for values in columns):
            return X
        table = np.empty(X.shape, object)
        for at, values in enumerate(columns):
            table[:, at] = values
        return table
    with needs("pandas", "sklearn", "Asking a pipeline of named columns"):
        import pandas as pd
    held = {
        name: pd.Series(values, dtype=values.dtype)
        for name, values in zip(inputs.feature_names, columns, strict=True)
    }
    return pd.DataFrame(held, columns=list(inputs.feature_names))


def _texts(codes: Array, book: tuple[Any, ...], null: str) -> Array:
    unseen = UNKNOWN
    while unseen in book:
        unseen += "?"
    missing = None if null == "none" else np.nan
    table = np.array([*book, unseen, missing], dtype=object)
    known = np.isin(codes, np.arange(len(book)))
    place = np.where(known, codes, np.where(np.isnan(codes), len(book) + 1, len(book)))
    result: Array = table[place.astype(np.intp)]
    return result


def _dense(rows: Any, absent: float) -> Array:
    """Return what the steps made as the last model reads it: of a sparse matrix what is absent."""
    if not hasattr(rows, "tocsr"):
        result = np.asarray(rows)
        return result.astype(np.float64) if result.dtype == object else result
    rows = rows.tocsr()
    dense = np.full(rows.shape, absent, rows.dtype)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    dense[row, rows.indices] = rows.data
    return dense


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (does not have|has) .*feature names")
        warnings.filterwarnings("ignore", message="Found unknown categories")
        try:
            yield
        except TypeError as error:  # of objects that are no texts, as scikit-learn compares them
            raise UnsupportedModelError(
                "a pipeline that is certified must take columns of one kind each, numbers or "
                f"texts, got a step that refuses them ({error}): fit its encoders on such columns."
            ) from error
