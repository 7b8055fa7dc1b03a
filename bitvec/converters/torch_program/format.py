"""Programs of torch.export, and hard forests as torch modules: how they are recognised."""

from __future__ import annotations

from typing import Final

from bitvec.converters.format import Content, Format

FACTS: Final = "bitvec.json"
"""The extra file of a program: its features, their dtype, its outputs and classes."""


def is_program(content: Content) -> bool:
    """Return whether this is a zip archive of torch's format for exported programs."""
    return any(name.endswith("/archive_format") for name in content.members)


FORMAT: Final = Format(
    name="torch program",
    folder="torch_program",
    packages=("bitvec.runtime.predict.torch.hard_forest",),
    recognises=is_program,
    supported=(),
)
