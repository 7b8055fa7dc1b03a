"""The comparison of a forest with its source through data frames, which both are handed as is."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool
from bitvec.errors import InputError
from bitvec.verify.certificates.certificate import Certificate
from bitvec.verify.certificates.comparing import DENSE_NOTE, FRAMES_NOTE
from bitvec.verify.certificates.footing import numbering
from bitvec.verify.certificates.frame_result import (
    DIFFER,
    EQUAL,
    FOREST,
    REFUSED,
    SOURCE,
    FrameResult,
)
from bitvec.verify.oracle import FrameAnswers, Oracle

SAID = 120
"""Letters of an error that are kept."""


def with_frames(
    certificate: Certificate, results: tuple[FrameResult, ...], oracle: Oracle
) -> Certificate:
    """Return the certificate with what frames have shown."""
    if not results or oracle.of_frame is None:
        return certificate
    notes = [note if note != FRAMES_NOTE else DENSE_NOTE for note in certificate.exclusions]
    return replace(certificate, frames=results, exclusions=(*notes, *oracle.of_frame.notes))


def compare_frames(
    forest: Forest,
    oracle: Oracle,
    answers: FrameAnswers,
    frames: Iterable[tuple[str, Any]],
    *,
    allowed: float | None = 0.0,
) -> tuple[FrameResult, ...]:
    """Hand frames to a forest and its source, and compare what both answer.

    Parameters
    ----------
    forest : Forest
    oracle : Oracle
        With answers to frames, `of_frame`.
    answers : FrameAnswers
        What answers for the forest; its leaf ids are leaf numbers within each tree.
    frames : iterable of (str, data frame)
        Each with a word for its kind.
    allowed : float, optional
        How far raw scores may lie apart; None leaves them out.
    """
    assert oracle.of_frame is not None
    exits = None if oracle.of_frame.leaf_ids is None else answers.leaf_ids
    own = replace(answers, leaf_ids=None)
    if exits is not None:
        leaf_id, first = numbering(forest, oracle), forest.bitvectors.leaf_ptr[:-1]
        own = replace(answers, leaf_ids=lambda frame: leaf_id[exits(frame) + first])
    return tuple(_result(kind, frame, oracle.of_frame, own, allowed) for kind, frame in frames)


def _result(
    kind: str, frame: Any, source: FrameAnswers, own: FrameAnswers, allowed: float | None
) -> FrameResult:
    n_rows = len(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A library refuses by whatever exception it has.
        expected, source_said = _asked(source, frame, Exception)
        got, forest_said = _asked(own, frame, InputError)
    if expected is None or got is None:
        outcome = REFUSED if expected is got else SOURCE if expected is None else FOREST
        return FrameResult(kind, outcome, n_rows, 0, source_said or forest_said)
    differs = np.zeros(n_rows, np.bool_)
    for part, (a, b) in enumerate(zip(expected, got, strict=True)):
        if a is not None and b is not None:
            differs |= _differs(np.asarray(a), np.asarray(b), n_rows, allowed if part == 0 else 0.0)
    count = int(differs.sum())
    return FrameResult(kind, DIFFER if count else EQUAL, n_rows, count, "")


def _asked(
    answers: FrameAnswers, frame: Any, unsupported: type[Exception]
) -> tuple[tuple[Any, ...] | None, str]:
    parts: tuple[Callable[[Any], Array] | None, ...]
    parts = (answers.raw, answers.leaf_ids, answers.labels)
    try:
        return tuple(None if part is None else part(frame) for part in parts), ""
    except unsupported as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        return None, re.sub(r"^\[\d+:\d+:\d+\] ", "", said[0])[:SAID]  # the same at any time


def _differs(a: Array, b: Array, n_rows: int, allowed: float | None) -> Bool[Array, " n_rows"]:
    """Return the rows that differ, in the narrower dtype of the two where both are floats."""
    if a.size != b.size:
        return np.ones(n_rows, np.bool_)
    a, b = a.reshape(n_rows, -1), b.reshape(n_rows, -1)
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        if {a.dtype.kind, b.dtype.kind} & {"U", "O"}:  # a text equals no number
            a, b = a.astype(object), b.astype(object)
        apart: Bool[Array, "n_rows width"] = np.not_equal(a, b).astype(np.bool_)
        return np.asarray(apart.any(axis=1))
    if allowed is None:
        return np.zeros(n_rows, np.bool_)
    narrow = min(a.dtype, b.dtype, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = a.astype(narrow), b.astype(narrow)
        far = np.abs(a.astype(np.float64) - b.astype(np.float64)) > allowed
    unequal = (a != b) & ~(np.isnan(a) & np.isnan(b)) & (far | (allowed == 0))
    return np.asarray(unequal.any(axis=1))
