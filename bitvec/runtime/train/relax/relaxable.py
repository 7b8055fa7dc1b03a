"""Check that a forest can be relaxed."""

from __future__ import annotations

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.train.relax.relaxations import Relaxation


def require_relaxable(forest: Forest, relaxation: Relaxation, leaves: str) -> None:
    """Raise UnsupportedModelError if a forest has no such soft form."""
    aggregate = forest.output.aggregate
    reason = None
    if forest.leaves.linear is not None and leaves == "logits":
        reason = "have constant leaves to hold logits, got linear ones"
    elif forest.kernel is not None and relaxation.gate != "kernel":
        reason = (
            "have no prediction kernel, whose answers are soft already: pass "
            'relaxation="kernel", or dataclasses.replace(forest, kernel=None) to relax its crisp '
            "trees"
        )
    elif aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        reason = f"sum or average its trees, got aggregate {aggregate}"
    elif forest.n_trees == 0:
        reason = "have at least one tree, got none"
    if reason is not None:
        raise UnsupportedModelError(f"a forest that is relaxed must {reason}.")
