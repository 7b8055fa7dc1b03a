"""Other exporters: skl2onnx and onnxmltools here, others in environments of their own."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import environments
from benchmarks.export.models import Grown, Model
from benchmarks.export.objects import object_bytes
from benchmarks.export.runtimes import Session
from bitvec.core.arrays import Array

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
SECONDS: Final = {"hummingbird": 60.0, "tl2cgen": 90.0, "emlearn": 30.0}
"""The longest that each may take for a model; emlearn's export is quadratic in the leaves."""
TAKES: Final = {
    "hummingbird": ("sklearn", "xgboost"),
    "tl2cgen": ("sklearn", "xgboost", "lightgbm"),
    "emlearn": ("sklearn",),
}
"""Which libraries' models each peer with an environment of its own reads."""
COMPLETE: Final = ("emlearn",)
"""Peers that refuse rows with NaN; they are slow to answer too."""
MOST_COMPLETE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Exported:
    """What another exporter made: a session, or the answers themselves where it is C."""

    session: Session | None
    answers: dict[str, Array]
    told: dict[str, Any]


def exported_here(model: Model, grown: Grown, folder: Path) -> Exported:
    """Export with skl2onnx or onnxmltools, probabilities without ZipMap, and load it."""
    path = folder / f"{model.peer}.onnx"
    start = time.perf_counter()
    path.write_bytes(_EXPORTERS[model.library](grown).SerializeToString())
    export_seconds = time.perf_counter() - start
    names = ("label", "probabilities") if grown.is_classifier else ("prediction",)
    start = time.perf_counter()
    session = Session(path, names)
    told = {
        "bytes": path.stat().st_size,
        "export_seconds": export_seconds,
        "load_seconds": time.perf_counter() - start,
        "outputs": ", ".join(names),
    }
    return Exported(session, {}, told)


def _by_skl2onnx(grown: Grown) -> Any:
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    columns = [("X", FloatTensorType([None, grown.X.shape[1]]))]
    options = {"zipmap": False} if grown.is_classifier else {}
    return skl2onnx.convert_sklearn(grown.estimator, initial_types=columns, options=options)


def _by_onnxmltools(library: str) -> Any:
    def export(grown: Grown) -> Any:
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        columns = [("X", FloatTensorType([None, grown.X.shape[1]]))]
        options = {"zipmap": False} if library == "lightgbm" else {}
        convert = getattr(onnxmltools, f"convert_{library}")
        return convert(grown.estimator, initial_types=columns, **options)

    return export


_EXPORTERS: Final = {
    "sklearn": _by_skl2onnx,
    "xgboost": _by_onnxmltools("xgboost"),
    "lightgbm": _by_onnxmltools("lightgbm"),
}


def exported_apart(
    peer: str, model: Model, grown: Grown, X: Array, *, peers: Path | None, folder: Path
) -> Exported:
    """Export in a peer's own environment; C is compiled there and answers X.

    Raises
    ------
    NoAnswerError
        If it cannot be run, or refuses the model.
    """
    environment = environments.find(peers, peer)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        job = Path(place)
        _write_job(job, model, grown, X)
        program = f"benchmarks.export.children.of_{peer}"
        environments.run(environment, program, job, SECONDS[peer])
        told = json.loads((job / "told.json").read_text(encoding="utf-8"))
        if (job / "exported.onnx").exists():
            path = job / "exported.onnx"
            names = ("label", "probabilities") if grown.is_classifier else ("prediction",)
            start = time.perf_counter()
            session = Session(path, names)
            told |= {
                "bytes": path.stat().st_size,
                "load_seconds": time.perf_counter() - start,
                "outputs": ", ".join(names),
            }
            return Exported(session, {}, told)
        answers = dict(np.load(job / "answers.npz"))
        if (job / "use.c").exists():
            told["object_bytes"] = object_bytes((job / "use.c").read_text("ascii"), job)
        told["outputs"] = ", ".join("probabilities" if n == "scores" else n for n in answers)
        return Exported(None, answers, told)


def _write_job(job: Path, model: Model, grown: Grown, X: Array) -> None:
    np.save(job / "rows.npy", X)
    if model.library == "sklearn":
        import skops.io

        skops.io.dump(grown.estimator, job / "model.skops")
    elif model.library == "xgboost":
        grown.estimator.save_model(job / "model.ubj")
    else:
        grown.estimator.booster_.save_model(job / "model.txt")
    facts = {"library": model.library, "is_classifier": grown.is_classifier}
    (job / "job.json").write_text(json.dumps(facts), encoding="utf-8")
