"""The HTTP application: routes, limits, errors as one sentence, and figures for Prometheus."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from bitvec.core.plain_text import plain
from bitvec.distribution import version
from bitvec.errors import BitvecError
from bitvec.services.answer_columns import answers
from bitvec.services.batch_predictor import BatchPredictor
from bitvec.services.serving import record_messages, tensor_messages
from bitvec.services.serving.gathering import Gathering, OverloadError
from bitvec.services.serving.message_parts import json_bytes

JSON_BYTES: Final = "Inference-Header-Content-Length"
_UNSAID: Final = "application/x-www-form-urlencoded"
"""Content type that curl names where it was told none."""
_HEALTH: Final = ("live", "ready")
_LONG: Final = 1 << 16
"""Bytes of a body that is read in a thread, so that other requests are not held up."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a service.

    Parameters
    ----------
    body_bytes : int
        Of a request.
    rows : int
        Of a request.
    waiting_rows : int
        Of all requests that wait; more are refused with status 503.
    seconds : float
        From a request to its answer; later ones are refused with status 504.
    """

    body_bytes: int = 32 << 20
    rows: int = 1_000_000
    waiting_rows: int = 2_000_000
    seconds: float = 30.0

    def require_rows(self, n_rows: int) -> None:
        """Refuse a request of too many rows."""
        if n_rows > self.rows:
            raise RefusalError(413, f"a request must have at most {self.rows} rows, got {n_rows}.")


class RefusalError(Exception):
    """A request that is refused with a status of its own, in a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def application(
    predict: BatchPredictor, *, name: str = "model", limits: Limits | None = None
) -> Starlette:
    """Return the service of a model, as an ASGI application.

    Parameters
    ----------
    predict : BatchPredictor
        Its outputs are what is answered; its `keep` and `drop` have no effect here.
    name : str
        Of the model in addresses.
    limits : Limits, optional

    Notes
    -----
    `POST /predict` takes and gives records (`record_messages`), `/v2` is the Open Inference
    Protocol (`tensor_messages`), `/metrics` is for Prometheus.
    """
    return _Service(predict, name, limits or Limits()).app()


class _Service:
    """State that the routes share."""

    def __init__(self, predict: BatchPredictor, name: str, limits: Limits) -> None:
        self.predict, self.name, self.limits = predict, name, limits
        self.forest = predict.model
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "bitvec_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "bitvec_request_seconds",
            "Seconds from a request to its answer.",
            ["route"],
            buckets=[1e-3 * 2**power for power in range(15)],
            registry=self.registry,
        )
        self.rows = Histogram(
            "bitvec_call_rows",
            "Rows that were put together to one call.",
            buckets=[4**power for power in range(11)],
            registry=self.registry,
        )
        self.gathering = Gathering(
            predict.predictor,
            most_rows=limits.rows,
            most_waiting=limits.waiting_rows,
            told=self.rows.observe,
        )
        Gauge("bitvec_waiting_rows", "Rows that wait.", registry=self.registry).set_function(
            lambda: self.gathering.n_waiting
        )
        empty = np.zeros((0, self.forest.n_features), self.forest.dtype)
        found = answers(predict.predictor, empty, predict.outputs)
        self.metadata = tensor_messages.metadata(self.forest, name, found)

    def app(self) -> Starlette:
        model = "/v2/models/{name}"
        served = [self._route("/predict", "predict", self._records, "POST")]
        for path in (model, f"{model}/versions/{{model_version}}"):
            served.append(self._route(f"{path}/infer", "infer", self._tensors, "POST"))
            served.append(self._route(f"{path}/ready", "ready", self._ready))
            served.append(self._route(path, "model", self._model))
        served += [self._route(f"/v2/health/{each}", "health", self._ready) for each in _HEALTH]
        served.append(self._route("/v2", "server", self._server))
        served.append(Route("/metrics", self._metrics))
        return Starlette(
            routes=served,
            lifespan=self._lifespan,
            exception_handlers={HTTPException: self._of_no_route},
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        for dtype in (np.float32, np.float64):
            first = np.zeros((1, self.forest.n_features), dtype)
            try:  # compiles what it needs
                await self.gathering.answers(first, 1, self.predict.outputs)
            except BitvecError as error:  # a column may hold no 0
                _log.info("the first row was refused: %s", error)
        try:
            yield
        finally:
            self.gathering.close()

    def _route(
        self,
        path: str,
        route: str,
        answer: Callable[[Request], Awaitable[Response]],
        method: str = "GET",
    ) -> Route:
        async def answered(request: Request) -> Response:
            start = time.perf_counter()
            try:
                async with asyncio.timeout(self.limits.seconds):
                    response = await answer(request)
            except Exception as error:
                response = self._failed(error)
            self.requests.labels(route, response.status_code).inc()
            self.seconds.labels(route).observe(time.perf_counter() - start)
            return response

        return Route(path, answered, methods=[method])

    def _failed(self, error: Exception) -> Response:
        if isinstance(error, RefusalError):
            return _error(error.status, str(error))
        if isinstance(error, BitvecError):
            return _error(400, plain(str(error)))
        if isinstance(error, ClientDisconnect):  # nobody reads it: for the figures alone
            return _error(400, "a body must be sent whole: the client has gone.")
        if isinstance(error, OverloadError):
            return _error(
                503,
                f"at most {self.limits.waiting_rows} rows may wait: try again later.",
                {"Retry-After": "1"},
            )
        if isinstance(error, TimeoutError):
            return _error(
                504,
                f"an answer must take at most {self.limits.seconds:g} seconds: hand over "
                "fewer rows, or try again later.",
            )
        _log.error("a request failed", exc_info=error)
        what = f"{type(error).__name__}: {plain(str(error))}".rstrip(".: ")
        return _error(500, f"{what}. This is a bug in bitvec: please report the log's traceback.")

    async def _of_no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        self.requests.labels("none", error.status_code).inc()
        path = plain(request.url.path)[:100]
        return _error(error.status_code, f"{request.method} {path}: {error.detail}.", error.headers)

    async def _records(self, request: Request) -> Response:
        kind = request.headers.get("content-type", record_messages.JSON)
        kind = kind.split(";")[0].strip().lower()
        if kind == _UNSAID:
            kind = record_messages.JSON
        if kind not in record_messages.FORMATS:
            raise RefusalError(
                415,
                f"the content type must be {' or '.join(record_messages.FORMATS)}, got "
                f"{plain(kind)!r}.",
            )
        accepted = request.headers.get("accept", "*/*")
        wanted = next((each for each in record_messages.FORMATS if each in accepted), kind)
        body = await self._body(request)
        rows, n_rows = await _read(body, record_messages.decode, body, kind, self.forest)
        self.limits.require_rows(n_rows)
        answers = await self.gathering.answers(rows, n_rows, self.predict.outputs)
        columns = {name: each for found in answers.values() for name, each in found.items()}
        content = await _read(body, record_messages.encode, columns, n_rows, wanted)
        return Response(content, media_type=wanted)

    async def _tensors(self, request: Request) -> Response:
        self._require_model(request)
        given = request.headers.get(JSON_BYTES)
        if given is not None and not (given.isascii() and given.isdigit() and len(given) < 20):
            raise RefusalError(
                400, f"{JSON_BYTES} must be a whole number of bytes, got {plain(given)[:100]!r}."
            )
        json_length = None if given is None else int(given)
        body = await self._body(request)
        question = await _read(
            body, tensor_messages.decode, body, json_length, self.forest, self.predict.outputs
        )
        self.limits.require_rows(question.n_rows)
        answers = await self.gathering.answers(question.rows, question.n_rows, question.outputs)
        content, n_json = await _read(body, tensor_messages.encode, question, self.name, answers)
        if n_json is None:
            return Response(content, media_type="application/json")
        return Response(
            content, media_type="application/octet-stream", headers={JSON_BYTES: str(n_json)}
        )

    async def _model(self, request: Request) -> Response:
        self._require_model(request)
        return _json(self.metadata)

    async def _ready(self, request: Request) -> Response:
        self._require_model(request)
        return _json({"ready": True})

    async def _server(self, request: Request) -> Response:
        return _json({"name": "bitvec", "version": version(), "extensions": ["binary_tensor_data"]})

    async def _metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")

    def _require_model(self, request: Request) -> None:
        known = {"name": self.name, "model_version": tensor_messages.VERSION}
        for key, given in request.path_params.items():
            if given != known[key]:
                raise RefusalError(
                    404,
                    f"the model must be {self.name!r} of version {tensor_messages.VERSION}, "
                    f"got {plain(given)[:100]!r}.",
                )

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request, which is refused before more of it is read than may be."""
        coded = request.headers.get("content-encoding", "identity")
        if coded != "identity":
            raise RefusalError(415, f"a body must not be compressed, got {plain(coded)!r}.")
        most, parts, n_bytes = self.limits.body_bytes, [], 0
        announced = request.headers.get("content-length", "0")
        if announced.isdigit():
            n_bytes = int(announced)
        if n_bytes <= most:
            n_bytes = 0
            async for part in request.stream():
                n_bytes += len(part)
                if n_bytes > most:
                    break
                parts.append(part)
        if n_bytes > most:
            raise RefusalError(
                413,
                f"a body must have at most {most} bytes, got {n_bytes} or more: send fewer "
                "rows at a time.",
            )
        return b"".join(parts)


async def _read(body: bytes, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of a body: in a thread if the body is long."""
    if len(body) > _LONG:
        return await asyncio.to_thread(function, *arguments)
    return function(*arguments)


def _json(value: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(json_bytes(value), status, headers=headers, media_type="application/json")


def _error(status: int, sentence: str, headers: Any = None) -> Response:
    return _json({"error": sentence}, status, headers)
