"""The ONNX model that a page runs: whether its inputs and outputs are those of the forest."""

from __future__ import annotations

from typing import Any

from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InputError, needs
from bitvec.runtime.export.web.facts import groups

with needs("onnx", "onnx", "Writing a page"):
    import onnx


def model_bytes(forest: Forest, model: Any) -> bytes:
    """Return an ONNX model as bytes, its inputs and outputs checked against the forest.

    Parameters
    ----------
    model : bytes or onnx.ModelProto
        What `to_onnx(forest, leaves=True)` returned, in whichever form.

    Raises
    ------
    InputError
        If it is of another type, or its inputs and outputs are not those of the forest.
    FileFormatError
        If the bytes are no ONNX model.
    """
    content = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    if not isinstance(content, bytes):
        raise InputError(
            f"`onnx_model` must be bytes or an onnx.ModelProto, got {type(model).__name__}: "
            "pass what `to_onnx` returned."
        )
    try:
        graph = onnx.load_model_from_string(content).graph
    except Exception as error:  # protobuf's own class, which differs between its versions
        raise FileFormatError(
            f"`onnx_model` must be an ONNX model, got bytes that cannot be read: {error}"
        ) from None
    _require_signature(forest, graph)
    return content


def _require_signature(forest: Forest, graph: Any) -> None:
    inputs = {value.name: _shape(value) for value in graph.input}
    number = {"float32": 1, "float64": 11}[forest.dtype.name]
    if inputs != {"X": (number, forest.n_features)}:
        raise InputError(
            f"`onnx_model` must have one input `X` of {forest.n_features} columns in "
            f"{forest.dtype}, got {sorted(inputs)} (type and columns {list(inputs.values())}): "
            "export this forest."
        )
    outputs = {value.name: _shape(value)[1] for value in graph.output}
    found = groups(forest.output)
    wanted: dict[str, int] = {"leaves": forest.n_trees}
    if found is None:
        wanted["prediction"] = forest.n_outputs
    else:
        wanted |= {group["output"]: len(group["classes"]) for group in found}
        wanted["label"] = len(found) if len(found) > 1 else 0
    for name, width in wanted.items():
        if outputs.get(name) != width:
            raise InputError(
                f"`onnx_model` must have an output `{name}` of {width} columns, got "
                f"{outputs.get(name, 'none')}: export this forest with leaves=True."
            )


def _shape(value: Any) -> tuple[int, int]:
    """Return the element type and the number of columns, 0 of a tensor of one axis."""
    tensor = value.type.tensor_type
    sizes = [axis.dim_value for axis in tensor.shape.dim]
    return tensor.elem_type, sizes[1] if len(sizes) == 2 else 0
