"""YDF's own predictions for a model."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import narwhals
import numpy as np

from bitvec.converters.ydf import schema
from bitvec.converters.ydf.data_spec import Columns, ColumnType
from bitvec.converters.ydf.directory import BOOSTED_TREES, ISOLATION_FOREST, RANDOM_FOREST
from bitvec.converters.ydf.read import Converted, convert_directory, opened
from bitvec.converters.ydf.tasks import Loss, Task
from bitvec.converters.ydf.walker import source_trees
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, Relation
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float32, Int64
from bitvec.errors import UnsupportedModelError, needs
from bitvec.verify.oracle import FrameAnswers, LeafValues, Oracle

_SQUARED_ERROR: Final = bytes([schema.BOOSTED_TREES.number("loss") << 3, Loss.SQUARED_ERROR])
"""A field that sets the loss, wherever the header has set it before."""


def oracle_of(model: Any) -> Oracle:
    """Return YDF's own answers to a model that `convert` accepts.

    Parameters
    ----------
    model : path, or model of ydf

    Returns
    -------
    Oracle
        Raw scores of boosted trees are what `predict` gives on a copy: after
        `set_output_logits(True)` for a classifier, under squared error for a Poisson regression. A
        random forest's are its predictions; an isolation forest gives none, so they are added up
        over the leaves that `predict_leaves` names.

    Raises
    ------
    MissingLibraryError
        If ydf is not installed.
    UnsupportedModelError
        If the model is refused; for an isolation forest whose `predict` and `predict_leaves`
        disagree about missing values; and where a node asks whether a truth value is missing, since
        ydf takes no such rows from arrays.
    """
    with needs("ydf", "ydf", "Asking a YDF model"):
        import ydf
    with opened(model) as path:
        converted = convert_directory(path)
        _require_askable(converted)
        asked = _Asked(converted, ydf.load_model(str(path)), _raw_model(ydf, path, converted))
    output = converted.forest.output
    cut_off = converted.kind == RANDOM_FOREST and output.is_classifier
    is_file = isinstance(model, (str, PathLike))
    return Oracle(
        name="ydf",
        version=ydf.__version__,
        raw=asked.raw,
        leaf_ids=asked.leaves if converted.missing.as_leaves else None,
        predict=asked.labels if output.is_classifier else asked.values,
        scores=asked.probabilities if output.is_classifier else None,
        leaf_values=asked.leaf_values if converted.kind == BOOSTED_TREES else None,
        trees=lambda: source_trees(asked.model),
        n_trees=converted.forest.n_trees,
        n_features=converted.forest.n_features,
        n_outputs=converted.forest.n_outputs,
        of_frame=None if is_file or _reads_bare_codes(converted.forest) else asked.of_frame(),
        notes=_notes(converted, cut_off=cut_off),
    )


def _reads_bare_codes(forest: Forest) -> bool:
    """Tell whether a set reads codes without a book, which YDF looks up in frames unchecked."""
    books = forest.inputs.categories or (None,) * forest.n_features
    columns = np.unique(forest.tests.feature[forest.tests.kind == Kind.SET])
    return any(books[column] is None for column in columns.tolist())


def _require_askable(converted: Converted) -> None:
    if converted.kind == ISOLATION_FOREST and not converted.missing.as_leaves:
        raise UnsupportedModelError(
            "an isolation forest must send missing values alike in `predict` and `predict_leaves`: "
            "its scores cannot be compared otherwise."
        )
    tests, columns = converted.forest.tests, converted.columns
    boolean = columns.type[columns.features] == ColumnType.BOOLEAN
    absent = np.isposinf(tests.b) & (tests.relation == Relation.GREATER) & tests.is_one_hot
    if np.any(boolean[tests.feature[absent]]):
        raise UnsupportedModelError(
            "nodes must not ask whether a truth value is missing, got one that does: ydf takes no "
            "missing truth values from arrays, so it cannot be compared."
        )


def _notes(converted: Converted, *, cut_off: bool) -> tuple[str, ...]:
    columns = converted.columns
    notes = {
        "predictions are those of the engine that YDF takes by itself": True,
        "YDF cuts probabilities off at 1, which a sum may exceed by rounding: where it does so, "
        "the sum was made from the leaves that predict_leaves names": cut_off,
        "predict_leaves sends missing values elsewhere than predict does, so no leaf ids were "
        "compared": not converted.missing.as_leaves,
        "ydf takes no missing truth values from arrays: they were put as the most frequent": bool(
            np.any(columns.type[columns.features] == ColumnType.BOOLEAN)
        ),
    }
    return tuple(note for note, holds in notes.items() if holds)


def _raw_model(ydf: Any, path: Path, converted: Converted) -> Any:
    """Load a copy whose predictions are raw scores, as far as YDF has such."""
    if converted.forest.output.post_transform is PostTransform.EXPONENTIAL:
        # YDF offers no scores of a Poisson regression; under another loss it gives their sums.
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "model"
            shutil.copytree(path, copy)
            with (copy / schema.BOOSTED_TREES.name).open("ab") as header:
                header.write(_SQUARED_ERROR)
            return ydf.load_model(str(copy))
    model = ydf.load_model(str(path))
    if converted.kind == BOOSTED_TREES and converted.task == Task.CLASSIFICATION:
        model.set_output_logits(True)
        if converted.forest.n_outputs > 1:
            # Versions differ in whether logits hold the initial predictions of several classes.
            model.set_initial_predictions(np.zeros(converted.forest.n_outputs, np.float32))
    return model


class _Asked:
    """A model of ydf, asked in the forest's terms: rows of numbers and codes."""

    def __init__(self, converted: Converted, model: Any, raw_model: Any) -> None:
        self.converted, self.model, self.raw_model = converted, model, raw_model

    def raw(self, X: Array) -> Float32[Array, "batch n_outputs"]:
        output = self.converted.forest.output
        if self.converted.kind == BOOSTED_TREES:
            raw = self._ask(self.raw_model, X)
            return raw if output.n_outputs == 1 else raw + output.base_score
        if self.converted.kind == ISOLATION_FOREST:
            return self._sum_of_leaves(X)
        raw = self._ask(self.model, X)
        cut = np.flatnonzero(np.any(raw == 1, axis=1))
        if output.is_classifier and cut.size and self.converted.missing.as_leaves:
            total = self._sum_of_leaves(X)[cut]
            agrees = np.all(np.minimum(total, np.float32(1)) == raw[cut], axis=1)
            raw[cut[agrees]] = total[agrees]
        return raw

    def of_frame(self) -> FrameAnswers:
        """Return answers to frames, which the library reads itself."""
        columns = self.converted.columns
        boolean = columns.type[columns.features] == ColumnType.BOOLEAN
        ids = self.converted.missing.as_leaves
        return FrameAnswers(
            raw=lambda frame: self.raw(self._completed(frame)),
            leaf_ids=(lambda frame: self.leaves(self._completed(frame))) if ids else None,
            labels=self.labels if self.converted.forest.output.is_classifier else None,
            truths=tuple(np.flatnonzero(boolean).tolist()),
        )

    def probabilities(self, X: Array) -> Float32[Array, "batch n_outputs"]:
        return self._ask(self.model, X)

    def values(self, X: Array) -> Float32[Array, " batch"]:
        return self._ask(self.model, X)[:, 0]

    def labels(self, X: Array) -> Array:
        classes = self.converted.forest.output.classes
        assert classes is not None
        if not len(X):
            return classes[0][:0]
        return np.asarray(self.model.predict_class(self._table(X), num_threads=1))

    def leaves(self, X: Array) -> Int64[Array, "batch n_trees"]:
        if not len(X):
            return np.zeros((0, self.converted.forest.n_trees), np.int64)
        return np.asarray(self.model.predict_leaves(self._table(X))).astype(np.int64)

    def leaf_values(self) -> LeafValues:
        tree, leaf, value = [], [], []
        for index, grown in enumerate(self.model.iter_trees()):
            waiting, count = [grown.root], 0
            while waiting:
                node = waiting.pop()
                if node.is_leaf:
                    tree.append(index)
                    leaf.append(count)
                    value.append(node.value.value)
                    count += 1
                else:
                    waiting += [node.pos_child, node.neg_child]
        return LeafValues(np.array(tree), np.array(leaf), np.array(value, np.float32)[:, None])

    def _ask(self, model: Any, X: Array) -> Array:
        width = self.converted.forest.n_outputs
        if not len(X):
            return np.zeros((0, width), np.float32)
        answer = model.predict(self._table(X), num_threads=1)
        return np.array(answer, np.float32).reshape(len(X), width)

    def _sum_of_leaves(self, X: Array) -> Array:
        forest = self.converted.forest
        v, first = forest.leaves.v, forest.bitvectors.leaf_ptr[:-1]
        total = np.zeros((len(X), forest.n_outputs), np.float32)
        for tree, leaf in enumerate(self.leaves(X).T):
            total += v[first[tree] + leaf]
        return total

    def _completed(self, frame: Any) -> Any:
        """Return a frame with made-up columns that ydf asks for beside the features."""
        columns = self.converted.columns
        table = narwhals.from_native(frame, eager_only=True)
        others = sorted(set(range(len(columns.names))) - set(columns.features.tolist()))
        made_up = [
            narwhals.lit(self._made_up(column)).alias(columns.names[column])
            for column in others
            if columns.names[column] not in table.columns
        ]
        return table.with_columns(*made_up).to_native()

    def _made_up(self, column: int) -> Any:
        columns = self.converted.columns
        words = columns.words.get(column)
        made_up: Any = 0 if words is None else words[-1]
        return bool(made_up) if columns.type[column] == ColumnType.BOOLEAN else made_up

    def _table(self, X: Any) -> Any:
        """Return rows as the columns that ydf reads; columns that it only asks for are made up.

        A data frame is handed over as it is.
        """
        if not isinstance(X, np.ndarray):
            return X
        columns = self.converted.columns
        table: dict[str, Array] = {}
        for column, name in enumerate(columns.names):
            table[name] = np.full(len(X), self._made_up(column))
        for place, column in enumerate(columns.features.tolist()):
            table[columns.names[column]] = _column(columns, column, X[:, place])
        for name, first, size in columns.unstacked:
            parts = [table.pop(columns.names[first + i]) for i in range(size)]
            table[name] = np.stack(parts, axis=1)
        return table


def _column(columns: Columns, column: int, x: Array) -> Array:
    type_ = columns.type[column]
    if type_ == ColumnType.BOOLEAN:
        truth: Array = np.where(np.isnan(x), columns.mostly_true[column], x >= 0.5)
        return truth
    if type_ != ColumnType.CATEGORICAL:
        return x.astype(np.float32)
    with np.errstate(invalid="ignore"):
        known = (x >= 0) & (x == np.floor(x)) & (x <= columns.n_codes[column])
    words = columns.words.get(column)
    if words is None:
        code = np.where(known & (x < columns.n_codes[column]), x, 0)
        return np.where(np.isnan(x), -1, code).astype(np.int32)
    unseen = "unseen"
    while unseen in words:
        unseen += "_"
    every = np.array([*words, "", unseen], object)
    code = np.where(known, x, len(words) + 1)
    return every[np.where(np.isnan(x), len(words), code).astype(np.int64)]
