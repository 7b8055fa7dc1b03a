"""A forest made ready to predict, with scikit-learn's verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int32, Int64

from bitvec import reference, transforms, tree_paths
from bitvec.arrays import Array, ranges
from bitvec.errors import BitvecError, MissingLibraryError
from bitvec.forest import Forest, require_forest
from bitvec.node_tests import Kind
from bitvec.output import PostTransform
from bitvec.runtime import tables
from bitvec.runtime.engine import Engine, create
from bitvec.runtime.subnormals import warn_where_flushed


def compile(
    forest: Forest,
    *,
    engine: str = "auto",
    n_jobs: int | None = None,
    device: str | None = None,
    warm: bool = False,
) -> Predictor:
    """Make a forest ready to predict.

    Parameters
    ----------
    forest : Forest
    engine : {"auto", "numba", "torch", "reference"}
        "auto" is torch where a device is named, else numba where it is installed.
    n_jobs : int, optional
        Threads: None or -1 for all cores, -2 for all but one. Small batches use one thread.
    device : str, optional
        Where torch runs, for example "cuda".
    warm : bool
        Whether to compile now what would otherwise be compiled by the first prediction; later runs
        load it from numba's cache.

    Raises
    ------
    InputError
        If the engine is unknown or has no use for an option.
    MissingLibraryError
        If the engine's library is not installed.

    Examples
    --------
    >>> from bitvec.forest import from_matrices
    >>> stump = from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> compile(stump).predict([[0.0, 9.0], [1.0, 9.0]]).tolist()
    [10.0, 20.0]
    """
    require_forest(forest)
    chosen, why = create(engine, forest, n_jobs=n_jobs, device=device)
    predictor = Predictor(forest, chosen, why=why)
    if warm:
        predictor.warm()
    return predictor


class Predictor:
    """Predicts with one forest on one engine; made by `compile`.

    Every method takes what `bitvec.runtime.tables.rows` reads: arrays, lists, scipy sparse
    matrices, pandas, polars and pyarrow tables. In a sparse matrix an absent entry is 0, or missing
    if `forest.inputs.absent_is_missing` (xgboost, treelite). Methods may be called from several
    threads at once.

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

    def __repr__(self) -> str:
        return f"Predictor({self.forest!r}, engine={self.engine.name!r})"

    def info(self) -> dict[str, Any]:
        """Return what runs and why: for people and reports, not for programs."""
        kinds, counts = np.unique(self.forest.tests.kind, return_counts=True)
        return {
            "engine": self.engine.name,
            "why": self._why,
            "n_threads": getattr(self.engine, "n_threads", 1),
            "traversal": getattr(self.engine, "traversal", None),
            "dtype": str(self.forest.dtype),
            "nodes": {
                Kind(kind).name.lower(): int(count)
                for kind, count in zip(kinds, counts, strict=True)
            },
            "soft": self.forest.kernel is not None,
            "sparse_absent": "missing" if self.forest.inputs.absent_is_missing else 0.0,
        }

    def warm(self) -> None:
        """Compile, or load from the cache, what a prediction needs."""
        X = np.zeros((1, self.forest.n_features), self.forest.dtype)
        self.engine.exit_leaves(X)
        self.engine.raw(X)

    def rows(self, X: Any) -> Float[Array, "batch n_features"]:
        """Return X as the engine reads it: an array in the forest's dtype."""
        warn_where_flushed(self.forest.dtype)
        return tables.rows(X, self.forest.inputs, self.forest.dtype)

    def _run(self, method: Callable[[Array], Array], X: Any) -> Array:
        warn_where_flushed(self.forest.dtype)  # once, however many parts there are
        inputs, dtype = self.forest.inputs, self.forest.dtype
        results = [method(tables.rows(part, inputs, dtype)) for part in tables.blocks(X)]
        return results[0] if len(results) == 1 else np.concatenate(results)

    def raw(self, X: Any) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores, in the dtype in which the source accumulates them."""
        return self._run(self.engine.raw, X)

    def decision_function(self, X: Any) -> Float[Array, " batch"] | Float[Array, "batch n_outputs"]:
        """Return the raw scores, one axis if there is one output.

        Of an isolation forest, as in scikit-learn, `score_samples` less the offset: below 0 for
        outliers.
        """
        offset = self._isolation_offset()
        if offset is not None:
            return self.score_samples(X) - offset
        raw = self.raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def score_samples(self, X: Any) -> Float[Array, " batch"]:
        """Return the scores of an isolation forest as scikit-learn has them: low for outliers.

        Raises
        ------
        BitvecError
            If the forest is no isolation forest of scikit-learn.
        """
        if self._isolation_offset() is None:
            raise BitvecError(
                "`score_samples` needs an isolation forest of scikit-learn: use `scores`."
            )
        return -self.scores(X)[:, 0]

    def _isolation_offset(self) -> float | None:
        """Return what scikit-learn's `decision_function` subtracts; None for other forests."""
        source, kind = self.forest.source, self.forest.output.post_transform
        if source is None or kind is not PostTransform.EXPONENTIAL_STANDARD_RATIO:
            return None
        offset = source.metadata.get("offset")
        return offset if source.library == "sklearn" and isinstance(offset, float) else None

    def scores(self, X: Any) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores after the post-transform (sigmoid, softmax, exponential ...)."""
        return transforms.transform(self.forest.output, self.raw(X))

    def predict(self, X: Any) -> Array:
        """Return a classifier's labels or a regressor's values, one column for each of several."""
        return transforms.predictions(self.forest.output, self.raw(X))

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities, (batch, n_classes), or for several targets a list of them.

        Raises
        ------
        BitvecError
            If the forest is no classifier.
        """
        output = self.forest.output
        if output.classes is None:
            raise BitvecError(
                "`predict_proba` needs a classifier, got a regressor: use `predict` or `scores`."
            )
        result = transforms.probabilities(output, self.raw(X))
        return result[0] if len(result) == 1 else result

    def exit_leaves(self, X: Any) -> Int32[Array, "batch n_trees"]:
        """Return the exit leaf of every row in every tree, as leaf numbers within the tree.

        A forest with a prediction kernel exits where its hard tests say.
        """
        return self._run(self.engine.exit_leaves, X)

    def apply(self, X: Any) -> Int64[Array, "batch n_trees"]:
        """Return the source library's ids of the exit leaves, or leaf numbers where it has none."""
        exits = self.exit_leaves(X)
        source = self.forest.source
        if source is None or source.leaf_id is None:
            return exits.astype(np.int64)
        ids: Array = source.leaf_id[exits + self.forest.bitvectors.leaf_ptr[:-1]]
        return ids

    def decision_path(self, X: Any) -> Any:
        """Return which nodes every row passes, as a CSR matrix of ones.

        Returns
        -------
        scipy.sparse.csr_matrix, (batch, n_nodes)
            Columns are the forest's inner nodes; leaves are in `apply`.

        Raises
        ------
        MissingLibraryError
            If scipy is not installed.
        """
        try:
            from scipy.sparse import csr_matrix
        except ImportError as error:
            raise MissingLibraryError("scipy", "sklearn", "`decision_path`") from error
        B = self.forest.bitvectors
        leaf = self.exit_leaves(X) + B.leaf_ptr[:-1]
        met, place = np.unique(leaf, return_inverse=True)
        place = place.reshape(leaf.shape)
        path_ptr, path_node, _ = tree_paths.path_table(B, met)
        depth = np.diff(path_ptr)[place]
        # Trees, and the nodes of a path from the root down, are in rising order already.
        columns = path_node[ranges(path_ptr[place].ravel(), depth.ravel())]
        row_ptr = np.concatenate([[0], np.cumsum(depth.sum(axis=1))])
        ones = np.ones(columns.size, np.int64)
        return csr_matrix((ones, columns, row_ptr), shape=(len(leaf), B.n_nodes))

    def per_tree(self, X: Any) -> Float[Array, "batch n_trees width"]:
        """Return what each tree says: its exit leaf's vector, before weights and base score.

        A forest with a prediction kernel gives each tree's expected vector instead.
        """
        X, forest = self.rows(X), self.forest
        if forest.n_trees == 0:
            return np.zeros((len(X), 0, forest.leaves.v.shape[1]), forest.leaves.v.dtype)
        if forest.kernel is not None:
            return np.stack(reference.soft_vectors(forest, X), axis=1)
        leaf = self.engine.exit_leaves(X) + forest.bitvectors.leaf_ptr[:-1]
        vectors = [reference.leaf_vectors(forest, X, leaf[:, t]) for t in range(forest.n_trees)]
        return np.stack(vectors, axis=1)
