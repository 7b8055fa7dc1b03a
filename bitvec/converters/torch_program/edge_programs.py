"""Programs of ExecuTorch and LiteRT that bitvec wrote, run by their own runtimes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.torch_program.format import FACTS, FACTS_METHOD
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError, needs
from bitvec.verify.oracle import Oracle

NOTE = "raw scores and leaves were compared, not probabilities and labels"
"""Sentence of a certificate about what programs are asked."""


def executorch_oracle(path: Path) -> Oracle:
    """Return a .pte file as run by ExecuTorch, in parts of at most its number of rows.

    Raises
    ------
    UnsupportedModelError, FileFormatError
        If it is damaged, or none that bitvec exported.
    """
    with needs("executorch", "executorch", "Running .pte files"):
        import torch
        from executorch.runtime import Runtime, Verification
    try:
        program = Runtime.get().load_program(path, verification=Verification.InternalConsistency)
        names = program.method_names
        if FACTS_METHOD in names:
            told = program.load_method(FACTS_METHOD).execute([])[0]
            method = program.load_method("forward")
    except RuntimeError as error:
        raise _damaged(path, error) from None
    if FACTS_METHOD not in names:
        raise _foreign(path, f"no method {FACTS_METHOD}")

    def run(X: Array) -> list[Array]:  # holds the program, which the method does not
        assert program is not None
        # A method's answers lie in its own memory until the next call.
        return [np.array(one.numpy()) for one in method.execute([torch.tensor(X)])]

    return _oracle(path, "executorch", "executorch", told, run)


def litert_oracle(path: Path) -> Oracle:
    """Return a .tflite file as run by LiteRT on one thread, in parts of its number of rows.

    Raises
    ------
    UnsupportedModelError, FileFormatError
        If it is damaged, or none that bitvec exported.
    """
    with needs("ai-edge-litert", "litert", "Running .tflite files"):
        from ai_edge_litert import schema_py_generated as schema
        from ai_edge_litert.interpreter import Interpreter
    data = path.read_bytes()
    try:
        runner = Interpreter(model_content=data, num_threads=1).get_signature_runner()
        model = schema.ModelT.InitFromPackedBuf(data, 0)
        (name,) = runner.get_input_details()
    except (RuntimeError, ValueError, IndexError) as error:
        raise _damaged(path, error) from None
    of_names = {bytes(one.name).decode(): one.buffer for one in model.metadata or []}
    if FACTS not in of_names:
        raise _foreign(path, f"no metadata {FACTS}")
    told = bytes(model.buffers[of_names[FACTS]].data).decode()

    outputs = json.loads(told)["outputs"]

    def run(X: Array) -> list[Array]:
        answers = runner(**{name: X})
        return [answers[one] for one in outputs]

    return _oracle(path, "litert", "ai-edge-litert", told, run)


def _oracle(
    path: Path, name: str, package: str, told: str, run: Callable[[Array], list[Array]]
) -> Oracle:
    facts: dict[str, Any] = json.loads(told)
    dtype, batch = np.dtype(facts["dtype"]), int(facts["batch"])
    if dtype.kind != "f" or batch < 1:
        raise _foreign(path, f"the facts {told[:80]!r}")

    outputs, compared = facts["outputs"], compared_outputs(path, facts)

    def answers(X: Array, name: str) -> Array:
        rows = np.zeros((max(1, -(-len(X) // batch)) * batch, facts["n_features"]), dtype)
        rows[: len(X)] = X
        parts = [
            run(rows[at : at + batch])[outputs.index(name)] for at in range(0, len(rows), batch)
        ]
        return np.concatenate(parts)[: len(X)]

    return Oracle(
        name=name,
        version=metadata.version(package),
        raw=lambda X: answers(X, "raw"),
        leaf_ids=(lambda X: answers(X, "leaves")) if "leaves" in compared else None,
        exact=facts.get("adds") != "within rounding",
        n_features=facts["n_features"],
        input_dtype=dtype,
        notes=(NOTE,),
    )


def compared_outputs(path: Path, facts: dict[str, Any]) -> tuple[str, ...]:
    """Return which outputs of a program are compared: raw scores, and leaves where it has them.

    Raises
    ------
    InputError
        If it has no raw scores.
    """
    outputs = facts.get("outputs", ())
    if "raw" not in outputs:
        raise InputError(
            f'{path} must have an output "raw" to be certified, got {", ".join(outputs)}: export '
            "the forest."
        )
    return tuple(name for name in ("raw", "leaves") if name in outputs)


def _damaged(path: Path, error: Exception) -> FileFormatError:
    said = (str(error).splitlines() or [type(error).__name__])[0]
    return FileFormatError(
        f"{path} must be a whole program that bitvec exported, got a damaged one ({said}): "
        "export it again."
    )


def _foreign(path: Path, what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{path} must be a program that bitvec exported, got {what}: export the forest anew."
    )
