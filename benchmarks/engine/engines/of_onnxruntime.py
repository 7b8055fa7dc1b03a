"""onnxruntime, on what skl2onnx, onnxmltools and CatBoost export."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime

from benchmarks.engine.engines.calls import Calls, Job, chosen, single_precision
from benchmarks.engine.engines.of_native import sklearn_model


class Onnxruntime:
    """Inference sessions of the exported model, which is kept beside the model.

    Of exporters that boosters go through only skl2onnx makes files that answer with raw scores.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.path = _exported(job, "exported.onnx", _EXPORTERS[job.library])
        self.raw_path: Path | None = None
        if job.library == "sklearn" and hasattr(sklearn_model(job), "decision_function"):
            raw = partial(_sklearn, raw_scores=True)
            self.raw_path = _exported(job, "exported-raw.onnx", raw)

    def calls(self, threads: int) -> Calls:
        """Open a session of so many threads."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1

        def outputs(path: Path) -> list[Callable[[Any], Any]]:
            session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            (given,) = (value.name for value in session.get_inputs())

            def output(name: str) -> Callable[[Any], Any]:
                return lambda X: session.run([name], {given: X})[0]

            return [output(value.name) for value in session.get_outputs()]

        first, *_, scores = outputs(self.path) * 2
        predict = chosen(self.job.asks, values=first, labels=first, probabilities=scores)
        raw = None if self.raw_path is None else outputs(self.raw_path)[-1]
        return Calls(predict, scores, raw, rows=single_precision)


def _exported(job: Job, name: str, export: Callable[[Job, Path], None]) -> Path:
    """Return the exported file, written now unless it is kept already."""
    path = job.folder / name
    if not path.exists():
        aside = path.with_suffix(".part")
        export(job, aside)
        aside.replace(path)
    return path


def _columns(job: Job, types: Any) -> list[tuple[str, Any]]:
    return [("X", types.FloatTensorType([None, job.n_features]))]


def _xgboost(job: Job, path: Path) -> None:
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common import data_types

    model = xgboost.XGBRegressor() if job.regression else xgboost.XGBClassifier()
    model.load_model(job.model)
    exported = onnxmltools.convert_xgboost(model, initial_types=_columns(job, data_types))
    path.write_bytes(exported.SerializeToString())


def _lightgbm(job: Job, path: Path) -> None:
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common import data_types

    model = lightgbm.Booster(model_file=str(job.model))
    exported = onnxmltools.convert_lightgbm(
        model, initial_types=_columns(job, data_types), zipmap=False
    )
    path.write_bytes(exported.SerializeToString())


def _sklearn(job: Job, path: Path, **options: bool) -> None:
    import skl2onnx
    from skl2onnx.common import data_types

    if not job.regression:
        options["zipmap"] = False
    exported = skl2onnx.convert_sklearn(
        sklearn_model(job), initial_types=_columns(job, data_types), options=options
    )
    path.write_bytes(exported.SerializeToString())


def _catboost(job: Job, path: Path) -> None:
    import catboost

    model = catboost.CatBoost()
    model.load_model(str(job.model))
    model.save_model(str(path), format="onnx")
    if not job.regression:
        _without_maps(path)


def _without_maps(path: Path) -> None:
    """Let the tensor in front of a ZipMap be the output, as the other exporters can."""
    import onnx

    exported = onnx.load(path)
    graph = exported.graph
    (zipped,) = (node for node in graph.node if node.op_type == "ZipMap")
    graph.node.remove(zipped)
    (output,) = (value for value in graph.output if value.name == zipped.output[0])
    graph.output.remove(output)
    kind = onnx.TensorProto.FLOAT
    graph.output.append(onnx.helper.make_tensor_value_info(zipped.input[0], kind, None))
    onnx.save(exported, path)


_EXPORTERS = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "sklearn": _sklearn,
    "catboost": _catboost,
}
