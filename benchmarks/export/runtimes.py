"""Files as functions of rows, one thread each: onnxruntime, OpenVINO and compiled C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import onnxruntime

from bitvec.core.arrays import Array
from bitvec.runtime.export.c.compiled import CompiledHeader

Answers = dict[str, Array]
SCORES: Final = ("probabilities", "prediction")
"""Names in our files of what a forest answers in the end."""


class Loaded(Protocol):
    """A file that was loaded."""

    def call(self, X: Array) -> Callable[[], Any]:
        """Return what answers these rows when called, and does nothing else: for a clock."""

    def answers(self, X: Array) -> Answers:
        """Return `leaves`, `raw`, `scores` and `label`, as far as the file has them."""


def _named(found: Answers) -> Answers:
    return {"scores" if name in SCORES else name: value for name, value in found.items()}


class Session:
    """An ONNX or ORT file in onnxruntime.

    `names` are those of its outputs, in order, where the file has others.
    """

    def __init__(self, path: Path, names: tuple[str, ...] | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [one.name for one in self._session.get_inputs()]
        self._names = names or tuple(one.name for one in self._session.get_outputs())

    def _fed(self, X: Array) -> Answers:
        first = self._inputs[0]
        if "present" not in self._inputs:
            return {first: X}
        missing = np.isnan(X)
        return {first: np.where(missing, np.float32(0), X), "present": (~missing).astype(X.dtype)}

    def call(self, X: Array) -> Callable[[], Any]:
        """Return a run of all outputs."""
        run, fed = self._session.run, self._fed(X)
        return lambda: run(None, fed)

    def answers(self, X: Array) -> Answers:
        """Return all outputs by name."""
        return _named(dict(zip(self._names, self.call(X)(), strict=True)))


class OpenVino:
    """An ONNX file in OpenVINO, on the CPU, in float32."""

    def __init__(self, path: Path) -> None:
        import openvino

        core = openvino.Core()
        options = {
            "INFERENCE_PRECISION_HINT": openvino.Type.f32,
            "EXECUTION_MODE_HINT": "ACCURACY",
            "INFERENCE_NUM_THREADS": 1,
        }
        self._compiled = core.compile_model(core.read_model(str(path)), "CPU", options)
        self._request = self._compiled.create_infer_request()

    def call(self, X: Array) -> Callable[[], Any]:
        """Return a run of all outputs."""
        request = self._request
        return lambda: request.infer([X], share_inputs=True)

    def answers(self, X: Array) -> Answers:
        """Return all outputs by name."""
        found = self._request.infer([X])
        named = {one.get_any_name(): np.array(found[one]) for one in self._compiled.outputs}
        return _named(named)


class Header:
    """A header of C99, compiled for this machine; a call gives probabilities, or predictions."""

    def __init__(self, path: Path, labels: Array | None) -> None:
        self._compiled, self._labels = CompiledHeader(path), labels

    def call(self, X: Array) -> Callable[[], Any]:
        """Return a run over all rows."""
        compiled = self._compiled
        answer = compiled.predict if self._labels is None else compiled.probabilities
        return lambda: answer(X)

    def answers(self, X: Array) -> Answers:
        """Return what the header computes."""
        compiled = self._compiled
        found = {
            "leaves": compiled.exit_leaves(X),
            "raw": compiled.raw(X),
            "scores": self.call(X)(),
        }
        if self._labels is not None:
            found["label"] = self._labels[compiled.predict(X)[:, 0]]
        return found
