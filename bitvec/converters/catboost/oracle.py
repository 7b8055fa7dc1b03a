"""CatBoost's own answers, through its public prediction functions."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

import numpy as np

from bitvec.converters.catboost.categories import Column
from bitvec.converters.catboost.model_json import Document
from bitvec.converters.catboost.open import library, opened_here
from bitvec.converters.catboost.read import Converted, convert_opened, spread
from bitvec.converters.catboost.walker import source_trees
from bitvec.converters.naming import naming
from bitvec.core.arrays import Array
from bitvec.core.city_hash import category_hash, text_with_hash
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.errors import UnsupportedModelError
from bitvec.verify.oracle import FrameAnswers, LeafValues, Oracle, require_columns


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model of the library, which is given the texts of categories again."""

    catboost: Any
    model: Any
    forest: Forest
    texts: dict[int, dict[float, str]]
    unseen: dict[int, str]
    categorical: tuple[int, ...]

    def rows(self, X: Array) -> Any:
        require_columns(X, self.forest.n_features)
        if self.forest.inputs.category_hashes:
            return self._of_hashes(np.asarray(X, np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.ascontiguousarray(X, np.float32)
        if not self.categorical:
            return X
        table = X.astype(object)
        for column in self.categorical:
            value, at = np.unique(X[:, column], return_inverse=True)
            known, other = self.texts.get(column, {}), self.unseen[column]
            words = np.array([known.get(float(x), other) for x in value], object)
            table[:, column] = words[at.reshape(-1)]
        return table

    def _of_hashes(self, X: Array) -> Array:
        """Return rows with a text of each hash; of another number, one that no test knows."""
        table = X.astype(object)
        for column in self.categorical:
            value, at = np.unique(X[:, column], return_inverse=True)
            is_hash = (value >= -(2.0**31)) & (value < 2.0**31) & (value == np.floor(value))
            words = [
                text_with_hash(int(x)) if known else self.unseen[column]
                for x, known in zip(value.tolist(), is_hash.tolist(), strict=True)
            ]
            table[:, column] = np.array(words, object)[at.reshape(-1)]
        return table

    def ask(self, X: Array, kind: str) -> Array:
        rows = self.rows(X)
        predict = self.catboost.CatBoost.predict  # a ranker's own takes no `prediction_type`
        return np.asarray(predict(self.model, rows, prediction_type=kind, thread_count=1))

    def raw(self, X: Array) -> Array:
        n_outputs = self.forest.n_outputs
        if not len(X):
            return np.zeros((0, n_outputs))
        return self.ask(X, "RawFormulaVal").reshape(len(X), n_outputs)

    def of_frame(self) -> FrameAnswers:
        """Return answers to frames, which the library reads itself."""

        def ask(frame: Any, kind: str) -> Array:
            predict = self.catboost.CatBoost.predict
            answer = predict(self.model, _safe(frame), prediction_type=kind, thread_count=1)
            return np.asarray(answer)

        def labels(frame: Any) -> Array:
            classes = self.forest.output.classes or ()
            answer = ask(frame, "Class").reshape(len(frame), len(classes))
            return answer.astype(classes[0].dtype)

        ids = None if self.forest.source is None else self.forest.source.leaf_id
        return FrameAnswers(
            raw=lambda frame: ask(frame, "RawFormulaVal"),
            leaf_ids=None
            if ids is None
            else lambda frame: np.asarray(
                self.model.calc_leaf_indexes(_safe(frame), thread_count=1)
            ),
            labels=labels if self.forest.output.is_classifier else None,
        )

    def leaf_ids(self, X: Array) -> Array:
        if not len(X):
            return np.zeros((0, self.forest.n_trees), np.int64)
        found = self.model.calc_leaf_indexes(self.rows(X), thread_count=1)
        return np.asarray(found).reshape(len(X), self.forest.n_trees).astype(np.int64)

    def scores(self, X: Array) -> Array:
        n_outputs = self.forest.n_outputs
        if not len(X):
            return np.zeros((0, n_outputs))
        answer = self.ask(X, "Probability")
        # Of 2 classes CatBoost gives both probabilities.
        return answer.reshape(len(X), -1)[:, -n_outputs:]

    def values(self, X: Array) -> Array:
        if not len(X):
            return self.raw(X)
        return self.ask(X, "Exponent").reshape(len(X), self.forest.n_outputs)

    def labels(self, X: Array) -> Array:
        classes = self.forest.output.classes
        assert classes is not None
        if not len(X):
            return np.zeros(0, classes[0].dtype)
        answer = self.ask(X, "Class").reshape(len(X), len(classes))
        return (answer[:, 0] if len(classes) == 1 else answer).astype(classes[0].dtype)


def _safe(frame: Any) -> Any:
    """Return a frame that CatBoost survives: one of polars with a column of categories ends it."""
    if type(frame).__module__.startswith("polars") and any(
        type(kind).__name__ == "Categorical" for kind in frame.schema.values()
    ):
        raise ValueError("CatBoost crashes on categories of polars: they were not handed to it.")
    return frame


X86: Final = ("x86_64", "amd64", "i386", "i686")
"""Processors, by `platform.machine`, on which CatBoost takes its own exponential."""
MOST_ULPS: Final = 512
"""Ulps allowed of scores that CatBoost makes of other exponentials: raw scores of several hundred
have a large 1 + |x|."""


def is_x86() -> bool:
    """Return whether CatBoost takes its own exponential on this processor."""
    return platform.machine().lower() in X86


def oracle_of(model: Any, *, categories: Iterable[str | int] = ()) -> Oracle:
    """Return CatBoost's own answers to a model that `convert` accepts.

    Parameters
    ----------
    model, categories
        As for `convert`; categories must be the same, since codes are turned into texts again.

    Returns
    -------
    Oracle
        Raw scores through `predict(prediction_type="RawFormulaVal")` and leaf ids through
        `calc_leaf_indexes`, with one thread. The leaves and bias of a JSON file are set to the
        file's decimals after loading, which CatBoost's own reader does not read exactly.

    Raises
    ------
    MissingLibraryError
        If catboost is not installed.
    UnsupportedModelError
        If the model is a JSON file that CatBoost reads as another model.
    """
    catboost = library("Asking a CatBoost model")
    opened = opened_here(model)
    with naming(opened.name):
        converted = convert_opened(opened, categories)
    forest, columns = converted.forest, converted.columns
    notes = []
    fitted = opened.fitted
    if fitted is None:
        _require_whole_sums(opened.document)
        fitted = _loaded(catboost, model, converted)
        notes.append(
            "CatBoost reads the decimals of a JSON file to within 2 ulp: the leaves and bias that "
            "the file says were set after loading it."
        )
    asked = _Asked(
        catboost,
        fitted,
        forest,
        {
            at: {float(code): text for code, text in column.texts().items()}
            for at, column in columns.items()
        },
        {at: _unseen(columns.get(at)) for at in converted.categorical},
        converted.categorical,
    )
    if forest.source is not None and forest.source.model == "RMSEWithUncertainty":
        notes.append(
            "CatBoostRegressor.predict returns exp(2x) of the second output x, the forest x itself."
        )
    link = forest.output.post_transform
    differs = not is_x86()
    absent = differs and bool(np.any(np.isneginf(np.asarray(forest.output.base_score))))
    if absent:
        notes.append(
            "classes absent from training have probabilities of 0 in CatBoost on this processor "
            "and of up to 2e-308 on x86 and in the forest, so probabilities were not compared."
        )
    if forest.inputs.category_hashes or any(column.hashed for column in columns.values()):
        notes.append(
            "the model keeps hashes of some categories only: texts of these hashes were asked for."
        )
    differs = differs and link in (PostTransform.SOFTMAX, PostTransform.EXPONENTIAL)
    if differs:
        notes.append(
            "CatBoost approximates the exponential of x on x86, as the forest does, but not on "
            "this processor: probabilities and predictions of it lie about 1 + |x| ulp apart."
        )
    is_classifier = forest.output.is_classifier
    values = asked.values if link is PostTransform.EXPONENTIAL else asked.raw
    ids = None if forest.source is None else forest.source.leaf_id
    return Oracle(
        "catboost",
        catboost.__version__,
        asked.raw,
        None if ids is None else asked.leaf_ids,
        ids="source",
        predict=asked.labels if is_classifier else values,
        scores=asked.scores if is_classifier and not absent else None,
        score_ulps=MOST_ULPS if differs else None,
        leaf_values=None if ids is None else lambda: _stored(fitted, converted),
        trees=lambda: source_trees(fitted, asked.texts),
        n_trees=forest.n_trees,
        n_features=forest.n_features,
        n_outputs=forest.n_outputs,
        of_frame=None if isinstance(model, (str, PathLike)) or absent else asked.of_frame(),
        notes=tuple(notes),
    )


def _require_whole_sums(document: Document) -> None:
    """Refuse what CatBoost's reader of JSON takes for 0, so that it answers as another model."""
    tables = (document.get("ctr_data") or {}).values()
    if any(isinstance(value, float) for table in tables for value in table["hash_map"]):
        raise UnsupportedModelError(
            "CatBoost must be asked through the model in memory or its .cbm file where statistics "
            "of categories hold sums that are not whole: its reader of JSON takes these for 0, "
            "while the forest reads them as they are."
        )


def _loaded(catboost: Any, path: Any, converted: Converted) -> Any:
    """Return the library's model of a JSON file, with the leaves and bias that the file says."""
    fitted = catboost.CatBoost().load_model(str(path), format="json")
    fitted.set_leaf_values(converted.v.ravel())
    fitted.set_scale_and_bias(converted.scale, converted.bias.tolist())
    return fitted


def _unseen(column: Column | None) -> str:
    """Return a text that is none of the categories that tests know."""
    text = "no category of this column"
    while column is not None and category_hash(text) in column.codes:
        text += "!"
    return text


def _stored(fitted: Any, converted: Converted) -> LeafValues:
    leaf_ptr = converted.forest.bitvectors.leaf_ptr
    tree = np.repeat(np.arange(leaf_ptr.size - 1), np.diff(leaf_ptr))
    v = np.asarray(fitted.get_leaf_values(), np.float64).reshape(tree.size, -1)
    return LeafValues(tree, np.arange(tree.size) - leaf_ptr[tree], spread(v, converted.answer))
