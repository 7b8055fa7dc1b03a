"""The load on the service: what waits is timed from when it was due, and goals judge that."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import numpy as np
import pytest

from benchmarks import service_load
from benchmarks.open_loop import CONNECTIONS, ask

STILL = 0.4
"""Seconds for which the service stands still."""


@pytest.fixture
def stub():
    """The port of a service that echoes, and stands still over the request `still`."""
    ready: list = []

    async def answer(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(head.split(b"Length: ")[1].split(b"\r\n")[0]))
                if body == b'"close"':
                    break
                if body == b'"still"':
                    time.sleep(STILL)
                status = b"400 Bad" if body == b'"wrong"' else b"200 OK"
                length = str(len(body)).encode()
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: " + length)
                writer.write(b"\r\n\r\n" + body)
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    async def serve():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        stop = asyncio.Event()
        ready[:] = [server.sockets[0].getsockname()[1], asyncio.get_running_loop(), stop]
        started.set()
        await stop.wait()
        server.close()

    started = threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    yield ready[0]
    ready[1].call_soon_threadsafe(ready[2].set)
    thread.join()


def test_each_answer_belongs_to_its_request(stub):
    bodies = [json.dumps(at) for at in range(300)]
    bodies[7] = '"wrong"'
    answers = ask(stub, "/", bodies, np.linspace(0, 0.2, 300).tolist())
    assert [each.body for each in answers] == bodies
    assert [each.status for each in answers] == [200] * 7 + [400] + [200] * 292
    assert all(each.due <= each.sent <= each.complete for each in answers)


def test_requests_that_are_due_while_the_service_stands_still_wait_from_then_on(stub):
    due = np.arange(300) * 0.002
    bodies = [json.dumps(at) for at in range(300)]
    bodies[50] = '"still"'
    answers = ask(stub, "/", bodies, due.tolist())
    took = np.array([each.complete - each.due for each in answers])
    until = due[50] + STILL
    meanwhile = (due >= due[50]) & (due < until)
    assert meanwhile.sum() > 2 * CONNECTIONS  # more than can be sent before answers come
    assert np.all(took[meanwhile] >= until - due[meanwhile] - 0.01)


def test_a_service_that_hangs_up_is_an_error(stub):
    with pytest.raises(ConnectionError, match="a connection was closed"):
        ask(stub, "/", ['"close"'], [0.0])


def row(rate, p99, *, keeps_up=True, differ=0):
    return {"case": "service", "rate": rate, "p99": p99, "keeps_up": keeps_up, "differ": differ}


@pytest.mark.parametrize(
    ("rows", "values", "met"),
    [
        ([row(500, 3.5), row(1000, 20), row(1500, 900, keeps_up=False)], (0, 1000, 3.5), True),
        ([row(500, 10.0), row(1000, 20, keeps_up=False, differ=1)], (1, 500, 10.0), False),
        ([row(500, 80.0, keeps_up=False)], (0, 0, 80.0), None),
    ],
)
def test_goals_judge_the_load(rows, values, met):
    goals = service_load.goals(rows)
    assert tuple(goal.value for goal in goals) == values
    if met is not None:
        assert {goal.judged(whole=True)["met"] for goal in goals} == {met}


def test_a_run_without_the_service_is_not_judged_by_it():
    report = {"rows": [{"case": "higgs"}]}
    assert service_load.goals(report["rows"]) == []
    assert service_load.table_of(report).startswith("Not measured yet")
