"""The border between readers of files and their callers: damage is one sentence, whatever it hits.

A reader checks what it knows. What it does not foresee (a codec's, a parser's or another library's
exception, of whatever class) means that the file is not what its kind of program writes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from bitvec.errors import BitvecError, FileFormatError

LONGEST = 2000
"""Characters of a sentence, of which a file may fill most."""


@contextmanager
def sound(
    path: str | os.PathLike[str], must: str, *, error: type[BitvecError] = FileFormatError
) -> Iterator[None]:
    """Raise whatever reading a file raises as one sentence, unless bitvec raised it on purpose.

    What the operating system says of the path, missing libraries and want of memory pass as well.
    What a sentence quotes of a file is shown as characters that can be.

    Parameters
    ----------
    path : path
    must : str
        What the file must do: "be a parquet file", "hold one array".
    error : type of BitvecError
        What is raised.

    Examples
    --------
    >>> with sound("a.model", "be a model file"):
    ...     {}["trees"]
    Traceback (most recent call last):
    ...
    bitvec.errors.FileFormatError: a.model must be a model file, got a damaged one
    (KeyError: 'trees'): make or copy it again.
    """
    try:
        yield
    except BitvecError as told:
        told.args = (_plain(str(told)),)
        raise
    except (ImportError, MemoryError):
        raise
    except BaseException as raised:
        if _passes(raised):
            raise
        raise error(
            _plain(
                f"{os.fspath(path)} must {must}, got a damaged one ({reason(raised)}): make or "
                "copy it again."
            )
        ) from raised


def reason(error: BaseException) -> str:
    """Return what another library says, as part of a sentence."""
    said = " ".join(str(error).split())[:200].replace(". ", "; ").rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _plain(sentence: str) -> str:
    """Return a sentence that quotes a file as characters that can be shown, and not too many."""
    if len(sentence) > LONGEST:
        sentence = f"{sentence[: LONGEST // 2]} ... {sentence[-LONGEST // 2 :]}"
    if sentence.isprintable():
        return sentence
    shown = (c if c.isprintable() else ascii(c)[1:-1] for c in sentence)
    return "".join(shown)


def _passes(error: BaseException) -> bool:
    if isinstance(error, OSError):  # seeking to where no file can be is no failure of the system
        return error.errno not in (None, errno.EINVAL) or isinstance(error, FileNotFoundError)
    # A panic of a library in Rust is no Exception, as interrupts and exits are none.
    return not isinstance(error, Exception) and type(error).__name__ != "PanicException"
