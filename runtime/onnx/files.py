"""ONNX models as files, each one whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bitvec import atomic
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
    return atomic.write(path, model.SerializeToString())
