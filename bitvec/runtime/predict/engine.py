"""The protocol of engines, and the table of those there are."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Int32
from bitvec.errors import InputError

PACKED, PACKING = 1 << 17, 15
"""(row, tree) pairs that the engine in torch walks while a forest is packed for compiled kernels,
and for each of its nodes."""

FewRows = Callable[[Any], Any]
"""From X to a new array, as a method of `Predictor` returns it, or None.

X is whatever a user passed. None says that the call is not made for it (no native ndarray of two
axes, too many rows, other columns) or for what it holds: the general way answers then, or refuses.
An engine on a device takes rows that lie there, of any number, and returns a tensor.
"""


@runtime_checkable
class Engine(Protocol):
    """A way to run one forest.

    X is a float32 or float64 array in native byte order, aligned, of any strides (row-major,
    column-major, reversed), with the forest's number of columns. It need not be in the forest's
    dtype: an engine answers as if X were cast to it first, and casts block by block, so that no
    copy of X is larger than a block for each thread. Nothing is checked again here.

    `out` has the right shape and dtype, any strides, and shares no memory with X; it is filled and
    returned. Without it a new C-contiguous array is. Methods may be called from several threads at
    once.
    """

    @property
    def name(self) -> str:
        """The name under which `create` knows it."""
        ...

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return the exit leaf of every row in every tree, as leaf numbers within the tree."""
        ...

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores, in the dtype of the forest's output."""
        ...

    def info(self) -> dict[str, Any]:
        """Return what it does with the forest and why, for `Predictor.info`."""
        ...


@runtime_checkable
class FewRowsEngine(Protocol):
    """An engine that has a shorter way for few rows, or for rows on its device."""

    def few_rows(self, verb: str, *, finite: bool) -> FewRows | None:
        """Return what answers few rows in place of a method of `Predictor`, if there is such.

        Parameters
        ----------
        verb : str
            One of `predictor.VERBS`. "predict_proba" answers several targets side by side.
        finite : bool
            Whether rows with NaN, an infinity or what becomes one in the forest's dtype are left
            to the general way.
        """
        ...


@runtime_checkable
class RemadeEngine(Protocol):
    """An engine that can be made anew for another forest."""

    def of(self, forest: Forest) -> Engine:
        """Return one with the same options that runs another forest."""
        ...


def _reference(
    forest: Forest, *, kernel: str | None, n_jobs: int | None, device: str | None
) -> Engine:
    _refuse("reference", kernel=kernel, n_jobs=n_jobs, device=device)
    return _load("bitvec.runtime.predict.reference_engine", "ReferenceEngine")(forest)


def _numba(forest: Forest, *, kernel: str | None, n_jobs: int | None, device: str | None) -> Engine:
    _refuse("numba", device=device)
    make = _load("bitvec.runtime.predict.cpu.engine", "NumbaEngine")
    return make(forest, kernel=kernel, n_jobs=n_jobs)


def _torch(forest: Forest, *, kernel: str | None, n_jobs: int | None, device: str | None) -> Engine:
    _refuse("torch", n_jobs=n_jobs)
    make = _load("bitvec.runtime.predict.torch.engine", "TorchEngine")
    return make(forest, device=device, form=kernel or "auto")


def _triton(
    forest: Forest, *, kernel: str | None, n_jobs: int | None, device: str | None
) -> Engine:
    _refuse("triton", kernel=kernel, n_jobs=n_jobs)
    return _load("bitvec.runtime.predict.gpu.engine", "TritonEngine")(forest, device)


_FACTORIES: dict[str, Callable[..., Engine]] = {
    "reference": _reference,
    "numba": _numba,
    "torch": _torch,
    "triton": _triton,
}

ENGINES = tuple(_FACTORIES)
"""The names that `create` knows; a module is imported when its engine is asked for."""


def create(
    name: str,
    forest: Forest,
    *,
    kernel: str | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
) -> tuple[Engine, str]:
    """Return an engine for a forest, and in a few words why it is this one.

    Parameters
    ----------
    name : str
        One of `ENGINES`, or "auto": torch where a device is named, else numba, else what there is
        without it: torch, else the reference, with one warning that says so.
    kernel : str, optional
        Kernel of the engine numba or form of the engine torch, which choose if not given.
    n_jobs : int, optional
        Threads of the numba engine: None or -1 for all cores.
    device : str, optional
        Device of the engines torch and triton.

    Raises
    ------
    InputError
        If the name is unknown, or the engine has no use for `kernel`, `n_jobs` or `device`.
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
        _refuse("auto without numba", kernel=kernel)
        return _without_numba(forest), "numba is not installed"
    return _FACTORIES[name](forest, kernel=kernel, n_jobs=n_jobs, device=device), why


def for_one_call(forest: Forest, n_rows: int) -> Engine:
    """Return the engine that answers one call on so many rows sooner, counted from here.

    Rows of S with several entries are much faster in compiled kernels; a small batch of others is
    walked before they are packed.
    """
    tests, pairs = forest.tests, n_rows * forest.n_trees
    packs = tests.column.size > tests.n_nodes or pairs > PACKED + PACKING * tests.n_nodes
    if packs or importlib.util.find_spec("numba") is None:
        return create("auto" if packs else "torch", forest)[0]
    walks = importlib.import_module("bitvec.runtime.predict.cpu.plain_walks")
    if walks.compares_columns(forest):
        found: Engine = walks.PlainWalks(forest)
        return found
    return create("torch", forest)[0]


def _without_numba(forest: Forest) -> Engine:
    name = "reference" if importlib.util.find_spec("torch") is None else "torch"
    _warn_once(
        f"Predictions run in the engine {name}, many times slower than compiled kernels, since "
        "numba is not installed: run `pip install numba` where it has a wheel."
    )
    return _FACTORIES[name](forest, kernel=None, n_jobs=None, device=None)


@functools.cache
def _warn_once(message: str) -> None:
    logging.getLogger("bitvec").warning(message)


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
