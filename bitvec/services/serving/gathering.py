"""Requests that arrive while others are answered, put together to one call of the predictor."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.errors import BitvecError
from bitvec.services.answer_columns import AnyPredictor, Columns, answers

Answers = dict[str, Columns]
"""The columns of each output, by the output's name."""


class OverloadError(Exception):
    """More rows wait for an answer than the service lets wait."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """Rows that wait for their answers."""

    rows: Any
    n_rows: int
    outputs: tuple[str, ...]
    answer: asyncio.Future[Answers]

    @property
    def kind(self) -> Any:
        """Traits that rows must share to be put together; None where they are answered alone."""
        is_matrix = type(self.rows) is np.ndarray and self.rows.ndim == 2
        return (self.rows.dtype, self.rows.shape[1], self.outputs) if is_matrix else None


class Gathering:
    """Answers rows in a thread of its own; what arrives meanwhile waits and is put together.

    An answer does not depend on the rows beside it, so it is the same bits as alone.

    Parameters
    ----------
    predictor : Predictor or CompositionPredictor
    most_rows : int
        In one call.
    most_waiting : int
        Rows that may wait; more are refused.
    told : callable
        Is handed the number of rows of each call.
    """

    def __init__(
        self,
        predictor: AnyPredictor,
        *,
        most_rows: int,
        most_waiting: int,
        told: Callable[[int], object] = lambda n_rows: None,
    ) -> None:
        self.predictor, self.most_rows, self.most_waiting = predictor, most_rows, most_waiting
        self.n_waiting = 0
        self._told = told
        self._waiting: deque[_Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")
        self._running: asyncio.Task[None] | None = None

    async def answers(self, rows: Any, n_rows: int, outputs: tuple[str, ...]) -> Answers:
        """Return the answers to rows, a matrix or a data frame.

        Raises
        ------
        OverloadError
            If too many rows wait.
        InputError
            If the rows do not fit the forest.
        """
        if self._waiting and self.n_waiting + n_rows > self.most_waiting:
            raise OverloadError
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(rows, n_rows, outputs, answer))
        self.n_waiting += n_rows
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    def close(self) -> None:
        """End the thread, after the call that it may be in."""
        self._thread.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                together = self._taken()
                if together:
                    self._told(sum(one.n_rows for one in together))
                    found = await loop.run_in_executor(self._thread, self._predicted, together)
                    for one, answer in zip(together, found, strict=True):
                        _settle(one.answer, answer)
        finally:
            self._running = None

    def _taken(self) -> list[_Waiting]:
        """Take rows of one kind from the head of the queue, less those that nobody waits for."""
        together: list[_Waiting] = []
        n_rows = 0
        while self._waiting:
            one = self._waiting[0]
            more = together and (one.kind is None or one.kind != together[0].kind)
            if more or (together and n_rows + one.n_rows > self.most_rows):
                break
            self._waiting.popleft()
            self.n_waiting -= one.n_rows
            if not one.answer.done():
                together.append(one)
                n_rows += one.n_rows
        return together

    def _predicted(self, together: list[_Waiting]) -> list[Answers | BaseException]:
        try:
            if len(together) == 1:
                return [self._of(together[0].rows, together[0].outputs)]
            found = self._of(np.concatenate([one.rows for one in together]), together[0].outputs)
        except BitvecError as error:
            if len(together) == 1:
                return [error]
            return [self._predicted([one])[0] for one in together]  # one of them is refused
        except BaseException as error:
            return [error] * len(together)
        ends = np.cumsum([one.n_rows for one in together]).tolist()
        return [
            {name: {k: c[a:b] for k, c in columns.items()} for name, columns in found.items()}
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
        ]

    def _of(self, rows: Array | Any, outputs: tuple[str, ...]) -> Answers:
        return answers(self.predictor, rows, outputs)


def _settle(answer: asyncio.Future[Answers], found: Answers | BaseException) -> None:
    if answer.done():  # who asked has gone
        return
    if isinstance(found, BaseException):
        answer.set_exception(found)
    else:
        answer.set_result(found)
