"""The growth of one tree, depth first: nodes keep their rows' masses and their sorted events."""

from __future__ import annotations

import numpy as np

from bitvec.learners.kddt.scan import LABELS, best_threshold
from bitvec.runtime.cpu.compiling import inner, kernel

SMALLEST = 1e-9
"""A row of less mass in a node is left out there."""
PURE = 1e-9
"""Loss of a node, for each unit of its mass, below which it is not split."""


@inner
def share_below(u, edges, share, last):  # type: ignore[no-untyped-def]
    """Return the kernel's mass left of u, in bandwidths."""
    if u <= edges[0]:
        return 0.0
    if u >= edges[last]:
        return 1.0
    k = 0
    while u > edges[k + 1]:
        k += 1
    return share[k] + (u - edges[k]) / (edges[k + 1] - edges[k]) * (share[k + 1] - share[k])


@inner
def share_between(x, width, low, high, edges, share, last):  # type: ignore[no-untyped-def]
    """Return the mass of the law around x in (low, high]."""
    if width == 0.0:
        return 1.0 if low < x <= high else 0.0
    above = 1.0 if high == np.inf else share_below((high - x) / width, edges, share, last)
    below = 0.0 if low == -np.inf else share_below((low - x) / width, edges, share, last)
    return max(above - below, 0.0)


@inner
def uniform(state):  # type: ignore[no-untyped-def]
    """Return a random number in [0, 1), by splitmix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def doubled(array, size):  # type: ignore[no-untyped-def]
    """Return an array of at least `size`, with what stood in it."""
    if array.size >= size:
        return array
    larger = np.empty(max(2 * array.size, size), array.dtype)
    larger[: array.size] = array
    return larger


@inner
def total_of(rows, u, codes, Y, criterion, s):  # type: ignore[no-untyped-def]
    """Fill s with the mass of each class, or the sum of vectors, and return the mass."""
    s[:] = 0.0
    w = 0.0
    for k in range(rows.size):
        row = rows[k]
        w += u[k]
        if criterion == LABELS:
            s[codes[row]] += u[k]
        else:
            for c in range(s.size):
                s[c] += u[k] * Y[row, c]
    return w


@inner
def loss_of(rows, u, Y, s, w, criterion):  # type: ignore[no-untyped-def]
    """Return the mass times the impurity of a node, and the worth that its children must exceed.

    Impurity is 1 − sum p² for labels, the entropy in nats, and for vectors the variance summed over
    outputs.
    """
    if criterion == 2:
        entropy = 0.0
        for c in range(s.size):
            if s[c] > 0.0:
                entropy -= s[c] * np.log(s[c] / w)
        return entropy, -entropy
    squares = 0.0
    for c in range(s.size):
        squares += s[c] * s[c]
    if criterion == LABELS:
        return w - squares / w, squares / w
    second = 0.0
    for k in range(rows.size):
        for c in range(s.size):
            second += u[k] * Y[rows[k], c] * Y[rows[k], c]
    return second - squares / w, squares / w


@inner
def drawn_threshold(  # type: ignore[no-untyped-def]
    rows, u, x, width, edges, share, last, low, high, t, codes, Y, s, w, least, criterion, S
):
    """Return what a given threshold is worth; -inf if a child would have too little mass."""
    S[:] = 0.0
    left = 0.0
    for k in range(rows.size):
        row = rows[k]
        whole = share_between(x[row], width[row], low, high, edges, share, last)
        part = share_between(x[row], width[row], low, min(t, high), edges, share, last)
        mass = u[k] * (part / whole)
        left += mass
        if criterion == LABELS:
            S[codes[row]] += mass
        else:
            for c in range(S.size):
                S[c] += mass * Y[row, c]
    right = w - left
    if not (left >= least and right >= least):
        return -np.inf
    worth = 0.0
    for c in range(S.size):
        above = s[c] - S[c]
        if criterion == 2:
            if S[c] > 0.0:
                worth += S[c] * np.log(S[c] / left)
            if above > 0.0:
                worth += above * np.log(above / right)
        else:
            worth += S[c] * S[c] / left + above * above / right
    return worth


@kernel
def grow(  # type: ignore[no-untyped-def]
    x,
    width,
    edges,
    share,
    last,
    order,
    count,
    at,
    change,
    weight,
    codes,
    Y,
    n_outputs,
    criterion,
    max_depth,
    min_mass,
    min_gain,
    max_features,
    draws,
    seed,
):
    """Grow a tree and return its nodes, each before its children and the left before the right.

    Memory is O(n_features · rows) for each node on the way down: a frame holds the node's rows,
    their masses u in it, and their events of each feature in order, filtered from its parent's.

    Parameters
    ----------
    x, width : float64, (n_features, n_rows)
    order, count, at, change
        Of `Events`; not read if `draws`.
    weight : float64, (n_rows,)
        Mass of each row; rows of none are left out.
    codes : int32, (n_rows,)
    Y : float64, (n_rows, n_outputs)
        Read for vectors and entropy; `codes` for labels.
    max_features : int
        Features to look at in each node.
    draws : bool
        Whether thresholds are drawn, one for each feature, as extremely randomised trees do.

    Returns
    -------
    left, right : int64
        Children of each node, −1 for a leaf.
    feature : int64
    threshold, mass, loss : float64
        `loss` is the mass times the impurity.
    total : float64, (n, n_outputs)
        Mass of each class, or the sum of vectors.
    """
    n_features, n_rows = x.shape
    n_edges = edges.shape[1]
    state = np.array([seed], np.uint64)
    low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    s, S, m, since = (
        np.zeros(n_outputs),
        np.zeros(n_outputs),
        np.zeros(n_outputs),
        np.zeros(n_outputs),
    )
    open_rows = np.zeros(n_outputs, np.int64)
    rate = np.zeros(n_rows)
    stamp = np.zeros(n_rows, np.int64)
    shuffled = np.arange(n_features)

    # The tree.
    room = 64
    left, right = np.full(room, -1, np.int64), np.full(room, -1, np.int64)
    feature, threshold = np.full(room, -1, np.int64), np.zeros(room)
    mass, loss, total = np.zeros(room), np.zeros(room), np.zeros(room * n_outputs)
    n_nodes = 0

    # The frames from the root to the node at hand: rows, masses and events lie on three stacks.
    deep = 64
    phase, node_at = np.zeros(deep, np.int64), np.zeros(deep, np.int64)
    row_start, row_count = np.zeros(deep, np.int64), np.zeros(deep, np.int64)
    event_start = np.zeros(deep * n_features, np.int64)
    event_count = np.zeros(deep * n_features, np.int64)
    kept_bound = np.zeros(deep)
    rows, u = np.zeros(2 * n_rows, np.int32), np.zeros(2 * n_rows)
    events = np.zeros(0 if draws else 2 * order.size, np.int32)
    depth = 0
    for row in range(n_rows):
        if weight[row] > 0.0:
            rows[row_count[0]] = row
            u[row_count[0]] = weight[row]
            row_count[0] += 1
    everything = 0.0
    for k in range(row_count[0]):
        everything += u[k]

    while depth >= 0:
        first, n = row_start[depth], row_count[depth]
        if phase[depth] == 2:
            low[feature[node_at[depth]]] = kept_bound[depth]
            depth -= 1
            continue
        if phase[depth] == 0:
            own, own_u = rows[first : first + n], u[first : first + n]
            w = total_of(own, own_u, codes, Y, criterion, s)
            node_loss, worth = loss_of(own, own_u, Y, s, w, criterion)
            node = n_nodes
            n_nodes += 1
            if n_nodes > left.size:
                grown = 2 * left.size
                begun = left.size
                left, right = doubled(left, grown), doubled(right, grown)
                feature, threshold = doubled(feature, grown), doubled(threshold, grown)
                mass, loss = doubled(mass, grown), doubled(loss, grown)
                total = doubled(total, grown * n_outputs)
                left[begun:] = -1
                right[begun:] = -1
                feature[begun:] = -1
                threshold[begun:] = 0.0
            node_at[depth] = node
            mass[node], loss[node] = w, node_loss
            for c in range(n_outputs):
                total[node * n_outputs + c] = s[c]
            if depth > 0:
                parent = node_at[depth - 1]
                if phase[depth - 1] == 1:
                    left[parent] = node
                else:
                    right[parent] = node
            if depth >= max_depth or w < 2.0 * min_mass or node_loss <= PURE * w:
                depth -= 1
                continue
            if not draws:
                # The node's events: the parent's, without the rows that it lacks.
                top = 0
                if depth > 0:
                    before = (depth - 1) * n_features + n_features - 1
                    top = event_start[before] + event_count[before]
                    for k in range(n):
                        stamp[own[k]] = node
                for j in range(n_features):
                    line = depth * n_features + j
                    event_start[line] = top
                    if depth == 0:
                        events = doubled(events, top + count[j])
                        for k in range(count[j]):
                            row = order[j, k] // n_edges
                            if weight[row] > 0.0:
                                events[top] = order[j, k]
                                top += 1
                    else:
                        begin = event_start[line - n_features]
                        size = event_count[line - n_features]
                        events = doubled(events, top + size)
                        for k in range(begin, begin + size):
                            event = events[k]
                            events[top] = event
                            top += stamp[event // n_edges] == node
                    event_count[line] = top - event_start[line]
            squares = 0.0
            for c in range(n_outputs):
                squares += s[c] * s[c]
            best, best_feature, best_at = -np.inf, -1, 0.0
            looked = 0
            for number in range(n_features):
                j = shuffled[number]
                if max_features < n_features:
                    other = number + int(uniform(state) * (n_features - number))
                    shuffled[number], shuffled[other] = shuffled[other], shuffled[number]
                    j = shuffled[number]
                x_least, x_most = np.inf, -np.inf
                for k in range(n):
                    value = x[j, own[k]]
                    x_least, x_most = min(x_least, value), max(x_most, value)
                if x_least == x_most:
                    continue
                looked += 1
                if draws:
                    begin, end = np.inf, -np.inf
                    for k in range(n):
                        row = own[k]
                        begin = min(begin, x[j, row] + width[j, row] * edges[j, 0])
                        end = max(end, x[j, row] + width[j, row] * edges[j, last[j]])
                    begin, end = max(begin, low[j]), min(end, high[j])
                    t = begin + uniform(state) * (end - begin)
                    gained = drawn_threshold(
                        own,
                        own_u,
                        x[j],
                        width[j],
                        edges[j],
                        share[j],
                        last[j],
                        low[j],
                        high[j],
                        t,
                        codes,
                        Y,
                        s,
                        w,
                        min_mass,
                        criterion,
                        S,
                    )
                else:
                    if low[j] == -np.inf and high[j] == np.inf:
                        for k in range(n):
                            rate[own[k]] = own_u[k]
                    else:
                        for k in range(n):
                            row = own[k]
                            rate[row] = own_u[k] / share_between(
                                x[j, row],
                                width[j, row],
                                low[j],
                                high[j],
                                edges[j],
                                share[j],
                                last[j],
                            )
                    line = depth * n_features + j
                    gained, t = best_threshold(
                        events[event_start[line] : event_start[line] + event_count[line]],
                        at[j],
                        change[j],
                        n_edges,
                        last[j],
                        low[j],
                        high[j],
                        rate,
                        codes,
                        Y,
                        s,
                        w,
                        squares,
                        min_mass,
                        criterion,
                        S,
                        m,
                        since,
                        open_rows,
                    )
                if gained > best:
                    best, best_feature, best_at = gained, j, t
                if looked >= max_features and best > -np.inf:
                    break
            gain = best - worth
            if best_feature < 0 or gain <= PURE * w or gain < min_gain * everything:
                depth -= 1
                continue
            feature[node], threshold[node] = best_feature, best_at
        # Down to the left child, or from there to the right one.
        node = node_at[depth]
        j, t = feature[node], threshold[node]
        old_low, old_high = low[j], high[j]
        if phase[depth] == 0:
            kept_bound[depth] = high[j]
            high[j] = t
        else:
            high[j] = kept_bound[depth]
            old_high = high[j]
            kept_bound[depth] = low[j]
            low[j] = t
        phase[depth] += 1
        if depth + 2 > phase.size:
            phase, node_at = doubled(phase, 2 * phase.size), doubled(node_at, 2 * phase.size)
            row_start, row_count = (
                doubled(row_start, phase.size),
                doubled(row_count, phase.size),
            )
            node_at, kept_bound = doubled(node_at, phase.size), doubled(kept_bound, phase.size)
            event_start = doubled(event_start, phase.size * n_features)
            event_count = doubled(event_count, phase.size * n_features)
        top = first + n
        rows, u = doubled(rows, top + n), doubled(u, top + n)
        row_start[depth + 1] = top
        for k in range(first, first + n):
            row = rows[k]
            whole = share_between(
                x[j, row], width[j, row], old_low, old_high, edges[j], share[j], last[j]
            )
            part = share_between(
                x[j, row], width[j, row], low[j], high[j], edges[j], share[j], last[j]
            )
            own_mass = u[k] * (part / whole)
            rows[top] = row
            u[top] = own_mass
            top += own_mass > SMALLEST
        row_count[depth + 1] = top - row_start[depth + 1]
        depth += 1
        phase[depth] = 0
    return (
        left[:n_nodes],
        right[:n_nodes],
        feature[:n_nodes],
        threshold[:n_nodes],
        mass[:n_nodes],
        loss[:n_nodes],
        total[: n_nodes * n_outputs].reshape(n_nodes, n_outputs),
    )
