"""Other exporters: skl2onnx and onnxmltools here, others in environments of their own."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import jobs
from benchmarks.export.models import Grown, Model
from benchmarks.export.objects import object_bytes
from benchmarks.export.runtimes import Session
from benchmarks.workers import in_environment
from bitvec.core.arrays import Array

SECONDS: Final = {"hummingbird": 60.0, "tl2cgen": 90.0, "emlearn": 30.0}
"""The longest that each may take for a model; emlearn's export is quadratic in the leaves."""
TAKES: Final = {
    "hummingbird": ("sklearn", "xgboost"),
    "tl2cgen": ("sklearn", "xgboost", "lightgbm"),
    "emlearn": ("sklearn",),
}
"""Libraries whose models each baseline with an environment of its own reads."""
COMPLETE: Final = ("emlearn",)
"""Baselines that refuse rows with NaN; they are slow to answer too."""
MOST_COMPLETE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Exported:
    """Work of another exporter: a session, or the answers themselves where it is C."""

    session: Session | None
    answers: dict[str, Array]
    told: dict[str, Any]


def exported_here(model: Model, grown: Grown, folder: Path) -> Exported:
    """Export with skl2onnx or onnxmltools, probabilities without ZipMap, and load it."""
    path = folder / f"{model.baseline}.onnx"
    start = time.perf_counter()
    path.write_bytes(_EXPORTERS[model.library](grown).SerializeToString())
    export_seconds = time.perf_counter() - start
    session, told = _loaded(path, grown)
    return Exported(session, {}, told | {"export_seconds": export_seconds})


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
    baseline: str, model: Model, grown: Grown, X: Array, *, baselines: Path | None, folder: Path
) -> Exported:
    """Export in a baseline's own environment; C is compiled there and answers X.

    Raises
    ------
    CannotRunError
        If it cannot be run, or refuses the model.
    """
    with tempfile.TemporaryDirectory(dir=folder) as place:
        job = Path(place)
        left = _write_job(job, model, grown, X)
        told = in_environment(
            f"benchmarks.foreign.{baseline}:run",
            job,
            baselines=baselines,
            baseline=baseline,
            within=SECONDS[baseline],
        )
        if (job / "exported.onnx").exists():
            session, more = _loaded(job / "exported.onnx", grown)
            return Exported(session, {}, told | more)
        answers = left.answers
        if (job / "use.c").exists():
            told["object_bytes"] = object_bytes((job / "use.c").read_text("ascii"), job)
        told["outputs"] = ", ".join("probabilities" if n == "scores" else n for n in answers)
        return Exported(None, answers, told)


def _loaded(path: Path, grown: Grown) -> tuple[Session, dict[str, Any]]:
    """Load a file that another exporter wrote; return what is told of it too."""
    names = ("label", "probabilities") if grown.is_classifier else ("prediction",)
    start = time.perf_counter()
    session = Session(path, names)
    load_seconds = time.perf_counter() - start
    told = {"bytes": path.stat().st_size, "load_seconds": load_seconds}
    return session, told | {"outputs": ", ".join(names)}


def _write_job(job: Path, model: Model, grown: Grown, X: Array) -> jobs.Job:
    if model.library == "sklearn":
        import skops.io

        name = "model.skops"
        skops.io.dump(grown.estimator, job / name)
    elif model.library == "xgboost":
        name = "model.ubj"
        grown.estimator.save_model(job / name)
    else:
        name = "model.txt"
        grown.estimator.booster_.save_model(job / name)
    facts = {"library": model.library, "model": name, "is_classifier": grown.is_classifier}
    return jobs.write(job, facts, X=X)
