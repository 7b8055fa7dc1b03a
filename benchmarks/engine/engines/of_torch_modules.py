"""Forests as torch modules, tensors in and out: bitvec's hard module and hummingbird's."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor
from torch import Tensor

from benchmarks.engine.engines.calls import Calls, Job, chosen, single_precision


class Bitvec:
    """bitvec's module of what the job asks for, called as it is."""

    def __init__(self, job: Job) -> None:
        import bitvec
        from benchmarks.engine.engines.of_bitvec import converted

        forest = converted(job)
        output = chosen(job.asks, values="raw", labels="label", probabilities="probabilities")
        self.module = bitvec.to_torch(forest, output=output)
        self.scores = bitvec.to_torch(forest, output="raw" if job.regression else "probabilities")
        self.raw = bitvec.to_torch(forest)
        self.answer: Callable[[Tensor], Tensor] = self.compiled(self._rows(job.rows()))

    def compiled(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """Return what answers rows such as these."""
        return self.module

    def calls(self, threads: int) -> Calls:
        """Use so many threads, in the whole process."""
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        return Calls(self.answer, self.scores, self.raw, rows=self._rows)

    def _rows(self, X: np.ndarray) -> Tensor:
        return torch.tensor(X, dtype=self.module.dtype)


class BitvecCompiled(Bitvec):
    """Compiled in place."""

    def compiled(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the module, compiled for one row and for any number."""
        self.module.compile(fullgraph=True, dynamic=True)
        _warm_up(self.module, x)
        return self.module


class BitvecAhead(Bitvec):
    """Compiled ahead by AOTInductor."""

    def compiled(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """Return what is loaded from the file."""
        import bitvec

        with tempfile.TemporaryDirectory() as folder:
            path = bitvec.export(self.module, Path(folder, "model.pt2"), compiled=True)
            program = torch._inductor.aoti_load_package(str(path))
        run = program.loader.run  # a call of `program` names results, which takes longer
        return lambda x: run([x])[0]


class _Hummingbird:
    """hummingbird's module of one of its strategies."""

    strategy: str
    way: str

    def __init__(self, job: Job) -> None:
        from benchmarks.engine.engines import of_hummingbird

        strategy = getattr(of_hummingbird, self.strategy)(job)
        x = _tensor(job.rows())
        self.job, self.most_rows = job, strategy.calls(1).most_rows
        self.module: Callable[[Tensor], Any] = strategy.model.model
        torch.set_grad_enabled(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.way == "TorchScript":
                self.module = torch.jit.trace(self.module, x[:10])
            elif self.way == "compiled":
                self.module = torch.compile(self.module, dynamic=True)
            _warm_up(self.module, x)

    def calls(self, threads: int) -> Calls:
        """Use so many threads, in the whole process."""
        torch.set_num_threads(threads)
        module = self.module
        if self.job.regression:
            return Calls(module, module, rows=_tensor, most_rows=self.most_rows)

        def part(at: int) -> Callable[[Tensor], Tensor]:
            return lambda x: module(x)[at]

        labels, scores = part(0), part(1)
        predict = labels if self.job.asks == "labels" else scores
        return Calls(predict, scores, rows=_tensor, most_rows=self.most_rows)


def _tensor(X: np.ndarray) -> Tensor:
    return torch.tensor(single_precision(X))


def _warm_up(module: Callable[[Tensor], Any], x: Tensor) -> None:
    """Have what is compiled made for one row, and for any number."""
    with torch.no_grad():
        for _ in range(3):  # TorchScript compiles from the second call on
            for n in (1, 100):
                module(x[:n])


def __getattr__(name: str) -> type:
    """Return hummingbird's class of a strategy and a way, as `Gemm_TorchScript`."""
    strategy, _, way = name.partition("_")
    if way not in ("eager", "TorchScript", "compiled"):
        raise AttributeError(name)
    return type(name, (_Hummingbird,), {"strategy": strategy, "way": way})
