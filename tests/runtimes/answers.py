"""Answers of a small runtime to ONNX files: `python answers.py RUNTIME JOBS`, where it is there.

JOBS is a JSON list of files with their batch; the inputs lie beside each file as .npz, and answers
are written as .found.npz. A process apart opens the files; it is started anew where a runtime
crashes or does not answer.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

Rows = dict[str, np.ndarray]
Session = Callable[[Rows], list[np.ndarray]]
OUTPUTS = ["raw", "leaves"]
"""The outputs of each file, in this order."""
SECONDS = 90
TURNS = 15
"""Of the clock; the median counts."""
BIN = Path(sys.executable).parent


def tract(path: str, inputs: list[str]) -> Session:
    import tract as module

    model = module.onnx().load(path).into_model().into_runnable()
    return lambda rows: [a.to_numpy() for a in model.run([rows[name] for name in inputs])]


def tvm(path: str, inputs: list[str]) -> Session:
    import onnx
    import tvm as module
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    made = module.compile(from_onnx(onnx.load(path), keep_params_in_input=False), target="llvm")
    machine, cpu = relax.VirtualMachine(made, module.cpu()), module.cpu()

    def answer(rows: Rows) -> list[np.ndarray]:
        found = machine["main"](*[module.runtime.tensor(rows[name], cpu) for name in inputs])
        return [a.numpy() for a in ([found] if hasattr(found, "numpy") else found)]

    return answer


def opencv(path: str, inputs: list[str]) -> Session:
    import cv2

    net = cv2.dnn.readNetFromONNX(path)

    def answer(rows: Rows) -> list[np.ndarray]:
        for name in inputs:
            net.setInput(rows[name], name)
        return list(net.forward(OUTPUTS))

    return answer


def mnn(path: str, inputs: list[str]) -> Session:
    import _tools  # the converter itself: the command mnnconvert installs a package at its start
    import MNN.expr as expr
    import MNN.nn as nn

    target = f"{tempfile.mkdtemp()}/model.mnn"
    asked = ["mnnconvert", "-f", "ONNX", "--modelFile", path, "--MNNModel", target]
    _tools.mnnconvert([*asked, "--bizCode", "bitvec"])
    if not Path(target).exists():
        raise RuntimeError("mnnconvert wrote no file")
    manager = nn.create_runtime_manager(({"backend": 0, "precision": "high", "numThread": 1},))
    module = nn.load_module_from_file(target, inputs, OUTPUTS, runtime_manager=manager)

    def answer(rows: Rows) -> list[np.ndarray]:
        given = [
            expr.const(rows[n].ravel(), list(rows[n].shape), expr.NCHW, expr.float) for n in inputs
        ]
        found = module.forward(given)
        return [np.array(a.read()) for a in (found if isinstance(found, list) else [found])]

    return answer


def ncnn(path: str, inputs: list[str]) -> Session:
    import ncnn as module

    folder = Path(tempfile.mkdtemp())
    (folder / "model.onnx").write_bytes(Path(path).read_bytes())
    done = subprocess.run(
        [BIN / "pnnx", "model.onnx", "fp16=0"], cwd=folder, capture_output=True, text=True
    )
    if not (folder / "model.ncnn.param").exists():
        raise RuntimeError(f"pnnx ended with {done.returncode}: {done.stderr.strip()[-150:]}")
    net = module.Net()
    net.opt.num_threads = 1
    for option in ("fp16_storage", "fp16_arithmetic", "fp16_packed", "bf16_storage"):
        setattr(net.opt, f"use_{option}", False)
    failed = net.load_param(str(folder / "model.ncnn.param"))
    if failed or net.load_model(str(folder / "model.ncnn.bin")):
        raise RuntimeError("ncnn does not load what pnnx wrote")

    def answer(rows: Rows) -> list[np.ndarray]:
        run, found = net.create_extractor(), []
        for name, theirs in zip(inputs, net.input_names(), strict=True):
            run.input(theirs, module.Mat(np.ascontiguousarray(rows[name][0])).clone())
        for theirs in net.output_names():
            code, mat = run.extract(theirs)
            if code:
                raise RuntimeError(f"ncnn extract {theirs}: {code}")
            found.append(np.array(mat)[None])
        return found

    return answer


def litert(path: str, inputs: list[str]) -> Session:
    from ai_edge_litert.interpreter import Interpreter

    folder = Path(tempfile.mkdtemp())
    command = [BIN / "onnx2tf", "-i", path, "-o", folder, "-n", "-coion", "-osd"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    made = list(folder.glob("*float32.tflite"))
    if not made:
        raise RuntimeError(f"onnx2tf: {(done.stdout + done.stderr).strip()[-150:]}")
    model = Interpreter(str(made[0]), num_threads=1).get_signature_runner()

    def answer(rows: Rows) -> list[np.ndarray]:
        found = model(**{name: rows[name] for name in model.get_input_details()})
        return [found[name] for name in OUTPUTS]

    return answer


def iree(path: str, inputs: list[str]) -> Session:
    import iree.runtime as module

    folder = tempfile.mkdtemp()
    options = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    options += ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"]
    for command in (
        [BIN / "iree-import-onnx", path, "-o", f"{folder}/model.mlir"],
        [BIN / "iree-compile", f"{folder}/model.mlir", *options, "-o", f"{folder}/model.vmfb"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            told = [line for line in done.stderr.splitlines() if "error:" in line]
            raise RuntimeError(" ".join(told)[:200] or done.stderr[-200:])
    loaded = module.load_vm_flatbuffer_file(f"{folder}/model.vmfb", driver="local-sync")
    names = loaded.vm_module.function_names  # beside the function there is name$async
    function = loaded[next(name for name in names if "$" not in name)]

    def answer(rows: Rows) -> list[np.ndarray]:
        found = function(*[rows[name] for name in inputs])
        return [a.to_host() for a in (found if isinstance(found, list | tuple) else [found])]

    return answer


def onnx2torch(path: str, inputs: list[str]) -> Session:
    import torch

    for name in ("torchvision", "torchvision.ops"):  # of two operators that no file here has
        sys.modules.setdefault(name, MagicMock())
    from onnx2torch import convert

    model = convert(path)

    def answer(rows: Rows) -> list[np.ndarray]:
        with torch.no_grad():
            found = model(*[torch.from_numpy(rows[name]) for name in inputs])
        return [a.numpy() for a in (found if isinstance(found, list | tuple) else [found])]

    return answer


PACKAGES = {"tvm": "apache-tvm", "opencv": "opencv-python-headless", "mnn": "MNN"}
PACKAGES |= {"iree": "iree-base-compiler", "litert": "ai-edge-litert"}
"""What a runtime is installed as, where that is not its name."""


def timed(session: Session, rows: Rows, n: int, batch: int | None) -> float:
    """Return microseconds for n rows, the median of some turns; in calls of a fixed batch."""
    place = np.arange(n) % len(rows["X"])
    size = batch or n
    parts = [{name: a[place[i : i + size]] for name, a in rows.items()} for i in range(0, n, size)]
    taken = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for part in parts:
            session(part)
        taken.append(1e6 * (time.perf_counter() - start))
    return float(np.median(taken))


def answered(runtime: str, jobs: list[dict[str, Any]], pipe: Any) -> None:
    """Write the answers to files, and tell of each its times, or why there are no answers."""
    os.setsid()  # converters start processes of their own, which end with this one
    for job in jobs:
        pipe.send(_answered(runtime, job))


def _answered(runtime: str, job: dict[str, Any]) -> dict[str, float] | str:
    try:
        path = Path(job["file"])
        rows = dict(np.load(path.with_suffix(".npz")))
        session = globals()[runtime](str(path), list(rows))
        size = job["batch"] or len(rows["X"])
        starts = range(0, len(rows["X"]), size)
        parts = [session({n: a[i : i + size] for n, a in rows.items()}) for i in starts]
        found = {n: np.concatenate(a) for n, *a in zip(OUTPUTS, *parts, strict=True)}
        np.savez(path.with_suffix(".found.npz"), **found)
        return {f"us_{n}": timed(session, rows, n, job["batch"]) for n in (1, 100)}
    except BaseException as error:  # a runtime may raise anything
        return f"{type(error).__name__}: {_reason(str(error))}"


def _reason(text: str) -> str:
    """Return what an error says, on one line, without its trace and the folders of files."""
    text = " ".join(text.partition("Stack backtrace")[0].split())
    return re.sub(r"/(?:[\w.+-]+/)+(?=[\w.-]+\.\w)", "", text)


def main(runtime: str, file: str) -> None:
    """Answer all jobs of a file, and write there what became of them."""
    jobs, context = json.loads(Path(file).read_text()), multiprocessing.get_context("spawn")
    left = [job for job in jobs if "refused" not in job]
    while left:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=answered, args=(runtime, left, theirs))
        process.start()
        theirs.close()
        while left:
            job = left.pop(0)
            try:
                told = ours.recv() if ours.poll(SECONDS) else f"no answer in {SECONDS} s"
            except EOFError:
                told = "a crash of its process"
            job |= told if isinstance(told, dict) else {"refused": told}
            if told in (f"no answer in {SECONDS} s", "a crash of its process"):
                break
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
    facts = {"version": version(PACKAGES.get(runtime, runtime)), "jobs": jobs}
    Path(file).write_text(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
