"""Growth that goes on after a kill: the stumps trained so far, in one safetensors file."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError
from bitvec.files.map_records import pack_map, unpack_map
from bitvec.learners.growth.linear import LinearRule
from bitvec.learners.growth.networks import NetworkRule
from bitvec.learners.growth.polytope import PolytopeRule
from bitvec.learners.growth.stump_test import Rule
from bitvec.learners.growth.stumps import Stump
from bitvec.runtime.train.retrain import checkpoint
from bitvec.runtime.train.retrain.checkpoint import Checkpoint, State

Name = tuple[int, int]
"""The place of a node and the attempt at it."""
SECONDS: Final = 2.0
"""Between two writes, at least: best-first growth trains two stumps at a time."""
_RULES: Final[dict[str, tuple[type, tuple[str, ...]]]] = {
    "linear": (LinearRule, ("theta",)),
    "polytope": (PolytopeRule, ("beta", "r")),
    "network": (NetworkRule, ("theta",)),
}
_NAMES: Final = {kind: name for name, (kind, _) in _RULES.items()}


class GrowthCheckpoint:
    """The stumps of one growth, those of an earlier run of the same among them.

    A stump is all that a node needs: the rows that reach it follow from the stumps above.

    Parameters
    ----------
    path : path
    run : str
        Digest of all that determines the growth.

    Raises
    ------
    FileFormatError
        If the file is no whole checkpoint.
    InputError
        If it is that of another growth, or no file can be written there.
    """

    def __init__(self, path: str | os.PathLike[str], run: str) -> None:
        self._file: Checkpoint = checkpoint.at(path, run)
        state = self._file.load()
        self._stumps: dict[Name, Stump] = {} if state is None else _unpacked(state, path)
        self._written = time.monotonic()

    def take(self, names: Sequence[Name]) -> list[Stump] | None:
        """Return stumps that were trained together, None if they were not yet."""
        if not all(name in self._stumps for name in names):
            return None
        return [self._stumps[name] for name in names]

    def put(self, names: Sequence[Name], stumps: Sequence[Stump]) -> None:
        """Keep stumps, and write all of them if the last time is long enough ago."""
        self._stumps.update(zip(names, stumps, strict=True))
        if time.monotonic() - self._written > SECONDS:
            self._file.save(_packed(self._stumps))
            self._written = time.monotonic()


def digest(arrays: Sequence[Array | None], options: dict[str, Any]) -> str:
    """Return the digest of a growth: its rows, and the options that determine it."""
    return checkpoint.digest(None, list(arrays), options)


def _packed(stumps: dict[Name, Stump]) -> State:
    arrays: dict[str, Array] = {}
    records: list[list[Any]] = []
    for number, ((place, attempt), stump) in enumerate(stumps.items()):
        kind = _NAMES[type(stump.rule)]
        for field in _RULES[kind][1]:
            arrays[f"{number}.{field}"] = getattr(stump.rule, field)
        phi = None
        if isinstance(stump.rule, NetworkRule):
            phi = pack_map(stump.rule.phi, f"{number}.", arrays, 0, _no_forest)
        records.append([place, attempt, kind, stump.threshold, stump.cost, phi])
    return State(arrays, {"stumps": records})


def _unpacked(state: State, path: str | os.PathLike[str]) -> dict[Name, Stump]:
    found: dict[Name, Stump] = {}
    try:
        for number, record in enumerate(state.record["stumps"]):
            place, attempt, kind, threshold, cost, packed = record
            rule_type, fields = _RULES[kind]
            parts: dict[str, Any] = {field: state.arrays[f"{number}.{field}"] for field in fields}
            if packed is not None:
                own = {
                    name: array
                    for name, array in state.arrays.items()
                    if name.startswith(f"{number}.layers.")
                }
                parts["phi"] = unpack_map(packed, f"{number}.", own, 0, _no_forest)
            rule: Rule = rule_type(**parts)
            found[place, attempt] = Stump(rule, float(threshold), float(cost))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{Path(path)} must hold a whole growth, but {type(error).__name__}: {error}: remove "
            "it to start anew."
        ) from None
    return found


def _no_forest(*_: Any) -> Any:
    raise FileFormatError("the φ of a node must be made of layers, got a forest.")
