"""The distribution that installs this package; its name differs from the import name.

`bitvec` on the package index is another project, of bit manipulation. Both write a folder
`bitvec/`, so an environment holds one of the two.
"""

from __future__ import annotations

import platform
import re
import sys
from typing import Final

NAME: Final = "bitvec-trees"
PYTHON_BELOW: Final = re.compile(r"""python_version < ["']3\.(\d+)["']""")
MACHINE_IN: Final = re.compile(r"""platform_machine in ["']([^"']*)["']""")


def version() -> str:
    """Return the version that is installed."""
    from importlib import metadata  # which takes longer to import than all of click

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
    """Tell whether a marker of the requirements leaves a library out on this machine."""
    from importlib import metadata

    try:
        requirements = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return False
    named = re.compile(rf"{re.escape(library)}\b[^;]*;(.*)")
    markers = [found.group(1) for text in requirements if (found := named.match(text))]
    return any(
        any(sys.version_info >= (3, int(minor)) for minor in PYTHON_BELOW.findall(marker))
        or any(platform.machine() not in names for names in MACHINE_IN.findall(marker))
        for marker in markers
    )
