"""ONNX models as files: written aside and renamed, so that a path never holds half a model."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from bitvec.errors import FileFormatError
from bitvec.graph.operators import LARGEST_FILE


def save(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write an `onnx.ModelProto` to a path that ends in `.onnx`, and return the path.

    Raises
    ------
    FileFormatError
        If the path has another ending, or the model would need a second file (2 GiB and more).
    OSError
        If the path cannot be written; a file that was there is then still whole.
    """
    target = Path(path)
    if target.suffix != ".onnx":
        raise FileFormatError(
            f"an ONNX file must end in .onnx, got {target.name!r}: rename it to "
            f"{target.with_suffix('.onnx').name if target.stem else 'model.onnx'!r}."
        )
    if model.ByteSize() > LARGEST_FILE:
        raise FileFormatError(
            f"an ONNX file must be smaller than 2 GiB, got {model.ByteSize() / 2**30:.1f} GiB: "
            "save the forest itself, or export fewer trees with forest.take."
        )
    # Beside the target, so that renaming stays within one file system.
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(model.SerializeToString())
        aside.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        reason = error.strerror or str(error)
        again = type(error)(f"{target} must be a file that can be written, got: {reason}.")
        again.errno = error.errno
        raise again from None
    return target
