"""Exported models in onnxruntime, as an engine and as the other side of a certificate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.onnx.stored_inputs import stored_names
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Int32
from bitvec.errors import FileFormatError, InputError, needs
from bitvec.files.sound import reason
from bitvec.verify.oracle import Oracle

with needs("onnxruntime", "onnx", "Running ONNX files"):
    import onnxruntime

ROWS_PER_RUN = {"tensor": 1024, "traversal": 1024, "portable": 1024, "mapped": 128, "soft": 256}
"""Rows that go through a session at once: these forms hold much of each of them."""
MOST_ROWS_PER_RUN = 1 << 16
ONE_THREAD = (
    "onnxruntime ran on one thread: on several, it adds the trees of the form tree_ensemble in "
    "another order, so that raw scores may differ in their last places"
)

FIXED = "bitvec.fixed_batch"
"""In the metadata of a model whose number of rows was left open: what it was."""

SOFT = "soft"
"""The form that multiplies matrices, whose sums depend by ulps on the rows that stand beside."""

MAPPED = "mapped"
"""The form that adds up a feature map as the runtime's products of matrices do."""

CANCELS = ("logistic", "probit")
"""Post-transforms that subtract numbers which may be nearly equal."""


class OnnxEngine:
    """An exported forest, run by onnxruntime; an `Engine`.

    `runtime` and `runtime_version` name what runs it; `masked` says whether it reads `present`.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        A model that `to_onnx` made.
    n_threads : int
        With one thread, `raw` equals the reference bit for bit; with more, the form
        `tree_ensemble` adds the trees of a row in an order of its own. 0 leaves the number to
        onnxruntime.

    Raises
    ------
    FileFormatError
        If onnxruntime cannot load the model, or it is none of bitvec's.
    FileNotFoundError, InputError
        If there is no such file, or `model` is of another type.
    """

    runtime = "onnxruntime"
    runtime_version: str = onnxruntime.__version__

    def __init__(self, model: Any, *, n_threads: int = 1) -> None:
        self._session = open_session(model, n_threads)
        inputs = self._session.get_inputs()
        outputs = {output.name: output.type for output in self._session.get_outputs()}
        names = [one.name for one in inputs]
        known = names in (["X"], ["X", "present"]) and inputs[0].type in _DTYPES
        if not known or outputs.get("raw") not in _DTYPES:
            raise FileFormatError(
                "the model must have the input `X`, or `X` and `present`, and an output `raw`, got "
                f"inputs {names} and outputs {sorted(outputs)}: export it with bitvec."
            )
        self.masked = len(names) == 2
        self._outputs = outputs
        self._dtype = _DTYPES[inputs[0].type]
        self._n_features = int(inputs[0].shape[1])
        self.metadata: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        form = self.metadata.get("bitvec.form", "")
        rows = inputs[0].shape[0]
        self._fixed = isinstance(rows, int)
        self._block = rows if self._fixed else ROWS_PER_RUN.get(form, MOST_ROWS_PER_RUN)

    @property
    def name(self) -> str:
        """The engine's name."""
        return "onnx"

    @property
    def input_dtype(self) -> np.dtype:
        """The dtype of X."""
        return self._dtype

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self._n_features

    def width(self, output: str) -> int | None:
        """Return the number of columns of an output, None of one that has no axis of columns."""
        shapes = {node.name: node.shape for node in self._session.get_outputs()}
        return shapes[output][1] if len(shapes[output]) == 2 else None

    @property
    def has_leaves(self) -> bool:
        """Return whether the model was exported with `leaves=True`."""
        return "leaves" in self._outputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """The model's outputs."""
        return tuple(self._outputs)

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores, in the dtype of the forest's output."""
        return self.run("raw", X, out)

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return the exit leaf of every row in every tree, as leaf numbers within the tree.

        Raises
        ------
        InputError
            If the model has no output `leaves`.
        """
        if not self.has_leaves:
            raise InputError(
                f"the model must have an output `leaves`, got {sorted(self._outputs)}: "
                "export it with leaves=True."
            )
        return self.run("leaves", X, out).astype(np.int32, copy=False)

    def info(self) -> dict[str, Any]:
        """Return the form in which the forest was exported."""
        return {"form": self.metadata.get("bitvec.form", "")}

    def run(
        self, output: str, X: Float[Array, "batch n_features"], out: Array | None = None
    ) -> Array:
        """Return one output of the model, (batch, ...), for any number of rows.

        Parameters
        ----------
        out : ndarray, optional
            Filled and returned.

        Raises
        ------
        InputError
            If the model has no such output, or X has another shape than (batch, n_features).
        """
        if output not in self._outputs:
            raise InputError(
                f"the output must be one of {sorted(self._outputs)}, got {output!r}: choose one."
            )
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self._n_features:
            raise InputError(
                f"`X` must have shape (batch, {self._n_features}), got {X.shape}: "
                "pass the training columns."
            )
        parts = []
        for start in range(0, max(len(X), 1), self._block):
            rows = self._cast(X[start : start + self._block])
            part = self._answer(output, self._fed(rows))[: len(rows)]
            if out is None:
                parts.append(part)
            else:
                out[start : start + self._block] = part
        if out is not None:
            return out
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _answer(self, output: str, fed: dict[str, Array]) -> Array:
        answer: Array = self._session.run([output], fed)[0]
        return answer

    def _fed(self, rows: Array) -> dict[str, Array]:
        """Return the inputs of some rows: as many as the file wants, and what is missing apart."""
        if self._fixed and len(rows) < self._block:
            rows = np.concatenate(
                [rows, np.zeros_like(rows, shape=(self._block - len(rows), *rows.shape[1:]))]
            )
        if not self.masked:
            return {"X": rows}
        missing = np.isnan(rows)
        return {
            "X": np.where(missing, rows.dtype.type(0), rows),
            "present": (~missing).astype(rows.dtype),
        }

    def _cast(self, X: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                return np.ascontiguousarray(X, self._dtype)
            except (TypeError, ValueError):
                raise InputError(
                    f"`X` must hold numbers, got {X.dtype}: encode its columns."
                ) from None


_DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(float16)": np.dtype(np.float16),
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
}


def open_session(model: Any, n_threads: int) -> Any:
    """Return an `onnxruntime.InferenceSession` of a path, bytes or an `onnx.ModelProto`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    options.log_severity_level = 3
    # Off by default; said here because a flushed subnormal would take the wrong side of a test.
    options.add_session_config_entry("session.set_denormal_as_zero", "0")
    source = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    if not isinstance(source, bytes):
        if not isinstance(source, str | os.PathLike):
            raise InputError(
                "`model` must be a path, bytes or an onnx.ModelProto, got "
                f"{type(source).__name__}: pass what `to_onnx` or `save` returned."
            )
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(f"{path} must be an ONNX file, got no file there.")
        source = path.read_bytes()  # onnxruntime takes no path that is not UTF-8
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base but this
        raise FileFormatError(
            f"the model must be one that onnxruntime {onnxruntime.__version__} loads, got "
            f"{reason(error)}."
        ) from None


def oracle_of(model: Any) -> Oracle:
    """Return an exported model as the oracle of a certificate, on one thread.

    Parameters
    ----------
    model : path, bytes, onnx.ModelProto or OnnxEngine
        Leaf ids are compared if it was exported with `leaves=True`: numbers within each tree.
    """
    engine = model if isinstance(model, OnnxEngine) else OnnxEngine(any_batch(model), n_threads=1)
    width = {name: engine.width(name) for name in engine.output_names}
    names = [name for name in width if name.startswith("probabilities")]
    form = engine.metadata.get("bitvec.form", "")
    transform = engine.metadata.get("bitvec.post_transform", "")
    target = engine.metadata.get("bitvec.target", engine.runtime)

    def scores(X: Array) -> Array:
        parts = [engine.run(name, X) for name in names]
        # A group of one output gives its probability as that of the second of two classes.
        single = width["raw"] == len(names)
        return np.concatenate([part[:, -1:] if single else part for part in parts], axis=1)

    comparable = transform not in CANCELS and form != SOFT
    # Groups of one output beside others of several cannot be told apart here.
    told_apart = width["raw"] in (len(names), sum(width[name] or 0 for name in names))
    return Oracle(
        name=engine.runtime
        if target == engine.runtime
        else f"{engine.runtime} in place of {target}",
        version=engine.runtime_version,
        accepts_missing=(form != "portable" or engine.masked)
        and engine.metadata.get("bitvec.finite") != "yes",
        accepts_infinite=form != "portable",
        exact=engine.metadata.get("bitvec.adds") != "within rounding",
        raw=engine.raw,
        leaf_ids=engine.exit_leaves if engine.has_leaves else None,
        ids="leaf number",
        predict=_prediction(engine, comparable),
        scores=scores if names and told_apart and comparable else None,
        input_dtype=engine.input_dtype,
        n_trees=width.get("leaves"),
        n_features=engine.n_features,
        n_outputs=width["raw"],
        rounds_columns=form == MAPPED,
        feature_names=stored_names(engine.metadata),
        notes=tuple(_notes(engine, target, form, transform)),
    )


def _notes(engine: OnnxEngine, target: str, form: str, transform: str) -> Iterator[str]:
    """Yield what a reader of a certificate must know."""
    if target != engine.runtime:
        yield (
            f"{target}, which the file is for, was not run: {engine.runtime} answered in its place"
        )
    if FIXED in engine.metadata:
        rows = engine.metadata[FIXED]
        yield f"the file takes {rows} rows at a time: it was compared with that number left open"
    if form == "tree_ensemble":
        yield ONE_THREAD
    if form == SOFT:
        yield (
            "what follows raw scores was compared through labels at most: the last places of a "
            "soft forest's sums depend on which rows stand beside each other"
        )
    if transform in CANCELS:
        yield (
            f"scores after {transform} were not compared: it subtracts numbers that may be nearly "
            "equal, so that one ulp of onnxruntime's exponential or logarithm is many of a score"
        )


def any_batch(model: Any) -> Any:
    """Return a model for any number of rows, of a file or model that fixes it.

    The graph is the same: only the sizes that its inputs and outputs declare are left open. What
    is no ONNX file that bitvec wrote is returned as it is.
    """
    proto = _proto(model)
    if proto is None or not any(entry.key == "bitvec.form" for entry in proto.metadata_props):
        return model
    values = [*proto.graph.input, *proto.graph.output]
    rows = [value.type.tensor_type.shape.dim[0] for value in values]
    if not any(size.dim_value for size in rows):
        return model
    proto.metadata_props.add(key=FIXED, value=str(rows[0].dim_value))
    for size in rows:
        size.dim_param = "batch"
    return proto


def _proto(model: Any) -> Any:
    """Return a model as a message of its own, or None if it is of another format."""
    try:
        import onnx
    except ImportError:  # onnxruntime runs without it
        return None
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    is_proto = hasattr(model, "SerializeToString")
    try:
        content = model.SerializeToString() if is_proto else model
        content = content if isinstance(content, bytes) else Path(content).read_bytes()
        return onnx.ModelProto.FromString(content)
    except (DecodeError, OSError, TypeError):
        return None


def _prediction(engine: OnnxEngine, comparable: bool) -> Callable[[Array], Array] | None:
    """Return what gives labels, or values where what follows raw scores is comparable."""
    if "label" in engine.output_names:
        return lambda X: engine.run("label", X)
    if "prediction" in engine.output_names and comparable:
        return lambda X: engine.run("prediction", X)
    return None
