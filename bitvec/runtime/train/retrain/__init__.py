"""Retraining: relax, anneal, harden, and keep the hard forest that validation prefers."""

from __future__ import annotations

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.train.retrain")

from bitvec.runtime.train.retrain.history import History
from bitvec.runtime.train.retrain.result import RetrainResult, Trial
from bitvec.runtime.train.retrain.retrain_options import Penalties, Schedule, Teacher
from bitvec.runtime.train.retrain.selection import Evaluation

__all__ = [
    "Evaluation",
    "History",
    "Penalties",
    "RetrainResult",
    "Schedule",
    "Teacher",
    "Trial",
]
