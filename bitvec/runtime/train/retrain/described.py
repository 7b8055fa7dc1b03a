"""Values and functions as JSON that is the same in every process, and another for another value."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from bitvec.core.arrays import Array


def described(value: Any) -> Any:
    """Return a value as JSON.

    Functions are told by their code and what it can see: constants, defaults, the variables around
    it and those of its module that it names. A function of another module that it calls is told by
    its own code alone. Other objects are told by their attributes.

    Examples
    --------
    >>> described({"gamma": (1, 8.0)})
    [["'gamma'", ['1', '8.0']]]
    >>> described(lambda x: x + 1) == described(lambda x: x + 2)
    False
    """
    return _Description().of(value)


def add(sums: Any, array: Array) -> None:
    """Add dtype, shape and numbers of an array to a digest."""
    sums.update(f"{array.dtype}{array.shape}".encode())
    sums.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)


class _Description:
    """What was met on the way stands for itself when it is met again, so that all comes to an end.

    Parameters
    ----------
    module : str, optional
        Whose functions are told with the variables of their module: that of the first function.
    """

    def __init__(self) -> None:
        self.module: str | None = None
        self._met: dict[int, tuple[int, Any]] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        if isinstance(value, np.ndarray) and value.dtype != object:
            sums = blake2b(digest_size=16)
            add(sums, value)
            return sums.hexdigest()
        if isinstance(value, (type, ModuleType)):
            return _name(value)
        if isinstance(value, (tuple, range)):  # made of nothing but what was there before
            return [self.of(part) for part in value]
        if isinstance(value, (set, frozenset)):
            return sorted((self.of(part) for part in value), key=json.dumps)
        mutable = isinstance(value, (Mapping, list, np.ndarray, FunctionType))
        if not mutable and not hasattr(value, "__dict__") and not is_dataclass(value):
            text = repr(value)
            return _name(type(value)) if " at 0x" in text else text
        if id(value) in self._met:
            return ["met", self._met[id(value)][0]]
        self._met[id(value)] = (len(self._met), value)
        return self._composed(value)

    def _composed(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return [[self.of(key), self.of(part)] for key, part in value.items()]
        if isinstance(value, (list, np.ndarray)):
            return [self.of(part) for part in value]
        if isinstance(value, FunctionType):
            self.module = self.module or value.__module__
            own = value.__module__ == self.module
            return [*_name(value), *map(self.of, _seen_by(value, its_module=own))]
        if isinstance(value, functools.partial):
            return ["partial", self.of(value.func), self.of(value.args), self.of(value.keywords)]
        if isinstance(value, MethodType):
            return ["method", self.of(value.__func__), self.of(value.__self__)]
        if is_dataclass(value):
            parts = {field.name: getattr(value, field.name) for field in fields(value)}
            return [*_name(type(value)), self.of(parts)]
        kind = type(value)
        called = callable(value) and isinstance(kind.__call__, FunctionType)
        how = [kind.__call__] if called else []
        return [*_name(kind), self.of(vars(value)), *map(self.of, how)]


def _name(value: Any) -> list[str]:
    plain = value.__name__
    return [getattr(value, "__module__", None) or "", getattr(value, "__qualname__", plain)]


def _seen_by(function: FunctionType, *, its_module: bool) -> Iterator[Any]:
    """Yield what the answer of a function can depend on."""
    codes = list(_nested(function.__code__))
    for code in codes:
        yield code.co_code.hex()
        yield tuple(part for part in code.co_consts if not isinstance(part, CodeType))
        yield code.co_names
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            yield None
    if its_module:
        known = function.__globals__
        names = sorted({name for code in codes for name in code.co_names if name in known})
        yield from (known[name] for name in names)


def _nested(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of those that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
