"""Exported models in OpenVINO, on a CPU in float32: the other side of a certificate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bitvec.converters.onnx.session import OnnxEngine, any_batch, oracle_of
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, MissingLibraryError
from bitvec.runtime.export.export_target import TREES
from bitvec.verify import workers
from bitvec.verify.oracle import Oracle

try:
    import openvino
except ImportError as error:
    raise MissingLibraryError("openvino", "openvino", "Running files in OpenVINO") from error

OPTIONS = {
    "INFERENCE_PRECISION_HINT": openvino.Type.f32,
    "EXECUTION_MODE_HINT": "ACCURACY",
    "INFERENCE_NUM_THREADS": 1,
}
"""By default it computes in bfloat16 where the processor can."""


class OpenVinoEngine(OnnxEngine):
    """An exported forest, run by OpenVINO; onnxruntime reads its metadata only.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        A model for the target `openvino`.

    Raises
    ------
    FileFormatError
        If OpenVINO cannot load the model.
    """

    runtime = "openvino"
    runtime_version = openvino.__version__

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        content = model.SerializeToString() if hasattr(model, "SerializeToString") else model
        content = content if isinstance(content, bytes) else Path(content).read_bytes()
        core = openvino.Core()
        try:
            read = core.read_model(content)
            self._compiled = core.compile_model(read, "CPU", OPTIONS)
        except RuntimeError as error:
            reason = _unknown_operators(content) or str(error).strip().splitlines()[-1][:300]
            raise FileFormatError(
                f"the model must be one that OpenVINO {openvino.__version__} loads, got: {reason}"
            ) from None

    def _answer(self, output: str, fed: dict[str, Array]) -> Array:
        answers = self._compiled(fed)
        answer: Array = answers[output]
        return answer


def _unknown_operators(content: bytes) -> str:
    """Return the operators of a file that OpenVINO does not know: it may name their neighbours."""
    import onnx

    graph = onnx.ModelProto.FromString(content).graph
    left = sorted({node.op_type for node in graph.node} & TREES)
    return f"{', '.join(left)}, which it does not run" if left else ""


def certified(model: Any) -> Oracle:
    """Return a model for the target `openvino` as the oracle of a certificate.

    A file is opened in a child process; see `bitvec.verify.workers`.
    """
    if isinstance(model, str | os.PathLike):
        opened: Oracle = workers.opened(model, "OpenVINO", __name__, "loaded")
        return opened
    return loaded(model)


def loaded(model: Any) -> Oracle:
    """Return a model as the oracle of a certificate, in this process."""
    return oracle_of(OpenVinoEngine(any_batch(model)))
