"""Runtimes of programs that torch.export makes, with what their files cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ProgramTarget:
    """A runtime for exported programs.

    Parameters
    ----------
    ending : str
        Of its files.
    runtime : str
    extra : str
        Of this package, which brings what writes and runs them.
    rows : str
        How many a call may take.
    form : str
        Of the trees, among those of `to_torch`.
    refuses : str
        What is refused besides prediction kernels and feature maps.
    exact : str
        Which raw scores have the bits of the forest's; leaves are always the same.
    measured : str
        Version whose answers were certified, or why none was.
    """

    ending: str
    runtime: str
    extra: str
    rows: str
    form: str
    refuses: str
    exact: str
    measured: str


PROGRAM_TARGETS: Final = (
    ProgramTarget(".pt2", "torch.export", "torch", "any", "auto", "nothing", "all", "2.13.0"),
    ProgramTarget(
        ".pt2, `compiled=True`",
        "AOTInductor, Python or C++",
        "torch",
        "any",
        "auto",
        "nothing",
        "all",
        "2.13.0, by tests: code is never certified",
    ),
    ProgramTarget(
        ".pte",
        'ExecuTorch, portable kernels or `target="xnnpack"`',
        "executorch",
        "1, or up to `batch=`",
        "perfect",
        "weighted medians",
        "all",
        "1.5.1",
    ),
    ProgramTarget(
        ".tflite",
        "LiteRT",
        "litert",
        "1, or `batch=`",
        "perfect",
        "weighted medians, and forests that float32 cannot hold",
        "of sources that add in float32",
        "2.3.0",
    ),
)
