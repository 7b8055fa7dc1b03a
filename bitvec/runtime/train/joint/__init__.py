"""Joint training of complete trees with leaf vectors, their rows dense, limited or fixed."""

from __future__ import annotations

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.train.joint")

from bitvec.runtime.train.joint.boosted_start import boosted, with_boosted_leaves
from bitvec.runtime.train.joint.complete_trees import CompleteTrees, completed
from bitvec.runtime.train.joint.joint_module import SoftTrees, soft_scores
from bitvec.runtime.train.joint.joint_training import JointRecipe, Look, offer, train_jointly

__all__ = [
    "CompleteTrees",
    "JointRecipe",
    "Look",
    "SoftTrees",
    "boosted",
    "completed",
    "offer",
    "soft_scores",
    "train_jointly",
    "with_boosted_leaves",
]
