"""A forest made ready to predict, with scikit-learn's verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from bitvec.core.arrays import FLOATS, Array
from bitvec.core.forest import Forest, require_forest
from bitvec.core.node_tests import Kind
from bitvec.core.shape_annotations import Float, Int32, Int64
from bitvec.errors import BitvecError, InputError
from bitvec.runtime.predict import leaf_outputs, row_blocks, subnormals, tables
from bitvec.runtime.predict.engine import Engine, FewRows, FewRowsEngine, create
from bitvec.runtime.predict.narrow_forests import narrow_forest
from bitvec.runtime.predict.predictions import Predictions
from bitvec.runtime.predict.unsupported import refused_values

VERBS = (
    "predict", "predict_proba", "decision_function", "raw", "scores", "score_samples",
    "exit_leaves", "apply", "decision_path", "per_tree", "tree_contributions",
)  # fmt: skip
"""The methods of a predictor that take rows."""

OF_RAW = ("raw", "scores", "predict", "predict_proba")
"""Those whose answers are made of raw scores alone, by `from_raw`."""


def compile(
    forest: Forest,
    *,
    engine: str = "auto",
    kernel: str | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
    warm: bool = False,
) -> Predictor:
    """Make a forest ready to predict; `bitvec.compile` says what the options do."""
    require_forest(forest)
    chosen, why = create(engine, forest, kernel=kernel, n_jobs=n_jobs, device=device)
    predictor = Predictor(forest, chosen, why=why)
    if warm:
        predictor.warm()
    return predictor


class Predictor:
    """Predicts with one forest on one engine; made by `compile`.

    Every method takes what `bitvec.runtime.predict.tables` reads: arrays, lists, scipy sparse
    matrices, pandas, polars and pyarrow tables. In a sparse matrix an absent entry is 0, or missing
    if `forest.inputs.absent_is_missing` (xgboost, treelite). X may also be an iterator of such
    tables, for what is larger than memory: the answer is that to all their rows. Arrays of floats
    are never copied as a whole, whatever their strides; the rest is converted part by part.

    `out` is an array for the answer, of any strides, which is filled and returned; it must have the
    answer's dtype and shape and share no memory with X. After an error or an interrupt its content
    is undefined.

    The engine triton answers some methods for rows that lie on its device, torch tensors or arrays
    with `__cuda_array_interface__` or DLPack, by a tensor there.

    Where the source library refuses missing or infinite values, so does every method, with an
    InputError. Methods may be called from several threads at once.

    Parameters
    ----------
    forest : Forest
    engine : Engine
    why : str
        Why it is this engine, for `info`.
    """

    def __init__(self, forest: Forest, engine: Engine, *, why: str = "given") -> None:
        self.forest = forest
        self.engine = engine
        self._why = why
        self._predictions = Predictions(forest, engine)
        self._leaf_predictions = self._predictions.leaf_predictions()
        self._refused = refused_values(forest)
        self._several = len(forest.output.classes or ()) > 1
        self._few = {verb: self._few_rows(verb) for verb in VERBS}
        self._sparse = narrow_forest(forest, engine, self._refused, Predictor)
        # An attribute is found faster than an entry: that counts in a call of one row.
        self._few_raw, self._few_predict = self._few["raw"], self._few["predict"]
        self._few_predict_proba = self._few["predict_proba"]

    def __reduce__(self) -> tuple[Callable[..., Predictor], tuple[Forest, Engine, str]]:
        # What answers few rows is the engine's own, and made anew beside its copy.
        return _remade, (self.forest, self.engine, self._why)

    def __repr__(self) -> str:
        return f"Predictor({self.forest!r}, engine={self.engine.name!r})"

    def info(self) -> dict[str, Any]:
        """Return what runs and why: for people and reports, not for programs."""
        kinds, counts = np.unique(self.forest.tests.kind, return_counts=True)
        return {
            "engine": self.engine.name,
            "why": self._why,
            "n_threads": 1,
            **self.engine.info(),
            "dtype": str(self.forest.dtype),
            "nodes": {
                Kind(kind).name.lower(): int(count)
                for kind, count in zip(kinds, counts, strict=True)
            },
            "soft": self.forest.kernel is not None,
            "sparse_absent": "missing" if self.forest.inputs.absent_is_missing else 0.0,
            "refuses": self._refused.words if self._refused is not None else [],
        }

    def warm(self) -> None:
        """Compile, or load from the cache, what a prediction needs."""
        declared = "float64" if self.forest.inputs.category_hashes else None
        declared = declared or self.forest.inputs.number_dtype
        for dtype in FLOATS if declared is None else (np.dtype(declared),):
            for n_rows in (1, 2000):  # few rows, and a batch
                X = np.zeros((n_rows, self.forest.n_features), dtype)
                self.exit_leaves(X)
                self.raw(X)
                self.predict(X)
                if self.forest.output.is_classifier:
                    self.predict_proba(X)

    def rows(self, X: Any) -> Float[Array, "batch n_features"]:
        """Return X as the forest compares it: a whole array in the forest's dtype."""
        subnormals.check()
        return tables.rows(X, self.forest.inputs, self.forest.dtype)

    def raw(self, X: Any, *, out: Array | None = None) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores, in the dtype in which the source accumulates them."""
        if out is None and (answer := self._few_raw(X)) is not None:
            return answer
        output = self.forest.output
        return self._fill("raw", X, self.engine.raw, (output.n_outputs,), output.dtype, out)

    def decision_function(
        self, X: Any, *, out: Array | None = None
    ) -> Float[Array, " batch"] | Float[Array, "batch n_outputs"]:
        """Return the raw scores, one axis if there is one output.

        Of an isolation forest, as in scikit-learn, `score_samples` less the offset: below 0 for
        outliers.
        """
        output, predictions = self.forest.output, self._predictions
        if predictions.isolation_offset is not None:
            work: row_blocks.Fill = partial(self._from_raw, predictions.fill_isolation_decision)
        elif output.n_outputs == 1:
            work = self._raw_column
        else:
            return self.raw(X, out=out)
        return self._fill("decision_function", X, work, (), output.dtype, out)

    def score_samples(self, X: Any, *, out: Array | None = None) -> Float[Array, " batch"]:
        """Return the scores of an isolation forest as scikit-learn has them: low for outliers.

        Raises
        ------
        BitvecError
            If the forest is no isolation forest of scikit-learn.
        """
        if self._predictions.isolation_offset is None:
            raise BitvecError(
                "`score_samples` needs an isolation forest of scikit-learn: use `scores`."
            )
        work = partial(self._from_raw, self._predictions.fill_isolation_scores)
        return self._fill("score_samples", X, work, (), self.forest.output.dtype, out)

    def scores(self, X: Any, *, out: Array | None = None) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores after the post-transform (sigmoid, softmax, exponential ...)."""
        if self._predictions.scores_are_raw:
            return self.raw(X, out=out)
        fill, shape, kind = self._predictions.filling("scores")
        return self._fill("scores", X, partial(self._from_raw, fill), shape, kind, out)

    def predict(self, X: Any, *, out: Array | None = None) -> Array:
        """Return a classifier's labels or a regressor's values, one column for each of several."""
        if out is None and (answer := self._few_predict(X)) is not None:
            return answer
        fill, shape, kind = self._predictions.filling("predict")
        work: row_blocks.Fill = partial(self._from_raw, fill)
        if self._leaf_predictions is not None:
            work = self._looked_up
        elif self._predictions.scores_are_raw and not self.forest.output.is_classifier:
            work = self.engine.raw if shape else self._raw_column
        return self._fill("predict", X, work, shape, kind, out)

    def from_raw(self, verb: str, raw: Float[Array, "batch n_outputs"]) -> Any:
        """Return what a verb of `OF_RAW` answers to the rows that have these raw scores."""
        if verb == "raw":
            return raw
        if verb == "predict_proba" and self._several:
            return self._predictions.probabilities(raw)
        fill, shape, kind = self._predictions.filling(verb)
        out = np.empty((len(raw), *shape), kind)
        fill(raw, out)
        return out

    def predict_proba(self, X: Any, *, out: Array | Sequence[Array] | None = None) -> Any:
        """Return class probabilities, (batch, n_classes), or for several targets a list of them.

        `out` is then such a list too.

        Raises
        ------
        BitvecError
            If the forest is no classifier.
        """
        if out is None and (answer := self._few_predict_proba(X)) is not None:
            return self._by_target(answer) if self._several else answer
        fill, shape, kind = self._predictions.filling("predict_proba")
        if self._several:
            return self._several_probabilities(X, out)
        work = partial(self._from_raw, fill)
        return self._fill("predict_proba", X, work, shape, kind, out)  # type: ignore[arg-type]

    def exit_leaves(self, X: Any, *, out: Array | None = None) -> Int32[Array, "batch n_trees"]:
        """Return the exit leaf of every row in every tree, as leaf numbers within the tree.

        A forest with a prediction kernel exits where its hard tests say.
        """
        shape, kind = (self.forest.n_trees,), np.dtype(np.int32)
        return self._fill("exit_leaves", X, self.engine.exit_leaves, shape, kind, out)

    def apply(self, X: Any, *, out: Array | None = None) -> Int64[Array, "batch n_trees"]:
        """Return the source library's ids of the exit leaves, or leaf numbers where it has none."""

        def work(rows: Array, ids: Array) -> None:
            leaf_outputs.fill_ids(self.forest, self.engine.exit_leaves(rows), ids)

        return self._fill("apply", X, work, (self.forest.n_trees,), np.dtype(np.int64), out)

    def decision_path(self, X: Any) -> Any:
        """Return which nodes and leaves every row passes, as scikit-learn does.

        Returns
        -------
        indicator : scipy.sparse.csr_matrix, int64, (batch, n_nodes + n_leaves)
            Ones from the root to the exit leaf. Columns are, tree by tree, its nodes breadth first,
            then its leaves from left to right: in the order of the forest's arrays, whose ids in
            the source are `forest.source.node_id` and `.leaf_id`.
        n_nodes_ptr : int64, (n_trees + 1,)
            Where each tree's columns begin. A forest of one tree gives the indicator alone.

        Raises
        ------
        MissingLibraryError
            If scipy is not installed.
        """
        indicator = leaf_outputs.decision_path(self.forest, self.exit_leaves(X))
        if self.forest.n_trees == 1:
            return indicator
        return indicator, leaf_outputs.node_column_ptr(self.forest.bitvectors)

    def per_tree(self, X: Any, *, out: Array | None = None) -> Float[Array, "batch n_trees width"]:
        """Return what each tree says: its exit leaf's vector, before weights and base score.

        A forest with a prediction kernel gives each tree's expected vector instead.
        """
        shape, dtype = leaf_outputs.per_tree_kind(self.forest)
        work = partial(leaf_outputs.fill_per_tree, self.forest, self.engine.exit_leaves)
        return self._fill("per_tree", X, work, shape, dtype, out)

    def tree_contributions(
        self, X: Any, *, out: Array | None = None
    ) -> Float[Array, "batch n_trees n_outputs"]:
        """Return what each tree adds to each output: its leaf's value times the tree's weight.

        Added in the order of the trees, to `output.base_score` if `output.base_first` and else to
        0, and handed to `output.finish`, they are the raw score bit for bit.

        Raises
        ------
        BitvecError
            If the raw score is no sum or mean over trees (a minimum, a maximum, a weighted median).
        """
        leaf_outputs.require_additive(self.forest)
        shape = (self.forest.n_trees, self.forest.n_outputs)
        work = partial(leaf_outputs.fill_tree_contributions, self.forest, self.engine.exit_leaves)
        kind = self.forest.output.dtype
        return self._fill("tree_contributions", X, work, shape, kind, out)

    def predict_blocks(self, blocks: Iterable[Any], method: str = "predict") -> Iterator[Any]:
        """Yield the answer to each of several tables of rows, when it is asked for.

        Parameters
        ----------
        blocks : iterable of tables
        method : str
            The name of the method that answers.

        Raises
        ------
        InputError
            If there is no such method.

        Examples
        --------
        >>> from bitvec.core.forest import Forest
        >>> stump = compile(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
        >>> [part.tolist() for part in stump.predict_blocks([[[0, 9]], [[1, 9], [0, 8]]])]
        [[10.0], [20.0, 10.0]]
        """
        if method not in VERBS:
            raise InputError(
                f"`method` must be one of {', '.join(VERBS)}, got {method!r}: choose one of them."
            )
        answer = getattr(self, method)
        return (answer(block) for block in blocks)

    def _few_rows(self, verb: str) -> FewRows:
        """Return the engine's shorter way for few rows, or what answers nothing.

        Of columns that must have one dtype or hold some values only, it takes arrays of that dtype
        which hold such values; all else is left to the general way.
        """
        answer, inputs = None, self.forest.inputs
        if isinstance(self.engine, FewRowsEngine) and not inputs.category_hashes:
            answer = self.engine.few_rows(verb, finite=self._refused is not None)
        if answer is None:
            return _nothing
        if inputs.domains is None:
            return answer
        few, dtype, refused = answer, inputs.number_dtype, self._refused

        def declared(X: Any) -> Array | None:
            if type(X) is not np.ndarray or (dtype is not None and X.dtype.name != dtype):
                return None
            return few(X) if refused is None or refused.lets_pass(X) else None

        return declared

    def _fill(
        self,
        verb: str,
        X: Any,
        work: row_blocks.Fill,
        shape: tuple[int, ...],
        kind: np.dtype,
        out: Array | None,
    ) -> Array:
        few = self._few[verb]
        if out is None and (answer := few(X)) is not None:
            return answer
        if self._sparse is not None and hasattr(X, "tocsr"):
            return self._sparse.answer(verb, X, out)
        subnormals.check()
        long = work
        if self._refused is not None:
            alone = getattr(self.engine, "n_threads", 0) == 1
            long = self._refused.before(work, by_block=alone)

        def fill(rows: Array, to: Array) -> None:
            answer = None if rows is X and out is None else few(rows)  # which was tried above
            if answer is None:
                long(rows, to)
            else:
                to[...] = answer

        return row_blocks.fill(
            X, self.forest.inputs, self.forest.dtype, fill, shape=shape, kind=kind, out=out
        )

    def _raw_column(self, rows: Array, out: Array) -> None:
        self.engine.raw(rows, out[:, None])

    def _looked_up(self, rows: Array, out: Array) -> None:
        assert self._leaf_predictions is not None
        exits = self.engine.exit_leaves(rows)
        np.take(self._leaf_predictions, exits[:, 0], axis=0, out=out, mode="clip")

    def _from_raw(self, fill: row_blocks.Fill, rows: Array, out: Array) -> None:
        fill(self.engine.raw(rows), out)

    def _several_probabilities(self, X: Any, out: Any) -> list[Array]:
        output = self.forest.output
        shapes = [(labels.size,) for labels in output.classes or ()]
        if out is not None:
            row_blocks.require_list(out, shapes, output.dtype, X)
        found = self._predictions.probabilities(self.raw(X))
        return found if out is None else row_blocks.copy_list(found, out)

    def _by_target(self, columns: Array) -> list[Array]:
        """Return the probabilities of each target, which stand side by side."""
        sizes = [labels.size for labels in self.forest.output.classes or ()]
        return np.split(columns, np.cumsum(sizes)[:-1], axis=1)


def _nothing(X: Any) -> None:
    return None


def _remade(forest: Forest, engine: Engine, why: str) -> Predictor:
    return Predictor(forest, engine, why=why)
