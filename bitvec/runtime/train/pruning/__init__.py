"""Pruning of branches that no row reaches and of subtrees of equal leaves."""

from bitvec.runtime.train.pruning.prune import PruneResult, prune

__all__ = ["PruneResult", "prune"]
