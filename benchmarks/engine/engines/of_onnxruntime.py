"""onnxruntime, on what skl2onnx, onnxmltools and CatBoost export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime

from benchmarks.engine.engines.calls import Calls, Job, chosen, single_precision


class Onnxruntime:
    """An inference session of the exported model, which is kept beside the model."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.path = job.folder / "exported.onnx"
        if not self.path.exists():
            aside = self.path.with_suffix(".part")
            _EXPORTERS[job.library](job, aside)
            aside.replace(self.path)

    def calls(self, threads: int) -> Calls:
        """Open a session of so many threads."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            str(self.path), options, providers=["CPUExecutionProvider"]
        )
        (given,) = (value.name for value in session.get_inputs())
        names = [value.name for value in session.get_outputs()]

        def output(name: str) -> Any:
            return lambda X: session.run([name], {given: X})[0]

        predict = chosen(
            self.job.asks,
            values=output(names[0]),
            labels=output(names[0]),
            probabilities=output(names[-1]),
        )
        return Calls(predict, output(names[-1]), rows=single_precision)


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


def _sklearn(job: Job, path: Path) -> None:
    import skl2onnx
    from skl2onnx.common import data_types

    from benchmarks.engine.engines.of_native import sklearn_model

    options = {} if job.regression else {"zipmap": False}
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
