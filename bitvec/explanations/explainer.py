"""Explain forests: Shapley values of raw scores, and the shares of pairs of columns in them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest, require_forest
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError
from bitvec.explanations.background_values import BackgroundValues
from bitvec.explanations.coalition_values import CoalitionValues
from bitvec.explanations.linear_values import LinearValues
from bitvec.explanations.path_values import PathValues
from bitvec.explanations.unsupported import (
    RESPONSES,
    Background,
    Response,
    background_method,
    require_supported,
)
from bitvec.runtime.predict import row_blocks, subnormals, tables
from bitvec.runtime.predict.threads import effective_jobs, for_each_block
from bitvec.runtime.predict.unsupported import refused_values

Progress = Callable[[float], None]
Dtype = Literal["float32", "float64"]
DTYPES: tuple[Dtype, ...] = ("float32", "float64")


Method = PathValues | BackgroundValues | LinearValues | CoalitionValues


class Estimates(NamedTuple):
    """Values and their standard errors, both float64 (batch, n_features[, n_outputs]).

    Of interactions, both are (batch, n_features, n_features[, n_outputs]).
    """

    values: Array
    standard_error: Array


def explain(
    forest: Forest,
    *,
    background: Any = None,
    response: Response = "raw",
    dtype: Dtype = "float32",
    permutations: int | None = None,
    seed: int = 0,
    n_jobs: int | None = 1,
) -> Explainer:
    """Make a forest ready to be explained: raw scores as sums over the columns of X.

    Parameters
    ----------
    forest : Forest
        By cover its nodes read one column each: `bitvec.explanations.unsupported` lists what is
        refused, and what is explained with background rows alone.
    background : table of rows, (n, n_features), optional
        Unknown columns take the values of each of these rows (interventional values). If not given,
        a test of an unknown column averages its two sides by their cover, the training weight that
        reached them (path-dependent values, those of the libraries themselves).
    response : str
        "raw", or "scores" after the link: probabilities of a classifier, with `background`.
    dtype : str
        Of products and sums by cover: "float32", in which values differ from exact ones by less
        than a millionth of the largest, or "float64", which takes about twice the time. Sums over
        many trees, all with `background`, and what is returned are float64 in either case.
    permutations : int, optional
        Where predictions must be summed over all subsets of columns, as for oblique nodes, and they
        are more than 12: pairs of random orders, each with its reverse, by which values are sampled
        instead, 2 at least. Also where there are fewer columns, if that takes fewer predictions.
    seed : int
        Of the orders, the same for all rows.
    n_jobs : int, optional
        Threads: None or -1 for all cores, -2 for all but one.

    Raises
    ------
    UnsupportedModelError
        If the forest is of a kind that is not explained.
    InputError
        If it has no covers, and no `background` is given; if that is no table of rows; if values
        are too many to be exact, and no `permutations` are given; or if an option is none of those
        above.

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
    _require_options(response, dtype, permutations, seed)
    if background is not None:
        kind = background_method(forest, response)
        rows = _background_rows(forest, background)
        if kind is Background.BY_LEAF:
            return Explainer(forest, BackgroundValues(forest, rows), n_jobs=n_jobs)
        if kind is Background.LINEAR:
            return Explainer(forest, LinearValues(forest, rows), n_jobs=n_jobs)
        method = CoalitionValues(
            forest, rows, response=response, at_once=kind is Background.AT_ONCE,
            permutations=permutations, seed=seed,
        )  # fmt: skip
        return Explainer(forest, method, n_jobs=n_jobs)
    require_supported(forest, response)
    if permutations is not None:
        raise InputError(
            "`permutations` must come with `background`, got none: pass rows, or leave it out."
        )
    return Explainer(forest, PathValues(forest, dtype), n_jobs=n_jobs)


class Explainer:
    """Explains the raw scores of one forest, or its scores; made by `explain`.

    `base_value` and the values of a row sum to its raw score, sampled ones too: in float64, but for
    values by cover of `dtype="float32"`, whose sum has their rounding. Methods take what
    `bitvec.compile(forest).predict` takes, iterators of tables too, and may be called from several
    threads at once.

    Parameters
    ----------
    forest : Forest
    method : Method
    n_jobs : int, optional

    Attributes
    ----------
    base_value : float, or float64 (n_outputs,) of several outputs
        The mean raw score, by cover or of the background rows.
    is_exact : bool
        Whether values are exact to rounding, that of `dtype` by cover; otherwise they are sampled,
        and `estimates` gives their standard errors.
    """

    def __init__(self, forest: Forest, method: Method, *, n_jobs: int | None = 1) -> None:
        self.forest = forest
        self._n_threads = effective_jobs(n_jobs)
        self._refused = refused_values(forest)
        self._method = method
        self.is_exact = not (isinstance(method, CoalitionValues) and method.is_sampled)
        base = method.base
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

    def estimates(
        self, X: Any, *, interactions: bool = False, progress: Progress | None = None
    ) -> Estimates:
        """Return the values of each row, or its interactions, and their standard errors.

        The error is that of the mean over the pairs of orders that are drawn; the background is
        used as a whole. It is 0 where values are exact.

        Parameters
        ----------
        X : table of rows, (batch, n_features), or iterator of such
        interactions : bool
        progress : callable, optional
            As of `values`.

        Raises
        ------
        InputError
            As of `values`.
        """
        method = self._method
        if not isinstance(method, CoalitionValues):
            explained = self.interactions if interactions else self.values
            values = explained(X, progress=progress)
            return Estimates(values, np.zeros_like(values))
        n = self.forest.n_features
        if interactions:
            both = self._filled(X, method.interaction_estimates, (n, 2), progress)
            return Estimates(both[:, :, :, 0].copy(), both[:, :, :, 1].copy())
        both = self._filled(X, method.estimates, (2,), progress)
        return Estimates(both[:, :, 0].copy(), both[:, :, 1].copy())

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
            diagonal stands what a column adds alone, so that rows sum to the `values`. Sampled
            where values are sampled, from about as many times more predictions as columns are read.

        Raises
        ------
        InputError
            As of `values`.
        """
        return self._filled(X, self._method.interactions, (self.forest.n_features,), progress)

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


def _background_rows(forest: Forest, background: Any) -> Array:
    refused = refused_values(forest)
    try:
        rows = tables.rows(background, forest.inputs, forest.dtype)
        if refused is not None:
            refused.check(rows)
    except InputError as error:  # it speaks of the rows that are explained
        told = str(error).replace("`X`", "`background`").replace("Input X", "`background`")
        raise InputError(told) from None
    if not len(rows):
        raise InputError("`background` must have at least one row, got none: pass some rows.")
    return rows


def _require_options(response: str, dtype: str, permutations: int | None, seed: int) -> None:
    for name, given, known in (("response", response, RESPONSES), ("dtype", dtype, DTYPES)):
        if given not in known:
            raise InputError(
                f"`{name}` must be one of {', '.join(known)}, got {given!r}: choose one of them."
            )
    for name, value, least in (("permutations", permutations, 2), ("seed", seed, 0)):
        is_whole = hasattr(value, "__index__") and not isinstance(value, bool)
        if value is not None and not (is_whole and value >= least):
            raise InputError(
                f"`{name}` must be a whole number, {least} at least, got {value!r}: pass such a "
                "number."
            )
