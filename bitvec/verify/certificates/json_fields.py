"""The fields of a certificate as JSON values, and back with every type checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from bitvec.errors import FileFormatError
from bitvec.verify.certificates.difference import KINDS, Difference
from bitvec.verify.certificates.frame_result import OUTCOMES, FrameResult

T = TypeVar("T")

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_record(certificate: Any) -> dict[str, Any]:
    """Return the fields as JSON values."""
    return {field.name: _plain(getattr(certificate, field.name)) for field in fields(certificate)}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return next(word for word, x in _WORDS.items() if x == value or (x != x and value != value))
    if isinstance(value, (Difference, FrameResult)):
        return to_record(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def read_fields(kind: Any, record: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the values of the fields of `kind`, a dataclass, from JSON values.

    Raises
    ------
    FileFormatError
        If a field is absent or of another type.
    """
    return {field.name: _take(record, field.name, field.type, where) for field in fields(kind)}


def _take(record: dict[str, Any], name: str, kind: Any, where: str) -> Any:
    try:
        return _READERS[kind](record[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise FileFormatError(
            f"{where} must hold `{name}` as {kind}, got {repr(record.get(name, 'nothing'))[:60]}."
        ) from None


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return read


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, str):
        return _WORDS[value]
    if type(value) not in (int, float):
        raise TypeError
    return float(value)


def _optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else read(value)


def _many(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    def read_all(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise TypeError
        return tuple(read(item) for item in value)

    return read_all


def _each(*readers: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(readers):
            raise TypeError
        return tuple(r(item) for r, item in zip(readers, value, strict=True))

    return read


def _difference(value: Any) -> Difference:
    if not isinstance(value, dict) or value.get("kind") not in KINDS:
        raise TypeError
    read: Callable[[Any], Any] = _OF_KIND.get(value["kind"], _number)
    return Difference(
        value["kind"],
        _count(value["place"]),
        read(value["expected"]),
        read(value["got"]),
        _many(_number)(value["row"]),
    )


def _frame(value: Any) -> FrameResult:
    if not isinstance(value, dict) or value.get("outcome") not in OUTCOMES:
        raise TypeError
    return FrameResult(
        _text(value["kind"]),
        value["outcome"],
        _count(value["n_rows"]),
        _count(value["n_mismatches"]),
        _text(value["said"]),
    )


def _label(value: Any) -> float | int | str:
    if not isinstance(value, (str, bool, int, float)):
        raise TypeError
    return value


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError
    return value


_text = _exactly(str)

_OF_KIND: dict[str, Callable[[Any], Any]] = {
    "leaf": _exactly(int),
    "label": _label,
    "structure": _text,
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "bool": _exactly(bool),
    "int": _count,
    "str": _text,
    "str | None": _optional(_text),
    "float": _number,
    "float | None": _optional(_number),
    "tuple[str, ...]": _many(_text),
    "tuple[tuple[int, int], ...]": _many(_each(_count, _count)),
    "tuple[tuple[int, int, str], ...]": _many(_each(_count, _count, _text)),
    "tuple[Difference, ...]": _many(_difference),
    "tuple[FrameResult, ...]": _many(_frame),
    "dict[str, str]": _texts,
}
