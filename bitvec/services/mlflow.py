"""Forests as models of MLflow: saved, logged, and loaded as a forest or by `mlflow.pyfunc`.

The model's folder holds the forest in `.safetensors`; MLflow imports this module to read it. There
is no pickle in it.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from bitvec import api, files
from bitvec.core.forest import Forest, require_forest
from bitvec.distribution import version
from bitvec.errors import InputError, needs
from bitvec.services.answer_columns import answers, require_outputs, side_by_side
from bitvec.services.batch_predictor import BatchPredictor

FLAVOR: Final = "bitvec"
"""Name of the flavor in a model's file `MLmodel`, beside `python_function`."""
_DATA: Final = "forest.safetensors"
_OUTPUTS: Final = ("label",)


def save_model(
    forest: Forest,
    path: str | Path,
    *,
    outputs: Iterable[str] = _OUTPUTS,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
    mlflow_model: Any = None,
    **options: Any,
) -> None:
    """Save a forest as a folder that is a model of MLflow.

    Parameters
    ----------
    forest : Forest
    path : path
        A folder that is not there, or is empty.
    outputs : iterable of str
        What `predict` answers unless its `params` say otherwise: see `BatchPredictor`.
    signature : mlflow.models.ModelSignature, optional
        Of the columns. By default that of `input_example`; without both, the forest alone says
        which columns it takes. The parameter `outputs` is added where it has no parameters.
    input_example : pandas.DataFrame or array, optional
        Rows that MLflow keeps beside the model.
    pip_requirements : list of str, optional
        By default this version of bitvec, and pandas.
    mlflow_model : mlflow.models.Model, optional
        The model that the flavor is added to.
    **options
        Of `mlflow.pyfunc.save_model`.

    Raises
    ------
    InputError
        If the forest has no such output.
    MissingLibraryError
        If MLflow is not installed.

    Examples
    --------
    >>> from bitvec.services.mlflow import load_model, save_model
    >>> save_model(forest, "model", input_example=X.head())  # doctest: +SKIP
    >>> mlflow.pyfunc.load_model("model").predict(X, {"outputs": ["proba"]})  # doctest: +SKIP
    """
    with needs("mlflow", "mlflow", "A model of MLflow"):
        import mlflow.pyfunc
        from mlflow.models import Model
    require_forest(forest)
    names = require_outputs(outputs, forest)
    model = Model() if mlflow_model is None else mlflow_model
    model.add_flavor(FLAVOR, data=f"data/{_DATA}", bitvec_version=version())
    with tempfile.TemporaryDirectory() as folder:
        files.save(forest, Path(folder) / _DATA)
        if signature is None and input_example is not None:
            signature = _signature_of(forest, input_example, names)
        mlflow.pyfunc.save_model(
            path=str(path),
            loader_module=__name__,
            data_path=str(Path(folder) / _DATA),
            mlflow_model=model,
            signature=_with_outputs(signature, names),
            input_example=input_example,
            pip_requirements=pip_requirements or [f"bitvec-trees[mlflow]=={version()}"],
            **options,
        )


def log_model(forest: Forest, name: str, **options: Any) -> Any:
    """Log a forest as a model of MLflow's active run, or of a new one.

    Parameters
    ----------
    forest : Forest
    name : str
        Of the model.
    **options
        Of `save_model`, and of `mlflow.models.Model.log`, such as `registered_model_name`.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its `model_uri` is what `load_model` and `mlflow.pyfunc.load_model` take.

    Raises
    ------
    InputError
        If the forest has no such output.
    MissingLibraryError
        If MLflow is not installed.
    """
    with needs("mlflow", "mlflow", "A model of MLflow"):
        from mlflow.models import Model
    return Model.log(
        artifact_path=None, name=name, flavor=sys.modules[__name__], forest=forest, **options
    )


def load_model(model_uri: str | Path) -> Forest:
    """Load the forest of a model that `save_model` or `log_model` wrote.

    Parameters
    ----------
    model_uri : str or path
        A folder, or an address as MLflow knows it: `runs:/...`, `models:/...`.

    Raises
    ------
    InputError
        If it is a model of another flavor, or its forest is damaged.
    MissingLibraryError
        If MLflow is not installed.
    """
    with needs("mlflow", "mlflow", "A model of MLflow"):
        from mlflow.artifacts import download_artifacts
        from mlflow.models import Model
    folder = Path(download_artifacts(artifact_uri=str(model_uri)))
    flavors = Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        raise InputError(
            f"{model_uri} must be a model of the flavor {FLAVOR!r}, got {', '.join(flavors)}: "
            "load it by MLflow's module of that name, and convert what it gives."
        )
    return files.load(folder / flavors[FLAVOR]["data"])


def _load_pyfunc(path: str) -> _PyFunc:
    """Return what `mlflow.pyfunc.load_model` wraps, given the path of the forest."""
    return _PyFunc(path)


class _PyFunc:
    """A forest behind MLflow's interface: rows in, a pandas frame of answers out."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._predictors: dict[tuple[str, ...], BatchPredictor] = {}
        self._predictor(_OUTPUTS)  # what is damaged is refused now

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the answers to a frame, a matrix, a dict of arrays or a list of records."""
        import pandas

        outputs = (params or {}).get("outputs", _OUTPUTS)
        names = (outputs,) if isinstance(outputs, str) else tuple(map(str, outputs))
        found = self._predictor(names)(_rows(data))
        return pandas.DataFrame(found) if isinstance(found, dict) else found

    def _predictor(self, outputs: tuple[str, ...]) -> BatchPredictor:
        if outputs not in self._predictors:
            self._predictors[outputs] = BatchPredictor(self._path, outputs=outputs)
        return self._predictors[outputs]


def _rows(data: Any) -> Any:
    """Return a frame of records or of columns by their names, and other rows as they are."""
    import pandas

    return pandas.DataFrame(data) if isinstance(data, list | dict) else data


def _signature_of(forest: Forest, example: Any, outputs: tuple[str, ...]) -> Any:
    """Return MLflow's own signature of an example, whose columns of categories may be any type.

    It would take them for text, and refuse the very frames that it was inferred from.
    """
    import pandas
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types import ColSpec, Schema
    from mlflow.types.schema import AnyType

    rows = _rows(example)
    found = side_by_side(answers(api.compile(forest, n_jobs=1), rows, outputs))
    inputs = infer_signature(rows).inputs
    if isinstance(rows, pandas.DataFrame):
        inputs = Schema(
            [
                ColSpec(AnyType(), column.name, required=column.required)
                if isinstance(rows[column.name].dtype, pandas.CategoricalDtype)
                else column
                for column in inputs.inputs
            ]
        )
    with warnings.catch_warnings():  # it warns of integers, which labels may be
        warnings.simplefilter("ignore", UserWarning)
        return ModelSignature(inputs, infer_signature(pandas.DataFrame(found)).inputs)


def _with_outputs(signature: Any, outputs: tuple[str, ...]) -> Any:
    """Return a signature, or an empty one, with the parameter `outputs` if it has none."""
    from mlflow.models import ModelSignature
    from mlflow.types import ParamSchema, ParamSpec

    if signature is not None and signature.params is not None:
        return signature
    params = ParamSchema([ParamSpec("outputs", "string", list(outputs), shape=(-1,))])
    if signature is None:
        return ModelSignature(params=params)
    return ModelSignature(signature.inputs, signature.outputs, params)
