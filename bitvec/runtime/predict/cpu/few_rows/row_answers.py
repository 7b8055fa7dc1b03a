"""Raw scores of some rows become transformed scores, probabilities or labels."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core.output import Output, PostTransform
from bitvec.runtime.predict.cpu.compiling import Function, by_address, inner
from bitvec.runtime.predict.cpu.few_rows import row_links
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import (
    c_call,
    load_float64,
    load_int64,
    load_like,
    place_of,
    room_on_stack,
    size_of,
    store,
    zero_of,
)


def fields_of(
    output: Output,
    form: Function | None,
    *,
    labels: np.ndarray | None = None,
    offset: float = np.nan,
) -> dict[str, Any] | None:
    """Return the fields that an answer reads, or None if it is not served here.

    Parameters
    ----------
    form : Function, optional
        One of this module; None for the transformed scores themselves.
    labels : ndarray, optional
        Those of all groups, one group after the other.
    offset : float
        What is subtracted from the scores of an isolation forest, NaN for nothing.
    """
    of_raw = form is fill_labels and output.labels_from_raw
    fields = row_links.fields_of(
        replace(output, post_transform=PostTransform.IDENTITY) if of_raw else output
    )
    if fields is None:
        return None
    above = output.dtype.type(output.second_above)
    n_classes = [labels.size for labels in output.classes or ()]
    return fields | {
        "link": fields.get("transform", 0) if form is None else form.address(output.dtype),
        "n_classes_of": np.array(n_classes, np.int64),
        "second_above": np.array([above], np.float64),
        "ties_to_second": output.tie_to_second,
        "labels": None if labels is None else labels.view(np.uint8),
        "label_bytes": 0 if labels is None else labels.itemsize,
        "offset": np.array([offset]),
    }


@inner
def _transformed(header, n_rows, scores, room):
    """Return the address of transformed scores, in the room if they are others; 0 if not served."""
    transform = field(header, "transform")
    if transform == 0:
        return scores
    return room if c_call(transform, (header, n_rows, scores, room)) else 0


@by_address
def fill_columns(header, n_rows, scores, out):
    """Fill the probabilities of all classes, of which one output stands for two."""
    zero, to, n_outputs = zero_of(out), place_of(out), field(header, "n_outputs")
    width = size_of(zero)
    if field(header, "transform") and field(header, "out_bytes") == width * n_outputs:
        return c_call(field(header, "transform"), (header, n_rows, scores, to))
    room = room_on_stack(width * n_rows * n_outputs)
    values = _transformed(header, n_rows, scores, room)
    if values == 0:
        return 0
    for _ in range(n_rows):
        for group in range(field(header, "n_groups_of")):
            size = load_int64(field(header, "n_outputs_of") + 8 * group)
            if size == 1 and load_int64(field(header, "n_classes_of") + 8 * group) == 2:
                second = load_like(values, zero)
                store(to, type(zero)(1) - second)
                store(to + width, second)
                to += 2 * width
            else:
                for k in range(size):
                    store(to + width * k, load_like(values + width * k, zero))
                to += size * width
            values += size * width
    return 1


@inner
def _winner(header, values, size, n_classes, zero):
    """Return the class of one group: `bitvec.core.transforms.class_labels`."""
    width = size_of(zero)
    best = load_like(values, zero)
    if size == 1 and n_classes == 2:
        at = load_float64(field(header, "second_above"))
        above = best >= at if field(header, "ties_to_second") else best > at
        return 1 if above else 0
    winner = 0
    for k in range(size):
        value = load_like(values + width * k, zero)
        if value != value:
            return k
        if value > best:
            winner, best = k, value
    return winner


@by_address
def fill_labels(header, n_rows, scores, out):
    """Copy the label of each group."""
    zero, to = zero_of(out), place_of(out)
    width = size_of(zero)
    room = room_on_stack(width * n_rows * field(header, "n_outputs"))
    values = _transformed(header, n_rows, scores, room)
    if values == 0:
        return 0
    n_bytes = field(header, "label_bytes")
    for _ in range(n_rows):
        labels = field(header, "labels")
        for group in range(field(header, "n_groups_of")):
            size = load_int64(field(header, "n_outputs_of") + 8 * group)
            n_classes = load_int64(field(header, "n_classes_of") + 8 * group)
            label = labels + n_bytes * _winner(header, values, size, n_classes, zero)
            if n_bytes == 8:
                store(to, load_int64(label))
            else:
                for k in range(n_bytes):
                    store(to + k, load_like(label + k, np.uint8(0)))
            values += size * width
            labels += n_bytes * n_classes
            to += n_bytes
    return 1


@by_address
def fill_isolation(header, n_rows, scores, out):
    """Fill the negative of the transformed score, less the offset if there is one."""
    zero, to = zero_of(out), place_of(out)
    values = _transformed(header, n_rows, scores, room_on_stack(size_of(zero) * n_rows))
    if values == 0:
        return 0
    offset = load_float64(field(header, "offset"))
    for row in range(n_rows):
        at = size_of(zero) * row
        value = -load_like(values + at, zero)
        store(to + at, value if offset != offset else value - type(zero)(offset))
    return 1
