"""Variables and folders that a child process is handed: nothing of Python's, nothing relative."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_KEPT: Final = re.compile(
    r"HOME|USER|LOGNAME|LANG|LANGUAGE|TZ|TMPDIR|TEMP|TMP|XDG_\w+|VIRTUAL_ENV"
    r"|LC_\w+|OMP_\w+|GOMP_\w+|KMP_\w+|MKL_\w+|OPENBLAS_\w+|NUMBA_\w+"
    r"|CONDA_PREFIX|CONDA_DEFAULT_ENV|CONDA_DLL_SEARCH_MODIFICATION_ENABLE"
    r"|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|APPDATA|LOCALAPPDATA|PROGRAMDATA|USERPROFILE"
    r"|USERNAME|HOMEDRIVE|HOMEPATH|NUMBER_OF_PROCESSORS|PROCESSOR_ARCHITECTURE",
    re.IGNORECASE,
)
_FOLDERS: Final = re.compile(r"PATH|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_(FALLBACK_)?LIBRARY_PATH", re.I)


def kept(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a child keeps of an environment: nothing of Python's, no relative folder."""
    result = {}
    for name, value in given.items():
        if _KEPT.fullmatch(name):
            result[name] = value
        elif _FOLDERS.fullmatch(name) and absolute(value):
            result[name] = absolute(value)
    result.setdefault("OMP_NUM_THREADS", str(min(os.cpu_count() or 1, 8)))
    result["OPENBLAS_NUM_THREADS"] = "1"  # buffers of each thread count as memory of the child
    return result


def absolute(folders: str) -> str:
    """Return the absolute entries of a list of folders as `PATH` is one."""
    return os.pathsep.join(one for one in folders.split(os.pathsep) if Path(one).is_absolute())


def import_path() -> list[str]:
    """Return the absolute entries of `sys.path`, without the current folder.

    Python puts the current folder there by itself. It stays only where `PYTHONPATH` names it by its
    absolute path.
    """
    named = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    wanted = {os.path.realpath(n) for n in named.split(os.pathsep) if Path(n).is_absolute()}
    try:
        here = os.path.realpath(Path.cwd())
    except OSError:  # it is gone
        here = ""
    entries = [entry for entry in sys.path if Path(entry).is_absolute()]
    return [e for e in entries if os.path.realpath(e) != here or here in wanted]
