"""The process of an engine: its environment, and how long it may take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from benchmarks import old_environments as environments
from benchmarks.engine.engines import Engine
from benchmarks.old_worker import CannotRunError
from benchmarks.old_workers import THREADS, Worker

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
START_SECONDS: Final = 240.0
"""To import, load, convert and compile."""
CALL_SECONDS: Final = 60.0


def avx2() -> str:
    """Return this processor's features without those of AVX-512, as numba takes them."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten().split(",")
    return ",".join("-" + f[1:] if f[1:].startswith(("avx512", "evex512")) else f for f in features)


def variables(engine: Engine, threads: int) -> dict[str, str]:
    """Return what an engine's process has in its environment beside what this one has."""
    chosen = dict.fromkeys(THREADS, str(threads))
    for name, value in engine.variables:
        chosen[name] = avx2() if value == "AVX2" else value
    return chosen


def started(
    engine: Engine, folder: Path, asks: str, *, baselines: Path | None, threads: int
) -> Worker:
    """Start an engine's process, whose first answer says that it has loaded the model."""
    return Worker(
        "benchmarks.engine.worker",
        engine.path,
        str(folder),
        asks,
        python=_python(baselines, engine.environment),
        variables=variables(engine, threads),
    )


def _python(baselines: Path | None, environment: str) -> Path:
    """Return the Python of an environment, or the running one where there is none."""
    if environment:
        try:
            return environments.interpreter(baselines, environment)
        except CannotRunError:
            pass
    return Path(sys.executable)
