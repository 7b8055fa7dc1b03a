"""Refusal of programs of torch.export as models."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from bitvec.errors import UnsupportedModelError


def convert(path: str | Path) -> NoReturn:
    """Refuse a program, whose tensor operations do not say which trees they came from.

    Raises
    ------
    UnsupportedModelError
    """
    raise UnsupportedModelError(
        f"{path} must be a model file, got a program of torch.export, which shows no trees: "
        "convert the model that it was exported from."
    )
