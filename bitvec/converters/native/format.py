"""Trees of the papers: classes, and the options that convert exactly."""

from __future__ import annotations

from typing import Final

from bitvec.converters.format import Format

FORMATS: Final = (
    Format(
        name="native trees",
        folder="native",
        packages=("bitvec.converters.native", "bitvec.learners", "bitvec.learners.retrained"),
        supported=(
            "CPT",
            "E2EDT",
            "E2EDF",
            "KDDT",
            "KDDTForest",
            "TAO",
            "TAOForest",
            "one-feature tests",
            "oblique tests",
            "facets",
            "feature maps",
            "bandwidths",
            "linear leaves",
        ),
    ),
)
