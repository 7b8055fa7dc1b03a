"""Exported models in onnxruntime-web's wasm, under node: the other side of a certificate."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.onnx.oracle import stated_trees
from bitvec.converters.onnx.session import OnnxEngine, any_batch, oracle_of
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError
from bitvec.runtime.export.web.onnxruntime_web import NODE, WASM, dist_of
from bitvec.verify import workers
from bitvec.verify.oracle import Oracle

WORKER = Path(__file__).with_name("wasm.mjs")


class WasmEngine(OnnxEngine):
    """An exported forest, run by onnxruntime-web's wasm; onnxruntime reads its metadata only.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
    node : path
        The program.
    dist : path
        The folder of that name in the npm package onnxruntime-web.

    Raises
    ------
    FileFormatError
        If node cannot load the package, or the package the model.
    """

    runtime = "onnxruntime-web"

    def __init__(
        self, model: Any, node: str | os.PathLike[str], dist: str | os.PathLike[str]
    ) -> None:
        super().__init__(model)
        content = model.SerializeToString() if hasattr(model, "SerializeToString") else model
        content = content if isinstance(content, bytes) else Path(content).read_bytes()
        self._process = subprocess.Popen(
            [node, WORKER, Path(dist).absolute()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.close = weakref.finalize(self, _end, self._process)
        self.runtime_version = self._asked(base64.b64encode(content))["version"]

    def _asked(self, line: bytes) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(line + b"\n")
            stdin.flush()
            answer: dict[str, Any] = json.loads(stdout.readline())
        except (OSError, ValueError):
            answer = {"error": f"node ended with code {self._process.wait()}"}
        if "error" in answer:
            raise FileFormatError(
                "the model must be one that onnxruntime-web loads and runs under node, got: "
                f"{' '.join(answer['error'].split())[:300]}"
            )
        return answer

    def _answer(self, output: str, fed: dict[str, Array]) -> Array:
        inputs = {
            name: {
                "type": rows.dtype.name,
                "dims": rows.shape,
                "data": base64.b64encode(np.ascontiguousarray(rows).tobytes()).decode(),
            }
            for name, rows in fed.items()
        }
        answer = self._asked(json.dumps({"output": output, "inputs": inputs}).encode())
        if answer["type"] == "string":
            found = np.array(answer["data"], object)
        else:
            found = np.frombuffer(base64.b64decode(answer["data"]), answer["type"])
        return found.reshape(answer["dims"])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def find_package(folder: str | os.PathLike[str] = ".") -> Path | None:
    """Return node_modules/onnxruntime-web of a folder or the nearest above it, as node finds it."""
    here = Path(folder).absolute()
    packages = [one / "node_modules" / "onnxruntime-web" for one in (here, *here.parents)]
    return next((one for one in packages if one.is_dir()), None)


def certified(model: Any, package: str | os.PathLike[str] | None = None) -> Oracle | None:
    """Return a model for the target `onnxruntime-web` as the oracle of a certificate.

    A file is opened in a child process; see `bitvec.verify.workers`.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
    package : path, optional
        The folder of the npm package; by default that which `find_package` finds.

    Returns
    -------
    Oracle or None
        None where there is no node, or no package is named or found.

    Raises
    ------
    InputError
        If the folder that is named is not that of the package.
    """
    found, node = package or find_package(), shutil.which("node")
    if found is None:
        return None
    dist = dist_of(found, (NODE, WASM)).absolute()
    if node is None:
        return None
    program = str(Path(node).absolute())
    if not isinstance(model, str | os.PathLike):
        return loaded(model, program, str(dist))
    opened: Oracle = workers.opened(
        model, "onnxruntime-web", __name__, "loaded", program, str(dist)
    )
    return opened


def loaded(model: Any, node: str, dist: str) -> Oracle:
    """Return a model as the oracle of a certificate, in this process."""
    oracle = oracle_of(WasmEngine(any_batch(model), node, dist))
    is_file = isinstance(model, str | os.PathLike)
    return replace(oracle, written=partial(stated_trees, model)) if is_file else oracle
