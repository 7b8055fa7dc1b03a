"""treelite models (format 4), converted with the semantics of GTIL, treelite's own inference.

GTIL compares and adds in the model's one dtype, tree by tree from 0; then it divides an average by
the number of trees that answer for an output and adds the base scores in float64, rounding once. A
test that holds goes to the left child, so `>`, `>=`, `==` and category lists of the left child
change the children's sides.

A model object is trusted to be one that treelite built; a checkpoint file (.tl, .treelite) is not:
it is converted without treelite, which believes what a file says.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.category_sets import pack
from bitvec.converters.naming import naming_file
from bitvec.converters.treelite.gtil_output import leaves, output
from bitvec.converters.treelite.model import (
    CATEGORICAL,
    EQ,
    GE,
    GT,
    LEAF,
    LT,
    NUMERICAL,
    STATISTICS,
    TASKS,
    Header,
    Source4,
    gather,
    read_header,
)
from bitvec.converters.treelite.serialized import read_checkpoint
from bitvec.core import structure
from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import CodeRule, Kind, NodeTests, Relation, axis_aligned
from bitvec.core.shape_annotations import Int64, UInt32
from bitvec.core.source import Source
from bitvec.errors import UnsupportedModelError, needs


def convert(model: Any) -> Forest:
    """Convert a treelite model, wherever it was imported from.

    Parameters
    ----------
    model : treelite.Model, or path of a checkpoint

    Returns
    -------
    Forest
        In the model's dtype, with one output group per target. A classifier's labels are 0, 1, ...
        since treelite keeps none; a binary classifier whose scores are no probabilities (margins
        without a transform) becomes a regressor of its margin.

    Raises
    ------
    UnsupportedModelError
        If GTIL's answer cannot be reproduced exactly.
    InvalidForestError
        If the model's arrays do not describe trees.
    FileFormatError
        If a file is no checkpoint, or not whole.

    Examples
    --------
    >>> import treelite
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ExtraTreesClassifier(10, max_leaf_nodes=3, random_state=0).fit(X, y)
    >>> convert(treelite.sklearn.import_model(model))
    Forest(10 trees, 20 nodes, 30 leaves, 4 features -> 3 outputs, float64, from treelite)
    """
    with naming_file(model):
        return forest_of(opened(model))


def opened(model: Any) -> Source4:
    """Return a model whose parts can be read one by one."""
    if isinstance(model, str | PathLike):
        return read_checkpoint(Path(model).read_bytes())
    with needs("treelite", "treelite", "Converting a treelite model"):
        import treelite
    if isinstance(model, treelite.Model):
        found: Source4 = model
        return found
    raise UnsupportedModelError(
        f"the model must be a treelite.Model or the path of a checkpoint, got "
        f"{type(model).__name__}: import it with treelite.frontend first."
    )


def forest_of(model: Source4) -> Forest:
    """Return the forest of an open model."""
    header = read_header(model)
    nodes, start = gather(model, header)
    swapped = _swapped(nodes)
    bitvectors, order = structure.arrange(*_sides(nodes, start, swapped), start[:-1])
    shift = np.repeat(start[:-1], np.diff(start))
    tree_of_leaf = np.repeat(np.arange(bitvectors.n_trees), np.diff(bitvectors.leaf_ptr))
    statistics = {name: nodes[name] for name in STATISTICS if name in nodes}
    cover = statistics.get("sum_hess", statistics.get("data_count"))
    gain = statistics.get("gain")
    source = Source(
        "treelite",
        _version(model),
        f"{TASKS[header.task]}, {header.postprocessor}",
        leaf_id=order.leaf - shift[order.leaf],
        node_id=order.node - shift[order.node],
        leaf_cover=None if cover is None else cover[order.leaf],
        node_cover=None if cover is None else cover[order.node],
        gain=None if gain is None else gain[order.node],
        metadata=_metadata(model, header),
    )
    return Forest(
        _tests(nodes, order.node, swapped, header),
        bitvectors,
        leaves(nodes, order.leaf, tree_of_leaf, header),
        output(header),
        Inputs(header.n_features, absent_is_missing=True),
        source,
    )


def _sides(
    nodes: dict[str, Array], start: Int64[Array, " n"], swapped: Array
) -> tuple[Int64[Array, " n_positions"], Int64[Array, " n_positions"]]:
    """Take the children out of the nodes; return our left and right, by position, -1 at leaves."""
    cleft, cright = nodes.pop("cleft"), nodes.pop("cright")
    inner = nodes["node_type"] != LEAF
    left, right = np.where(swapped, cright, cleft), np.where(swapped, cleft, cright)
    shift = np.repeat(start[:-1], np.diff(start))
    return np.where(inner, left + shift, -1), np.where(inner, right + shift, -1)


def _swapped(nodes: dict[str, Array]) -> Array:
    """Tell the nodes whose left child is the one that a true test of ours must reach."""
    matched_left = nodes["category_list_right_child"] == 0
    turned = np.isin(nodes["cmp"], (EQ, GT, GE))
    swapped: Array = np.where(
        nodes["node_type"] == CATEGORICAL,
        matched_left,
        (nodes["node_type"] == NUMERICAL) & turned,
    )
    return swapped


def _tests(nodes: dict[str, Array], node: Array, swapped: Array, header: Header) -> NodeTests:
    cmp = nodes["cmp"][node]
    is_set = nodes["node_type"][node] == CATEGORICAL
    set_ptr, set_words = _sets(nodes, node[is_set], is_set, header)
    return axis_aligned(
        nodes["split_index"][node],
        np.where(is_set, 0, nodes["threshold"][node]).astype(header.dtype),
        relation=np.where(
            np.isin(cmp, (LT, GE)) & ~is_set, Relation.GREATER_EQUAL, Relation.GREATER
        ),
        missing_right=(nodes["default_left"][node] != 0) == swapped[node],
        kind=np.where(is_set, Kind.SET, np.where(cmp == EQ, Kind.EQUAL, Kind.MARGIN)),
        code_rule=CodeRule.FLOOR,
        set_ptr=set_ptr,
        set_words=set_words,
    )


def _sets(
    nodes: dict[str, Array], node: Array, is_set: Array, header: Header
) -> tuple[Int64[Array, " n_plus_1"], UInt32[Array, " n_words"]]:
    """Pack the category lists; a listed code goes right, any other value left.

    GTIL reads a value x >= 0 as the code floor(x), unless x is so large that its dtype (or uint32)
    no longer holds every whole number; a code beyond that is never matched.
    """
    begin = nodes["category_list_begin"][node]
    count = nodes["category_list_end"][node] - begin
    code = nodes["category_list"][ranges(begin, count)].astype(np.int64)
    owner = np.repeat(np.flatnonzero(is_set), count)
    reachable = code <= (1 << 24 if header.dtype == np.float32 else (1 << 32) - 1)
    return pack(code[reachable], owner[reachable], is_set.size)


def _metadata(model: Source4, header: Header) -> dict[str, Any]:
    text = model.get_header_accessor().get_field("attributes")
    try:
        attributes = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):  # no JSON, or nested without end
        attributes = {}
    return {
        "task_type": TASKS[header.task],
        "postprocessor": header.postprocessor,
        "attributes": attributes,
    }


def _version(model: Source4) -> str:
    """Return the version of treelite that wrote a checkpoint, or made a model."""
    header = model.get_header_accessor()
    parts = (header.get_field(f"{name}_ver") for name in ("major", "minor", "patch"))
    return ".".join(str(int(part[0])) for part in parts)
