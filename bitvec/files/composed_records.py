"""A composition as named arrays and one JSON record: its forests, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.composition import (
    Asked,
    Combined,
    Composition,
    Curve,
    Elementwise,
    Interpolated,
    Logistic,
    Member,
)
from bitvec.errors import FileFormatError
from bitvec.files.fields import Reader, Record, Tensors, elements, pack_labels
from bitvec.files.records import pack, pack_inputs, unpack, unpack_classes, unpack_inputs

MOST_NESTED = 8
"""Deepest nesting of compositions."""


def pack_composition(composition: Composition) -> tuple[Tensors, Record]:
    """Return the arrays of a composition by name, without copying them, and its record.

    Raises
    ------
    UnsupportedModelError
        As `pack` of one of its forests does.
    """
    tensors: Tensors = {}
    members = []
    for number, member in enumerate(composition.members):
        where = f"member{number}."
        nested = isinstance(member.model, Composition)
        if isinstance(member.model, Composition):
            own, record = pack_composition(member.model)
        else:
            own, record = pack(member.model)
        tensors |= {f"{where}{name}": array for name, array in own.items()}
        members.append(
            {
                "nested": nested,
                "model": record,
                "asked": member.asked.value,
                "columns": None if member.columns is None else list(member.columns),
                "outputs": None if member.outputs is None else list(member.outputs),
                "curves": [
                    _pack_curve(curve, f"{where}curve{at}.", tensors)
                    for at, curve in enumerate(member.curves)
                ],
            }
        )
    if composition.weights is not None:
        tensors["weights"] = composition.weights
    classes = composition.classes
    return tensors, {
        "members": members,
        "combined": composition.combined.value,
        "inputs": pack_inputs(composition.inputs),
        "classes": None if classes is None else [pack_labels(classes)],
        "kind": composition.kind,
    }


def _pack_curve(curve: Curve, where: str, tensors: Tensors) -> Record:
    if isinstance(curve, Logistic):
        return {"curve": "logistic", "a": curve.a, "b": curve.b}
    if isinstance(curve, Interpolated):
        tensors[f"{where}x"], tensors[f"{where}y"] = curve.x, curve.y
        return {"curve": "interpolated"}
    return {"curve": "elementwise", "steps": [list(step) for step in curve.steps]}


def unpack_composition(tensors: Tensors, record: Record, depth: int = 0) -> Composition:
    """Build the composition again from what `pack_composition` returned; both are emptied.

    Raises
    ------
    FileFormatError
        If a value is missing, unknown or of another type.
    InvalidForestError
        If the values are no composition.
    """
    if depth > MOST_NESTED:
        raise FileFormatError(f"compositions must be nested at most {MOST_NESTED} deep.")
    read = Reader(record, "composition")
    members = tuple(
        _unpack_member(one, f"member{number}", tensors, depth)
        for number, one in enumerate(read.take("members", list))
    )
    classes = read.take("classes", list, None)
    inputs = unpack_inputs(read.take("inputs", dict), "inputs")
    combined = Combined(read.take_choice("combined", tuple(Combined)))
    kind = read.take("kind", str)
    read.finish()
    weights = tensors.pop("weights", None)
    if tensors:
        raise FileFormatError(f"the unknown tensor {min(tensors)[:60]!r} must not be there.")
    labels = None if classes is None else unpack_classes(classes, "classes")
    if labels is not None and len(labels) != 1:
        raise FileFormatError(f"`classes` must be of one group, got {len(labels)}.")
    return Composition(members, combined, inputs, labels[0] if labels else None, weights, kind)


def _unpack_member(record: Any, where: str, tensors: Tensors, depth: int) -> Member:
    read = Reader(record, where)
    prefix = f"{where}."
    curves = tuple(
        _unpack_curve(one, f"{prefix}curve{at}", tensors)
        for at, one in enumerate(read.take("curves", list))
    )
    names = [name for name in tensors if name.startswith(prefix)]
    own = {name.removeprefix(prefix): tensors.pop(name) for name in names}
    nested, model = read.take("nested", bool), read.take("model", dict)
    asked = Asked(read.take_choice("asked", tuple(Asked)))
    columns, outputs = (read.take(name, list, None) for name in ("columns", "outputs"))
    read.finish()
    return Member(
        unpack_composition(own, model, depth + 1) if nested else unpack(own, model),
        asked,
        None if columns is None else elements(f"{where}.columns", columns, int),
        None if outputs is None else elements(f"{where}.outputs", outputs, int),
        curves,
    )


def _unpack_curve(record: Any, where: str, tensors: Tensors) -> Curve:
    read = Reader(record, where)
    kind = read.take_choice("curve", ("logistic", "interpolated", "elementwise"))
    curve: Curve
    if kind == "logistic":
        curve = Logistic(read.take("a", float), read.take("b", float))
    elif kind == "interpolated":
        empty = np.zeros(0)
        curve = Interpolated(tensors.pop(f"{where}.x", empty), tensors.pop(f"{where}.y", empty))
    else:
        steps = []
        for step in read.take("steps", list):
            if type(step) is not list or len(step) != 2 or type(step[0]) is not str:
                raise FileFormatError(f"`{where}.steps` must hold names and numbers.")
            if type(step[1]) not in (float, type(None)):
                raise FileFormatError(f"`{where}.steps` must hold names and numbers.")
            steps.append((step[0], step[1]))
        curve = Elementwise(tuple(steps))
    read.finish()
    return curve
