"""Scores of an isolation forest as scikit-learn has them."""

from __future__ import annotations

from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform


def isolation_offset(forest: Forest) -> float | None:
    """Return what scikit-learn's `decision_function` subtracts; None for other forests."""
    source, kind = forest.source, forest.output.post_transform
    if source is None or kind is not PostTransform.EXPONENTIAL_STANDARD_RATIO:
        return None
    offset = source.metadata.get("offset")
    return offset if source.library == "sklearn" and isinstance(offset, float) else None
