"""Forests as .tflite files, which LiteRT runs on phones and small devices."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitvec.converters.torch_program.format import FACTS
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import batch_of
from bitvec.errors import UnsupportedModelError, needs
from bitvec.files import atomic
from bitvec.runtime.export.onnx_targets import find
from bitvec.runtime.export.target_limits import for_target

if TYPE_CHECKING:
    from bitvec.runtime.predict.torch.hard_forest import HardForest
    from bitvec.runtime.train.relax.module import SoftForest

FORM = "perfect"
"""Form of trees: of the three it is the smallest and fastest there."""


def save(forest: Forest | HardForest | SoftForest, path: Path, *, batch: int | None = None) -> Path:
    """Write a .tflite file of `batch` rows (1 if not given), of all answers by name.

    These are `raw`, `leaves` (int32) and, of a classifier of one target, `probabilities` and
    `label`. The metadata `bitvec.json` names features and classes. LiteRT has no float64: the
    forest's thresholds are rounded so that rows of float32 take the same path, and scores of
    float64 are then within rounding.

    Raises
    ------
    MissingLibraryError
        If litert-torch is not installed.
    UnsupportedModelError
        If tensor operations, float32, or LiteRT's operations do not hold the forest.
    """
    n_rows = batch_of(batch) or 1
    with needs("torch", "litert", "Writing .tflite files"):
        from bitvec.runtime.export.torch_programs import graph_of
    with needs("litert-torch", "litert", "Writing .tflite files"):
        import litert_torch
        import torch
    limits = replace(find("litert"), subnormals=True, int64=True)
    adds = "within rounding"
    if isinstance(forest, Forest):
        scores = {forest.output.dtype.name, forest.leaves.v.dtype.name}
        adds = "exactly" if scores == {"float32"} else adds
        forest = for_target(forest, limits)
    graph = graph_of(forest, form=FORM)
    if graph.facts["dtype"] != "float32":
        raise UnsupportedModelError(
            f"a .tflite file must be of a module in float32, got {graph.facts['dtype']}: export "
            "its forest, which is rounded so that rows take the same path."
        )
    x = torch.zeros((n_rows, graph.facts["n_features"]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.tflite")
        try:
            litert_torch.convert(graph.module, (x,)).export(str(file))
        except Exception as error:  # litert-torch refuses operators by errors of many kinds
            said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise UnsupportedModelError(
                f"a .tflite file must be of operations that LiteRT has, got {said}: export ONNX "
                "instead."
            ) from error
        data = file.read_bytes()
    return atomic.write(path, _told(data, graph.facts | {"batch": n_rows, "adds": adds}))


def _told(data: bytes, facts: dict[str, Any]) -> bytes:
    """Return a file with facts in its metadata."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = list(json.dumps(facts).encode())
    entry.name, entry.buffer = FACTS, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
