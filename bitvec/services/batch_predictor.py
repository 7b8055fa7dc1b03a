"""A forest as one callable from a batch of rows to a batch of answers, in any process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from bitvec import api
from bitvec.core.arrays import Array
from bitvec.core.composition import Converted
from bitvec.errors import BitvecError, InputError, needs
from bitvec.runtime.predict.frames import as_frame, by_name, require_distinct
from bitvec.runtime.predict.native_columns import is_arrow
from bitvec.services.answer_columns import (
    AnyPredictor,
    answer_names,
    answers,
    require_outputs,
    side_by_side,
)
from bitvec.services.answer_files import arrow_table
from bitvec.services.input_files import digest

READY_ROWS = 2000
"""Rows that load the kernels of batches."""

_models: dict[tuple[str, str], Converted] = {}
_loaded: dict[_Key, AnyPredictor] = {}
_warned: set[_Key] = set()
_lock = RLock()


class _Key(NamedTuple):
    """Key of a loaded predictor."""

    path: str
    digest: str
    n_jobs: int | None
    engine: str
    kernel: str | None
    device: str | None


class BatchPredictor:
    """Predicts batches of rows: from a table to one with the same rows and columns of answers.

    A copy that is sent to another process loads the model there, once, and checks that the file is
    still the same. So it is what engines for many machines take: `map_partitions` of Dask,
    `map_batches` of Ray Data and Polars, `mapInArrow` of Spark.

    Parameters
    ----------
    path : path
        A model file of any library, or a forest that `bitvec.save` wrote, which all processes see.
    outputs : iterable of str
        What to predict, some of "label" (of a regressor: values), "proba", "raw", "score" (raw
        scores after the link), "leaves" and "shap".
    keep : iterable of str
        Columns of the batches, such as keys, that come first in the answers.
    drop : iterable of str
        Columns that are not read, such as labels, where the forest has no names.
    n_jobs : int, optional
        Threads in each process, by default 1.
    engine, kernel, device : str
        As of `bitvec.compile`.

    Raises
    ------
    InputError
        If the model has no such output, or `keep` would be called as an answer.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import polars
    >>> from bitvec import Forest, save
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(stump, f"{folder}/stump.safetensors")
    ...     predict = BatchPredictor(f"{folder}/stump.safetensors", keep=["id"])
    ...     answer = predict(polars.DataFrame({"id": [7, 8], "x": [0.0, 1.0], "z": [9.0, 9.0]}))
    >>> answer.to_dict(as_series=False)
    {'id': [7, 8], 'prediction': [10.0, 20.0]}
    """

    def __init__(
        self,
        path: str | Path,
        *,
        outputs: Iterable[str] = ("label",),
        keep: Iterable[str] = (),
        drop: Iterable[str] = (),
        n_jobs: int | None = 1,
        engine: str = "auto",
        kernel: str | None = None,
        device: str | None = None,
    ) -> None:
        self.path = str(Path(path).absolute())
        self.keep = _names(keep, "keep")
        self.drop = _names(drop, "drop")
        self._key = _Key(self.path, digest(self.path), n_jobs, engine, kernel, device)
        self.outputs = require_outputs(outputs, self.model)
        needed = [name for name in self.drop if name in (self.model.inputs.feature_names or ())]
        if needed:
            raise InputError(
                f"`drop` must name no column that the forest reads, got {needed[0]!r}: leave it."
            )
        clash = {*self.keep} & {*answer_names(self.model, self.outputs)} if self.keep else set()
        if clash:
            raise InputError(
                f"`keep` must name no column that an answer has, got {sorted(clash)[0]!r}: rename "
                "it."
            )
        # Kernels take a second to load, which a process that only hands out work does not need.
        if (engine, kernel, device) != ("auto", None, None) or n_jobs not in (None, 1):
            _ = self.predictor  # which may refuse these

    def __repr__(self) -> str:
        return f"BatchPredictor({self.path!r}, outputs={self.outputs}, keep={self.keep})"

    @property
    def digest(self) -> str:
        """The SHA-256 of the model's file, hexadecimal."""
        return self._key.digest

    @property
    def model(self) -> Converted:
        """The forest, or composition, that answers."""
        with _lock:
            key = (self.path, self._key.digest)
            if key not in _models:
                if digest(self.path) != self._key.digest:
                    raise InputError(
                        f"{self.path} must be the file that this predictor was made of, got "
                        "another one: make a new BatchPredictor."
                    )
                _models[key] = api.convert(self.path)
            return _models[key]

    @property
    def predictor(self) -> AnyPredictor:
        """The predictor of this process, loaded when it is first asked for."""
        with _lock:
            key = self._key
            if key not in _loaded:
                _loaded[key] = api.compile(
                    self.model,
                    engine=key.engine,
                    kernel=key.kernel,
                    n_jobs=key.n_jobs,
                    device=key.device,
                )
            return _loaded[key]

    def get_ready(self) -> None:
        """Load what this process predicts with, kernels included, before the first batch.

        Whatever a batch would raise is left to the first one.
        """
        import_module("bitvec.services.ready_process")
        inputs, compared = self.model.inputs, getattr(self.model, "dtype", np.float64)
        X = np.zeros((READY_ROWS, inputs.n_features), inputs.number_dtype or compared)
        outputs = tuple(name for name in self.outputs if name != "shap")  # too long for rows of 0
        with suppress(BitvecError):
            answers(self.predictor, X, outputs)

    def __call__(self, batch: Any) -> Any:
        """Return the columns to keep and the answers, as a table of the same library.

        Parameters
        ----------
        batch : pyarrow.RecordBatch, pyarrow.Table, pandas.DataFrame, polars.DataFrame, a dict of
            arrays, (n_rows,) each, or a matrix, which gives a dict of arrays

        Raises
        ------
        InputError
            If it is none of these, or lacks a column.
        """
        if isinstance(batch, dict):
            return self._of_arrays(batch)
        if isinstance(batch, np.ndarray):
            if self.keep or self.drop:
                raise InputError("columns must have names to be kept or dropped, got a matrix.")
            return side_by_side(answers(self.predictor, batch, self.outputs))
        if type(batch).__name__ == "RecordBatch" and hasattr(batch, "schema"):
            return self._of_record_batch(batch)
        if is_arrow(batch):
            found = self.answers(batch.column_names, batch.select)
            return arrow_table({**{name: batch[name] for name in self.keep}, **found})
        frame = as_frame(batch)
        if frame is None:
            raise InputError(
                "a batch must be an Arrow, pandas or polars table, a matrix or a dict of arrays, "
                f"got {type(batch).__name__}: convert it."
            )
        found = self.answers(frame.columns, lambda names: frame.select(names).to_native())
        import narwhals

        columns = [
            narwhals.new_series(name, _plain(values), backend=frame.implementation).head(
                len(values)
            )
            for name, values in found.items()
        ]
        if not self.keep and len(frame):
            return narwhals.from_dict(
                {series.name: series for series in columns}, backend=frame.implementation
            ).to_native()
        if frame.implementation.is_pandas_like():
            index = narwhals.maybe_get_index(frame)
            columns = [narwhals.maybe_set_index(series, index=index) for series in columns]
        return frame.select(list(self.keep)).with_columns(*columns).to_native()

    def answers(self, names: Sequence[str], select: Callable[[list[str]], Any]) -> dict[str, Array]:
        """Return the answers to a frame, by the names of their columns.

        Parameters
        ----------
        names : sequence of str
            Its columns.
        select : callable
            Returns the frame of some of them, in its own library.
        """
        require_distinct(names)
        missing = [name for name in (*self.keep, *self.drop) if name not in names]
        if missing:
            known = ", ".join(map(repr, names[:8]))
            raise InputError(f"a batch must have the column {missing[0]!r}, got {known}.")
        wanted = self.model.inputs.feature_names
        if wanted is None:
            apart = {*self.keep, *self.drop}
            read = [name for name in names if name not in apart]
        else:
            places, _ = by_name([*names], self.model.inputs)
            read = [names[at] for at in places if at >= 0]
            if self._key not in _warned:  # of further columns, by what reads the first batch
                _warned.add(self._key)
                apart = {*self.keep, *self.drop} - set(wanted)
                read = [name for name in names if name not in apart]
        return side_by_side(answers(self.predictor, select(read), self.outputs))

    def _of_record_batch(self, batch: Any) -> Any:
        with needs("pyarrow", "cli", "An Arrow batch"):
            import pyarrow
        table = self(pyarrow.Table.from_batches([batch])).combine_chunks()
        parts = table.to_batches()
        return parts[0] if parts else pyarrow.RecordBatch.from_pylist([], schema=table.schema)

    def _of_arrays(self, batch: dict[str, Any]) -> dict[str, Array]:
        with needs("polars", "cli", "A batch of arrays"):
            import polars
        arrays = {name: np.asarray(values) for name, values in batch.items()}
        if len({array.shape[:1] for array in arrays.values()}) > 1:
            shapes = {name: array.shape for name, array in arrays.items()}
            raise InputError(f"the arrays of a batch must be of one length, got {shapes}.")
        frame = polars.DataFrame(arrays)
        kept = {name: np.asarray(batch[name]) for name in self.keep if name in batch}
        return {**kept, **self.answers(frame.columns, frame.select)}


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InputError(f"`{what}` must hold distinct names, got {names!r}.")
    return names


def _plain(values: Array) -> Any:
    """Return what a series is made of: of no texts a text, since none would not tell its dtype."""
    if values.dtype.kind == "U":
        return values.tolist() or [""]
    return values.tolist() if values.dtype.kind == "O" else np.ascontiguousarray(values)
