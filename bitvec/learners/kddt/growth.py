"""The growth of one tree, depth first: nodes keep their rows' masses and their sorted events."""

from __future__ import annotations

import numpy as np

from bitvec.learners.kddt.bins import best_of_bins, fill, pays
from bitvec.learners.kddt.masses import (
    densities_differ,
    drawn_gain,
    loss_of,
    share_of,
    support,
    total_of,
)
from bitvec.learners.kddt.scan import ENTROPY, ROUNDING, VECTORS, best_threshold
from bitvec.learners.kddt.stacks import child_rows, closest, doubled, filtered_events
from bitvec.runtime.predict.cpu.compiling import inner, kernel

SMALLEST = 1e-9
"""A row with less of the least mass of a leaf in a node is left out there."""
LEAST = 1e-12
"""A leaf has at least this share of the mass of its parent: less is rounding of the sums."""
GAIN = 1e-9
"""What a split must gain to be more than rounding: of a node's mass, for vectors of its loss."""
TIE = 1e-3
"""Of that: by how much the gains of two splits must differ, or the first is taken."""
FAR = 4
"""Events of a feature are filtered anew where those above are so many times as many: then all that
filtering takes is a share of what the nodes above took."""
EPSILON = np.finfo(np.float64).eps


@inner
def uniform(state):  # type: ignore[no-untyped-def]
    """Return a random number in [0, 1), by splitmix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def grow(  # type: ignore[no-untyped-def]
    at,
    share,
    order,
    count,
    change,
    turn,
    position,
    n_positions,
    place,
    weight,
    codes,
    Y,
    n_outputs,
    criterion,
    max_depth,
    min_weight,
    min_gain,
    max_features,
    draws,
    seed,
    stop,
):
    """Grow a tree and return its nodes, each before its children and the left before the right.

    Memory is O(n_features · rows) for each node on the way down: a frame holds the node's rows,
    their masses u in it, and their events of each feature looked at, in order.

    Parameters
    ----------
    at : float64, (n_features, n_rows * n_edges)
    share : float64, (n_features, n_edges)
    order, count, change, turn, position, n_positions, place
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
    stop : int8, (1,)
        Looked at in each node; growth ends where it is not 0.

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
    n_features, n_edges = share.shape
    n_rows = weight.size
    state = np.array([seed], np.uint64)
    low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    s, S, m = np.zeros(n_outputs), np.zeros(n_outputs), np.zeros(n_outputs)
    centre, rest, since = np.zeros(n_outputs), np.zeros(n_outputs), np.zeros(n_outputs)
    open_rows = np.zeros(n_outputs, np.int64)
    rate, stamp = np.zeros(n_rows), np.full(n_rows, -1)
    slope = np.zeros((n_positions.max(), n_outputs + 1))
    jump, n_of_bin = np.zeros_like(slope), np.zeros((len(slope), 4), np.int64)
    shuffled = np.arange(n_features)
    smallest = SMALLEST * min_weight
    scale = 0.0
    if criterion == VECTORS:
        scale = np.abs(Y).max()

    # The tree.
    left, right, feature = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int64)
    threshold, mass, loss = np.zeros(64), np.zeros(64), np.zeros(64)
    total = np.zeros(64 * n_outputs)
    n_nodes = 0

    # The frames from the root to the node at hand: rows, masses and events lie on three stacks.
    phase, node_at, kept_bound = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64)
    row_start, row_count = np.zeros(64, np.int64), np.zeros(64, np.int64)
    starts, counts = np.zeros(64 * n_features, np.int64), np.zeros(64 * n_features, np.int64)
    rows, u = np.zeros(2 * n_rows, np.int32), np.zeros(2 * n_rows)
    events, event_top = np.zeros(1, np.int32), np.zeros(65, np.int64)
    everything = 0.0
    for row in range(n_rows):
        if weight[row] > 0.0:
            rows[row_count[0]] = row
            u[row_count[0]] = weight[row]
            row_count[0] += 1
            everything += weight[row]

    depth = 0
    while depth >= 0 and stop[0] == 0:
        first, n = row_start[depth], row_count[depth]
        if phase[depth] == 2:
            low[feature[node_at[depth]]] = kept_bound[depth]
            depth -= 1
            continue
        if phase[depth] == 0:
            own, own_u = rows[first : first + n], u[first : first + n]
            w = total_of(own, own_u, codes, Y, criterion, s)
            node_loss = loss_of(own, own_u, Y, s, w, criterion)
            node = n_nodes
            n_nodes += 1
            left, right = doubled(left, n_nodes), doubled(right, n_nodes)
            feature, threshold = doubled(feature, n_nodes), doubled(threshold, n_nodes)
            mass, loss = doubled(mass, n_nodes), doubled(loss, n_nodes)
            total = doubled(total, n_nodes * n_outputs)
            left[node] = right[node] = feature[node] = -1
            node_at[depth], mass[node], loss[node] = node, w, node_loss
            total[node * n_outputs : n_nodes * n_outputs] = s
            if depth > 0 and phase[depth - 1] == 1:
                left[node_at[depth - 1]] = node
            elif depth > 0:
                right[node_at[depth - 1]] = node
            # Below this a node is pure, or differs by what rounding left of its vectors.
            least_gain = GAIN * w
            pure = least_gain
            if criterion == VECTORS:
                least_gain = GAIN * node_loss
                pure = w * (4.0 * EPSILON * scale) ** 2
            if depth >= max_depth or w < 2.0 * min_weight * (1.0 - ROUNDING) or node_loss <= pure:
                depth -= 1
                continue
            unsplit = -node_loss
            if criterion == VECTORS:
                centre[:] = s / w
                s[:] = 0.0
            squares = 0.0
            for c in range(n_outputs):
                squares += s[c] * s[c]
            if criterion != ENTROPY:
                unsplit = squares / w
            if not draws:
                stamp[own] = node
                event_top[depth + 1] = event_top[depth]
                counts[depth * n_features : (depth + 1) * n_features] = -1
            least, tie = max(min_weight, LEAST * w), TIE * least_gain
            best, best_feature, best_at = -np.inf, -1, 0.0
            looked, rates_are_masses = 0, False
            for number in range(n_features):
                if max_features < n_features:
                    other = number + int(uniform(state) * (n_features - number))
                    shuffled[number], shuffled[other] = shuffled[other], shuffled[number]
                j = shuffled[number]
                if not densities_differ(own, at[j], n_edges):
                    continue
                looked += 1
                if draws:
                    begin, end = support(own, at[j], n_edges, low[j], high[j])
                    t = begin + uniform(state) * (end - begin)
                    found = drawn_gain(
                        own,
                        own_u,
                        at[j],
                        n_edges,
                        share[j],
                        low[j],
                        high[j],
                        t,
                        codes,
                        Y,
                        centre,
                        s,
                        w,
                        least,
                        criterion,
                        S,
                    )
                else:
                    is_cut = low[j] > -np.inf or high[j] < np.inf
                    if is_cut:
                        of_feature, below, above = at[j], low[j], high[j]
                        for k in range(n):
                            row = own[k]
                            part = share_of(of_feature, row, n_edges, below, above, share[j])
                            rate[row] = own_u[k] / part
                    elif not rates_are_masses:
                        for k in range(n):
                            rate[own[k]] = own_u[k]
                    rates_are_masses = not is_cut
                    line = depth * n_features + j
                    line_above = closest(counts, line, n_features)
                    size = counts[line_above] if line_above >= 0 else count[j]
                    by_position = pays(n_positions[j], n_outputs, n * n_edges)
                    if not by_position or size > FAR * n * n_edges:
                        events = filtered_events(
                            events,
                            event_top[depth + 1],
                            line,
                            line_above,
                            j,
                            starts,
                            counts,
                            order,
                            count,
                            n_edges,
                            stamp,
                            node,
                        )
                        event_top[depth + 1] += counts[line]
                    if by_position:
                        bins = n_positions[j]
                        fill(
                            own,
                            change[j],
                            turn[j],
                            place[j],
                            n_edges,
                            rate,
                            codes,
                            Y,
                            centre,
                            criterion,
                            slope[:bins],
                            jump[:bins],
                            n_of_bin[:bins],
                        )
                        found, t = best_of_bins(
                            position[j, :bins],
                            slope[:bins],
                            jump[:bins],
                            n_of_bin[:bins],
                            low[j],
                            high[j],
                            s,
                            w,
                            least,
                            tie,
                            criterion,
                            S,
                            m,
                        )
                    else:
                        found, t = best_threshold(
                            events[starts[line] : starts[line] + counts[line]],
                            at[j],
                            change[j],
                            turn[j],
                            n_edges,
                            low[j],
                            high[j],
                            rate,
                            codes,
                            Y,
                            centre,
                            s,
                            w,
                            squares,
                            least,
                            tie,
                            criterion,
                            S,
                            m,
                            rest,
                            since,
                            open_rows,
                        )
                if found > best + tie:
                    best, best_feature, best_at = found, j, t
                if looked >= max_features and best > -np.inf:
                    break
            gain = best - unsplit
            if best_feature < 0 or gain <= least_gain or gain < min_gain * everything:
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
            high[j] = old_high = kept_bound[depth]
            kept_bound[depth] = low[j]
            low[j] = t
        phase[depth] += 1
        phase, node_at = doubled(phase, depth + 2), doubled(node_at, depth + 2)
        row_start, row_count = doubled(row_start, depth + 2), doubled(row_count, depth + 2)
        kept_bound = doubled(kept_bound, depth + 2)
        starts = doubled(starts, (depth + 2) * n_features)
        counts = doubled(counts, (depth + 2) * n_features)
        event_top = doubled(event_top, depth + 3)
        rows, u = doubled(rows, first + 2 * n + 1), doubled(u, first + 2 * n + 1)
        row_start[depth + 1] = first + n
        row_count[depth + 1] = child_rows(
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
            smallest,
        )
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
