"""Leaves cut so that they never fall, or never rise, where a column rises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.shape_annotations import Float, Int8, Int64
from bitvec.errors import UnsupportedModelError


def node_directions(forest: Forest, signs: Int8[Array, " n_features"]) -> Int8[Array, " n_nodes"]:
    """Return 1, 0 or -1 for each node: how the leaves of its right side compare with the left.

    Parameters
    ----------
    signs : int8, (n_features,)
        1, 0 or -1: how the raw scores go where the column rises.

    Raises
    ------
    UnsupportedModelError
        If a test of a constrained column reads others too, or asks for anything but a threshold.
    """
    tests = forest.tests
    entry = tests.row_ptr[tests.node_ptr]
    n_entries = np.diff(entry)
    bound = np.zeros(tests.n_nodes, bool)
    bound[np.repeat(np.arange(tests.n_nodes), n_entries)[signs[tests.column] != 0]] = True
    alone = (n_entries == 1) & (np.diff(tests.node_ptr) == 1) & (tests.kind == Kind.MARGIN)
    if tests.indicator is not None:
        alone[alone] = tests.indicator[entry[:-1][alone]] < 0
    for node in np.flatnonzero(bound & ~alone).tolist():
        raise UnsupportedModelError(
            "a test of a column with a monotone constraint must compare that column alone with a "
            f"threshold, got node {node} with {n_entries[node]} columns, "
            f"{Kind(tests.kind[node]).name.lower()}: leave the constraint out."
        )
    result = np.zeros(tests.n_nodes, np.int8)
    at, row = entry[:-1][bound], tests.node_ptr[:-1][bound]
    result[bound] = np.sign(tests.weight[at]) * np.sign(tests.r[row]) * signs[tests.column[at]]
    weight = forest.output.tree_weight
    if weight is not None:
        result *= np.sign(weight).astype(np.int8)[forest.bitvectors.tree_of_node]
    return result


def orientation(forest: Forest) -> Float[Array, "_ _"]:
    """Return 1 or -1 for the leaves' numbers: -1 for outputs that go against a direction.

    These are outputs of a negative scale, and the first of two classes that share the leaves.

    Returns
    -------
    (1, width) or (n_leaves, 1)
    """
    output, leaves = forest.output, forest.leaves
    scale = output.scale
    sign = np.ones(output.n_outputs) if scale is None else np.sign(scale).astype(np.float64)
    if leaves.output is not None:
        return sign[leaves.output][:, None]
    if output.is_classifier:
        for end, size in zip(np.cumsum(output.groups), output.groups, strict=True):
            if size == 2:
                sign[end - 2] *= -1
    return sign[None, :]


def overlapping(forest: Forest, directions: Int8[Array, " n_nodes"]) -> Int64[Array, " n"]:
    """Return the nodes of a direction whose sides overlap, from the root of a tree down.

    A leaf of the lower side is then above a leaf of the upper one, or NaN.
    """
    node = np.flatnonzero(directions)
    if not node.size:
        return node
    B = forest.bitvectors
    first = B.leaf_ptr[:-1][B.tree_of_node[node]]
    ends = np.stack([first + B.lo[node], first + B.mid[node], first + B.hi[node]], axis=1)
    v = forest.leaves.v * orientation(forest)
    padded = np.concatenate([v, v[-1:]])  # an interval may end behind the last leaf
    left, right = ends[:, :2].ravel(), ends[:, 1:].ravel()
    rises = (directions[node] > 0)[:, None]
    sides = [
        (np.maximum.reduceat(padded, at)[::2], np.minimum.reduceat(padded, at)[::2])
        for at in (left, right)
    ]
    top = np.where(rises, sides[0][0], sides[1][0])
    bottom = np.where(rises, sides[1][1], sides[0][1])
    return node[~(top <= bottom).all(axis=1)]


def constrained(forest: Forest, directions: Int8[Array, " n_nodes"]) -> Forest:
    """Return the forest with leaves cut so that every node keeps its direction.

    All leaves of a node's lower side are then at most all leaves of its upper side, whatever the
    thresholds are; so the answer is monotone. Where that holds already, nothing is changed. From
    the root down, a node whose sides overlap is cut at the middle of the overlap, which lies within
    the range of its leaves, so that what holds further up still does.

    Cost: O(n_leaves · depth).
    """
    B, v = forest.bitvectors, forest.leaves.v
    sign = orientation(forest)
    new = v * sign
    first = B.leaf_ptr[:-1][B.tree_of_node]
    for node in overlapping(forest, directions).tolist():
        lo, mid, hi = (int(first[node] + end[node]) for end in (B.lo, B.mid, B.hi))
        left, right = slice(lo, mid), slice(mid, hi)
        below, above = (left, right) if directions[node] > 0 else (right, left)
        top, bottom = new[below].max(axis=0), new[above].min(axis=0)
        cut = np.clip(top / 2 + bottom / 2, np.minimum(bottom, top), top)
        new[below] = np.where(top > bottom, np.minimum(new[below], cut), new[below])
        new[above] = np.where(top > bottom, np.maximum(new[above], cut), new[above])
    new *= sign
    clipped = np.where(new == v, v, new.astype(v.dtype))
    return replace(forest, leaves=replace(forest.leaves, v=clipped))
