"""Modes of a call of a torch module: eager on a CPU, compiled by Inductor, or traced for export."""

from __future__ import annotations

import torch
from torch import Tensor


def is_plain(x: Tensor) -> bool:
    """Return whether a call is eager and on a CPU: nothing traces, batches or replaces it.

    Only then may operations write into given memory, or depend on values.
    """
    return (
        type(x) is Tensor
        and x.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and torch._C._len_torch_dispatch_stack() == 0
    )


def is_compiled() -> bool:
    """Return whether a compiler runs the graph here, rather than a program for any runtime."""
    return torch.compiler.is_compiling() and not torch.compiler.is_exporting()
