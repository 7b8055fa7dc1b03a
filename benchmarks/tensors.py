"""Forests as torch modules and programs: equal bits, size and latency of each way to run them.

    python -m benchmarks.tensors [--json] [--quick] [--save]

One thread; seconds are of the processor, so that other work on the machine does not count. Forests
that are trained with encoders before them are measured by `joint`. Files of AOTInductor are not
measured, as compiling 100 trees takes many minutes.
"""

from __future__ import annotations

import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import xgboost
from sklearn.ensemble import RandomForestClassifier

import bitvec
from benchmarks.report import Column, Goal, Report, Row, Table, groups, measured_by, six_digits
from benchmarks.runner import Benchmark, run, say
from bitvec.converters.onnx.session import open_session
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest

ROWS: Final = (1, 10, 1_000, 10_000)
PART: Final = 1_000
"""Rows of a call of ExecuTorch at most."""
FORMS: Final = ("matrix", "perfect", "levels")
EXACT: Final = ("engine torch", "eager", ".pt2", "compiled in place")
"""Ways that promise the bits of every forest; float32 or merged sums round those of some."""
SECONDS: Final = 0.2
"""For which a way is run again, at least three times; the least counts."""


def _data() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(max(ROWS), 30)).astype(np.float32)
    return X, (X[:, 0] - X[:, 1] + 2 * X[:, 2] + X[:, 3] * X[:, 4] > 0).astype(int)


MODELS: Final[dict[str, Callable[[int], Any]]] = {
    "xgboost, 100 trees of depth 6": lambda n: xgboost.XGBClassifier(n_estimators=n, max_depth=6),
    "RandomForest, 50 trees of depth 10": lambda n: RandomForestClassifier(
        n // 2, max_depth=10, random_state=0
    ),
}


def cases(options: Namespace) -> Iterable[str]:
    """Return the names of models."""
    return MODELS


Way = tuple[str, str, Callable[[torch.Tensor], Any], int | None]
"""Target, form, what answers a tensor with raw scores, and bytes of a file."""


def ways(forest: Forest, folder: Path, x: torch.Tensor, *, quick: bool) -> Iterator[Way]:
    """Yield target, form, what answers a tensor with raw scores, and bytes of a file."""
    engine = bitvec.compile(forest, engine="torch").engine
    yield "engine torch", "auto", lambda x: engine.raw(x.numpy()), None
    for form in ("auto", *FORMS):
        yield "eager", form, bitvec.to_torch(forest, form=form), None
    path = bitvec.export(forest, folder / "model.pt2")
    program = torch.export.load(path).module()
    yield ".pt2", "auto", lambda x: program(x)["raw"], path.stat().st_size
    if quick:
        return
    in_place = bitvec.to_torch(forest)
    in_place.compile(fullgraph=True, dynamic=True)
    yield "compiled in place", "auto", in_place, None
    yield from _onnx(forest, folder)
    if find_spec("openvino") is not None:
        yield from _openvino(forest, folder)
    if find_spec("executorch") is not None:
        yield _executorch(forest, folder)
    if find_spec("litert_torch") is not None:
        yield _litert(forest, folder)


def _onnx(forest: Forest, folder: Path) -> Iterator[Way]:
    """Yield two forms of ONNX in onnxruntime."""
    for form in ("tree_ensemble", "traversal"):
        path = bitvec.export(forest, folder / f"{form}.onnx", form=form, outputs=["raw"])
        yield "onnxruntime", form, _session(path), path.stat().st_size


def _session(path: Path) -> Callable[[torch.Tensor], Any]:
    session = open_session(path, 1)
    return lambda x: session.run(["raw"], {"X": x.numpy()})[0]


def _openvino(forest: Forest, folder: Path) -> Iterator[Way]:
    """Yield OpenVINO of an ONNX file and of the exported program."""
    import openvino

    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "EXECUTION_MODE_HINT": "ACCURACY",
        "INFERENCE_NUM_THREADS": 1,
    }
    core = openvino.Core()
    path = bitvec.export(forest, folder / "openvino.onnx", target="openvino", outputs=["raw"])
    of_onnx = core.compile_model(core.read_model(path), "CPU", options)
    yield "OpenVINO of ONNX", "traversal", lambda x: of_onnx(x.numpy())[0], path.stat().st_size
    raw = bitvec.to_torch(forest)
    x, batch = torch.zeros((2, forest.n_features), dtype=raw.dtype), torch.export.Dim("batch")
    program = torch.export.export(raw, (x,), dynamic_shapes=({0: batch},))
    model = openvino.convert_model(program)
    of_program = core.compile_model(model, "CPU", options)
    openvino.save_model(model, folder / "program.xml", compress_to_fp16=False)
    size = sum(path.stat().st_size for path in folder.glob("program.*"))
    yield "OpenVINO of the program", "auto", lambda x: of_program(x.numpy())[0], size


def _executorch(forest: Forest, folder: Path) -> Way:
    from executorch.runtime import Runtime

    path = bitvec.export(forest, folder / "model.pte", batch=PART)
    program = Runtime.get().load_program(path)
    method = program.load_method("forward")

    def answer(x: torch.Tensor) -> Any:
        assert program is not None
        return np.concatenate([np.array(method.execute([p])[0]) for p in x.clone().split(PART)])

    return ".pte, ExecuTorch", "perfect", answer, path.stat().st_size


def _litert(forest: Forest, folder: Path) -> Way:
    from ai_edge_litert.interpreter import Interpreter

    path = bitvec.export(forest, folder / "model.tflite")
    run = Interpreter(str(path), num_threads=1).get_signature_runner()
    (name,) = run.get_input_details()

    def answer(x: torch.Tensor) -> Any:
        rows = x.numpy().astype(np.float32)
        return np.concatenate([run(**{name: row[None]})["raw"] for row in rows])

    return ".tflite, LiteRT, row by row", "perfect", answer, path.stat().st_size


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield a row for each way to run a model."""
    torch.set_num_threads(1)
    X, y = _data()
    model = MODELS[name](10 if options.quick else 100).fit(X, y)
    forest = bitvec.convert(model)
    rows = X.astype(forest.dtype)
    expected = bitvec.compile(forest, engine="reference").raw(rows)
    x, held = torch.tensor(rows), _held()
    with tempfile.TemporaryDirectory() as folder:
        for target, form, answer, size in ways(forest, Path(folder), x, quick=options.quick):
            grown = max(0, _held() - held)
            row: Row = {
                "model": name,
                "target": target,
                "form": form,
                "bytes": size,
                "grown": grown,
            }
            equal = rounded = True
            for n in ROWS:
                part = x[:n]
                with torch.no_grad():
                    found = np.asarray(answer(part))
                found = found.reshape(expected[:n].shape)
                equal &= found.tobytes() == expected[:n].tobytes()
                rounded &= np.allclose(found, expected[:n], rtol=1e-4, atol=1e-5)
                row[f"ms_{n}"] = 1e3 * _least(answer, part)
            say(f"{target} {form}")
            yield row | {"equal": equal, "rounded": bool(rounded)}
            held = _held()


def _held() -> int:
    """Return the bytes that this process holds; 0 where the system does not say."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


@torch.no_grad()
def _least(answer: Callable[[torch.Tensor], Any], x: torch.Tensor) -> float:
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < 3 or time.perf_counter() - start < SECONDS:
        before = time.process_time()
        answer(x)
        taken.append(time.process_time() - before)
    return min(taken)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what the module and its programs have to reach beside the engine torch."""
    exact = [row for row in rows if row["target"] in EXACT]
    unequal = sum(not row["equal"] for row in exact)
    slowest: dict[str, float] = {}
    for found in groups(rows, "model").values():
        by = {(row["target"], row["form"]): row for row in found}
        for target in ("eager", "compiled in place"):
            ours, engine = by.get((target, "auto")), by.get(("engine torch", "auto"))
            if ours and engine:
                ratio = max(ours[f"ms_{n}"] / engine[f"ms_{n}"] for n in ROWS)
                slowest[target] = max(slowest.get(target, 0.0), ratio)
    return [
        Goal("ways whose raw scores differ in a bit", "0", unequal, True),
        Goal(
            "compiled in place / engine torch, worst cell",
            "<= 1.1",
            slowest.get("compiled in place"),
        ),
        Goal("eager / engine torch, worst cell", "<= 1", slowest.get("eager")),
    ]


def _after(report: Report) -> str:
    return f"Milliseconds of one thread of the processor. {measured_by(report)}"


def _bits(row: Row) -> str:
    if row["equal"]:
        return "equal"
    return "rounded" if row["rounded"] else "differ"


_COLUMNS: Final = (
    Column("model", "model"),
    Column("target", "target"),
    Column("form", "form"),
    Column("bits", _bits),
    Column("bytes", "bytes", ","),
    Column("memory, MiB", lambda row: f"{row['grown'] / 2**20:.0f}"),
    *(Column(f"{n:,} row{'s' * (n > 1)}, ms", f"ms_{n}", ".3g") for n in ROWS),
)
BENCHMARK: Final = Benchmark(
    "tensors",
    cases,
    measure,
    goals,
    {
        "table": Table(_COLUMNS, list, after=_after),
    },
    figures=lambda rows: [six_digits(row) for row in rows],
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
