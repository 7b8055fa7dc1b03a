"""A client that asks at times of its own, whether or not earlier requests were answered.

    python -m benchmarks.open_loop CORE < REQUESTS.json > ANSWERS.json

The input has the port, the path, the bodies, and the seconds at which each is sent. A request's
time runs from the moment at which it should have been sent, so that what waits in the client while
the service stands still counts as well. Python's own libraries alone, for it shares no core with
the service but the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

CONNECTIONS = 64


class Answered(NamedTuple):
    """Status and body of an answer, and the seconds at which it was due, sent and complete."""

    status: int
    body: str
    due: float
    sent: float
    complete: float


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, load: _Load) -> None:
        self._load, self._held, self._number = load, b"", -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, number: int) -> None:
        self._number, self._held = number, b""
        self._load.sent[number] = time.perf_counter()
        self._transport.write(self._load.requests[number])

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, found, body = self._held.partition(b"\r\n\r\n")
        if not found:
            return
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if len(body) >= int(length):
            self._load.complete(self, self._number, int(head.split(b" ", 2)[1]), body)

    def connection_lost(self, error: Exception | None) -> None:
        self._load.lost(error)


class _Load:
    """Requests that are sent at their times over connections that are free."""

    def __init__(self, requests: Sequence[bytes], due: Sequence[float]) -> None:
        self.requests, self.due = requests, due
        self.sent = [0.0] * len(requests)
        self.answers: list[Answered | None] = [None] * len(requests)
        # In turns: a service closes a connection that asks nothing for some seconds.
        self._free: deque[_Connection] = deque()
        self._waiting: deque[int] = deque()
        self._left = len(requests)
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, port: int) -> list[Answered]:
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            made = await loop.create_connection(lambda: _Connection(self), "127.0.0.1", port)
            self._free.append(made[1])
        self.start = time.perf_counter()
        for number, due in enumerate(self.due):
            early = self.start + due - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            if self._free:
                self._free.popleft().send(number)
            else:
                self._waiting.append(number)
        await self._end
        return [answer for answer in self.answers if answer is not None]

    def complete(self, connection: _Connection, number: int, status: int, body: bytes) -> None:
        now, sent = time.perf_counter() - self.start, self.sent[number] - self.start
        self.answers[number] = Answered(status, body.decode(), self.due[number], sent, now)
        if self._waiting:
            connection.send(self._waiting.popleft())
        else:
            self._free.append(connection)
        self._left -= 1
        if not self._left and not self._end.done():
            self._end.set_result(None)

    def lost(self, error: Exception | None) -> None:
        if not self._end.done():
            self._end.set_exception(ConnectionError(f"a connection was closed: {error}"))


def ask(port: int, path: str, bodies: Sequence[str], due: Sequence[float]) -> list[Answered]:
    """Send each body by POST when it is due, in seconds, and return the answers in that order.

    Raises
    ------
    ConnectionError
        If the service closes a connection before all is answered.
    """
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    requests = [
        f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode() for body in bodies
    ]

    async def answers() -> list[Answered]:
        return await _Load(requests, due).run(port)

    return asyncio.run(answers())


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    json.dump(ask(**json.load(sys.stdin)), sys.stdout)
