"""Every relaxation, literally: dense D and B, one tree and one row at a time, in float64."""

from __future__ import annotations

import numpy as np

from bitvec.core import matrices, tree_paths

EPSILON = 0.5


def sigmoid(m):
    return np.where(m >= 0, 1 / (1 + np.exp(-np.abs(m))), 1 - 1 / (1 + np.exp(-np.abs(m))))


def smooth_step(m):
    t = m / 6
    inside = -2 * t**3 + 1.5 * t + 0.5
    return np.where(t <= -0.5, 0.0, np.where(t >= 0.5, 1.0, inside))


GATES = {
    "sigmoid": sigmoid,
    "noisy_or": sigmoid,
    "smooth_step": smooth_step,
    "relu": lambda m: np.maximum(m, 0),
    "relu_squared": lambda m: np.maximum(m, 0) ** 2,
}


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def sparsemax(z):
    """Martins and Astudillo (2016), Algorithm 1."""
    z = z - z.max()
    ordered = np.sort(z)[::-1]
    k = np.arange(1, len(z) + 1)
    total = np.cumsum(ordered)
    with np.errstate(invalid="ignore"):
        size = k[1 + k * ordered > total].max()
    return np.maximum(z - (total[size - 1] - 1) / size, 0)


def entmax15(z):
    """Peters, Niculae and Martins (2019), Algorithm 2."""
    x = (z - z.max()) / 2
    ordered = np.sort(x[np.isfinite(x)])[::-1]
    k = np.arange(1, len(ordered) + 1)
    mean = np.cumsum(ordered) / k
    spread = k * (np.cumsum(ordered**2) / k - mean**2)
    tau = mean - np.sqrt(np.maximum(0, (1 - spread) / k))
    size = (tau <= ordered).sum()
    return np.maximum(x - tau[size - 1], 0) ** 2


MAPS = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "index_sparsemax": sparsemax,
}


def memberships(relaxation, B, m, gamma, hard=None, right=None):
    """Return u, (n_leaves, batch), for margins m, (n_nodes, batch), in the forest's order.

    `hard` says where h, `right`, stands in the place of a margin.
    """
    hard = np.zeros(m.shape, bool) if hard is None else hard
    right = m > 0 if right is None else right
    u = np.zeros((B.n_leaves, m.shape[1]))
    for tree in range(B.n_trees):
        part = B.tree(tree)
        node = slice(*B.node_ptr[tree : tree + 2])
        leaf = slice(*B.leaf_ptr[tree : tree + 2])
        for row in range(m.shape[1]):
            at = (node, row)
            u[leaf, row] = _one(relaxation, part, gamma * m[at], gamma, hard[at], right[at])
    return u


def _one(relaxation, B, steep, gamma, hard, right):
    D, L = matrices.ternary(B).astype(float), B.n_leaves
    if relaxation.gate == "straight_through":
        h = np.where(hard, right, steep > 0)
        return np.eye(L)[(D @ (2 * h - 1.0) - np.abs(D).sum(axis=1)).argmax()]
    gate = GATES[relaxation.gate] if isinstance(relaxation.gate, str) else relaxation.gate
    s = np.where(hard, right, gate(steep))
    wrong = ((D == -1) & (hard & right)) | ((D == 1) & (hard & ~right))
    if relaxation.leaf_map == "product":
        left = np.where(hard, ~right, gate(-steep))
        return np.prod(np.where(D == 1, s, np.where(D == -1, left, 1)), axis=1)
    depth = tree_paths.leaf_depth(B)
    if relaxation.score == "two_sided":
        z = (D != -1) @ np.where(hard, 0, np.maximum(steep, 0))
        z = z + (D != 1) @ np.where(hard, 0, np.maximum(-steep, 0))
    elif relaxation.score == "bitvector":
        z = (matrices.dense(B) @ s - EPSILON / L * np.arange(L)) / (EPSILON / L)
        return MAPS[relaxation.leaf_map](z)
    else:
        z = gamma * (
            np.where(wrong, 0, D) @ np.where(hard, 0, 2 * s - 1)
            - depth
            + (hard * np.abs(D)).sum(axis=1)
        )
        if relaxation.score == "ternary_per_depth":
            z = z / np.maximum(depth, 1)
    return MAPS[relaxation.leaf_map](np.where(wrong.any(axis=1), -np.inf, z))
