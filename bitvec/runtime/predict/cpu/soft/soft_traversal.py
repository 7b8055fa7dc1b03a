"""Traversal of all leaves that a row's density reaches, each tree from left to right.

Memory: a tree's nodes are records in the order in which they are laid out, the two children of one
beside each other. A node names its column and its slot: the place of the column among those first
met on its path. For each slot the traversal keeps F at both ends of the interval in which x' must
lie, and their difference; a turn narrows one of them and is undone on the way back. The membership
of a leaf is the product over the slots of its path, in their order, as the reference's
`kernel_memberships` takes it, and its vector is added in the order of leaves: the same bits.

Cost: a few ns for each node that is met and for each leaf of a membership above 0.
"""

from __future__ import annotations

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel

NODE = np.dtype(
    [
        ("b", np.float64),
        ("left", np.int32),
        ("column", np.int32),
        ("slot", np.int32),
        ("missing_right", np.int32),
    ]
)
"""A node, or a leaf where `left` is −1 − leaf; `slot` of a leaf is the number of slots above it."""


@kernel
def lay_out(left, right, roots, leaf_ptr, column, b, missing_right, n_features, nodes, begin):  # type: ignore[no-untyped-def]
    """Fill `nodes` with all trees, and `begin` with where each begins; return the deepest level.

    A tree takes one place more than it has nodes and leaves, so that children come in pairs.
    """
    slot = np.full(n_features, -1)
    room = 64
    code, place, phase = (
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )
    is_first = np.zeros(room, np.bool_)
    top, deepest = 0, 1
    for tree in range(roots.size):
        begin[tree] = top
        free = top + 2
        code[0], place[0], phase[0] = roots[tree], top, 0
        depth, met = 0, 0
        while depth >= 0:
            at, here = code[depth], place[depth]
            if at < 0:
                nodes[here].b = np.nan
                nodes[here].left = at + leaf_ptr[tree]  # -1 - leaf within the tree
                nodes[here].slot = met
                depth -= 1
                continue
            j = column[at]
            if phase[depth] == 0:
                is_first[depth] = slot[j] < 0
                if slot[j] < 0:
                    slot[j] = met
                    met += 1
                nodes[here].b = b[at]
                nodes[here].left = free
                nodes[here].column = j
                nodes[here].slot = slot[j]
                nodes[here].missing_right = missing_right[at]
                free += 2
            if phase[depth] == 2:
                if is_first[depth]:
                    slot[j] = -1
                    met -= 1
                depth -= 1
                continue
            child = left[at] if phase[depth] == 0 else right[at]
            child_place = nodes[here].left + phase[depth]
            phase[depth] += 1
            depth += 1
            if depth == room:
                code, place = np.append(code, code), np.append(place, place)
                phase, is_first = np.append(phase, phase), np.append(is_first, is_first)
                room *= 2
            code[depth], place[depth], phase[depth] = child, child_place, 0
            deepest = max(deepest, depth)
        top = free
    return deepest


@inner
def distribution(t, x, h, edges, share, slope):  # type: ignore[no-untyped-def]
    """Return P(x' <= t), by the arithmetic of `FeatureKernel.cdf` and `numpy.interp`."""
    if h == 0.0:
        return 1.0 if x <= t else 0.0
    u = (t - x) / h
    last = edges.size - 1
    if u < edges[0]:
        return share[0]
    if u >= edges[last]:
        return share[last]
    k = 0
    if last > 8:
        k = np.searchsorted(edges, u, side="right") - 1
    else:
        while u >= edges[k + 1]:
            k += 1
    if u == edges[k]:
        return share[k]
    return slope[k] * (u - edges[k]) + share[k]


@kernel
def soft_sums(  # type: ignore[no-untyped-def]
    X,
    nodes,
    begin,
    deepest,
    used,
    edge_ptr,
    edges,
    share,
    slope,
    location_ptr,
    location,
    bandwidth,
    value_ptr,
    output,
    value,
    leaf_ptr,
    sums,
):
    """Add each tree's expected vector of each row to `sums`, (batch, n_trees, n_outputs).

    Parameters
    ----------
    X : float64, (batch, n_features)
    used : int64
        The columns that nodes read.
    edge_ptr, edges, share, slope
        Edges of each column's kernel, the mass left of each, and how it grows behind each.
    location_ptr, location, bandwidth
        Where each column's bandwidth changes; it has one more of these.
    value_ptr, output, value
        The numbers of each leaf's vector that are not 0, and their outputs.
    """
    n_features = X.shape[1]
    h = np.zeros(n_features)
    ends, starts = np.zeros(n_features), np.zeros(n_features)
    low, high, mass = np.zeros(n_features), np.ones(n_features), np.ones(n_features)
    # Turns to undo: the right child that is still to come or −1, the slot, F at b, and F before.
    later = np.zeros(deepest + 1, np.int64)
    slots = np.zeros(deepest + 1, np.int64)
    at_b, old_low, old_high = (
        np.zeros(deepest + 1),
        np.zeros(deepest + 1),
        np.zeros(deepest + 1),
    )
    for row in range(X.shape[0]):
        for k in range(used.size):
            j = used[k]
            x = X[row, j]
            first, last = location_ptr[j], location_ptr[j + 1]
            place = np.searchsorted(location[first:last], x, side="right")
            h[j] = bandwidth[first + j + place]
            # Below and above these, by more than rounding, F is 0 and 1.
            margin = 1e-14 * (abs(x) + h[j] * max(-edges[edge_ptr[j]], edges[edge_ptr[j + 1] - 1]))
            starts[j] = x + h[j] * edges[edge_ptr[j]] - margin
            ends[j] = x + h[j] * edges[edge_ptr[j + 1] - 1] + margin
        for tree in range(begin.size):
            at, n_open = begin[tree], 0
            while True:
                node = nodes[at]
                while node.left >= 0:
                    j = node.column
                    x = X[row, j]
                    if node.b < starts[j]:
                        at = node.left + 1
                    elif node.b > ends[j]:
                        at = node.left
                    elif np.isnan(x):
                        at = node.left + node.missing_right
                    else:
                        first, last = edge_ptr[j], edge_ptr[j + 1]
                        f = distribution(
                            node.b,
                            x,
                            h[j],
                            edges[first:last],
                            share[first:last],
                            slope[first:last],
                        )
                        slot = node.slot
                        if f <= low[slot]:
                            at = node.left + 1
                        elif f >= high[slot]:
                            at = node.left
                        else:
                            later[n_open], slots[n_open], at_b[n_open] = node.left + 1, slot, f
                            old_low[n_open], old_high[n_open] = low[slot], high[slot]
                            n_open += 1
                            high[slot] = f
                            mass[slot] = f - low[slot]
                            at = node.left
                    node = nodes[at]
                u = 1.0
                for slot in range(node.slot):
                    u *= mass[slot]
                leaf = leaf_ptr[tree] - 1 - node.left
                for k in range(value_ptr[leaf], value_ptr[leaf + 1]):
                    sums[row, tree, output[k]] += u * value[k]
                while n_open > 0 and later[n_open - 1] < 0:
                    n_open -= 1
                    slot = slots[n_open]
                    low[slot], high[slot] = old_low[n_open], old_high[n_open]
                    mass[slot] = high[slot] - low[slot]
                if n_open == 0:
                    break
                slot = slots[n_open - 1]
                at, later[n_open - 1] = later[n_open - 1], -1
                low[slot], high[slot] = at_b[n_open - 1], old_high[n_open - 1]
                mass[slot] = high[slot] - low[slot]
