"""Read damaged files, one after the other, and print what came of each: a program of its own.

Arguments: the folder of sound files, a folder to work in, the first and the last index, the seed.
Each file that is read has a line on stdout, as JSON: its index, its outcome and what was said.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.mutations import damaged

import bitvec
from bitvec import certification
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError
from bitvec.runtime.predict import datafiles
from bitvec.verify import certificates

MEMORY = 2 << 30
"""Bytes that reading a file may add to those of the interpreter and its libraries."""

SECOND = re.compile(r"(?<!\.)\. ")
"""The end of a sentence before the end of the message; " ... " is none."""


def convert(path: Path) -> None:
    _answer(bitvec.convert(path))


def load(path: Path) -> None:
    _answer(bitvec.load(path))


def machine(path: Path) -> None:
    bitvec.DecisionMachine.load(path)


def _answer(read: Any) -> None:
    """Let a forest that was read answer for two rows: it must be as sound as any other."""
    if isinstance(read, Forest) and read.n_features <= 1000:
        X = np.zeros((2, read.n_features), read.dtype)
        X[1] = np.nan
        reference.exit_leaves(read, X)
        reference.raw(read, X)


def certificate(path: Path) -> None:
    certificates.load(path).summary()


def rows(path: Path) -> None:
    datafiles.read(path)


def certify(path: Path) -> None:
    """Ask the library that made a file, in the child process that opens it."""
    forest = bitvec.convert(path)
    if forest.n_features <= 1000:
        bitvec.certify(forest, path, engine="reference")


def oracle_of(path: Path) -> None:
    """Ask a file that is only run, and converted by nothing."""
    asked = certification.oracle_of(path)
    asked.raw(np.zeros((2, asked.n_features or 0), asked.input_dtype))


READERS: dict[str, Callable[[Path], None]] = {
    "convert": convert,
    "load": load,
    "machine": machine,
    "certificate": certificate,
    "rows": rows,
    "certify": certify,
    "oracle": oracle_of,
}
"""By the first word of a sound file's name."""


def outcome(read: Callable[[Path], None], path: Path) -> tuple[str, str]:
    """Return whether a file was read, refused in one sentence, or what else happened."""
    try:
        read(path)
    except MemoryError as error:
        return "memory", repr(error)
    except BitvecError as error:
        said: str = str(error)
        cause = error.__cause__ or error.__context__
        if isinstance(cause, MemoryError):
            return "memory", said
        if not said.isprintable() or not 0 < len(said) < 3000 or SECOND.search(said):
            return "unclean", said
        return "refused", ""
    except BaseException as error:
        return "unclean", f"{type(error).__module__}.{type(error).__name__}: {error}"
    return "read", ""


def place(original: Path, folder: Path, rng: np.random.Generator) -> Path:
    """Write a damaged copy of a file, or a copy of a directory with one damaged file."""
    path = folder / original.name.partition("-")[2]
    if original.is_file():
        path.write_bytes(damaged(original.read_bytes(), original.suffix, rng))
        return path
    shutil.copytree(original, path, dirs_exist_ok=True)
    parts = sorted(part for part in path.iterdir() if part.is_file())
    part = parts[int(rng.integers(len(parts)))]
    part.write_bytes(damaged(part.read_bytes(), part.suffix, rng))
    return path


def main(sound: Path, folder: Path, first: int, last: int, seed: int) -> None:
    originals = sorted(sound.iterdir())
    for original in originals:  # what is imported and compiled now is not charged to a file
        READERS[original.name.partition("-")[0]](original)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    print(json.dumps(["ready"]), flush=True)
    for index in range(first, last):
        original = originals[index % len(originals)]
        path = place(original, folder, np.random.default_rng([seed, index]))
        result = outcome(READERS[original.name.partition("-")[0]], path)
        print(json.dumps([index, *result]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6]))
