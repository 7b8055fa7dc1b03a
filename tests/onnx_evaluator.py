"""The ONNX project's evaluator, mended where an old version of it is broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
from onnx.reference.ops import op_gather


class Gather(op_gather.Gather):  # type: ignore[misc]
    """Copies indices that do not lie in a row, by which that of onnx before 1.21 stops."""

    op_domain = ""

    def _run(self, x: np.ndarray, indices: np.ndarray, axis: int | None = None) -> Any:
        return super()._run(x, indices.copy(), axis=axis)


MENDED = [Gather] if onnx.__version__.split(".") < ["1", "21"] else []


def evaluator_of(model: onnx.ModelProto) -> onnx.reference.ReferenceEvaluator:
    """Return an evaluator of a model."""
    return onnx.reference.ReferenceEvaluator(model, new_ops=[*MENDED])
