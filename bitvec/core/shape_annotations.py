"""Annotations of an array's dtype and shape: jaxtyping's, where that is imported before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "jaxtyping" in sys.modules:  # who checks shapes has imported it before
    from jaxtyping import (
        Bool,
        Float,
        Float32,
        Float64,
        Int,
        Int8,
        Int32,
        Int64,
        Shaped,
        UInt,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
    )
else:

    class Shaped:
        """Stands for jaxtyping's annotations: its import takes as long as reading a model."""

        def __class_getitem__(cls, annotation: tuple[Any, str]) -> Any:
            return annotation[0]

    Bool = Float = Float32 = Float64 = Shaped
    Int = Int8 = Int32 = Int64 = Shaped
    UInt = UInt8 = UInt16 = UInt32 = UInt64 = Shaped
