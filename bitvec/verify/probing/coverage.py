"""Coverage: outcomes that rows have shown at each node, against those that are possible."""

from __future__ import annotations

from dataclasses import dataclass

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Int32
from bitvec.verify.probing.probe_targets import Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Outcomes that rows have shown at each node, as bits of `Outcome`.

    `needed` holds the outcomes that the node's path admits, `seen` those that rows have shown there
    (a set's codes only if each of them was shown, of more than `LONG_RUN` in a row some).
    `reachable` is false where no row can arrive; below tests of several columns, where that is
    proven for finite values of up to `MAGNITUDE` times a column's thresholds and given rows.
    """

    reachable: Bool[Array, " n_nodes"]
    needed: Int32[Array, " n_nodes"]
    seen: Int32[Array, " n_nodes"]

    @property
    def is_covered(self) -> Bool[Array, " n_nodes"]:
        """True at a node that is reachable and showed every outcome that it can."""
        covered: Array = self.reachable & (self.needed & ~self.seen == 0)
        return covered

    @property
    def fraction(self) -> float:
        """Covered nodes over reachable ones; 1 for a forest without nodes."""
        reachable = int(self.reachable.sum())
        return int(self.is_covered.sum()) / reachable if reachable else 1.0

    def missed(self, node: int) -> Outcome:
        """Return the outcomes that a node can show and has not."""
        return (
            Outcome(int(self.needed[node] & ~self.seen[node]))
            if self.reachable[node]
            else Outcome(0)
        )
