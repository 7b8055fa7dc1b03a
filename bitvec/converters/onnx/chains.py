"""Chains of equalities and sets, of which onnxruntime may take two nodes for one.

onnxruntime 1.31 does so where two test one column, the second on the false branch of the first, and
their true branches look alike: leaves of one first weight, or nodes of one test. It passes over
other weights and over what becomes of missing values, and adds the leaves that it leaves out to its
first node.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Int64


def pairs(
    among: Bool[Array, " n_nodes"], false: Int64[Array, " n_nodes"], columns: tuple[Array, ...]
) -> tuple[Int64[Array, " n"], Int64[Array, " n"]]:
    """Return nodes among some, and the nodes on their false branches, that test one column.

    Parameters
    ----------
    among : bool, (n_nodes,)
    false : int64, (n_nodes,)
        The child on the false branch: a node, or `~leaf`.
    columns : tuple of arrays, (n_nodes,)
        What tells columns apart.
    """
    above = np.flatnonzero(among & (false >= 0))
    below = false[above]
    alike = among[below]
    for column in columns:
        alike &= column[above] == column[below]
    return above[alike], below[alike]


def alike(
    one: Int64[Array, " n"],
    other: Int64[Array, " n"],
    tests: tuple[Array, ...],
    weight: Array,
) -> Bool[Array, " n"]:
    """Return which two branches look alike: a node or `~leaf` each, and not the same one.

    Parameters
    ----------
    tests : tuple of arrays, (n_nodes,)
    weight : array, (n_leaves,)
        The first of each leaf.
    """
    leaves, nodes = (one < 0) & (other < 0), (one >= 0) & (other >= 0)
    found = one != other
    found[leaves] &= weight[~one[leaves]] == weight[~other[leaves]]
    for test in tests:
        found[nodes] &= test[one[nodes]] == test[other[nodes]]
    return found & (leaves | nodes)
