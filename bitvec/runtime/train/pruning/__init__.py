"""What no row needs: branches that nothing reaches and subtrees of equal leaves."""

from bitvec.runtime.train.pruning.prune import PruneResult, prune

__all__ = ["PruneResult", "prune"]
