"""Batches of rows for each step: from arrays in memory, or from a loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.errors import InputError
from bitvec.runtime.train.relax.module import Rows, SoftForest
from bitvec.runtime.train.retrain.processes import Workers
from bitvec.runtime.train.retrain.recipe import Recipe
from bitvec.runtime.train.retrain.training_data import Data, read

SAMPLE = 20_000
"""Rows of a loader on which margins are measured."""
CHUNK = 1 << 24
"""Elements of a forest's hard outcomes at once, when leaves are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The share of one process of a step's rows.

    Parameters
    ----------
    rows : Rows
    target : Tensor, (n, width)
    weight : Tensor, (n,)
        Divided by the number of rows of all processes: losses times it sum to the batch's mean.
    teacher : Tensor, (n, ...), optional
    """

    rows: Rows
    target: Tensor
    weight: Tensor
    teacher: Tensor | None


class Batches(Protocol):
    """A source of batches, the same each time it is asked for the same step.

    Attributes
    ----------
    workers : Workers
        The processes among which the rows are divided; one where each holds them all.
    """

    workers: Workers

    def sample(self) -> Array:
        """Return rows of X to measure margins on."""
        ...

    def start(self, module: SoftForest) -> None:
        """Make rows ready for a module that is calibrated."""
        ...

    def steps(self, first: int) -> Iterator[Batch]:
        """Yield the batches from step `first` on, without end."""
        ...

    def chunks(self) -> Iterator[tuple[Rows, Data]]:
        """Yield all rows of this process once."""
        ...


class ArrayBatches:
    """Batches of rows in memory: each epoch is a permutation drawn from the seed and its number.

    With several processes all of them hold all rows, and each takes its share of every batch.
    """

    def __init__(self, data: Data, recipe: Recipe, workers: Workers) -> None:
        self._data, self._recipe, self._shares = data, recipe, workers
        self.workers = Workers()
        self._order: tuple[int, Tensor] = (-1, torch.empty(0, dtype=torch.int64))

    def sample(self) -> Array:
        """Return all rows."""
        return self._data.X

    def start(self, module: SoftForest) -> None:
        """Standardise all rows once."""
        data, device = self._data, module.device
        self._rows = module.prepare(data.X)
        self._target = torch.tensor(data.target, device=device)
        weight = data.weight / data.weight.mean()
        self._weight = torch.tensor(weight, dtype=module.dtype, device=device)
        self._teacher = None
        if data.teacher is not None:
            self._teacher = torch.tensor(data.teacher, dtype=module.dtype, device=device)
        self._chunk = max(1, CHUNK // max(1, module.forest.n_nodes))

    def steps(self, first: int) -> Iterator[Batch]:
        """Yield the batches from step `first` on."""
        step, size = first, self._recipe.batch_size
        while True:
            index = self._shares.share(self.places(step)).to(self._target.device)
            yield Batch(
                self._rows.take(index),
                self._target[index],
                self._weight[index] / size,
                None if self._teacher is None else self._teacher[index],
            )
            step += 1

    def all_rows(self) -> tuple[Rows, Tensor, Tensor]:
        """Return all rows made ready, their targets, and their weights, whose mean is 1."""
        return self._rows, self._target, self._weight

    def places(self, step: int) -> Tensor:
        """Return the rows of a step, of all processes together."""
        return self._places(step * self._recipe.batch_size, self._recipe.batch_size)

    def _places(self, start: int, count: int) -> Tensor:
        """Return the rows in these places of the row of permutations."""
        n, parts = len(self._data), []
        while count:
            epoch, offset = divmod(start, n)
            if offset == 0 and count >= n:  # all rows in one step: their order is that of a sum
                part = torch.arange(n)
            else:
                part = self._permutation(epoch)[offset : offset + count]
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return torch.cat(parts)

    def _permutation(self, epoch: int) -> Tensor:
        if self._order[0] != epoch:
            generator = np.random.default_rng((self._recipe.seed, epoch))
            self._order = (epoch, torch.from_numpy(generator.permutation(len(self._data))))
        return self._order[1]

    def chunks(self) -> Iterator[tuple[Rows, Data]]:
        """Yield all rows in runs."""
        for at in range(0, len(self._data), self._chunk):
            index = np.arange(at, min(at + self._chunk, len(self._data)))
            yield self._rows.take(torch.from_numpy(index)), self._data.take(index)


class LoaderBatches:
    """Batches of a loader, which is gone through as often as the steps ask for.

    Each process has its own loader of its own rows. A torch DataLoader without a generator is given
    one, seeded for each epoch, so that a run that is continued sees the same batches.

    Attributes
    ----------
    first : Data
        The first rows of this process.
    """

    def __init__(
        self, loader: Iterable[Any], forest: Any, recipe: Recipe, workers: Workers
    ) -> None:
        if iter(loader) is loader:
            raise InputError(
                "a loader must start anew each time it is iterated over, got an iterator: pass a "
                "torch DataLoader or a list of batches."
            )
        self._loader, self._forest = loader, forest
        self._recipe, self.workers = recipe, workers
        self.first = self._first()

    def _epoch(self, epoch: int) -> Iterator[Data]:
        loader, empty = self._loader, True
        own = getattr(loader, "generator", False) is None
        samplers = _unseeded_samplers(loader)
        if own:
            generator = torch.Generator().manual_seed(self._recipe.seed * 1_000_003 + epoch)
            loader.generator = generator  # type: ignore[attr-defined]
            for sampler in samplers:
                sampler.generator = generator
        try:
            for item in loader:
                if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
                    raise InputError(
                        "a loader must yield (X, y) or (X, y, sample_weight), got "
                        f"{type(item).__name__}: pass one of them."
                    )
                parts = [part.numpy() if isinstance(part, Tensor) else part for part in item]
                X, y, *weight = parts
                data = read(self._forest, X, y, weight[0] if weight else None)
                if len(data):
                    empty = False
                    yield data
        finally:
            if own:
                loader.generator = None  # type: ignore[attr-defined]
                for sampler in samplers:
                    sampler.generator = None
        if empty:
            raise InputError("a loader must yield at least one row, got none.")

    def _first(self) -> Data:
        parts: list[Data] = []
        for data in self._epoch(0):
            parts.append(data)
            if sum(map(len, parts)) >= SAMPLE:
                break
        return Data(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )

    def sample(self) -> Array:
        """Return the first rows."""
        return self.first.X

    def start(self, module: SoftForest) -> None:
        """Remember the module, which standardises each batch as it comes."""
        self._module = module

    def steps(self, first: int) -> Iterator[Batch]:
        """Yield the batches from step `first` on."""
        return islice(self._endless(), first, None)

    def _endless(self) -> Iterator[Batch]:
        module, epoch = self._module, 0
        while True:
            for data in self._epoch(epoch):
                weight = torch.tensor(data.weight, dtype=module.dtype, device=module.device)
                yield Batch(
                    module.prepare(data.X),
                    torch.tensor(data.target, device=module.device),
                    weight / (len(data) * self.workers.size),
                    None,
                )
            epoch += 1

    def chunks(self) -> Iterator[tuple[Rows, Data]]:
        """Yield the batches of one epoch."""
        for data in self._epoch(0):
            yield self._module.prepare(data.X), data


def _unseeded_samplers(loader: Any) -> list[Any]:
    """Return what draws a DataLoader's order, of whole batches too, where it has no generator."""
    of_batches = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    found = [getattr(loader, "sampler", None), of_batches]
    return [sampler for sampler in found if getattr(sampler, "generator", False) is None]
