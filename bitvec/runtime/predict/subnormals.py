"""Check that a thread computes with subnormal numbers, on which a test such as x > 0 rests."""

from __future__ import annotations

from bitvec.errors import BitvecError

SUBNORMAL = 5e-324
"""A module's variable: a constant would be multiplied when the module is compiled."""


class FlushedThreadError(BitvecError, RuntimeError):
    """A thread takes subnormal numbers for zero, so that rows would go to other leaves."""

    def __init__(self, threads: str, remedy: str) -> None:
        super().__init__(
            f"{threads} must compute with subnormal numbers, got ones that are set to round them "
            f"to zero, by torch.set_flush_denormal(True) perhaps: {remedy}."
        )


def flushes() -> bool:
    """Return whether the processor takes subnormal numbers for zero in the calling thread.

    The mode (flush-to-zero, denormals-are-zero) belongs to a thread, which inherits it from the
    thread that starts it; `torch.set_flush_denormal` and libraries built with -ffast-math turn it
    on. Asking costs one multiplication.
    """
    return SUBNORMAL * 1.0 == 0.0


def check() -> None:
    """Refuse to predict in a thread that takes subnormal numbers for zero.

    Engines would then differ, as vectors, scalars and helping threads are set apart.

    Raises
    ------
    FlushedThreadError
    """
    if flushes():
        raise FlushedThreadError(
            "the calling thread and those that it starts",
            "call torch.set_flush_denormal(False) in it first",
        )
