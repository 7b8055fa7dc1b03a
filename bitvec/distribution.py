"""The distribution that installs this package; its name differs from the import name.

`bitvec` on the package index is another project, of bit manipulation. Both write a folder
`bitvec/`, so an environment holds one of the two.
"""

from __future__ import annotations

import re
import sys
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


def left_out(library: str) -> bool:
    """Tell whether a marker of the requirements leaves a library out for this version of Python."""
    try:
        requirements = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return False
    marked = re.compile(rf"{re.escape(library)}\b[^;]*;.*python_version < ['\"]3\.(\d+)['\"]")
    bounds = [int(found.group(1)) for text in requirements if (found := marked.match(text))]
    return any(sys.version_info >= (3, bound) for bound in bounds)
