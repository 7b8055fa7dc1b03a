"""Forests as .pte files, which ExecuTorch runs on phones and small devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from bitvec.converters.torch_program.format import FACTS_METHOD
from bitvec.core import options
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import batch_of
from bitvec.errors import UnsupportedModelError, needs
from bitvec.files import atomic

if TYPE_CHECKING:
    from bitvec.runtime.predict.torch.hard_forest import HardForest
    from bitvec.runtime.train.relax.module import SoftForest

BACKENDS: Final = ("portable", "xnnpack")
FORM: Final = "perfect"
"""Form of trees: of the three it is the smallest and fastest there."""


def save(
    forest: Forest | HardForest | SoftForest,
    path: Path,
    *,
    batch: int | None = None,
    target: Literal["portable", "xnnpack"] | None = None,
) -> Path:
    """Write a .pte file of up to `batch` rows (1 if not given), of all answers in this order.

    These are raw scores, leaves and, of a classifier of one target, probabilities and labels. A
    method `bitvec` returns names of features and classes as JSON. Raw scores are added by one
    `scatter_add`, which ExecuTorch's kernel does in the order of the trees.

    Parameters
    ----------
    target : "portable" or "xnnpack", optional
        The kernels that run it: portable ones if not given, or XNNPACK's where it has them.

    Raises
    ------
    MissingLibraryError
        If ExecuTorch is not installed.
    UnsupportedModelError
        If tensor operations, or those of ExecuTorch, do not hold the forest.
    """
    n_rows, backend = batch_of(batch) or 1, target or "portable"
    options.among("target", backend, BACKENDS)
    with needs("torch", "executorch", "Writing .pte files"):
        from bitvec.runtime.export.torch_programs import graph_of
    with needs("executorch", "executorch", "Writing .pte files"):
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower
        from executorch.runtime import Runtime
    graph = graph_of(forest, form=FORM, scatters=True)
    partitioners = [XnnpackPartitioner()] if backend == "xnnpack" else None
    try:
        lowered = to_edge_transform_and_lower(
            graph.exported(n_rows),
            partitioner=partitioners,
            constant_methods={FACTS_METHOD: json.dumps(graph.facts | {"batch": n_rows})},
        )
        program = lowered.to_executorch()
    except Exception as error:  # ExecuTorch refuses operators by errors of many kinds
        raise _refused(error) from error
    held = Runtime.get().operator_registry.operator_names
    missing = sorted(_operators(program) - set(held))
    if missing:
        raise _refused(f"no kernel for {', '.join(missing)}")
    return atomic.write(path, program.buffer)


def _operators(program: Any) -> set[str]:
    """Return the names of the kernels that a program calls."""
    plan = program.executorch_program.execution_plan
    names = ((one.name, one.overload) for method in plan for one in method.operators)
    return {f"{name}.{overload}" if overload else name for name, overload in names}


def _refused(reason: object) -> UnsupportedModelError:
    said = (str(reason).strip().splitlines() or [type(reason).__name__])[0][:200]
    return UnsupportedModelError(
        f"a .pte file must be of operations that ExecuTorch has, got {said}: export ONNX instead."
    )
