"""Layout of rows as planes of codes, and the code that each node compares with.

A node of one column asks [x >= t] or [x > t]; the latter is [x >= the next float above t]. The
thresholds of a column's nodes, in order, give a value its code: how many of them it reaches. So a
node goes right where its plane's code reaches its own, exactly and whatever the dtype. A missing
value has code 0, and goes left; nodes that send it right have a plane of their own, in which its
code is beyond all others.

What is no such node (sets, equality, oblique and polytope nodes) becomes a column of 0 and 1 first,
as `torch.compared_columns` lays it out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, NodeTests, Relation
from bitvec.core.shape_annotations import Float, Int32, Int64
from bitvec.runtime.predict.torch.compared_columns import ComparedColumns, lay_out

BYTE_THRESHOLDS = 254
"""Thresholds of a plane whose codes fit a byte."""
SHORT_THRESHOLDS = (1 << 16) - 2
"""Thresholds of a plane whose codes fit 16 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class CodeLayout:
    """Planes of codes, and what nodes compare with them.

    Parameters
    ----------
    tests : NodeTests
        The forest's, of which those of one column are [x >= b].
    compared : ComparedColumns
        The columns that planes are made of: those of X, then those derived from it.
    column : int32, (n_planes,)
        The compared column of each plane: rising, and again for planes with missing values right.
    missing : int32, (n_planes,)
        The code of a missing value.
    first : int32, (n_planes + 1,)
        Where the thresholds of each plane begin.
    thresholds : F, (n_thresholds,)
        In the forest's dtype, rising within each plane.
    plane : int32, (n_nodes,)
        The plane that each node reads.
    least : int32, (n_nodes,)
        The least code that goes right.
    """

    tests: NodeTests
    compared: ComparedColumns
    column: Int32[Array, " n_planes"]
    missing: Int32[Array, " n_planes"]
    first: Int32[Array, " n_planes_plus_1"]
    thresholds: Float[Array, " n_thresholds"]
    plane: Int32[Array, " n_nodes"]
    least: Int32[Array, " n_nodes"]

    @property
    def n_planes(self) -> int:
        """Number of planes."""
        return self.column.size

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The first plane of each run of planes that read neighbouring columns, and its end."""
        ends = np.flatnonzero(np.diff(self.column) != 1) + 1
        bounds = [0, *ends.tolist(), self.n_planes]
        return list(pairwise(bounds)) if self.n_planes else []

    @property
    def most_thresholds(self) -> int:
        """Thresholds of the plane that has most."""
        return int(np.diff(self.first).max(initial=0))

    def codes(self, V: Float[Array, "batch n_compared"]) -> Int64[Array, "batch n_planes"]:
        """Return the codes of compared columns, literally: the oracle of the kernel."""
        codes = np.zeros((len(V), self.n_planes), np.int64)
        for plane, column in enumerate(self.column):
            x = V[:, column]
            t = self.thresholds[self.first[plane] : self.first[plane + 1]]
            reached = (x[:, None] >= t).sum(axis=1)
            codes[:, plane] = np.where(np.isnan(x), self.missing[plane], reached)
        return codes


def lay_out_codes(forest: Forest) -> CodeLayout:
    """Return the planes of a forest."""
    given = forest.tests
    plain = given.is_one_hot & ((given.kind == Kind.MARGIN) | (given.kind == Kind.KERNEL))
    tests = _at_least(given, plain)
    compared = lay_out(replace(forest, tests=tests, kernel=None))
    right = plain & given.missing_right
    never = plain & (given.relation == Relation.GREATER) & (given.b == np.inf)
    reads = compared.node_column + right * np.int64(compared.n_compared)
    read, plane = np.unique(reads, return_inverse=True)
    # Rising by plane, then by threshold; of equal ones the first stands for all.
    order = np.lexsort((compared.b, plane, never))[: int((~never).sum())]
    of_plane, b = plane[order], compared.b[order]
    is_new = np.ones(order.size, bool)
    is_new[1:] = (np.diff(of_plane) != 0) | (b[1:] != b[:-1])
    first = np.searchsorted(of_plane[is_new], np.arange(read.size + 1))
    beyond = np.diff(first) + 1
    least = beyond[plane]
    least[order] = np.cumsum(is_new) - first[of_plane]
    return CodeLayout(
        tests,
        compared,
        (read % max(1, compared.n_compared)).astype(np.int32),
        np.where(read >= compared.n_compared, beyond, 0).astype(np.int32),
        first.astype(np.int32),
        b[is_new],
        plane.astype(np.int32),
        least.astype(np.int32),
    )


def _at_least(tests: NodeTests, plain: Array) -> NodeTests:
    """Return tests whose nodes of one column are [x >= b], with missing values on the left.

    A sum is compared by >= too, unless with > infinity, which nothing exceeds.
    """
    exceeds = (tests.relation == Relation.GREATER) & (tests.kind != Kind.SET)
    exceeds &= (tests.kind != Kind.EQUAL) & (tests.b < np.inf)
    with np.errstate(over="ignore"):
        next_above = np.nextafter(tests.b, tests.dtype.type(np.inf))
    keeps = ~plain & (tests.b == np.inf) & (tests.relation == Relation.GREATER)
    keeps &= tests.kind == Kind.MARGIN
    relation = np.where(keeps, Relation.GREATER, Relation.GREATER_EQUAL)
    return replace(
        tests,
        b=np.where(exceeds, next_above, tests.b),
        relation=relation.astype(np.uint8),
        kind=np.where(plain, Kind.MARGIN, tests.kind).astype(np.uint8),
        missing_right=tests.missing_right & ~plain,
    )
