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
from benchmarks.gpu import generated
from benchmarks.report import Row
from bitvec.core import reference
from bitvec.core.forest import Forest

ENGINES: Final = ("triton", "torch", "nvforest", "xgboost", "hummingbird")
CHECKED: Final = 500
"""Rows whose raw scores are compared with the reference."""
TUNED: Final = 1 << 18
"""Rows by which nvForest chooses, at most."""
SECONDS: Final = 1.0
"""Seconds of the repetitions of one engine, about."""
REPEATS: Final = 9
Answer = Callable[[], Any]


class NotMeasuredError(Exception):
    """An engine that is not here or does not hold the model; the text says why."""


def measure_answers(
    forest: Forest, rows: np.ndarray | None, batch: int, from_host: bool, options: Namespace
) -> Row:
    """Return the times of all engines on `batch` rows, and whether the first scores are exact.

    Parameters
    ----------
    rows : float32, (n, n_features), optional
        Of the model's own data, drawn from with replacement; normal rows if not given.
    """
    x = _rows(forest.n_features, rows, batch, from_host, options.device)
    row: Row = {
        "n_features": forest.n_features,
        "n_trees": forest.n_trees,
        "batch": batch,
        "place": "host" if from_host else "resident",
        "device": torch.cuda.get_device_name() if options.device != "cpu" else "the CPU, a dry run",
    }
    expected = reference.raw(forest, _on_host(x))
    for name in ENGINES:
        try:
            answer, check = _MAKERS[name](forest, x, options)
            row[f"{name}_ms"] = _milliseconds(answer, options.device)
        except NotMeasuredError as error:
            row[f"{name}_reason"] = str(error)
            continue
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            row[f"{name}_reason"] = f"out of memory ({type(error).__name__})"
            continue
        if name == "triton":
            row["same_bits"] = check(answer()).tobytes() == expected.tobytes()
    if row.get("triton_ms") and not from_host and options.device != "cpu":
        least = 4 * batch * forest.n_features
        least += batch * forest.n_outputs * forest.output.dtype.itemsize
        row["copy_share"] = least / (row["triton_ms"] * 1e-3) / copy_bandwidth()
    return row


def _rows(
    n_features: int, rows: np.ndarray | None, batch: int, from_host: bool, device: str
) -> Any:
    """Return an array of the host or a tensor of the device, made there where rows are normal."""
    if rows is not None:
        X = rows[np.random.default_rng(2).integers(0, len(rows), batch)]
    elif from_host or device == "cpu":
        X = generated.rows(batch, n_features)
    else:
        generator = torch.Generator(device).manual_seed(1)
        return torch.randn((batch, n_features), device=device, generator=generator)
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


def _on_host(raw: Any) -> np.ndarray:
    first = raw[:CHECKED]
    array = first.cpu().numpy() if isinstance(first, torch.Tensor) else np.asarray(first)
    return np.ascontiguousarray(array)


Made = tuple[Answer, Callable[[Any], np.ndarray]]


def _triton(forest: Forest, x: Any, options: Namespace) -> Made:
    try:
        predictor = bitvec.compile(forest, engine="triton", device=options.device)
    except bitvec.BitvecError as error:
        raise NotMeasuredError(str(error).splitlines()[0]) from None
    return lambda: predictor.raw(x), _on_host


def _torch(forest: Forest, x: Any, options: Namespace) -> Made:
    if isinstance(x, np.ndarray):
        predictor = bitvec.compile(forest, engine="torch", device=options.device)
        return lambda: predictor.raw(x), _on_host
    module = bitvec.to_torch(forest, device=options.device)
    held = 16 * len(x) * max(1, forest.n_trees) * max(1, forest.n_outputs)
    if held > 32 << 30:
        raise NotMeasuredError("its leaves of all rows would take more than 32 GiB")
    rows = x.to(module.dtype)
    return lambda: module(rows), _on_host


def _nvforest(forest: Forest, x: Any, options: Namespace) -> Made:
    try:
        import cupy
        import nvforest
    except ImportError as error:
        raise NotMeasuredError(f"not installed ({error.name})") from None
    from bitvec.converters.treelite.write import to_treelite

    try:
        model = to_treelite(forest)
    except bitvec.BitvecError as error:
        raise NotMeasuredError(str(error)) from None
    found = nvforest.load_from_treelite_model(model, device="gpu")
    rows = x if isinstance(x, np.ndarray) else cupy.asarray(x)
    # Its own choice of layout and chunks.
    tuned = found.optimize(data=rows[:TUNED], timeout=0.3)
    ask = getattr(tuned, "predict_proba", tuned.predict)
    return lambda: ask(rows), _on_host


def _xgboost(forest: Forest, x: Any, options: Namespace) -> Made:
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


def _hummingbird(forest: Forest, x: Any, options: Namespace) -> Made:
    # It reads models of the libraries themselves, and needs onnx 1.16 at most.
    raise NotMeasuredError("needs onnx 1.16 or older, which is not installed")


_MAKERS: Final[dict[str, Callable[[Forest, Any, Namespace], Made]]] = {
    "triton": _triton,
    "torch": _torch,
    "nvforest": _nvforest,
    "xgboost": _xgboost,
    "hummingbird": _hummingbird,
}
