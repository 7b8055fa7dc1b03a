"""The distribution that installs this package; its name differs from the import name.

`bitvec` on the package index is another project, of bit manipulation. Both write a folder
`bitvec/`, so an environment holds one of the two.
"""

from __future__ import annotations

from importlib import metadata
from typing import Final

NAME: Final = "bitvec-trees"


def version() -> str:
    """Return the version that is installed."""
    return metadata.version(NAME)


def install_command(extra: str) -> str:
    """Return the shell command that installs an extra.

    Examples
    --------
    >>> install_command("onnx")
    'pip install "bitvec-trees[onnx]"'
    """
    return f'pip install "{NAME}[{extra}]"'
