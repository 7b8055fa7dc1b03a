"""`bitvec serve`: answer requests over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bitvec.cli.given_files import readable
from bitvec.cli.shared_options import as_command, device_option, engine_option, forest_argument
from bitvec.errors import InputError, needs


@as_command("serve", "Answer requests over HTTP.", json=False)
@forest_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen at; 0 takes a free one.",
)
@click.option("--name", help="Of the model in addresses; by default as its file is called.")
@click.option(
    "--outputs",
    metavar="LIST",
    help="What is answered, as label,proba: see `bitvec predict -h`. By default label, and proba "
    "of a classifier.",
)
@click.option(
    "--max-body",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    metavar="MB",
    help="Largest body of a request.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Most rows of a request; twice as many may wait.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time to an answer, and that open requests get when the service stops.",
)
@engine_option
@click.option(
    "--n-jobs", type=int, default=1, show_default=True, metavar="N", help="Threads of the engine."
)
@device_option(help='Where torch runs, for example "cuda".')
def command(
    path: Path,
    host: str,
    port: int,
    name: str | None,
    outputs: str | None,
    max_body: int,
    max_rows: int,
    timeout: float,
    **options: Any,
) -> None:
    """Answer requests for FOREST|MODEL over HTTP, until SIGTERM or Ctrl-C.

    POST /predict takes JSON, a list of objects by the names of columns or of lists of numbers, or
    an Arrow stream, and gives the same. /v2 is the Open Inference Protocol, version 2, with binary
    tensors. /v2/health/ready says whether it answers, /metrics is for Prometheus. What is wrong is
    said in one sentence, {"error": ...}, with status 400, 404, 405, 413, 415, 503 or 504.

    There is no encryption and no log-in: put it behind what has them.

    \b
    Examples:
        bitvec serve model.ubj
        curl localhost:8080/predict -d '[{"age": 41, "income": null}]'
    """
    with needs("starlette, uvicorn or prometheus-client", "serve", "A service"):
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    import socket

    from bitvec.services.answer_columns import class_groups
    from bitvec.services.batch_predictor import BatchPredictor
    from bitvec.services.serving import head_limit
    from bitvec.services.serving.application import Limits, application

    readable(path, directory=True)
    chosen = ("label",) if outputs is None else tuple(each.strip() for each in outputs.split(","))
    predict = BatchPredictor(path, outputs=chosen, **options)
    forest = predict.model
    if outputs is None and class_groups(forest) is not None:
        predict = BatchPredictor(path, outputs=("label", "proba"), **options)
    name = name or path.name.split(".")[0] or "model"
    limits = Limits(max_body << 20, max_rows, 2 * max_rows, timeout)
    app = application(predict, name=name, limits=limits)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
        # For its connections, too: head and body of an answer are sent one after the other, and
        # the second would wait 40 ms for the first to be acknowledged. asyncio leaves it out.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--host and --port must be free to listen at, got {host}:{port}: "
            f"{getattr(error, 'strerror', None) or error}."
        ) from None
    shown = f"[{host}]" if ":" in host else host
    click.echo(
        f"{name}: {forest.n_trees} trees, {forest.n_features} columns, "
        f"{', '.join(predict.outputs)}; http://{shown}:{listener.getsockname()[1]}/predict"
    )
    config = uvicorn.Config(
        app,
        http=head_limit.protocol(),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(timeout)),
    )
    uvicorn.Server(config).run(sockets=[listener])
