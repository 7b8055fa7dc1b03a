"""The answers of GTIL, treelite's own inference, to a model."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.naming import naming_file
from bitvec.converters.treelite.model import BINARY, Header, read_header
from bitvec.converters.treelite.read import forest_of, opened
from bitvec.converters.treelite.serialized import read_checkpoint
from bitvec.converters.treelite.walker import source_trees
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Int64
from bitvec.errors import FileFormatError, needs
from bitvec.verify.oracle import LeafValues, Oracle, require_columns

with needs("treelite", "treelite", "Running a treelite model"):
    import treelite

_NARROW = (
    "scores after softmax are not compared: GTIL computes it in float32 also for a float64 model, "
    "which is up to 1e-7 away."
)


def oracle_of(model: Any) -> Oracle:
    """Return the model, as GTIL with one thread answers for it.

    GTIL gives probabilities and leaves the label to its caller: here it is the number of the
    largest, or of a single one whether it exceeds one half. Leaf values are read from the model.

    Raises
    ------
    UnsupportedModelError, InvalidForestError, FileFormatError
        As `convert`: nothing is run before the model is known to be sound.
    """
    with naming_file(model):
        is_file = isinstance(model, str | PathLike)
        data = Path(model).read_bytes() if is_file else b""
        source = read_checkpoint(data) if is_file else opened(model)
        converted, header = forest_of(source), read_header(source)
        return _answers_of(_deserialized(data) if is_file else model, converted, header)


def _deserialized(data: bytes) -> Any:
    """Return the treelite.Model of a checkpoint, whose fields `read_checkpoint` has found whole.

    Raises
    ------
    FileFormatError
        If treelite refuses it.
    """
    try:
        return treelite.Model.deserialize_bytes(data)
    except treelite.TreeliteError as error:
        raise FileFormatError(
            f"treelite {treelite.__version__} must be able to read the checkpoint, got: "
            f"{str(error).splitlines()[0][:300]}"
        ) from error


def _answers_of(opened: Any, converted: Forest, header: Header) -> Oracle:
    """Return a treelite.Model, already converted to a forest, as the oracle of a certificate.

    GTIL follows links and column numbers without a look at their range: `converted` shows that they
    are in range.
    """
    source = converted.source
    assert source is not None
    assert source.leaf_id is not None
    tree = np.repeat(np.arange(converted.n_trees), np.diff(converted.bitvectors.leaf_ptr))
    stored = LeafValues(tree, source.leaf_id, converted.leaves.v)

    def checked(X: Array) -> Array:
        require_columns(X, header.n_features)
        rows: Array = np.ascontiguousarray(X, header.dtype)
        return rows

    def answer(X: Array, **kind: bool) -> Array:
        answers: Array = treelite.gtil.predict(opened, checked(X), nthread=1, **kind)
        return answers.reshape(len(X), len(header.num_class), -1)

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        margin: Array = answer(X, pred_margin=True)[:, header.is_output]
        return margin

    def scores(X: Array) -> Float[Array, "batch n_outputs"]:
        transformed: Array = answer(X)[:, header.is_output]
        return transformed

    def labels(X: Array) -> Array:
        # GTIL does not know "max_index", the largest margin's place, by this name.
        answers = answer(X, pred_margin=header.postprocessor == "max_index")
        columns = [
            answers[:, t, 0] > 0.5
            if header.task == BINARY and size == 1
            else answers[:, t, :size].argmax(axis=1)
            for t, size in enumerate(header.num_class)
        ]
        return np.stack(columns, axis=1).astype(np.int64)

    def leaf_ids(X: Array) -> Int64[Array, "batch n_trees"]:
        ids: Array = treelite.gtil.predict_leaf(opened, checked(X), nthread=1).astype(np.int64)
        return ids

    narrow = header.postprocessor == "softmax" and header.dtype == np.float64
    comparable = header.postprocessor != "max_index" and not narrow
    classifies = converted.output.classes is not None
    return Oracle(
        "treelite",
        treelite.__version__,
        raw,
        leaf_ids,
        ids="source",
        predict=labels if classifies else (scores if comparable else None),
        scores=scores if classifies and comparable else None,
        leaf_values=lambda: stored,
        trees=lambda: source_trees(opened),
        n_trees=converted.n_trees,
        n_features=header.n_features,
        n_outputs=header.n_outputs,
        notes=(_NARROW,) if narrow else (),
    )
