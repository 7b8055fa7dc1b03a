"""Programs made by torch.export, and hard forests as torch modules: how they are recognised."""

from __future__ import annotations

import re
from typing import Final

from bitvec.converters.format import Content, Format

FACTS: Final = "bitvec.json"
"""The extra file of a program: its features, their dtype, its outputs and classes."""
FACTS_METHOD: Final = "bitvec"
"""The method of a .pte file that returns them."""


def is_program(content: Content) -> bool:
    """Return whether this is a .pt2 archive of torch, or a .pte or .tflite file."""
    if is_executorch(content) or is_litert(content):
        return True
    return any(name.endswith("/archive_format") for name in content.members)


def is_executorch(content: Content) -> bool:
    """Return whether this is a program of ExecuTorch."""
    return re.fullmatch(rb"ET\d\d", content.head[4:8]) is not None


def is_litert(content: Content) -> bool:
    """Return whether this is a model of LiteRT."""
    return content.head[4:8] == b"TFL3"


FORMAT: Final = Format(
    name="exported program",
    folder="torch_program",
    packages=("bitvec.runtime.predict.torch.hard_forest",),
    recognises=is_program,
    supported=(),
)
