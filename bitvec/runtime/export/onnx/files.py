"""ONNX models as files, each one whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from bitvec.converters.onnx.operator_schema import LARGEST_FILE
from bitvec.errors import FileFormatError, needs
from bitvec.files import atomic


def save(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write an `onnx.ModelProto` to a path that ends in `.onnx` or `.ort`, and return the path.

    An `.ort` file, in onnxruntime's own format, is written without optimisation: constants that a
    runtime computes at load would be expanded in the file.

    Raises
    ------
    FileFormatError
        If the path has another ending, or the model would need a second file (2 GiB and more).
    OSError
        If the path cannot be written; a file that was there is then still whole.
    """
    target = Path(path)
    if target.suffix not in (".onnx", ".ort"):
        raise FileFormatError(
            f"an ONNX file must end in .onnx, or in .ort for onnxruntime's own format, got "
            f"{target.name!r}: rename it to "
            f"{target.with_suffix('.onnx').name if target.stem else 'model.onnx'!r}."
        )
    if model.ByteSize() > LARGEST_FILE:
        raise FileFormatError(
            f"an ONNX file must be smaller than 2 GiB, got {model.ByteSize() / 2**30:.1f} GiB: "
            "save the forest itself, or export fewer trees with forest.take."
        )
    content = model.SerializeToString()
    if target.suffix == ".ort":
        with atomic.one_sentence(path, "written"):
            content = _in_ort_format(content)
    return atomic.write(path, content)


def _in_ort_format(content: bytes) -> bytes:
    """Return a model in onnxruntime's own format, by way of a temporary file.

    Raises
    ------
    OSError
        If that file cannot be written.
    """
    with needs("onnxruntime", "onnx", "Writing .ort files"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "forest.ort")
        try:
            onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions have no common base but this
            reason = str(error).strip().splitlines()[0][:300]
            raise OSError(
                f"onnxruntime could not write to the temporary directory {folder}: {reason}"
            ) from None
        return Path(options.optimized_model_filepath).read_bytes()
