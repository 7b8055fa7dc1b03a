"""Answers of a grown tree for rows of given densities, to score bandwidths by."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bitvec.core.arrays import Array
from bitvec.learners.kddt.events import Densities
from bitvec.learners.kddt.stacks import child_rows, doubled
from bitvec.learners.kddt.tree import GrownTree
from bitvec.runtime.predict.cpu.compiling import kernel


def answers(tree: GrownTree, densities: Densities) -> Float[Array, "n_rows n_outputs"]:
    """Return the expectation of a tree's values under the density of each row.

    Equal to that of its converted forest but for rounding: a row's masses are multiplied node by
    node, all rows of a node at once, where the forest's engine follows row by row.
    """
    n_features, n_rows, n_edges = densities.at.shape
    return expected(
        tree.left,
        tree.right,
        tree.feature,
        tree.threshold,
        tree.value,
        densities.at.reshape(n_features, n_rows * n_edges),
        densities.share,
        n_rows,
    )


@kernel
def expected(left, right, feature, threshold, value, at, share, n_rows):  # type: ignore[no-untyped-def]
    """Return the mean of values over the leaves that each row's density reaches, depth first.

    A frame holds the rows of a node and their masses, as in `growth.grow`.
    """
    n_features, n_edges = share.shape
    n_outputs = value.shape[1]
    low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    phase, node_at, kept_bound = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64)
    row_start, row_count = np.zeros(64, np.int64), np.zeros(64, np.int64)
    rows, u = np.arange(2 * n_rows + 1).astype(np.int32), np.ones(2 * n_rows + 1)
    row_count[0] = n_rows
    answer = np.zeros((n_rows, n_outputs))
    depth = 0
    while depth >= 0:
        first, n, node = row_start[depth], row_count[depth], node_at[depth]
        if left[node] < 0:
            for k in range(first, first + n):
                for c in range(n_outputs):
                    answer[rows[k], c] += u[k] * value[node, c]
            depth -= 1
            continue
        j, t = feature[node], threshold[node]
        if phase[depth] == 2:
            low[j] = kept_bound[depth]
            depth -= 1
            continue
        old_low, old_high = low[j], high[j]
        if phase[depth] == 0:
            kept_bound[depth] = high[j]
            high[j] = min(high[j], t)
        else:
            high[j] = old_high = kept_bound[depth]
            kept_bound[depth] = low[j]
            low[j] = max(low[j], t)
        child = left[node] if phase[depth] == 0 else right[node]
        phase[depth] += 1
        phase, node_at = doubled(phase, depth + 2), doubled(node_at, depth + 2)
        row_start, row_count = doubled(row_start, depth + 2), doubled(row_count, depth + 2)
        kept_bound = doubled(kept_bound, depth + 2)
        rows, u = doubled(rows, first + 2 * n + 1), doubled(u, first + 2 * n + 1)
        depth += 1
        phase[depth], node_at[depth], row_start[depth] = 0, child, first + n
        row_count[depth] = child_rows(
            rows,
            u,
            first,
            n,
            at[j],
            n_edges,
            share[j],
            old_low,
            old_high,
            low[j],
            high[j],
            0.0,
        )
    return answer
