"""Bytes of flash that a piece of C takes: code and constants of its object file."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from bitvec.runtime.export.c.compiled import FLAGS, find_compiler


def object_bytes(source: str, include: Path | None = None) -> int | None:
    """Return text and data of a source compiled for this machine, or None without binutils."""
    size = shutil.which("size")
    if size is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "use.c").write_text(source, "ascii")
        command = [find_compiler(), *FLAGS, "-c", "-o", str(place / "use.o")]
        command += [] if include is None else [f"-I{include}"]
        subprocess.run([*command, str(place / "use.c")], capture_output=True, check=True)
        told = subprocess.run(
            [size, str(place / "use.o")], capture_output=True, text=True, check=True
        )
    text, data = told.stdout.splitlines()[1].split()[:2]
    return int(text) + int(data)
