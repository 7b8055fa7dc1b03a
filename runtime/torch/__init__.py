"""Forests in PyTorch: run as matrices on any device, relax, retrain, harden."""

from __future__ import annotations

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.torch")

from bitvec.runtime.torch.engine import TorchEngine
from bitvec.runtime.torch.harden import from_torch, harden
from bitvec.runtime.torch.module import SoftForest
from bitvec.runtime.torch.retrain import RetrainResult, retrain
from bitvec.runtime.torch.selection import Evaluation

__all__ = [
    "Evaluation",
    "RetrainResult",
    "SoftForest",
    "TorchEngine",
    "from_torch",
    "harden",
    "retrain",
]
