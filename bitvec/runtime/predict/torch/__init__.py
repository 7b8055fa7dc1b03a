"""Forests run by PyTorch, on any device."""

from __future__ import annotations

from importlib.util import find_spec

from bitvec.errors import MissingLibraryError

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.predict.torch")

from bitvec.runtime.predict.torch.engine import TorchEngine

__all__ = ["TorchEngine"]
