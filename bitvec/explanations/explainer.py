"""Explain forests: Shapley values of raw scores, and the shares of pairs of columns in them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from bitvec.core.arrays import Array, Float64
from bitvec.core.forest import Forest, require_forest
from bitvec.errors import InputError
from bitvec.explanations.background_values import BackgroundValues
from bitvec.explanations.path_values import PathValues
from bitvec.explanations.unsupported import require_supported
from bitvec.runtime.predict import row_blocks, subnormals, tables
from bitvec.runtime.predict.threads import effective_jobs, for_each_block
from bitvec.runtime.predict.unsupported import refused_values

Progress = Callable[[float], None]


def explain(forest: Forest, *, background: Any = None, n_jobs: int | None = 1) -> Explainer:
    """Make a forest ready to be explained: raw scores as sums over the columns of X.

    Parameters
    ----------
    forest : Forest
        Its nodes read one column each: `bitvec.explanations.unsupported` lists what is refused.
    background : table of rows, (n, n_features), optional
        Unknown columns take the values of each of these rows (interventional values). If not given,
        a test of an unknown column averages its two sides by their cover, the training weight that
        reached them (path-dependent values, those of the libraries themselves).
    n_jobs : int, optional
        Threads: None or -1 for all cores, -2 for all but one.

    Raises
    ------
    UnsupportedModelError
        If the forest is of a kind that is not explained.
    InputError
        If it has no covers, and no `background` is given; or if that is no table of rows.

    Examples
    --------
    >>> from bitvec.explanations.covers import with_cover
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> explainer = explain(with_cover(stump, [[0.0, 9.0], [1.0, 9.0], [2.0, 9.0], [3.0, 9.0]]))
    >>> explainer.base_value
    17.5
    >>> explainer.values([[0.0, 9.0], [1.0, 9.0]]).tolist()
    [[-7.5, 0.0], [2.5, 0.0]]
    >>> explain(stump, background=[[0.0, 9.0], [1.0, 9.0]]).values([[0.0, 9.0]]).tolist()
    [[-5.0, 0.0]]
    """
    require_forest(forest)
    require_supported(forest)
    return Explainer(forest, background=background, n_jobs=n_jobs)


class Explainer:
    """Explains the raw scores of one forest; made by `explain`.

    `base_value` and the values of a row sum to its raw score, in float64. Methods take what
    `bitvec.compile(forest).predict` takes, iterators of tables too, and may be called from several
    threads at once.

    Parameters
    ----------
    forest : Forest
    background : table of rows, optional
    n_jobs : int, optional

    Attributes
    ----------
    base_value : float, or float64 (n_outputs,) of several outputs
        The mean raw score, by cover or of the background rows.
    """

    def __init__(self, forest: Forest, *, background: Any = None, n_jobs: int | None = 1) -> None:
        self.forest = forest
        self._n_threads = effective_jobs(n_jobs)
        self._refused = refused_values(forest)
        self._method: PathValues | BackgroundValues
        if background is None:
            self._method = PathValues(forest)
        else:
            self._method = BackgroundValues(forest, self._background_rows(background))
        base = self._method.base
        self.base_value: float | Array = float(base[0]) if base.size == 1 else base

    def __repr__(self) -> str:
        return f"Explainer({self.forest!r}, {self._method.described})"

    def values(self, X: Any, *, progress: Progress | None = None) -> Float64[Array, "batch ..."]:
        """Return the Shapley values of each row: what each column adds to the base value.

        Parameters
        ----------
        X : table of rows, (batch, n_features), or iterator of such
        progress : callable, optional
            Called with the fraction of the rows of a table that are done, now and then.

        Returns
        -------
        float64, (batch, n_features), or (batch, n_features, n_outputs) of several outputs
            As the package shap shapes them.

        Raises
        ------
        InputError
            If X does not fit, or holds a value that the source library refuses.
        """
        return self._filled(X, self._method.values, (), progress)

    def interactions(
        self, X: Any, *, progress: Progress | None = None
    ) -> Float64[Array, "batch ..."]:
        """Return the interaction values of each row: what each pair of columns adds together.

        Parameters
        ----------
        X : table of rows, (batch, n_features), or iterator of such
        progress : callable, optional
            As of `values`.

        Returns
        -------
        float64, (batch, n_features, n_features), or (batch, n_features, n_features, n_outputs)
            Symmetric: each of the two places of a pair has half of what the pair adds. On the
            diagonal stands what a column adds alone, so that rows sum to the `values`.

        Raises
        ------
        InputError
            As of `values`.
        """
        return self._filled(X, self._method.interactions, (self.forest.n_features,), progress)

    def _background_rows(self, background: Any) -> Array:
        rows = tables.rows(background, self.forest.inputs, self.forest.dtype)
        if not len(rows):
            raise InputError("`background` must have at least one row, got none: pass some rows.")
        if self._refused is not None:
            self._refused.check(rows)
        return rows

    def _filled(
        self,
        X: Any,
        block_values: Callable[[Array], Array],
        shape: tuple[int, ...],
        progress: Progress | None,
    ) -> Array:
        subnormals.check()
        forest, lock = self.forest, Lock()
        n_outputs = forest.n_outputs

        def work(rows: Array, out: Array) -> None:
            done = 0

            def fill(part: slice) -> None:
                nonlocal done
                found = block_values(rows[part])
                out[part] = found[..., 0] if n_outputs == 1 else found
                if progress is not None:
                    with lock:
                        done += part.stop - part.start
                        progress(done / len(rows))

            for_each_block(fill, len(rows), block=self._method.block, n_threads=self._n_threads)

        outputs = () if n_outputs == 1 else (n_outputs,)
        return row_blocks.fill(
            X,
            forest.inputs,
            forest.dtype,
            work if self._refused is None else self._refused.before(work),
            shape=(forest.n_features, *shape, *outputs),
            kind=np.dtype(np.float64),
            out=None,
        )
