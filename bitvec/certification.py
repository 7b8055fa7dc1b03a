"""Comparison of a forest with its source, or with a file that it was exported to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bitvec.converters import dispatch
from bitvec.converters.dispatch import convert_forest
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.to_float32 import narrow_tests
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.predict.frames import native_frame
from bitvec.runtime.predict.predictor import compile as compiled
from bitvec.verify.certificates import Certificate, compare
from bitvec.verify.certificates.frame_comparison import compare_frames, with_frames
from bitvec.verify.oracle import FrameAnswers, Oracle
from bitvec.verify.probing import probe_rows
from bitvec.verify.progress_bar import progress as bar
from bitvec.verify.renumbering import renumbered, with_written_trees

FRAME_ROWS, MADE_ROWS, FRAME_BLOCKS = 20_000, 256, 4
"""Rows of a given and of a made data frame that a certificate compares, and the blocks of rows for
the nodes that the latter are taken from."""


def oracle_of(model: Any) -> Oracle:
    """Return what a forest is compared with: a source model, its file, or an exported file.

    An ONNX file that bitvec exported answers through its own outputs; one of another exporter is a
    source model. A file is opened by its library in a child process, which ends with the oracle:
    what it does to that library is a FileFormatError here. Starting it takes about as long as
    importing the library does.
    """
    if isinstance(model, Oracle):
        return model
    if isinstance(model, str | os.PathLike) and Path(model).suffix.lower() == ".sql":
        from bitvec.runtime.export.sql.oracle import oracle_of as statement_oracle

        return statement_oracle(model)
    return dispatch.oracle_of(model)


def compared(
    forest: Forest,
    model: Any,
    X: ArrayLike | None,
    *,
    exported: bool | None,
    engine: str,
    seed: int,
    allow_values_only: bool,
    progress: Callable[[float], None] | Literal[False] | None,
) -> Certificate:
    """Return the certificate of a comparison; options are those of `bitvec.certify`."""
    other = oracle_of(model)
    if other.input_dtype is not None and other.input_dtype.itemsize < forest.dtype.itemsize:
        forest, other = _narrowed(forest, other)
    # The oracle says which rows it accepts; what the source refuses beside is no question here.
    predictor = compiled(replace(forest, source=None), engine=engine)
    if exported is None:
        # What answers for "onnx" is "onnxruntime".
        exported = forest.source is None or not other.name.startswith(forest.source.library)
    if exported and not isinstance(model, Oracle):
        other = renumbered(forest, other, lambda: convert_forest(model))
    if not exported and not isinstance(model, Oracle):
        other = replace(other, inputs=_inputs_of(model))
    other = with_written_trees(forest, other)
    rows = None if X is None else predictor.rows(X)
    with bar("certifying", quiet=progress is not None, lines=False) as advance:
        certificate = compare(
            forest,
            exits=predictor.engine.exit_leaves,
            raw=predictor.engine.raw,
            scores=predictor.scores,
            predict=predictor.predict,
            oracle=other,
            X=rows,
            seed=seed,
            allow_values_only=allow_values_only,
            progress=advance or progress or None,
        )
    if other.of_frame is None:
        return certificate
    own = FrameAnswers(
        predictor.raw,
        predictor.exit_leaves,
        predictor.predict if forest.output.is_classifier else None,
    )
    frames = _frames(forest, other, X, rows, seed)
    allowed = 0.0 if certificate.exact else certificate.allowed_difference
    return with_frames(
        certificate, compare_frames(forest, other, own, frames, allowed=allowed), other
    )


def _inputs_of(model: Any) -> Inputs | None:
    """Return the columns of a source; none of what answers by more than its forest."""
    try:
        return convert_forest(model).inputs
    except UnsupportedModelError:
        return None


def _frames(
    forest: Forest, other: Oracle, X: Any, rows: Array | None, seed: int
) -> Iterator[tuple[str, Any]]:
    """Yield the given data frame, and frames made of rows for the forest's nodes."""
    assert other.of_frame is not None
    given = native_frame(X, FRAME_ROWS)
    if given is not None:
        yield f"the given frame, up to {FRAME_ROWS} rows", given
    try:
        from bitvec.runtime.predict.pandas import frames
    except ImportError:
        return
    if rows is None or not len(rows):
        probes = probe_rows(forest, seed=seed, missing=other.accepts_missing, infinite=False)
        blocks = [rows for rows, _ in islice(probes.blocks(), FRAME_BLOCKS)]
        rows = np.concatenate([np.zeros((0, forest.n_features), forest.dtype), *blocks])
    rows = rows[:: max(1, len(rows) // MADE_ROWS)][:MADE_ROWS]
    yield from frames(forest.inputs, rows, truths=other.of_frame.truths, seed=seed)


def _narrowed(forest: Forest, other: Oracle) -> tuple[Forest, Oracle]:
    """Return the forest as rows of float32 go through it, for a file that reads such rows."""
    if other.input_dtype != np.float32:
        raise InputError(
            f"a file must read float32 or float64 to be certified, got {other.input_dtype}: "
            "certify the same export without `input_dtype`."
        )
    note = "the file reads float32: rows of float32 were compared, on the routes that they take"
    domains = forest.inputs.domains
    if domains is not None:
        own = (replace(d, dtype="float32" if d.dtype == "float64" else d.dtype) for d in domains)
        forest = replace(forest, inputs=replace(forest.inputs, domains=tuple(own)))
    return narrow_tests(forest), replace(other, notes=(*other.notes, note))
