"""A forest with a prediction kernel, packed to traverse all leaves that its density reaches."""

from __future__ import annotations

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array, unique_integers
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Float
from bitvec.runtime.predict.cpu.kernel_arrays import aligned, constant
from bitvec.runtime.predict.cpu.soft.soft_traversal import NODE, lay_out, soft_sums


def unsupported_reason(forest: Forest) -> str | None:
    """Return in a few words why a forest cannot be packed so, or None."""
    tests = forest.tests
    if forest.kernel is None or forest.feature_map is not None or not forest.n_trees:
        return "it predicts crisply"
    if forest.leaves.linear is not None or forest.leaves.output is not None:
        return "its leaves are linear or of one output each"
    if np.any(tests.kind != Kind.KERNEL) or np.any(tests.relation != Relation.GREATER):
        return "some nodes do not decide by the kernel"
    if np.any(tests.missing_rule != MissingRule.NAN):
        return "some nodes count other values as missing"
    if not np.all(np.isfinite(forest.leaves.v)):
        return "some leaves are not finite"
    return None


class SoftTrees:
    """A forest whose nodes all decide by the prediction kernel.

    Parameters
    ----------
    forest : Forest
        One of which `unsupported_reason` is None.
    """

    name = "soft"

    def __init__(self, forest: Forest) -> None:
        B, tests = forest.bitvectors, forest.tests
        assert forest.kernel is not None
        left, right = structure.children(B)
        roots = np.where(np.diff(B.node_ptr) > 0, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
        n = 2 * (forest.n_nodes + forest.n_trees)
        nodes = aligned(n * NODE.itemsize).view(NODE)
        nodes[:] = np.zeros(1, NODE)[0]
        self.begin = np.zeros(forest.n_trees, np.int64)
        self.leaf_ptr = constant(B.leaf_ptr.astype(np.int64))
        self.deepest = lay_out(
            constant(left.astype(np.int64)),
            constant(right.astype(np.int64)),
            constant(roots.astype(np.int64)),
            self.leaf_ptr,
            constant(tests.feature.astype(np.int64)),
            constant(tests.b.astype(np.float64)),
            constant(tests.missing_right.astype(np.int32)),
            forest.n_features,
            nodes,
            self.begin,
        )
        self.nodes = constant(nodes)
        self.used = constant(unique_integers(tests.feature).astype(np.int64))
        self._kernels(forest)
        leaf, output = np.nonzero(forest.leaves.v)
        self.value_ptr = constant(np.searchsorted(leaf, np.arange(forest.n_leaves + 1)))
        self.output = constant(output)
        self.value = constant(forest.leaves.v[leaf, output].astype(np.float64))
        self.shape = (forest.n_trees, forest.n_outputs)

    def _kernels(self, forest: Forest) -> None:
        """Put the kernels of the columns one after the other; a column without one is crisp."""
        assert forest.kernel is not None
        edges, shares, slopes, locations, bandwidths = [], [], [], [], []
        for kernel in forest.kernel:
            if kernel is None:
                edge, share = np.array([-1.0, 1.0]), np.array([0.0, 1.0])
                location, bandwidth = np.zeros(0), np.zeros(1)
            else:
                edge, location, bandwidth = kernel.edges, kernel.location, kernel.bandwidth
                share = np.concatenate([[0.0], np.cumsum(kernel.mass)])
                share[-1] = 1.0
            edges.append(edge)
            shares.append(share)
            slopes.append(np.append(np.diff(share) / np.diff(edge), 0.0))
            locations.append(location)
            bandwidths.append(bandwidth)
        self.edge_ptr = _starts(edges)
        self.edges, self.share, self.slope = (
            constant(np.concatenate(parts)) for parts in (edges, shares, slopes)
        )
        self.location_ptr = _starts(locations)
        self.location = constant(np.concatenate(locations))
        self.bandwidth = constant(np.concatenate(bandwidths))

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the traversal reads, X apart."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while its block is run."""
        return 8 * (self.shape[0] * self.shape[1] + 1)

    def vectors(
        self, X: Float[Array, "batch n_features"]
    ) -> Float[Array, "batch n_trees n_outputs"]:
        """Return each tree's expected vector of each row, as `reference.soft_vectors`."""
        sums = np.zeros((len(X), *self.shape))
        soft_sums(
            constant(X.astype(np.float64, copy=False)),
            self.nodes,
            self.begin,
            self.deepest,
            self.used,
            self.edge_ptr,
            self.edges,
            self.share,
            self.slope,
            self.location_ptr,
            self.location,
            self.bandwidth,
            self.value_ptr,
            self.output,
            self.value,
            self.leaf_ptr,
            sums,
        )
        return sums


def _starts(parts: list[Array]) -> Array:
    return constant(np.cumsum([0, *(part.size for part in parts)]).astype(np.int64))
