"""The vectors that kernels are compiled for: those of the processor, or lower ones by choice."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

from llvmlite import binding
from numba.core import config

from bitvec.errors import InputError

Vectors = Literal["avx512", "portable", "none"]

LEVELS: tuple[Vectors, ...] = ("avx512", "portable", "none")
"""avx512 names its instructions where LLVM finds none as good; portable is LLVM's vector language,
which becomes AVX2, NEON or SSE; none is plain loops."""

_AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})


@cache
def features() -> frozenset[str]:
    """Return the features that numba compiles for: those of this processor unless forced."""
    forced: str | None = config.CPU_FEATURES  # type: ignore[attr-defined]
    if forced is not None:
        return frozenset(part[1:] for part in forced.split(",") if part.startswith("+"))
    return frozenset(name for name, has in binding.get_host_cpu_features().items() if has)


@cache
def vectors() -> Vectors:
    """Return the level of vectors that kernels use.

    The best that the processor has; the environment variable BITVEC_VECTORS lowers it.

    Raises
    ------
    InputError
        If BITVEC_VECTORS is no level, or one that this processor lacks.
    """
    best: Vectors = "avx512" if features() >= _AVX512 else "portable"
    asked = os.environ.get("BITVEC_VECTORS", "")
    if not asked:
        return best
    for level in LEVELS[LEVELS.index(best) :]:
        if asked == level:
            return level
    raise InputError(
        f"BITVEC_VECTORS must be one of {', '.join(LEVELS[LEVELS.index(best) :])} on this "
        f"processor, got {asked!r}: unset it to have the best."
    )


def permuted_words() -> int:
    """Return how many words one instruction looks up in a table of as many; 0 if there is none."""
    if vectors() == "avx512":
        return 16
    return 8 if vectors() == "portable" and "avx2" in features() else 0


def has_byte_shuffle() -> bool:
    """Return whether one instruction looks 64 bytes up in a table of 64 (AVX-512 VBMI)."""
    return vectors() == "avx512" and "avx512vbmi" in features()
