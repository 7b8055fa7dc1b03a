"""Refusal of torch programs and modules as models."""

from __future__ import annotations

from typing import Any, NoReturn

from bitvec.errors import UnsupportedModelError


def convert(model: Any) -> NoReturn:
    """Refuse a program or a module, whose tensor operations do not say which trees they came from.

    Raises
    ------
    UnsupportedModelError
    """
    raise UnsupportedModelError(
        "a model must show its trees, got a program of torch.export or a module of `to_torch`: "
        "convert the model that it was made of."
    )
