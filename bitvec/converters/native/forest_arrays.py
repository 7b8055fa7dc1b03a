"""The parts of native trees, joined into a Forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.converters.native import children
from bitvec.converters.native.native_forest import NativeForest
from bitvec.converters.native.native_tree import NativeTree
from bitvec.converters.native.sparse_rows import SparseRows
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import FeatureKernel
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import Activation, NodeTests, Relation, from_rows
from bitvec.core.output import Aggregate, Output
from bitvec.core.reference import margins
from bitvec.core.shape_annotations import Float, Int64
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors, Reordering
from bitvec.distribution import version


@dataclass(frozen=True, slots=True)
class Arranged:
    """The bitvectors of native trees, and where the nodes and leaves of the forest stood in them.

    `node` and `leaf` count through the trees one after the other, `node_id` and `leaf_id` within
    each tree.
    """

    bitvectors: Bitvectors
    node: Int64[Array, " n_nodes"]
    leaf: Int64[Array, " n_leaves"]
    node_id: Int64[Array, " n_nodes"]
    leaf_id: Int64[Array, " n_leaves"]


def arrange(trees: Sequence[NativeTree]) -> Arranged:
    """Number the nodes of native trees breadth first and their leaves left to right."""
    n_nodes = np.array([tree.n_nodes for tree in trees], np.int64)
    first_node = np.cumsum(n_nodes) - n_nodes
    first_leaf = first_node + np.arange(len(trees))

    def joined(sides: list[Array]) -> Array:
        shifted = [
            np.where(side >= 0, side + node, side - leaf)  # ~(leaf + k) is ~leaf - k
            for side, node, leaf in zip(sides, first_node, first_leaf, strict=True)
        ]
        return np.concatenate(shifted)

    roots = [np.array([children.root(tree.left, tree.right)]) for tree in trees]
    order: Reordering
    B, order = structure.arrange(
        joined([tree.left for tree in trees]),
        joined([tree.right for tree in trees]),
        joined(roots),
    )
    leaf = ~order.leaf
    return Arranged(
        B,
        order.node,
        leaf,
        order.node - np.repeat(first_node, np.diff(B.node_ptr)),
        leaf - np.repeat(first_leaf, np.diff(B.leaf_ptr)),
    )


def margin_tests(
    S: SparseRows,
    b: Float[Array, " n_nodes"],
    **parts: Any,
) -> NodeTests:
    """Return tests of sum r · activation(S x − offset) > b; `from_rows` takes their parts."""
    empty = np.flatnonzero(np.diff(S.ptr) == 0)
    tests = from_rows(
        S.ptr + np.searchsorted(empty, np.arange(S.n_rows + 1)),
        np.insert(S.column, S.ptr[empty], 0),  # an empty row gets an entry x_0 · 0 for now
        np.insert(S.weight, S.ptr[empty], 0),
        b,
        **parts,
    )
    return _without_reading(tests, empty, S.n_columns) if empty.size else tests


def _without_reading(tests: NodeTests, empty: Int64[Array, " n"], n_columns: int) -> NodeTests:
    """Let the entries of rows that are empty change nothing for any x.

    A node that reads nothing turns into x_0 > inf or x_0 >= -inf, and NaN goes the same way. Beside
    rows that do read, a row that reads nothing gets [x_c == 0] · 0 for a column c of theirs, whose
    NaN is the node's anyway.
    """
    row_reads = np.full(tests.n_rows, True)
    row_reads[empty] = False
    row_node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    reads = np.logical_or.reduceat(row_reads, tests.node_ptr[:-1])
    constant = np.flatnonzero(~reads)
    z, _ = margins(
        tests, np.zeros((1, n_columns), tests.dtype), np.zeros(constant.size, np.int64), constant
    )
    right = z > tests.b[constant]
    # One row stays of each node that reads nothing.
    kept = reads[row_node]
    kept[tests.node_ptr[constant]] = True
    of_constant = ~reads[row_node[kept]]
    entry_row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    read = np.flatnonzero(row_reads[entry_row])
    node = row_node[entry_row]
    first_column = np.append(tests.column[read], np.int32(0))[np.searchsorted(node[read], node)]
    fills, of_reading = ~row_reads[entry_row], reads[node]
    kept_entry = kept[entry_row]
    b, relation, missing_right = tests.b.copy(), tests.relation.copy(), tests.missing_right.copy()
    b[constant] = np.where(right, -np.inf, np.inf)
    relation[constant] = np.where(right, Relation.GREATER_EQUAL, Relation.GREATER)
    missing_right[constant] = right
    indicator = np.where(fills & of_reading, 0, -1)[kept_entry].astype(np.int32)
    return replace(
        tests,
        node_ptr=np.searchsorted(row_node[kept], np.arange(tests.n_nodes + 1)).astype(np.int64),
        row_ptr=np.append(0, np.cumsum(np.diff(tests.row_ptr)[kept])),
        column=np.where(fills & of_reading, first_column, tests.column)[kept_entry],
        weight=np.where(of_reading, tests.weight, tests.dtype.type(1))[kept_entry],
        offset=np.where(of_constant, 0, tests.offset[kept]).astype(b.dtype),
        activation=np.where(of_constant, Activation.IDENTITY, tests.activation[kept]).astype(
            np.uint8
        ),
        r=np.where(of_constant, 1, tests.r[kept]).astype(b.dtype),
        b=b,
        relation=relation,
        missing_right=missing_right,
        indicator=None if np.all(indicator < 0) else indicator,
    )


def trees_of(model: NativeTree | NativeForest[Any]) -> Sequence[Any]:
    """Return the trees of a forest, or the tree itself."""
    return model.trees if isinstance(model, NativeForest) else (model,)


def forest_of(
    model: NativeTree | NativeForest[Any],
    tests: NodeTests,
    *,
    linear: LinearTerms | None = None,
    feature_map: FeatureMap | None = None,
    kernel: tuple[FeatureKernel | None, ...] | None = None,
) -> Forest:
    """Join native trees, whose tests stand one tree after the other, into a Forest."""
    trees, name = trees_of(model), type(model).__name__
    first, order = trees[0], arrange(trees)
    values = np.concatenate([tree.values for tree in trees])
    return Forest(
        tests=tests.take(order.node),
        bitvectors=order.bitvectors,
        leaves=Leaves(values, None, linear).take(order.leaf),
        output=Output(
            first.n_outputs,
            values.dtype,
            aggregate=Aggregate.MEAN if isinstance(model, NativeForest) else Aggregate.SUM,
            classes=None if first.classes is None else (first.classes,),
        ),
        inputs=Inputs(first.n_features),
        source=Source(name.lower(), version(), name, leaf_id=order.leaf_id, node_id=order.node_id),
        feature_map=feature_map,
        kernel=kernel,
    )
