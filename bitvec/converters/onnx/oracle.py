"""ONNX models in onnxruntime; a file that bitvec exported answers through its own outputs.

Such a file needs no library but onnxruntime.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from bitvec.converters.format import Content
from bitvec.converters.onnx import session
from bitvec.converters.onnx.format import is_ort
from bitvec.errors import FileFormatError
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import SourceTrees


def oracle_of(model: Any) -> Oracle:
    """Return a model, or the file of one, in onnxruntime, on one thread.

    Raises
    ------
    UnsupportedModelError, FileFormatError
        As `convert`; if a file in onnxruntime's own format is none that bitvec exported.
    """
    if isinstance(model, str | PathLike):
        try:
            return replace(session.oracle_of(model), written=partial(stated_trees, model))
        except FileFormatError:
            if is_ort(Content.of(Path(model))):
                raise
    from bitvec.converters.onnx import model_oracle  # needs onnx

    return model_oracle.oracle_of(model)


def stated_trees(path: str | PathLike[str]) -> SourceTrees | None:
    """Return the trees that an exported file states, where onnx is there to read them."""
    if is_ort(Content.of(Path(path))):
        return None
    try:
        from bitvec.converters.onnx.exported_walker import exported_trees
    except ImportError:
        return None
    return exported_trees(path)
