"""Rows as an engine takes them: block after block of floats, from a table or a stream of tables.

A stream is an iterator of tables: what is larger than memory is read from it one table at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bitvec.core.arrays import FLOATS, Array
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.runtime.predict import tables

Fill = Callable[[Array, Array], object]
"""Computes the answers for a block of rows into an array of as many rows."""


def is_stream(X: Any) -> bool:
    """Return whether X is an iterator, of which each element is a table of rows."""
    return isinstance(X, Iterator) and not hasattr(X, "__array__")


def fill(
    X: Any,
    inputs: Inputs,
    dtype: np.dtype,
    work: Fill,
    *,
    shape: tuple[int, ...],
    kind: np.dtype,
    out: Array | None,
) -> Array:
    """Return the answers to all rows of X, computed block by block.

    Parameters
    ----------
    X : table of rows, or iterator of such
        As `bitvec.runtime.predict.tables.open_table` reads them.
    inputs : Inputs
    dtype : numpy dtype
        The forest's.
    work : callable
        Takes float rows, of any strides, and an array to fill.
    shape : tuple of int
        Of the answer to one row.
    kind : numpy dtype
        Of the answers.
    out : ndarray, (batch, *shape), optional
        Filled and returned. After an error it holds the answers to the rows before it.

    Raises
    ------
    InputError
        If X or `out` does not fit.
    """
    if out is None and _is_plain(X, inputs):
        out = np.empty((len(X), *shape), kind)
        work(X, out)
        return out
    if out is not None:
        require_fit(out, shape, kind)
    if is_stream(X):
        return _fill_stream(X, inputs, dtype, work, shape, kind, out)
    table = tables.open_table(X, inputs, dtype)
    n_rows = table.n_rows
    if out is None:
        out = np.empty((n_rows, *shape), kind)
    else:
        require_rows(out, n_rows)
        require_apart(out, table.memory())
    _fill_table(table, inputs, work, out)
    return out


def _is_plain(X: Any, inputs: Inputs) -> bool:
    """Return whether X is what engines take, in less time than `open_table` needs."""
    return (
        type(X) is np.ndarray
        and X.dtype in FLOATS
        and X.ndim == 2
        and X.shape[1] == inputs.n_features
        and X.flags.aligned
        and not inputs.category_hashes
        and (inputs.number_dtype is None or inputs.number_dtype == X.dtype.name)
    )


def _fill_table(table: tables.Table, inputs: Inputs, work: Fill, out: Array) -> None:
    start = 0
    for part in tables.parts(table, inputs.n_features):
        work(part, out[start : start + len(part)])
        start += len(part)


def _fill_stream(
    stream: Iterator[Any],
    inputs: Inputs,
    dtype: np.dtype,
    work: Fill,
    shape: tuple[int, ...],
    kind: np.dtype,
    out: Array | None,
) -> Array:
    answers = [np.empty((0, *shape), kind)]
    start = 0
    for block in stream:
        table = tables.open_table(block, inputs, dtype)
        stop = start + table.n_rows
        if out is None:
            answers.append(np.empty((table.n_rows, *shape), kind))
            _fill_table(table, inputs, work, answers[-1])
        else:
            if stop > len(out):
                require_rows(out, stop, "at least ")
            require_apart(out, table.memory())
            _fill_table(table, inputs, work, out[start:stop])
        start = stop
    if out is None:
        return np.concatenate(answers)
    require_rows(out, start)
    return out


def require_fit(out: Any, shape: tuple[int, ...], kind: np.dtype) -> None:
    """Raise InputError if `out` cannot hold answers of a shape and dtype, whatever their number."""
    wanted = f"`out` must be a writeable array of dtype {kind} and shape {_shown(shape)}, got"
    if not isinstance(out, np.ndarray):
        raise InputError(f"{wanted} {type(out).__name__}: make one by numpy.empty.")
    if out.dtype != kind:
        raise InputError(f"{wanted} dtype {out.dtype}: make one by numpy.empty.")
    if out.ndim != 1 + len(shape) or out.shape[1:] != shape:
        raise InputError(f"{wanted} shape {out.shape}: make one by numpy.empty.")
    if not out.flags.writeable:
        raise InputError(f"{wanted} one that is read-only: pass a copy.")
    if out.size and _overlaps_itself(out):
        raise InputError(f"{wanted} one whose elements share memory: pass a copy.")


def _overlaps_itself(out: Array) -> bool:
    """Return whether elements may share memory: each axis must step over all smaller ones."""
    extent = out.itemsize
    axes = zip(map(abs, out.strides), out.shape, strict=True)
    for stride, size in sorted(axis for axis in axes if axis[1] > 1):
        if stride < extent:
            return True
        extent += stride * (size - 1)
    return False


def _shown(shape: tuple[int, ...]) -> str:
    return f"({', '.join(['n_rows', *map(str, shape)])}{'' if shape else ','})"


def require_rows(out: Array, n_rows: int, least: str = "") -> None:
    """Raise InputError if `out` has another number of rows."""
    if len(out) != n_rows:
        raise InputError(
            f"`out` must have {least}one row for each of the {n_rows} rows of `X`, got "
            f"{len(out)}: make one by numpy.empty."
        )


def require_list(out: Any, shapes: Sequence[tuple[int, ...]], kind: np.dtype, X: Any) -> None:
    """Raise InputError if `out` is no list of arrays for answers of these shapes."""
    if not isinstance(out, list | tuple) or len(out) != len(shapes):
        raise InputError(
            f"`out` must be a list of {len(shapes)} arrays, one for each target, got "
            f"{type(out).__name__}: make them by numpy.empty."
        )
    for one, shape in zip(out, shapes, strict=True):
        require_fit(one, shape, kind)
        require_apart(one, (X,) if isinstance(X, np.ndarray) else ())


def copy_list(answers: list[Array], out: Sequence[Array]) -> list[Array]:
    """Copy answers into arrays of as many rows each and return these."""
    for one, answer in zip(out, answers, strict=True):
        require_rows(one, len(answer))
    for one, answer in zip(out, answers, strict=True):
        one[...] = answer
    return list(out)


def require_apart(out: Array, memories: Iterable[Array]) -> None:
    """Raise InputError if `out` may share memory with an array."""
    for memory in memories:
        if _overlap(out, memory):
            raise InputError(
                "`out` must share no memory with `X`, got one that does: pass an array of its own."
            )


def _overlap(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        # Columns side by side in one array interleave and do not overlap.
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
