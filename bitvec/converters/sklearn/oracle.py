"""scikit-learn's own answers: scores from its prediction functions, leaves from its trees."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.sklearn import unsupported as models
from bitvec.converters.sklearn.categories import encoder_of
from bitvec.converters.sklearn.nodes import tree_columns
from bitvec.converters.sklearn.read import convert
from bitvec.converters.sklearn.skops import load
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import needs
from bitvec.verify.oracle import FrameAnswers, LeafValues, Oracle, require_columns

Answer = Callable[[Array], Array]

with needs("scikit-learn", "sklearn", "Asking a scikit-learn model"):
    import sklearn
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    from bitvec.converters.sklearn.walker import source_trees


def oracle_of(model: Any) -> Oracle:
    """Return the model as the other side of a comparison; skops builds that of a file.

    `raw` is the library's public prediction function where it returns what `convert` calls the raw
    score, of a shallow copy with `n_jobs=1`: with more threads scikit-learn adds the trees in the
    order in which they finish.

    Raises
    ------
    UnsupportedModelError, InvalidForestError, FileFormatError
        As `convert`: nothing is run before its arrays are known to be sound.
    """
    if isinstance(model, str | PathLike):
        model = load(Path(model))
    forest = convert(model)
    kind = models.kind_of(model)
    answering = _alone(model)
    raw, leaf_ids = _ANSWERS[kind](answering, kind)
    predict, scores = _predicted(answering, kind, raw, forest)
    n_features = forest.n_features
    assert forest.source is not None
    assert forest.source.leaf_id is not None
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.bitvectors.leaf_ptr))
    stored = LeafValues(tree, forest.source.leaf_id, forest.leaves.v)

    def checked(answer: Answer) -> Answer:
        def asked(X: Array) -> Array:
            require_columns(X, n_features)
            X = np.ascontiguousarray(X, dtype=forest.dtype)
            with warnings.catch_warnings():
                # Rows come as plain arrays in training order; members may have seen names.
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                return answer(X)

        return asked

    def accepts(value: float) -> bool:
        try:
            asked(np.full((1, n_features), value, forest.dtype))
        except ValueError:
            return False
        return True

    asked = checked(raw)
    # Leaves that were written back may hold the base score, which the library keeps in no tree.
    shows_leaves = kind not in models.BOOSTING
    # Such a model begins at zero: its trees prove nothing of a forest that begins elsewhere.
    shows_trees = shows_leaves or not isinstance(model.init_, str)
    return Oracle(
        "sklearn",
        sklearn.__version__,
        asked,
        checked(leaf_ids),
        ids="source",
        accepts_missing=accepts(np.nan),
        accepts_infinite=accepts(np.inf),
        predict=asked if predict is raw else checked(predict),
        scores=asked if scores is raw else scores and checked(scores),
        leaf_values=(lambda: stored) if shows_leaves else None,
        trees=(lambda: source_trees(answering)) if shows_trees else None,
        n_trees=forest.n_trees,
        n_features=n_features,
        n_outputs=forest.n_outputs,
        of_frame=None if kind in models.ISOLATION else _of_frame(model, kind),
    )


def _of_frame(model: Any, kind: str) -> FrameAnswers:
    """Return a model's answers to frames, whose columns it knows by their names."""
    averages = kind in (*models.TREES, *models.FORESTS, *models.BAGGING)
    if not models.is_classifier(kind):
        answer = model._raw_predict if kind in models.HISTOGRAMS else model.predict
    else:
        answer = model.predict_proba if averages else model.decision_function

    return FrameAnswers(
        lambda frame: _columns(answer(frame), len(frame)),
        labels=model.predict if models.is_classifier(kind) else None,
    )


def _alone(model: Any) -> Any:
    """Return a shallow copy that runs in one thread, says nothing and knows no names."""
    answering = copy.copy(model)
    for name, value in (("n_jobs", 1), ("verbose", 0)):
        if hasattr(answering, name):
            setattr(answering, name, value)
    vars(answering).pop("feature_names_in_", None)
    return answering


def _applied(trees: list[Any], columns: list[Array] | None = None) -> Answer:
    """Return the leaf ids of trees, each of which reads some columns of X."""

    def leaf_ids(X: Array) -> Array:
        parts = [
            # tree_.apply routes NaN and infinities also where the estimator refuses them.
            tree.tree_.apply(X if columns is None else np.ascontiguousarray(X[:, columns[index]]))
            for index, tree in enumerate(trees)
        ]
        return np.stack(parts, axis=1).astype(np.int64)

    return leaf_ids


def _columns(answer: Any, n_rows: int) -> Array:
    """Lay one answer, or one for each target, side by side."""
    parts = answer if isinstance(answer, list) else [np.reshape(answer, (n_rows, -1))]
    scores: Array = np.concatenate(parts, axis=1)
    return scores


def _averaged(model: Any, kind: str) -> tuple[Answer, Answer]:
    answer = model.predict_proba if models.is_classifier(kind) else model.predict
    trees = models.members(model, kind)
    columns = None
    if kind in models.BAGGING:
        columns = tree_columns(model, len(trees), model.n_features_in_)
    return lambda X: _columns(answer(X), len(X)), _applied(trees, columns)


def _boosted(model: Any, kind: str) -> tuple[Answer, Answer]:
    answer = model.decision_function if models.is_classifier(kind) else model.predict
    return lambda X: _columns(answer(X), len(X)), _applied(model.estimators_.ravel().tolist())


def _voted(model: Any, kind: str) -> tuple[Answer, Answer]:
    answer = model.decision_function if models.is_classifier(kind) else model.predict
    return lambda X: _columns(answer(X), len(X)), _applied(model.estimators_)


def _isolated(model: Any, kind: str) -> tuple[Answer, Answer]:
    columns = None
    if model._max_features != model.n_features_in_:
        columns = tree_columns(model, len(model.estimators_), model.n_features_in_)
    leaf_ids = _applied(model.estimators_, columns)

    def raw(X: Array) -> Array:
        # No public function returns the sum of depths; this is the loop of score_samples, and the
        # forest's sign.
        model.score_samples(X[:1])
        depths = np.zeros(len(X))
        for index, leaf in enumerate(leaf_ids(X).T):
            depths += (
                model._decision_path_lengths[index][leaf]
                + model._average_path_length_per_tree[index][leaf]
                - 1.0
            )
        return -depths[:, None]

    return raw, leaf_ids


def _binned(model: Any, kind: str) -> tuple[Answer, Answer]:
    decoded = _decoder(model)
    # A predictor whose values are its positions answers with the leaf that a row reaches.
    numbered = [
        TreePredictor(
            _with_positions(predictor.nodes),
            predictor.binned_left_cat_bitsets,
            predictor.raw_left_cat_bitsets,
        )
        for stage in model._predictors
        for predictor in stage
    ]
    known, place = model._bin_mapper.make_known_categories_bitsets()

    def leaf_ids(X: Array) -> Array:
        encoded = model._preprocess_X(decoded(X), reset=False)
        parts = [tree.predict(encoded, known, place, 1) for tree in numbered]
        return np.stack(parts, axis=1).astype(np.int64)

    # A regressor's own predict applies the link to this.
    answer = model.decision_function if models.is_classifier(kind) else model._raw_predict
    return lambda X: _columns(answer(decoded(X)), len(X)), leaf_ids


def _with_positions(nodes: Array) -> Array:
    numbered = nodes.copy()
    numbered["value"] = np.arange(len(nodes))
    return numbered


def _decoder(model: Any) -> Callable[[Array], Any]:
    """Return what turns codes into the categories that the model was trained on."""
    encoder = encoder_of(model)
    if encoder is None:
        return lambda X: X
    columns = np.flatnonzero(model.is_categorical_)
    labels = {
        int(column): values
        for column, values in zip(columns, encoder.categories_, strict=True)
        if isinstance(values[0] if len(values) else None, (str, bool, np.bool_))
    }
    # scikit-learn compares objects with objects alone.
    kinds = {
        int(column): values.dtype
        for column, values in zip(columns, encoder.categories_, strict=True)
        if values.dtype == object
    }
    names = getattr(model._preprocessor, "feature_names_in_", None)
    if names is None and not kinds:
        return lambda X: X
    with needs("pandas", "sklearn", "Asking a model of named categories"):
        import pandas as pd

    def decoded(X: Array) -> Any:
        frame = {
            j: _labelled(X[:, j], labels[j])
            if j in labels
            else X[:, j].astype(kinds.get(j, X.dtype))
            for j in range(X.shape[1])
        }
        if names is None:
            table = np.empty(X.shape, object)
            for j, values in frame.items():
                table[:, j] = values
            return table
        return pd.DataFrame({name: frame[j] for j, name in enumerate(names)})

    return decoded


def _labelled(codes: Array, values: Array) -> Array:
    """Return the category of each code, NaN for NaN, and one that is not known for any other."""
    book = [value for value in values.tolist() if value == value]
    # An unseen category is missing to the model; of booleans there is none, so it is missing.
    unseen = np.nan if isinstance(book[0], bool) else max(book) + "?"
    lookup = np.array([*book, unseen, np.nan], dtype=object)
    known = np.isin(codes, np.arange(len(book)))
    place = np.where(known, codes, len(book))
    place = np.where(np.isnan(codes), len(book) + 1, place)
    result: Array = lookup[place.astype(np.intp)]
    return result


def _predicted(model: Any, kind: str, raw: Answer, forest: Forest) -> tuple[Answer, Answer | None]:
    """Return the labels of a classifier and their probabilities, or a regressor's values.

    They are `raw` itself where that is the same public function.
    """
    if kind in models.ISOLATION:
        return model.predict, lambda X: -model.score_samples(X)[:, None]
    decoded: Callable[[Array], Any] = _decoder(model) if kind in models.HISTOGRAMS else np.asarray

    def predict(X: Array) -> Array:
        return np.asarray(model.predict(decoded(X)))

    def scores(X: Array) -> Array:
        answer = model.predict_proba(decoded(X))
        parts = answer if isinstance(answer, list) else [answer]
        sizes = forest.output.groups
        # A group of one output holds the probability of the second of two classes.
        return np.concatenate(
            [part[:, -1:] if size == 1 else part for part, size in zip(parts, sizes, strict=True)],
            axis=1,
        )

    averages = kind in (*models.TREES, *models.FORESTS, *models.BAGGING)
    if not models.is_classifier(kind):
        return raw if averages else predict, None
    return predict, raw if averages else scores


_ANSWERS: dict[str, Callable[[Any, str], tuple[Answer, Answer]]] = {
    **dict.fromkeys((*models.TREES, *models.FORESTS, *models.BAGGING), _averaged),
    **dict.fromkeys(models.BOOSTING, _boosted),
    **dict.fromkeys(models.ADABOOST, _voted),
    **dict.fromkeys(models.ISOLATION, _isolated),
    **dict.fromkeys(models.HISTOGRAMS, _binned),
}
