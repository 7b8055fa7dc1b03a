"""Programs that bitvec wrote by torch.export, run by their runtimes, and hard modules by torch."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitvec.converters.format import Content
from bitvec.converters.torch_program import edge_programs
from bitvec.converters.torch_program.format import is_executorch, is_litert
from bitvec.converters.torch_program.plain_archive import plain_program
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, InputError, needs
from bitvec.verify.oracle import Oracle

if TYPE_CHECKING:
    import torch


def oracle_of(model: Any) -> Oracle:
    """Return a program that `bitvec.export` has written, or a hard module, as it runs.

    Parameters
    ----------
    model : path or HardForest
        A module of the output "raw", wherever it is.

    Raises
    ------
    UnsupportedModelError, FileFormatError
        As `plain_program`, `executorch_oracle` and `litert_oracle`.
    InputError
        If the module has another output.
    """
    if not isinstance(model, str | Path):
        return _of_module(model)
    content = Content.of(Path(model))
    if is_executorch(content):
        return edge_programs.executorch_oracle(content.path)
    if is_litert(content):
        return edge_programs.litert_oracle(content.path)
    with needs("torch", "torch", "Running .pt2 files"):
        import torch
    data, facts = plain_program(content.path)
    program: Any = torch.export.load(io.BytesIO(data)).module()
    dtype, n_features = facts.get("dtype"), facts.get("n_features")
    if dtype not in ("float32", "float64") or not isinstance(n_features, int):
        raise FileFormatError(
            f"{model} must state `dtype` and `n_features`, got {dtype!r} and {n_features!r}: "
            "export it again."
        )
    outputs = edge_programs.compared_outputs(content.path, facts)
    return _oracle(lambda name, x: program(x)[name], np.dtype(dtype), n_features, outputs)


def _of_module(module: Any) -> Oracle:
    if module.output != "raw":
        raise InputError(
            f'a module must have the output "raw" to be certified, got {module.output!r}: make it '
            "by bitvec.to_torch(forest)."
        )
    device = module.first_leaf.device

    def answers(name: str, x: torch.Tensor) -> torch.Tensor:
        rows = x.to(device)
        answer: torch.Tensor = module(rows) if name == "raw" else module.leaves(rows)
        return answer

    return _oracle(answers, np.dtype(str(module.dtype).removeprefix("torch.")), module.n_features)


def _oracle(
    answers: Callable[[str, torch.Tensor], torch.Tensor],
    dtype: np.dtype,
    n_features: int,
    outputs: tuple[str, ...] = ("raw", "leaves"),
) -> Oracle:
    import torch

    def of(name: str, X: Array) -> Array:
        found: Array = answers(name, torch.tensor(np.asarray(X, dtype))).cpu().numpy()
        return found

    return Oracle(
        name="torch",
        version=torch.__version__,
        raw=lambda X: of("raw", X),
        leaf_ids=(lambda X: of("leaves", X)) if "leaves" in outputs else None,
        n_features=n_features,
        input_dtype=dtype,
        notes=(edge_programs.NOTE,),
    )
