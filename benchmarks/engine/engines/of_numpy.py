"""An oblique forest as anyone would write it in NumPy: one product, then level by level."""

from __future__ import annotations

import numpy as np

import bitvec
from benchmarks.engine.engines.calls import Calls, Job
from bitvec.core.structure import children


class Gemm:
    """All margins by one product with S, then one gather a level."""

    def __init__(self, job: Job) -> None:
        forest = bitvec.load(job.model)
        self.S = np.ascontiguousarray(forest.tests.weight.reshape(forest.n_nodes, -1).T)
        self.b = forest.tests.b
        self.v = forest.leaves.v[:, 0]
        left, right = children(forest.bitvectors)
        nodes = np.diff(forest.bitvectors.node_ptr)
        self.root = forest.bitvectors.node_ptr[:-1]
        self.depth = int(np.log2(nodes.max() + 1))
        self.child = np.stack([left, right], axis=1)

    def calls(self, threads: int) -> Calls:
        """The threads are those of NumPy's BLAS, which the process limits."""
        return Calls(self.predict, self.predict)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the means of the exit leaves' values."""
        h = np.greater(X @ self.S, self.b).view(np.uint8)
        row = np.arange(len(X))[:, None]
        node = np.broadcast_to(self.root, (len(X), self.root.size))
        for _ in range(self.depth):
            node = self.child[node, h[row, node]]
        return self.v[~node].mean(axis=1)
