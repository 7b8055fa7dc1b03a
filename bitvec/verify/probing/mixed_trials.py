"""Rows for trees with tests of several columns: searched from rows that are known to come near."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats
from bitvec.core.reference import outcomes
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.verify.probing.base_rows import BaseRows
from bitvec.verify.probing.coverage import Coverage
from bitvec.verify.probing.found_rows import FoundRows
from bitvec.verify.probing.halfspaces import search
from bitvec.verify.probing.probe_targets import Outcome, Targets, sides
from bitvec.verify.probing.proofs import BOXES, decide, magnitudes
from bitvec.verify.probing.regions import Plan, Region, entries
from bitvec.verify.probing.trials import Trials, bounds, comes_by, into_region, shows

MISSING_SHARES = (0.0, 0.0, 0.0, 1.0, 0.5, 0.0)
"""Share of the values that may be missing is so, attempt by attempt (the first: as found; the
second is the decision of what the first has missed)."""
BOXES_IN_ALL = 1 << 12
"""Boxes looked at before each further decision gets one only."""
HALVINGS = 80
"""Steps of a bisection: more than the bits of any float."""
RUNS = 64
"""Most intervals of a column that are decided one by one, where none is shown for all at once."""


class MixedTrials(Trials):
    """Makes rows below tests of several columns, from `finds`, or proves that there are none.

    Regions must come parents first.
    """

    def __init__(self, plan: Plan, base: BaseRows, coverage: Coverage, finds: FoundRows) -> None:
        super().__init__(plan, base, coverage)
        self.finds = finds
        self.is_empty = np.zeros(plan.forest.n_nodes, bool)
        self.boxes = BOXES_IN_ALL
        self.magnitude = magnitudes(plan.forest, base.X)

    def probe(self, region: Region, rng: np.random.Generator) -> Iterator[Array]:
        """Yield the rows of a region's targets and of the edges of its tests."""
        yield from super().probe(region, rng)
        yield from self._edges(region)

    def reachable(self, region: Region) -> Bool[Array, " n_nodes"]:
        """Return whether a row can come by each node, as far as that is proven not to be."""
        reachable = region.reachable.copy()
        every = _either_side(np.arange(region.nodes.size))
        low, high, may_miss = bounds(self.plan, region, every)
        for i, node in enumerate(region.nodes.tolist()):
            if not reachable[i] or self.finds.found[node, 2] >= 0:
                continue
            parent = int(self.plan.parent[node])
            self.is_empty[node] = parent >= 0 and self.is_empty[parent]
            if not self.is_empty[node]:
                one, box = every.take(np.array([i])), (low[i], high[i], may_miss[i])
                start = np.zeros((1, self.plan.forest.n_features), self.plan.forest.dtype)
                self.is_empty[node], rows = self._decide(region, one, box, start)
                if rows is not None:
                    self.finds.admit(rows, node)
        return reachable & ~self.is_empty[region.nodes]

    def rows(
        self, region: Region, wanted: Targets, rng: np.random.Generator
    ) -> tuple[Array, Bool[Array, " n"], Bool[Array, " n"]]:
        """Return one row per target, whether it shows the target, and whether one has to."""
        plan, node = self.plan, region.nodes[wanted.at]
        X = self.base.draw(wanted.at.size, rng)
        found, is_answer = self.finds.best(node, wanted)
        X[found >= 0] = self.finds.rows(found[found >= 0])
        is_answer &= shows(plan, region, wanted, X)
        X = np.where(is_answer[:, None], X, into_region(plan, region, wanted, X.copy()))
        shown = shows(plan, region, wanted, X)
        needed = wanted.needed.copy()
        for attempt, share in enumerate(MISSING_SHARES):
            # Where no row was found to come by, the search for the parent's side has failed.
            bad = np.flatnonzero(~shown & plan.is_below_mixed[node] & (found >= 0))
            if attempt:
                bad = bad[needed[bad]]
            if bad.size == 0:
                break
            part = wanted.take(bad)
            low, high, may_miss = bounds(plan, region, part)
            if attempt == 1:
                for i, at in enumerate(bad.tolist()):
                    one, box = part.take(np.array([i])), (low[i], high[i], may_miss[i])
                    is_empty, rows = self._decide_all(region, one, box, X[at : at + 1])
                    needed[at] = not is_empty
                    if rows is not None:
                        X[at], shown[at] = rows[0], True
                continue
            if attempt:
                start = self.base.draw(bad.size, rng) if attempt % 2 else X[bad]
                X[bad] = into_region(plan, region, part, start)
            X[bad] = self._search(region, part, X[bad], (low, high, may_miss), share, attempt, rng)
            shown[bad] = shows(plan, region, part, X[bad])
        hits = np.flatnonzero(shown)
        goes_right = outcomes(plan.forest, X, hits, node[hits])
        self.finds.add(X[hits], node[hits], goes_right, wanted.take(hits))
        return X, shown, needed

    def _decide_all(
        self,
        region: Region,
        wanted: Targets,
        box: tuple[Array, Array, Array],
        X: Float[Array, "1 n_features"],
    ) -> tuple[bool, Float[Array, "1 n_features"] | None]:
        """Return the same as `_decide`, where the path admits some intervals of a column only."""
        is_empty, rows = self._decide(region, wanted, box, X.copy())
        j = int(wanted.column[0])
        if is_empty or rows is not None or j not in region.atoms or wanted.missing[0]:
            return is_empty, rows
        i, side = int(wanted.at[0]), int(wanted.side[0])
        first, last = region.runs(i, j, int(wanted.low[0]), int(wanted.high[0]), side)
        if first.size > RUNS:
            return False, None
        column, (low, high, may_miss) = region.columns[j], box
        is_empty = True
        for begin, end in zip(*(floats(keys, X.dtype) for keys in (first, last)), strict=True):
            low[column], high[column] = begin, end
            none, rows = self._decide(region, wanted, (low, high, may_miss), X.copy())
            if rows is not None:
                return False, rows
            is_empty &= none
        return is_empty, None

    def _decide(
        self,
        region: Region,
        wanted: Targets,
        box: tuple[Array, Array, Array],
        X: Float[Array, "1 n_features"],
    ) -> tuple[bool, Float[Array, "1 n_features"] | None]:
        """Return whether no row can show the one target wanted, and a row that does if one came up.

        X is overwritten.
        """
        node, side = int(region.nodes[wanted.at[0]]), int(sides(wanted)[0])
        boxes = max(1, min(BOXES, self.boxes))
        verdict = decide(self.plan, node, side, *box, self.magnitude, boxes=boxes)
        self.boxes -= verdict.cost
        if verdict.row is None:
            return verdict.none, None
        X = into_region(self.plan, region, wanted, X)
        X[0, verdict.columns] = verdict.row
        return False, X if shows(self.plan, region, wanted, X)[0] else None

    def _search(
        self,
        region: Region,
        wanted: Targets,
        X: Float[Array, "n n_features"],
        box: tuple[Array, Array, Array],
        share: float,
        attempt: int,
        rng: np.random.Generator,
    ) -> Float[Array, "n n_features"]:
        plan, node, side = self.plan, region.nodes[wanted.at], sides(wanted)
        low, high, may_miss = (part.copy() for part in box)
        has_no_value = low > high
        # The path's sets of codes and the like bound no interval: such a column stays.
        pinned = region.columns[list(region.atoms)]
        low[:, pinned] = high[:, pinned] = X[:, pinned]
        strays = np.flatnonzero(
            (side >= 0) & (plan.feature[node] < 0) & (plan.forest.tests.missing_right[node] != side)
        )
        at, column = entries(plan, node[strays], without_substitute=True)
        may_miss[strays[at], column] = False
        absent = np.isnan(X)
        if attempt:
            absent &= ~may_miss
            absent |= may_miss & (rng.random(X.shape) < share)
        absent = (absent & may_miss) | has_no_value
        X = np.where(absent, np.nan, np.where(np.isnan(X), np.clip(0, low, high), X)).astype(
            X.dtype
        )
        for i in range(len(X)):
            row = search(plan, X[i], int(node[i]), int(side[i]), low[i], high[i], attempt=attempt)
            if row is not None:
                X[i] = row
        return X

    def _edges(self, region: Region) -> Iterator[Array]:
        plan = self.plan
        nodes = region.nodes[plan.feature[region.nodes] < 0]
        pair = self.finds.found[nodes, :2]
        nodes, pair = nodes[np.all(pair >= 0, axis=1)], pair[np.all(pair >= 0, axis=1)]
        if nodes.size == 0:
            return
        ends = bisect(plan, self.finds.rows(pair[:, 0]), self.finds.rows(pair[:, 1]), nodes)
        shown = comes_by(plan, ends[0], nodes) & comes_by(plan, ends[1], nodes)
        self.coverage.seen[nodes[shown]] |= int(Outcome.EDGE)
        yield np.concatenate(ends)


def _either_side(at: Array) -> Targets:
    """Return targets that ask for nothing but to come by."""
    zero = np.zeros(at.size, np.int64)
    no = np.zeros(at.size, bool)
    return Targets(
        at, zero.astype(np.int32), zero - 1, zero, zero, zero, zero.astype(np.int8), no, no, no
    )


def bisect(
    plan: Plan,
    left: Float[Array, "n n_features"],
    right: Float[Array, "n n_features"],
    node: Int64[Array, " n"],
) -> tuple[Float[Array, "n n_features"], Float[Array, "n n_features"]]:
    """Return rows on the segments between rows on both sides of a node, as near as floats allow."""
    left, right = left.copy(), right.copy()
    every = np.arange(len(left))
    for _ in range(HALVINGS):
        middle = left / 2 + right / 2
        goes_right = outcomes(plan.forest, middle, every, node)
        right[goes_right] = middle[goes_right]
        left[~goes_right] = middle[~goes_right]
    return left, right
