"""Times of raw scores by each engine on one device."""

from __future__ import annotations

import functools
import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

import bitvec
from benchmarks.gpu import generated, prepared
from benchmarks.gpu.prepared import CHECKED, Point
from benchmarks.report import Row
from bitvec.core import reference
from bitvec.core.forest import Forest

ENGINES: Final = ("triton", "torch", "nvforest", "xgboost", "hummingbird")
TUNED: Final = 1 << 18
"""Rows by which nvForest chooses, at most."""
SECONDS: Final = 0.4
"""Seconds of the repetitions of one engine, about."""
REPEATS: Final = 9
MOST_HELD: Final = 8 << 30
"""Bytes of leaves that the torch engine is let hold."""
Answer = Callable[[], Any]


class NotMeasuredError(Exception):
    """An engine that is not here or does not hold the model; the text says why."""


def measure_answers(
    forest: Forest,
    rows: np.ndarray | None,
    batch: int,
    from_host: bool,
    options: Namespace,
    point: Point | None = None,
) -> Row:
    """Return the times of all engines on `batch` rows, and whether scores are exact.

    The first rows are compared with the reference, and all with the torch engine where that holds
    them.

    Parameters
    ----------
    rows : float32, (n, n_features), optional
        Of the model's own data, drawn from with replacement; normal rows if not given.
    point : Point, optional
        Of a forest that `prepared` made.
    """
    x = _rows(forest.n_features, rows, batch, from_host, options.device, point)
    row: Row = {
        "n_features": forest.n_features,
        "n_trees": forest.n_trees,
        "batch": batch,
        "place": "host" if from_host else "resident",
        "device": torch.cuda.get_device_name() if options.device != "cpu" else "the CPU, a dry run",
    }
    if point is None:
        expected = reference.raw(forest, _on_host(x))
    else:
        expected = prepared.expected(point)[:batch]
    scores = {}
    for name in ENGINES:
        try:
            answer, check = _MAKERS[name](forest, x, options, point)
            row[f"{name}_ms"] = _milliseconds(answer, options.device)
        except NotMeasuredError as error:
            row[f"{name}_reason"] = str(error)
            continue
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            row[f"{name}_reason"] = f"out of memory ({type(error).__name__})"
            continue
        if name in {"triton", "torch"}:
            scores[name] = answer()
        if name == "triton":
            row["same_bits"] = check(scores[name]).tobytes() == expected.tobytes()
    if len(scores) == 2:
        row["same_as_torch"] = _same_bits(*scores.values())
    if row.get("triton_ms") and not from_host and options.device != "cpu":
        least = 4 * batch * forest.n_features
        least += batch * forest.n_outputs * forest.output.dtype.itemsize
        row["copy_share"] = least / (row["triton_ms"] * 1e-3) / copy_bandwidth()
    return row


def _rows(
    n_features: int,
    rows: np.ndarray | None,
    batch: int,
    from_host: bool,
    device: str,
    point: Point | None,
) -> Any:
    """Return an array of the host or a tensor of the device, made there where rows are normal."""
    first = None if point is None else prepared.checked_rows(point)[:batch]
    if rows is not None:
        X = rows[np.random.default_rng(2).integers(0, len(rows), batch)]
    elif from_host or device == "cpu":
        X = generated.rows(batch, n_features)
        if first is not None:
            X[: len(first)] = first
    else:
        generator = torch.Generator(device).manual_seed(1)
        x = torch.randn((batch, n_features), device=device, generator=generator)
        if first is not None:
            x[: len(first)] = torch.tensor(first)
        return x
    return X if from_host else torch.tensor(X, device=device)


def _milliseconds(answer: Answer, device: str) -> float:
    """Return the median time of a call, after two that are not counted."""
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    times: list[float] = []
    for _ in range(2 if device != "cpu" else 1):
        answer()
    wait()
    begun = time.perf_counter()
    while len(times) < REPEATS and (time.perf_counter() - begun < SECONDS or not times):
        start = time.perf_counter()
        answer()
        wait()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


@functools.cache
def copy_bandwidth() -> float:
    """Return the bytes a second, read and written, of a copy of 2 GiB on the device."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / (1e-3 * _milliseconds(lambda: target.copy_(source), "cuda"))


def _same_bits(a: Any, b: Any) -> bool:
    a, b = (torch.as_tensor(one) for one in (a, b))
    whole = {4: torch.int32, 8: torch.int64}[a.itemsize]
    return a.dtype == b.dtype and torch.equal(
        a.contiguous().view(whole).cpu(), b.contiguous().view(whole).cpu()
    )


def _on_host(raw: Any) -> np.ndarray:
    first = raw[:CHECKED]
    array = first.cpu().numpy() if isinstance(first, torch.Tensor) else np.asarray(first)
    return np.ascontiguousarray(array)


Made = tuple[Answer, Callable[[Any], np.ndarray]]


def _triton(forest: Forest, x: Any, options: Namespace, point: Point | None) -> Made:
    try:
        predictor = bitvec.compile(forest, engine="triton", device=options.device)
    except bitvec.BitvecError as error:
        raise NotMeasuredError(str(error).splitlines()[0]) from None
    return lambda: predictor.raw(x), _on_host


def _torch(forest: Forest, x: Any, options: Namespace, point: Point | None) -> Made:
    held = 16 * len(x) * max(1, forest.n_trees) * max(1, forest.n_outputs)
    if held > MOST_HELD:
        raise NotMeasuredError("its leaves of all rows would take more than 8 GiB")
    if isinstance(x, np.ndarray):
        predictor = bitvec.compile(forest, engine="torch", device=options.device)
        return lambda: predictor.raw(x), _on_host
    module = bitvec.to_torch(forest, device=options.device)
    rows = x.to(module.dtype)
    return lambda: module(rows), _on_host


def _nvforest(forest: Forest, x: Any, options: Namespace, point: Point | None) -> Made:
    try:
        import cupy
        import nvforest
    except ImportError as error:
        raise NotMeasuredError(f"not installed ({error.name})") from None
    import treelite

    from bitvec.converters.treelite.write import to_treelite

    made = prepared.treelite_model(point) if point is not None else None
    try:
        model = to_treelite(forest) if made is None else treelite.Model.deserialize_bytes(made)
    except bitvec.BitvecError as error:
        raise NotMeasuredError(str(error)) from None
    found = nvforest.load_from_treelite_model(model, device="gpu")
    rows = x if isinstance(x, np.ndarray) else cupy.asarray(x)
    # Its own choice of layout and chunks.
    tuned = found.optimize(data=rows[:TUNED], timeout=0.3)
    ask = getattr(tuned, "predict_proba", tuned.predict)
    return lambda: ask(rows), _on_host


def _xgboost(forest: Forest, x: Any, options: Namespace, point: Point | None) -> Made:
    try:
        import xgboost
    except ImportError:
        raise NotMeasuredError("not installed") from None
    if not xgboost.build_info().get("USE_CUDA"):
        raise NotMeasuredError("this build has no GPU code")
    if forest.source is None or forest.source.library != "xgboost":
        raise NotMeasuredError("the model is not xgboost's")
    from bitvec.converters.xgboost.write import to_xgboost

    booster = to_xgboost(forest)
    booster.set_param({"device": options.device})
    if isinstance(x, np.ndarray):
        return lambda: booster.inplace_predict(x, predict_type="margin"), _on_host
    import cupy

    rows = cupy.asarray(x)
    return lambda: booster.inplace_predict(rows, predict_type="margin"), _on_host


def _hummingbird(forest: Forest, x: Any, options: Namespace, point: Point | None) -> Made:
    # It reads models of the libraries themselves, and needs onnx 1.16 at most.
    raise NotMeasuredError("needs onnx 1.16 or older, which is not installed")


_MAKERS: Final[dict[str, Callable[[Forest, Any, Namespace, Point | None], Made]]] = {
    "triton": _triton,
    "torch": _torch,
    "nvforest": _nvforest,
    "xgboost": _xgboost,
    "hummingbird": _hummingbird,
}
