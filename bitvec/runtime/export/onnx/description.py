"""Description of an exported file: its form, inputs, outputs and metadata.

An `.ort` file is opened by onnxruntime in a child process; see `bitvec.verify.workers`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from bitvec.converters.onnx.format import ORT
from bitvec.converters.onnx.session import open_session
from bitvec.errors import FileFormatError
from bitvec.files.sound import sound
from bitvec.verify import workers

ELEMENTS = {1: "float32", 7: "int64", 8: "string", 9: "bool", 10: "float16", 11: "float64"}
"""Names of the element types that inputs and outputs have."""


def describe(path: Path) -> dict[str, Any] | None:
    """Return the facts of an .onnx or .ort file that bitvec wrote, or None of another file.

    Returns
    -------
    dict
        `form`; `inputs` and `outputs`, from names to a dtype and a shape, whose open number of rows
        is "batch"; `batch`, the number of rows or None; `opset` (None of an .ort file, which does
        not say) and `metadata`, without the `bitvec.` before each name.

    Raises
    ------
    FileFormatError
        If it is damaged.
    OSError
        If the file cannot be read.
    """
    content = path.read_bytes()
    with sound(path, "be a sound ONNX file"):
        if content[4:8] == ORT:
            facts = workers.opened(path, "onnxruntime", __name__, "_of_onnxruntime")
        else:
            facts = _of_onnx(content)
    if facts is None or "form" not in facts["metadata"]:
        return None
    rows = next(iter(facts["inputs"].values()))["shape"][0]
    return {"form": facts["metadata"]["form"], "batch": rows if rows != "batch" else None, **facts}


def _of_onnx(content: bytes) -> dict[str, Any] | None:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        return None
    return {
        "inputs": {value.name: _tensor(value) for value in model.graph.input},
        "outputs": {value.name: _tensor(value) for value in model.graph.output},
        "opset": next((used.version for used in model.opset_import if not used.domain), None),
        "metadata": _plain({entry.key: entry.value for entry in model.metadata_props}),
    }


def _tensor(value: Any) -> dict[str, Any]:
    tensor = value.type.tensor_type
    shape = [size.dim_param or size.dim_value for size in tensor.shape.dim]
    return {"dtype": ELEMENTS.get(tensor.elem_type, str(tensor.elem_type)), "shape": shape}


def _of_onnxruntime(path: str) -> dict[str, Any] | None:
    try:
        session = open_session(path, 1)
    except FileFormatError:
        return None
    return {
        "inputs": {one.name: _declared(one) for one in session.get_inputs()},
        "outputs": {one.name: _declared(one) for one in session.get_outputs()},
        "opset": None,
        "metadata": _plain(session.get_modelmeta().custom_metadata_map),
    }


def _declared(value: Any) -> dict[str, Any]:
    element = value.type.removeprefix("tensor(").removesuffix(")")
    return {"dtype": _NUMPY.get(element, element), "shape": list(value.shape)}


_NUMPY = {"float": "float32", "double": "float64"}
"""NumPy's names of dtypes, by onnxruntime's, where they differ."""


def _plain(metadata: dict[str, str]) -> dict[str, str]:
    return {
        name.removeprefix("bitvec."): text
        for name, text in metadata.items()
        if name.startswith("bitvec.")
    }


def line(facts: dict[str, Any]) -> str:
    """Return the facts of a file on one line.

    >>> line({"form": "tensor", "inputs": {"X": 0}, "outputs": {"raw": 0}, "opset": 21,
    ...       "batch": None})
    'form tensor; X -> raw; opset 21; any batch'
    """
    opset = [] if facts["opset"] is None else [f"opset {facts['opset']}"]
    batch = "any batch" if facts["batch"] is None else f"batch {facts['batch']}"
    ends = f"{', '.join(facts['inputs'])} -> {', '.join(facts['outputs'])}"
    return "; ".join([f"form {facts['form']}", ends, *opset, batch])
