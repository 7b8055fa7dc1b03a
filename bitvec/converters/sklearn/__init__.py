"""scikit-learn: its tree estimators, and skops files of them, into a Forest and back.

Names are loaded when first used: a skops file is lifted without scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitvec.converters.sklearn.read import convert, oracle_of, round_down
    from bitvec.converters.sklearn.write import to_sklearn

_HOME = {"convert": "model", "round_down": "model", "oracle_of": "model", "to_sklearn": "writer"}

__all__ = ["convert", "oracle_of", "round_down", "to_sklearn"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
