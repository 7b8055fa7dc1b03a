"""What an engine is, and the table of those there are."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int32

from bitvec.arrays import Array
from bitvec.errors import InputError, MissingLibraryError
from bitvec.forest import Forest


@runtime_checkable
class Engine(Protocol):
    """A way to run one forest.

    X is what `bitvec.runtime.tables.rows` returns: C- or F-contiguous, in the forest's dtype, with
    its number of columns. Nothing is checked again here. Methods may be called from several
    threads at once.
    """

    @property
    def name(self) -> str:
        """The name under which `create` knows it."""
        ...

    def exit_leaves(self, X: Float[Array, "batch n_features"]) -> Int32[Array, "batch n_trees"]:
        """Return the exit leaf of every row in every tree, as leaf numbers within the tree."""
        ...

    def raw(self, X: Float[Array, "batch n_features"]) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores, in the dtype of the forest's output."""
        ...


def _reference(forest: Forest, *, n_jobs: int | None, device: str | None) -> Engine:
    _refuse("reference", n_jobs=n_jobs, device=device)
    return _load("bitvec.runtime.reference_engine", "ReferenceEngine")(forest)


def _numba(forest: Forest, *, n_jobs: int | None, device: str | None) -> Engine:
    _refuse("numba", device=device)
    try:
        make = _load("bitvec.runtime.numba_engine", "NumbaEngine")
    except ImportError as error:
        raise MissingLibraryError("numba", "all", "the engine numba") from error
    return make(forest, n_jobs=n_jobs)


def _torch(forest: Forest, *, n_jobs: int | None, device: str | None) -> Engine:
    _refuse("torch", n_jobs=n_jobs)
    return _load("bitvec.runtime.torch.engine", "TorchEngine")(forest, device=device)


_FACTORIES: dict[str, Callable[..., Engine]] = {
    "reference": _reference,
    "numba": _numba,
    "torch": _torch,
}

ENGINES = tuple(_FACTORIES)
"""The names that `create` knows; a module is imported when its engine is asked for."""


def create(
    name: str, forest: Forest, *, n_jobs: int | None = None, device: str | None = None
) -> tuple[Engine, str]:
    """Return an engine for a forest, and in a few words why it is this one.

    Parameters
    ----------
    name : str
        One of `ENGINES`, or "auto": torch where a device is named, else numba where it can be
        imported, else the reference.
    n_jobs : int, optional
        Threads of the numba engine: None or -1 for all cores.
    device : str, optional
        Device of the torch engine.

    Raises
    ------
    InputError
        If the name is unknown, or the engine has no use for `n_jobs` or `device`.
    """
    if name != "auto" and name not in _FACTORIES:
        raise InputError(
            f"`engine` must be one of auto, {', '.join(ENGINES)}, got {name!r}: choose one of them."
        )
    why = "asked for"
    if name == "auto" and device is not None:
        name, why = "torch", "a device was named"
    elif name == "auto" and importlib.util.find_spec("numba") is not None:
        name, why = "numba", "numba is installed"
    elif name == "auto":
        name, why, n_jobs = "reference", "numba is not installed", None
    return _FACTORIES[name](forest, n_jobs=n_jobs, device=device), why


def _load(module: str, name: str) -> Callable[..., Engine]:
    factory: Callable[..., Engine] = getattr(importlib.import_module(module), name)
    return factory


def _refuse(engine: str, **options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(
                f"`{option}` must be None for the engine {engine}, got {value!r}: "
                "leave it out, or choose another engine."
            )
