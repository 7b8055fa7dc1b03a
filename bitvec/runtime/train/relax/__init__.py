"""Forests as torch modules: softly reached leaves, parameters that move, and the way back."""

from __future__ import annotations

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.train.relax")

from bitvec.runtime.train.relax.hard_layers import harden_
from bitvec.runtime.train.relax.harden import from_torch, harden
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.relaxations import Relaxation

__all__ = ["Relaxation", "SoftForest", "from_torch", "harden", "harden_"]
