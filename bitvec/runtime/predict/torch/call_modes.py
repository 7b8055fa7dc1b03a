"""Modes of a call of a torch module: eager on a CPU, compiled by Inductor, or traced for export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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


SCALAR: Final = {"cpp.simdlen": 1}
"""Options by which Inductor writes plain loops for a CPU: vectors are slower at look-ups."""

_ahead = False


@contextmanager
def compiled_ahead() -> Iterator[None]:
    """Have exports in this block be for Inductor, which compiles them ahead of calls."""
    global _ahead
    _ahead = True
    try:
        yield
    finally:
        _ahead = False


def is_compiled() -> bool:
    """Return whether Inductor compiles the graph, rather than that any runtime is to take it."""
    return torch.compiler.is_compiling() and (not torch.compiler.is_exporting() or _ahead)
