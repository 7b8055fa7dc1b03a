"""Checkpoints read by treelite's C++ loader: in a process of its own first, then here.

A file that passed `read_checkpoint` is whole, but what the loader makes of hostile values is not
ours to know. A crash or a hang of the child is a refusal.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bitvec.errors import FileFormatError, MissingLibraryError

try:
    import treelite
except ImportError as error:
    raise MissingLibraryError("treelite", "treelite", "Reading a treelite checkpoint") from error

_REFUSED = 3
_TRIAL = f"""
import sys
import treelite
try:
    treelite.Model.deserialize_bytes(sys.stdin.buffer.read())
except treelite.TreeliteError as error:
    sys.stdout.write(str(error))
    sys.exit({_REFUSED})
"""
PATIENCE, BYTES_PER_SECOND = 60.0, 1e6
"""Seconds given to a child, and what it must read at least in each second beyond."""


def deserialized(data: bytes) -> Any:
    """Return the treelite.Model of a checkpoint that a child process was able to read.

    Raises
    ------
    FileFormatError
        If the child refuses it, crashes or hangs.
    """
    try:
        trial = subprocess.run(
            # -P: the child must not import from the directory that it happens to run in.
            [sys.executable, "-P", "-c", _TRIAL],
            input=data,
            capture_output=True,
            timeout=PATIENCE + len(data) / BYTES_PER_SECOND,
        )
    except subprocess.TimeoutExpired:
        outcome = "no end of reading"
    else:
        if trial.returncode == 0:
            return treelite.Model.deserialize_bytes(data)
        lines = (trial.stdout if trial.returncode == _REFUSED else trial.stderr).splitlines()
        said = lines[0 if trial.returncode == _REFUSED else -1] if lines else b""
        outcome = said.decode(errors="replace")[:300] or f"exit code {trial.returncode}"
    raise FileFormatError(
        f"treelite {treelite.__version__} must be able to read the checkpoint, got: {outcome}"
    )
