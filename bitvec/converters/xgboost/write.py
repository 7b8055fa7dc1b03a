"""Write a forest as an xgboost model, in JSON or UBJSON, where xgboost can hold it exactly.

The document is of the oldest version that holds the forest: 1.7 but for leaf vectors (2.0), and for
base scores that differ between outputs and categories of a data frame (3.1).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from bitvec.converters import ubjson
from bitvec.converters.constant_trees import base_as_trees
from bitvec.converters.writable import output_of_tree
from bitvec.converters.xgboost import base_scores, kept
from bitvec.converters.xgboost.document import Document
from bitvec.converters.xgboost.objectives import objective_named
from bitvec.converters.xgboost.unsupported import objective_of, require_writable
from bitvec.converters.xgboost.written_trees import written_trees
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float32, Int64
from bitvec.errors import InputError, needs
from bitvec.files import atomic
from bitvec.files.atomic import StrPath

OLDEST, WITH_VECTORS, WITH_LISTS = (1, 7, 0), (2, 0, 0), (3, 1, 0)
"""Versions of the document: the oldest written, that of leaf vectors, and that of categories and of
a `base_score` for each output."""


def to_xgboost(forest: Forest) -> Any:
    """Return a forest as a Booster, which predicts what the forest predicts.

    Margins on dense rows without infinities (which xgboost refuses) are equal bit for bit, and
    `predict` answers with the forest's post-transform. A forest that was converted from xgboost
    keeps its node ids, objective, attributes and feature types; labels of other classifiers, and
    code books of other libraries, are not held. A base score that no `base_score` gives becomes an
    iteration of constant trees.

    Returns
    -------
    xgboost.Booster

    Raises
    ------
    UnsupportedModelError
        If xgboost cannot hold the forest exactly; the message says what and why.
    MissingLibraryError
        If xgboost is not installed.

    Examples
    --------
    >>> booster = to_xgboost(forest)  # doctest: +SKIP
    """
    with needs("xgboost", "xgboost", "Making a Booster"):
        import xgboost
    return xgboost.Booster(model_file=bytearray(ubjson.encode(to_document(forest))))


def save(forest: Forest, path: StrPath) -> Path:
    """Write a forest as a file of xgboost, without the library; `to_xgboost` says what it holds.

    Parameters
    ----------
    forest : Forest
    path : path
        Ends in .json or .ubj, which chooses the format. A file that is there is replaced whole.

    Raises
    ------
    UnsupportedModelError
        As `to_xgboost`.
    InputError
        If the path has another suffix.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"an xgboost file must end in {' or '.join(_FORMATS)}, got {Path(path).name!r}."
        )
    return atomic.write(path, _FORMATS[suffix](to_document(forest)))


def to_document(forest: Forest) -> Document:
    """Return the model document of a forest; arrays of numbers are NumPy arrays.

    Raises
    ------
    UnsupportedModelError
        If xgboost cannot hold the forest exactly.
    """
    require_writable(forest)
    name = objective_of(forest)
    assert name is not None
    score = kept.base_score(forest, name) if forest.output.base_first else None
    if score is None and (forest.output.base_first or not np.any(forest.output.base_score)):
        score = base_scores.scores_of(objective_named(name), _base(forest))
    if score is None:
        forest = base_as_trees(forest)
        score = base_scores.scores_of(objective_named(name), _base(forest))
        assert score is not None
    weights = forest.output.tree_weight
    is_dart = kept.is_dart(forest) and weights is not None and forest.leaves.v.shape[1] == 1
    v = forest.leaves.v.astype(np.float32)
    if weights is not None and not is_dart:
        with np.errstate(over="ignore"):
            v = np.repeat(weights, np.diff(forest.bitvectors.leaf_ptr))[:, None] * v
    text = base_scores.text(score)
    cats = kept.categories(forest)
    version = OLDEST
    if v.shape[1] > 1:
        version = WITH_VECTORS
    if text.startswith("[") or cats:
        version = WITH_LISTS
    booster: Document = {"model": _model(forest, v) | cats, "name": "gbtree"}
    if is_dart:
        assert weights is not None
        booster = {"gbtree": booster, "name": "dart", "weight_drop": weights.tolist()}
    n, is_multi = forest.n_outputs, kept.counts_classes(forest) or name.startswith("multi:")
    return {
        "learner": {
            "attributes": kept.attributes(forest),
            "feature_names": list(forest.inputs.feature_names or ()),
            "feature_types": kept.feature_types(forest),
            "gradient_booster": booster,
            "learner_model_param": {
                "base_score": text,
                "boost_from_average": "0",
                "num_class": str(n if is_multi else 0),
                "num_feature": str(forest.n_features),
                "num_target": str(1 if is_multi else n),
            },
            "objective": kept.objective(forest, name),
        },
        "version": list(version),
    }


def _base(forest: Forest) -> Float32[Array, " n_outputs"]:
    return forest.output.base_score.astype(np.float32)


def _model(forest: Forest, v: Float32[Array, "n_leaves width"]) -> Document:
    group = output_of_tree(forest)
    assert group is not None
    ends = _iteration_ends(forest, group)
    per_iteration = 1 if v.shape[1] > 1 else forest.n_outputs
    parallel = kept.parallel_trees(forest)
    if forest.n_trees != (len(ends) - 1) * parallel * per_iteration:
        parallel = 1
    return {
        "gbtree_model_param": {
            "num_parallel_tree": str(parallel),
            "num_trees": str(forest.n_trees),
        },
        "iteration_indptr": ends,
        "tree_info": group.tolist(),
        "trees": [*written_trees(forest, v)],
    }


def _iteration_ends(forest: Forest, group: Int64[Array, " n_trees"]) -> list[int]:
    """Return where each boosting iteration's trees begin, and where the last ends."""
    n = forest.n_trees
    iteration = forest.output.iteration
    if iteration is None:
        per_iteration = forest.n_outputs if forest.leaves.output is not None else 1
        in_turn = n % per_iteration == 0 and np.array_equal(group, np.arange(n) % per_iteration)
        return [*range(0, n, per_iteration if in_turn else 1), n]
    steps = np.flatnonzero(np.diff(iteration)) + 1
    return [0, *steps.tolist(), n] if n else [0]


def _json(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":"), default=_numbers).encode()


def _numbers(values: Array) -> list[Any]:
    """Return numbers whose text is short and reads back to the same bits, by way of float64 too."""
    if values.dtype != np.float32:
        return values.tolist()
    exact = values.astype(np.float64)
    short = values.astype("U32").astype(np.float64)
    with np.errstate(over="ignore"):
        same = short.astype(np.float32).view(np.uint32) == values.view(np.uint32)
    return np.where(same, short, exact).tolist()


_FORMATS: Final = {".json": _json, ".ubj": ubjson.encode}
