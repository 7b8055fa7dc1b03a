"""The exceptions that bitvec raises on purpose.

Each message is one sentence: what must hold, what was got, what to do.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bitvec.distribution import install_command, left_out


class BitvecError(Exception):
    """Base of every exception that bitvec raises on purpose."""


class InvalidForestError(BitvecError, ValueError):
    """The arrays do not describe a forest: a shape, offset, interval or code is out of place."""


class UnsupportedModelError(BitvecError, ValueError):
    """The model cannot be represented exactly, so it is refused."""


class FileFormatError(BitvecError, ValueError):
    """A file is truncated, hostile, of another kind, or of a newer format version."""


class InputError(BitvecError, ValueError):
    """The rows handed in do not fit the forest: columns, dtype, shape or names."""


class MissingLibraryError(BitvecError, ImportError):
    """An optional library is needed and is not installed, or does not load (`lacking` says why)."""

    def __init__(self, library: str, extra: str, purpose: str, *, lacking: str = "") -> None:
        if lacking:
            # On a minimal Debian, LightGBM's wheel finds no OpenMP.
            package = " (on Debian `sudo apt install libgomp1`)" if "libgomp" in lacking else ""
            problem = f"is installed and does not load, {lacking}: install what it lacks{package}."
        elif left_out(library):
            machine = "Python {}.{} on {}".format(*sys.version_info[:2], platform.machine())
            problem = (
                f"had no wheel for {machine} when this release was made: run "
                f"`pip install {library}` if one has come since, or use an older Python."
            )
        else:
            problem = f"is not installed: run `{install_command(extra)}`."
        super().__init__(f"{purpose} needs the library {library}, which {problem}")
        self.library = library


@contextmanager
def needs(library: str, extra: str, purpose: str) -> Iterator[None]:
    """Raise MissingLibraryError where an import within fails, be it for a shared library."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingLibraryError(library, extra, purpose) from error
    except (ImportError, OSError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise MissingLibraryError(library, extra, purpose, lacking=said) from error
