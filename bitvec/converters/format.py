"""A source of models: how its files and objects are recognised, and what of it converts exactly.

Each folder of a library has its own in `format.py`, which imports no library. What is supported
are the options of the library; each is measured in `benchmarks.exactness`.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

from bitvec.errors import InputError, UnsupportedModelError

Target = Literal[
    "onnx",
    "xgboost",
    "lightgbm",
    "treelite",
    "sklearn",
    "c",
    "torch",
    "executorch",
    "litert",
    "sql",
]

ANSWERING: Final = (
    "predict",
    "predict_proba",
    "decision_function",
    "score_samples",
    "_validate_X_predict",
    "_raw_predict",
    "_raw_predict_init",
    "_predict_iterations",
    "_preprocess_X",
    "_score_samples",
    "_compute_score_samples",
    "_get_median_predict",
)
"""The methods that answer; a subclass that overrides one answers something else."""
_HEAD: Final = 4096
_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"([^"\\]{0,64})"')
_ZIP: Final = b"PK\x03\x04"


@dataclass(frozen=True)
class Content:
    """The beginning of a file, or a directory: all that is read of it in order to recognise it."""

    path: Path
    head: bytes

    @classmethod
    def of(cls, path: Path) -> Content:
        """Read the beginning of a file.

        Raises
        ------
        InputError
            If there is no such file or it is empty.
        """
        try:
            is_directory, is_file = path.is_dir(), path.is_file()
        except (OSError, ValueError):  # no name that a file can have, a text perhaps
            is_directory = is_file = False
        if is_directory:
            return cls(path, b"")
        if not is_file:
            raise InputError(f"a model file must exist, got {str(path)[:200]!r}, which is none.")
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
        if not head:
            raise InputError(f"a model file must not be empty, got {path}.")
        return cls(path, head)

    @property
    def is_zip(self) -> bool:
        """Tell whether the file begins as a zip archive."""
        return self.head.startswith(_ZIP)

    @cached_property
    def members(self) -> frozenset[str]:
        """Names in a zip archive; none if the file is no such archive."""
        if not self.is_zip:
            return frozenset()
        try:
            with zipfile.ZipFile(self.path) as archive:
                return frozenset(archive.namelist())
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return frozenset()

    @cached_property
    def first_key(self) -> str | None:
        """The first key of a JSON object; None if the file does not begin with one."""
        match = _FIRST_KEY.match(self.head)
        return None if match is None else match[1].decode("latin-1")

    def holds(self, *texts: bytes) -> bool:
        """Return whether each text stands somewhere in the file."""
        data = self.path.read_bytes()
        return all(text in data for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A source of models.

    Parameters
    ----------
    name : str
    folder : str
        Of its converter: `read` offers `convert`, `oracle` offers `oracle_of`, `write` its writer.
    supported : tuple of str
        Options that convert exactly.
    unsupported : tuple of (str, str)
        What is refused, and why.
    packages : tuple of str
        Where the classes of its model objects live.
    recognises : callable, optional
        Whether a file is one of its files, by content; None where it has no files.
    made_by : str
        How a file is made.
    mistaken : tuple of (callable, str)
        Files of the library that hold no model: how one is recognised, and what it is.
    writes : Target, optional
        What `bitvec.export` calls the way back.
    holds : callable, optional
        Whether a model object of these packages is one of this format; all are if not given.
    takes_dtypes : bool
        Whether its conversion takes the dtypes of the columns.
    unneeded : tuple of str
        Libraries that its own imports where they are installed, in a second or two, and of which
        the answers for a file take nothing: the process that opens one does without them.
    """

    name: str
    folder: str
    supported: tuple[str, ...]
    unsupported: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()
    recognises: Callable[[Content], bool] | None = None
    made_by: str = ""
    mistaken: tuple[tuple[Callable[[Content], bool], str], ...] = ()
    writes: Target | None = None
    holds: Callable[[Any], bool] | None = None
    takes_dtypes: bool = False
    unneeded: tuple[str, ...] = ()

    def module(self, role: Literal["read", "oracle"]) -> ModuleType:
        """Import a module of the converter."""
        return import_module(f"bitvec.converters.{self.folder}.{role}")


def require_inherited(cls: type, base: type) -> None:
    """Refuse a subclass of a library's class that answers in its own way.

    Raises
    ------
    UnsupportedModelError
    """
    for method in ANSWERING:
        own, inherited = _definition(cls, method), _definition(base, method)
        if inherited is not None and own is not inherited:
            raise UnsupportedModelError(
                f"a subclass of {base.__name__} must inherit `{method}`, got {cls.__name__}, which "
                "has its own: its answers are not those of its trees, so convert a plain "
                f"{base.__name__}."
            )


def _definition(cls: type, method: str) -> Any:
    """Return what a class or its nearest base defines under a name, not bound to anything."""
    return next((vars(base)[method] for base in cls.__mro__ if method in vars(base)), None)
