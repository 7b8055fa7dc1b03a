"""Processes that measure, from the parent's side: ask, wait no longer than is reasonable."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.old_environments import interpreter
from benchmarks.old_report import ROOT
from benchmarks.old_worker import CannotRunError

THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Worker:
    """A process of `python -m module`, which starts at once; the first answer is `answer()`.

    Parameters
    ----------
    python : Path, optional
        The interpreter, if not the running one.
    variables : dict, optional
        Of its environment, beside those of this process.
    folder : Path, optional
        Where it runs, if not in the project's root.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        python: Path | None = None,
        variables: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(python or sys.executable), "-m", module, *arguments],
            cwd=folder,
            env=dict(os.environ) | {"PYTHONPATH": str(ROOT)} | dict(variables or {}),
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

    def ask(self, do: str, *, within: float, **request: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Raises
        ------
        CannotRunError
            If there is none, with the reason; the process is over then.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._over(f"its process ended with {self._process.wait()}") from None
        return self.answer(within)

    def answer(self, within: float | None = None) -> dict[str, Any]:
        """Wait so many seconds for the next answer; raises as `ask` does."""
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
                    print("a request to a worker was lost", file=sys.stderr)


def alone(
    module: str, *arguments: str, within: float | None = None, **options: Any
) -> dict[str, Any]:
    """Return the one answer of a process of its own; raises and takes options as `Worker` does."""
    worker = Worker(module, *arguments, **options)
    try:
        return worker.answer(within)
    finally:
        worker.close()


def in_environment(
    module: str, folder: Path, *, baselines: Path | None, baseline: str, within: float
) -> dict[str, Any]:
    """Run the job of a folder in a library's environment, on one thread; return what it tells."""
    return alone(
        module,
        str(folder),
        within=within,
        python=interpreter(baselines, baseline),
        variables=dict.fromkeys(THREADS, "1"),
        folder=folder,  # some leave files where they run
    )
