"""Ways to run a forest as a torch module, a program of it, or a file of another runtime.

`written` and `measured` are what processes of their own do, some in environments of other
libraries, so this module imports nothing but NumPy and what a way needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.worker import CannotRunError, held, reset_peak

Row = dict[str, Any]
Answer = Callable[[Any], Any]
"""From rows to raw scores."""

ROWS: Final = (1, 10, 1_000, 10_000)
PART: Final = 1_000
"""Rows of a call at most, in runtimes whose calls have a size."""
FORMS: Final = ("matrix", "perfect", "levels")
SECONDS: Final = 0.2
"""For which a way is run again, at least three times; the least counts."""
FOREST: Final = "forest.safetensors"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run a forest.

    Parameters
    ----------
    target, form : str
        The runtime, and the form of the trees in it.
    open : callable
        From the folder of the forest, and of the file, what answers rows.
    file : str
        Name of the file that `write` makes in the folder, "" where there is none.
    write : callable, optional
        From a forest and the path of its file.
    exact : bool
        Whether it promises the bits of every forest.
    torch : bool
        Whether rows are tensors.
    environment : str
        Of `requirements`, where there is one; "" for this interpreter.
    quick : bool
        Whether a quick run has it.
    batch : int
        Rows of a call, where it takes neither fewer nor more.
    """

    target: str
    form: str
    open: Callable[[Path], Answer]
    file: str = ""
    write: Callable[[Any, Path], object] | None = None
    exact: bool = False
    torch: bool = False
    environment: str = ""
    quick: bool = False
    batch: int = 1

    @property
    def name(self) -> str:
        """The target with its form."""
        return f"{self.target}, {self.form}"


def written(folder: str, name: str) -> Row:
    """Export the forest of a folder; return the size of its file and the seconds it took."""
    import bitvec

    way, place = WAYS[name], Path(folder)
    assert way.write is not None
    forest = bitvec.load(place / FOREST)
    start = time.perf_counter()
    way.write(forest, place / way.file)
    stem = Path(way.file).stem
    size = sum(path.stat().st_size for path in place.glob(f"{stem}.*"))
    return {"bytes": size, "export_seconds": time.perf_counter() - start}


def measured(folder: str, name: str) -> Row:
    """Answer rows; return whether bits are those of `raw.npy`, milliseconds, and memory."""
    way, place = WAYS[name], Path(folder)
    X, expected = np.load(place / "X.npy"), np.load(place / "raw.npy")
    before = None
    with suppress(OSError):  # of systems that do not tell it
        before = reset_peak()
    answer = way.open(place)
    row: Row = {"equal": True, "rounded": True}
    for n in ROWS:
        if n < way.batch:
            continue
        rows = _parts(X[:n], way)
        found = np.concatenate([np.asarray(answer(part)).copy() for part in rows])
        found = found.reshape(expected[:n].shape)
        row["equal"] &= found.tobytes() == expected[:n].tobytes()
        row["rounded"] &= bool(np.allclose(found, expected[:n], rtol=1e-4, atol=1e-5))
        row[f"ms_{n}"] = 1e3 * _least(answer, rows)
        if before is not None and n <= PART:
            row["grown"] = held() - before
    return row


def _parts(X: np.ndarray, way: Way) -> list[Any]:
    """Return rows as a way takes them, in as many calls as it needs."""
    size = way.batch if way.batch > 1 or way.file.endswith(".tflite") else len(X)
    if way.file.endswith(".pte"):
        size = min(PART, len(X))
    parts = [np.ascontiguousarray(X[at : at + size]) for at in range(0, len(X), size)]
    if not way.torch:
        return parts
    import torch

    return [torch.tensor(part) for part in parts]


def _least(answer: Answer, rows: list[Any]) -> float:
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < 3 or time.perf_counter() - start < SECONDS:
        before = time.process_time()
        for part in rows:
            answer(part)
        taken.append(time.process_time() - before)
    return min(taken)


def _forest(folder: Path) -> Any:
    import bitvec

    return bitvec.load(folder / FOREST)


def _torch() -> Any:
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return torch


def _exported(**options: Any) -> Callable[[Any, Path], object]:
    def write(forest: Any, path: Path) -> object:
        import bitvec

        return bitvec.export(forest, path, **options)

    return write


def _engine(folder: Path) -> Answer:
    import bitvec

    _torch()
    answer: Answer = bitvec.compile(_forest(folder), engine="torch").engine.raw
    return answer


def _eager(form: str) -> Callable[[Path], Answer]:
    def opened(folder: Path) -> Answer:
        import bitvec

        _torch()
        return bitvec.to_torch(_forest(folder), form=form)

    return opened


def _compiled(folder: Path) -> Answer:
    module: Any = _eager("auto")(folder)
    module.compile(fullgraph=True, dynamic=True)
    return module


def _program(folder: Path) -> Answer:
    program = _torch().export.load(folder / "model.pt2").module()
    return lambda x: program(x)["raw"]


def _ahead(folder: Path) -> Answer:
    _torch()
    from torch._inductor import aoti_load_package

    # A call of the program itself names results, which takes longer for few rows.
    run = aoti_load_package(str(folder / "ahead.pt2")).loader.run
    return lambda x: run([x])[0]


def _jax(folder: Path) -> Answer:
    import jax

    import bitvec

    jax.config.update("jax_enable_x64", True)
    params, apply = bitvec.to_jax(_forest(folder))
    compiled = jax.jit(apply)
    return lambda X: compiled(params, X).block_until_ready()


def _onnx(file: str) -> Callable[[Path], Answer]:
    def opened(folder: Path) -> Answer:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(folder / file, options)
        return lambda X: session.run(["raw"], {"X": X})[0]

    return opened


def _openvino(file: str) -> Callable[[Path], Answer]:
    def opened(folder: Path) -> Answer:
        import openvino

        options = {
            "INFERENCE_PRECISION_HINT": "f32",
            "EXECUTION_MODE_HINT": "ACCURACY",
            "INFERENCE_NUM_THREADS": 1,
        }
        model = openvino.Core().compile_model(folder / file, "CPU", options)
        return lambda X: model(X)[0]

    return opened


def _write_openvino(forest: Any, path: Path) -> None:
    import openvino

    model = openvino.convert_model(_raw_program(forest, "auto", None))
    openvino.save_model(model, path, compress_to_fp16=False)


def _raw_program(forest: Any, form: str, batch: int | None) -> Any:
    """Return an exported program of raw scores alone, of one row or of any number."""
    import torch

    import bitvec

    module = bitvec.to_torch(forest, form=form)
    x = torch.zeros((batch or 2, forest.n_features), dtype=module.dtype)
    shapes = None if batch else ({0: torch.export.Dim("batch")},)
    return torch.export.export(module, (x,), dynamic_shapes=shapes)


def _executorch(file: str) -> Callable[[Path], Answer]:
    def opened(folder: Path) -> Answer:
        from executorch.runtime import Runtime

        _torch()
        program = Runtime.get().load_program(folder / file)
        method = program.load_method("forward")
        method.program = program  # lives as long
        return lambda x: method.execute([x])[0]

    return opened


def _litert(file: str) -> Callable[[Path], Answer]:
    def opened(folder: Path) -> Answer:
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(str(folder / file), num_threads=1)
        run = interpreter.get_signature_runner()
        (given,) = run.get_input_details()
        return lambda X: run(**{given: X})["raw"]

    return opened


def _write_coreml(forest: Any, path: Path) -> None:
    import coremltools

    made = coremltools.convert(
        _raw_program(forest, "perfect", 1).run_decompositions({}),
        minimum_deployment_target=coremltools.target.iOS17,
        compute_precision=coremltools.precision.FLOAT32,
    )
    path.write_bytes(made.get_spec().SerializeToString())


def _not_run(folder: Path) -> Answer:
    raise CannotRunError("converted, not run: it takes macOS")


WAYS: Final = {
    way.name: way
    for way in (
        Way("engine torch", "auto", _engine, exact=True, quick=True),
        *(
            Way("eager", form, _eager(form), exact=True, torch=True, quick=True)
            for form in ("auto", *FORMS)
        ),
        Way("compiled in place", "auto", _compiled, exact=True, torch=True),
        Way(
            ".pt2, torch.export",
            "auto",
            _program,
            "model.pt2",
            _exported(),
            exact=True,
            torch=True,
            quick=True,
        ),
        Way(
            ".pt2, AOTInductor",
            "auto",
            _ahead,
            "ahead.pt2",
            _exported(compiled=True),
            exact=True,
            torch=True,
        ),
        *(
            Way(
                f".pte, ExecuTorch {kernels}",
                "perfect",
                _executorch(f"{kernels}.pte"),
                f"{kernels}.pte",
                _exported(batch=PART, target=kernels),
                exact=True,
                torch=True,
                environment="executorch",
            )
            for kernels in ("portable", "xnnpack")
        ),
        *(
            Way(
                f".tflite, LiteRT, {n:,} row{'s' * (n > 1)} a call",
                "perfect",
                _litert(f"of_{n}.tflite"),
                f"of_{n}.tflite",
                _exported(batch=n),
                environment="litert",
                batch=n,
            )
            for n in (1, PART)
        ),
        Way(
            "Core ML",
            "perfect",
            _not_run,
            "model.mlmodel",
            _write_coreml,
            environment="executorch",
        ),
        Way("JAX, jit", "auto", _jax, exact=True, environment="jax"),
        *(
            Way(
                ".onnx, onnxruntime",
                form,
                _onnx(f"{form}.onnx"),
                f"{form}.onnx",
                _exported(form=form, outputs=["raw"]),
            )
            for form in ("tree_ensemble", "traversal")
        ),
        Way(
            ".onnx, OpenVINO",
            "traversal",
            _openvino("openvino.onnx"),
            "openvino.onnx",
            _exported(target="openvino", outputs=["raw"]),
        ),
        Way(
            "OpenVINO, of the program",
            "auto",
            _openvino("program.xml"),
            "program.xml",
            _write_openvino,
        ),
    )
}
"""By target and form."""
