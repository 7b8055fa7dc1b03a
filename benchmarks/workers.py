"""Processes that measure, from the parent's side: made, asked, and waited for within reason.

Other libraries have environments of their own, each made from its file of requirements.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.report import ROOT
from benchmarks.worker import CannotRunError

THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
PYTHON: Final = Path("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


class Worker:
    """A process that serves what `place` names, `module:name`; it starts at once.

    Parameters
    ----------
    arguments
        Of what is named, as JSON has them; a path becomes a string.
    python : Path, optional
        The interpreter, if not the running one.
    variables : dict, optional
        Of its environment, beside those of this process.
    folder : Path, optional
        Where it runs, if not in the project's root.
    """

    def __init__(
        self,
        place: str,
        *arguments: Any,
        python: Path | None = None,
        variables: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        given = json.dumps(arguments, default=str)
        self._process = subprocess.Popen(
            [str(python or sys.executable), "-m", "benchmarks.worker", place, given],
            cwd=folder,
            env=dict(os.environ) | {"PYTHONPATH": str(ROOT)} | dict(variables or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            process_group=None if sys.platform == "win32" else 0,
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def ask(self, do: str, *, within: float, **request: Any) -> dict[str, Any]:
        """Return what a method of the served object answers to a request.

        Raises
        ------
        CannotRunError
            If there is no answer, with the reason; the process is over then.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._over(f"its process ended with {self._process.wait()}") from None
        return self.answer(within)

    def answer(self, within: float | None = None) -> dict[str, Any]:
        """Wait so many seconds for the next answer, the first unasked; raises as `ask` does."""
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
        """End the process and what it has started, such as a compiler."""
        if sys.platform == "win32":
            self._process.kill()
        else:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    print("a request to a worker was lost", file=sys.stderr)


def alone(
    place: str, *arguments: Any, within: float | None = None, **options: Any
) -> dict[str, Any]:
    """Return the first answer of a process of its own; raises and takes options as `Worker`."""
    worker = Worker(place, *arguments, **options)
    try:
        return worker.answer(within)
    finally:
        worker.close()


def in_environment(
    place: str, folder: Path, *, baselines: Path | None, baseline: str, within: float
) -> dict[str, Any]:
    """Do the job of a folder in a library's environment, on one thread; return what it tells."""
    return alone(
        place,
        folder,
        within=within,
        python=interpreter(baselines, baseline),
        variables=dict.fromkeys(THREADS, "1"),
        folder=folder,  # some leave files where they run
    )


def make_environments(baselines: Path, requirements: Path) -> None:
    """Make the environments that are not made yet, by pip; keep in `failed` why one was not."""
    for path in sorted(requirements.glob("*.txt")):
        folder = baselines / path.stem
        if (folder / "made").exists():
            continue
        print(f"making {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        command = [str(folder / PYTHON), "-m", "pip", "install", "--quiet", "-r", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no reason was given"]
            told = [line for line in lines if line.startswith("ERROR")] or lines
            (folder / "failed").write_text(told[-1][:300], encoding="utf-8")
        else:
            (folder / "made").touch()


def interpreter(baselines: Path | None, baseline: str) -> Path:
    """Return the Python of a library's environment.

    Raises
    ------
    CannotRunError
        If it is not there.
    """
    if baselines is None:
        raise CannotRunError("needs --baselines-dir")
    folder = baselines / baseline
    if (folder / "made").exists():
        # Not resolved: the link is what tells Python its environment.
        return folder.absolute() / PYTHON
    if (folder / "failed").exists():
        reason = (folder / "failed").read_text(encoding="utf-8")
        raise CannotRunError(f"could not be installed: {reason}")
    raise CannotRunError("its environment is not made: run with --make-baselines")
