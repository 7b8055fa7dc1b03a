"""The parent's side of an engine's process: ask, wait no longer than is reasonable, give up."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from benchmarks.engine.engines import Engine
from benchmarks.engine.engines.calls import CannotRunError
from benchmarks.engine.peers import interpreter

ROOT: Final = Path(__file__).parent.parent.parent
START_SECONDS: Final = 240.0
"""To import, load, convert and compile."""
CALL_SECONDS: Final = 60.0

_THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def avx2() -> str:
    """Return this processor's features without those of AVX-512, as numba takes them."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten().split(",")
    return ",".join("-" + f[1:] if f[1:].startswith(("avx512", "evex512")) else f for f in features)


def variables(engine: Engine, threads: int) -> dict[str, str]:
    """Return the environment of an engine's process."""
    chosen = dict(os.environ)
    chosen.update(dict.fromkeys(_THREADS, str(threads)))
    chosen["PYTHONPATH"] = str(ROOT)
    for name, value in engine.variables:
        chosen[name] = avx2() if value == "AVX2" else value
    return chosen


class Child:
    """An engine's process, which starts at once; the first answer is `ready()`."""

    def __init__(
        self, engine: Engine, folder: Path, asks: str, *, peers: Path | None, threads: int
    ) -> None:
        self.engine = engine
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        command = [str(interpreter(peers, engine.environment)), "-m", "benchmarks.engine.child"]
        self._process = subprocess.Popen(
            [*command, engine.path, str(folder), asks],
            cwd=ROOT,
            env=variables(engine, threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def ready(self) -> dict[str, Any]:
        """Wait until the engine has loaded the model.

        Raises
        ------
        CannotRunError
            If it cannot, with the reason; the process is over then. So for the other requests.
        """
        return self._answer(START_SECONDS)

    def ask(self, do: str, *, within: float = CALL_SECONDS, **request: Any) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._over(f"its process ended with {self._process.wait()}") from None
        return self._answer(within)

    def _answer(self, within: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=within)
        except queue.Empty:
            raise self._over(f"no answer in {within:g} s") from None
        if line is None:
            raise self._over(f"its process ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "reason" in answer:
            self.close()
            raise CannotRunError(answer["reason"])
        return answer

    def _over(self, what: str) -> CannotRunError:
        self.close()
        if self._errors.closed:
            return CannotRunError(what)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        return CannotRunError(f"{what}: {said[-1][:160]}" if said else what)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    print(f"{self.engine.name}: a request was lost", file=sys.stderr)
