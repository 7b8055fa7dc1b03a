"""Training that goes on after a kill: its whole state in one safetensors file.

The file holds the parameters, the optimiser's state, the best forest and its history, the step, and
a digest of its options and rows, so that it is never continued as another one; a function is known
by its module and name alone. The file is written aside and renamed; no pickle is written or read.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from safetensors import SafetensorError

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InputError, InvalidForestError
from bitvec.files import atomic
from bitvec.files.records import pack, unpack

FORMAT = "bitvec.checkpoint"
VERSION = 1


@dataclass(frozen=True, slots=True)
class State:
    """Contents of a checkpoint: arrays by name, and a JSON record."""

    arrays: dict[str, Array]
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """File that keeps the state of one run.

    Parameters
    ----------
    path : path
    digest : str
        Of all that determines the run.
    """

    path: Path
    digest: str

    def save(self, state: State) -> None:
        """Write a state, which replaces the last one only when it is whole."""
        header = {
            "format": FORMAT,
            "version": str(VERSION),
            "digest": self.digest,
            "state": json.dumps(state.record, separators=(",", ":")),
        }
        arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
        atomic.write(self.path, safetensors.numpy.save(arrays, metadata=header))

    def load(self) -> State | None:
        """Return the last state, or None if there is none yet.

        Raises
        ------
        FileFormatError
            If the file is no whole checkpoint.
        InputError
            If it is the checkpoint of another run.
        """
        if not self.path.exists():
            return None
        try:
            with atomic.one_sentence(self.path, "read"):
                file = safetensors.safe_open(self.path, framework="numpy")
                with file as content:
                    header = content.metadata() or {}
                    arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
            if header.get("format") != FORMAT or header.get("version") != str(VERSION):
                raise FileFormatError("it must be one of this version of bitvec")
            record = json.loads(header["state"])
            if not isinstance(record, dict):
                raise FileFormatError("its state is no record")
        except (SafetensorError, ValueError, KeyError) as error:
            raise FileFormatError(
                f"{self.path} must hold a checkpoint of bitvec, but {error}: remove it to start "
                "anew."
            ) from None
        if header.get("digest") != self.digest:
            raise InputError(
                f"{self.path} must be the checkpoint of this very training, got one of other rows, "
                "another forest or other options: remove it to start anew, or name another file."
            )
        return State(arrays, record)


def digest(forest: Forest | None, arrays: list[Array | None], options: dict[str, Any]) -> str:
    """Return the digest of a run: the forest it starts from, if any, its rows and its options.

    Raises
    ------
    UnsupportedModelError
        If the forest cannot be saved.
    """
    tensors, record = ({}, {}) if forest is None else pack(forest)
    sums = blake2b(digest_size=16)
    sums.update(json.dumps([record, described(options)], sort_keys=True).encode())
    for name in sorted(tensors):
        _add(sums, tensors[name])
    for array in arrays:
        if array is None:
            sums.update(b"none")
        else:
            _add(sums, array)
    return sums.hexdigest()


def described(value: Any) -> Any:
    """Return an option as JSON, the same in every process.

    Examples
    --------
    >>> described({"gamma": (1, 8.0)})
    [["'gamma'", ['1', '8.0']]]
    >>> described(json.dumps)
    ['json', 'dumps']
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return described(value.tolist())
        sums = blake2b(digest_size=16)
        _add(sums, value)
        return sums.hexdigest()
    if isinstance(value, Mapping):
        return [[described(key), described(part)] for key, part in value.items()]
    if isinstance(value, (set, frozenset)):
        return sorted((described(part) for part in value), key=json.dumps)
    if isinstance(value, (list, tuple, range)):
        return [described(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        parts = [described(getattr(value, field.name)) for field in fields(value)]
        return [*_name(type(value)), parts]
    if isinstance(value, functools.partial):
        return [described(value.func), described(value.args), described(value.keywords)]
    text = repr(value)
    if callable(value) or " at 0x" in text:
        return _name(value if hasattr(value, "__qualname__") else type(value))
    return text


def _name(value: Any) -> list[str]:
    return [getattr(value, "__module__", None) or "", value.__qualname__]


def _add(sums: Any, array: Array) -> None:
    """Add dtype, shape and numbers of an array to a digest."""
    sums.update(f"{array.dtype}{array.shape}".encode())
    sums.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)


def put_forest(state: State, name: str, forest: Forest) -> None:
    """Add a forest to a state."""
    tensors, record = pack(forest)
    state.arrays.update({f"{name}/{key}": value for key, value in tensors.items()})
    state.record[name] = record


def part(state: State, name: str) -> dict[str, Array]:
    """Return the arrays whose names begin with `name/`, under what follows."""
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): value
        for key, value in state.arrays.items()
        if key.startswith(prefix)
    }


def take_forest(state: State, name: str) -> Forest:
    """Take a forest out of a state."""
    try:
        return unpack(part(state, name), state.record[name])
    except (InvalidForestError, KeyError) as error:
        raise FileFormatError(f"a checkpoint must hold a whole forest, but {error}") from None


def put_training(state: State, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Add the parameters and the optimiser's state to a state.

    Raises
    ------
    InputError
        If the optimiser's state holds something else than tensors and numbers.
    """
    for name, parameter in module.named_parameters():
        state.arrays[f"parameter/{name}"] = parameter.detach().cpu().numpy()
    numbers: dict[str, dict[str, Any]] = {}
    for index, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                state.arrays[f"optimizer/{index}/{key}"] = value.detach().cpu().numpy()
            elif isinstance(value, (int, float, bool, type(None))):
                numbers.setdefault(str(index), {})[key] = value
            else:
                raise InputError(
                    "a checkpoint needs an optimiser whose state holds tensors and numbers, got "
                    f"{type(value).__name__} in {type(optimizer).__name__}: choose another "
                    "`optimizer`, or leave `checkpoint` out."
                )
    state.record["optimizer"] = numbers


def take_training(state: State, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put the parameters and the optimiser's state of a state in their places."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            kept_array = state.arrays.get(f"parameter/{name}")
            if kept_array is None or kept_array.shape != tuple(parameter.shape):
                raise FileFormatError(
                    f"a checkpoint must hold `{name}` in the shape {tuple(parameter.shape)}, got "
                    f"{'nothing' if kept_array is None else kept_array.shape}: remove it to start "
                    "anew."
                )
            parameter.copy_(torch.from_numpy(kept_array.copy()))
    kept: dict[int, dict[str, Any]] = {
        int(index): dict(values) for index, values in state.record["optimizer"].items()
    }
    for name, array in state.arrays.items():
        if name.startswith("optimizer/"):
            _, index, key = name.split("/", 2)
            kept.setdefault(int(index), {})[key] = torch.from_numpy(array.copy())
    whole = optimizer.state_dict()
    whole["state"] = kept
    optimizer.load_state_dict(whole)


def at(path: str | os.PathLike[str], run: str) -> Checkpoint:
    """Return the checkpoint of a run.

    Raises
    ------
    InputError
        If no file can be written there, so that it is not found out after an hour.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"`checkpoint_path` must be a path, got {path!r}.")
    place = Path(path)
    with atomic.one_sentence(place, "written"):
        if not place.parent.is_dir():
            raise InputError(
                f"the folder of `checkpoint_path` must exist, got {place}: create {place.parent} "
                "first."
            )
        if place.exists() and not place.is_file():
            raise InputError(f"`checkpoint_path` must be a file, got {place}, which is none.")
    return Checkpoint(place, run)
