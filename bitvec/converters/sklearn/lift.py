"""Which module lifts which class of scikit-learn's; it is named, not imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bitvec.converters.sklearn.accepted import refused
from bitvec.converters.sklearn.adaboost import lift_adaboost
from bitvec.converters.sklearn.boosting import lift_boosting
from bitvec.converters.sklearn.forests import lift_bagging, lift_forest
from bitvec.converters.sklearn.histogram import lift_histogram
from bitvec.converters.sklearn.isolation import lift_isolation
from bitvec.converters.sklearn.supported import (
    ADABOOST,
    BAGGING,
    BOOSTING,
    FORESTS,
    HISTOGRAMS,
    ISOLATION,
    TREES,
    kind_of,
)
from bitvec.core.forest import Forest

LIFTS: dict[str, Callable[[Any, str], Forest]] = {
    **dict.fromkeys((*TREES, *FORESTS), lift_forest),
    **dict.fromkeys(BAGGING, lift_bagging),
    **dict.fromkeys(BOOSTING, lift_boosting),
    **dict.fromkeys(HISTOGRAMS, lift_histogram),
    **dict.fromkeys(ADABOOST, lift_adaboost),
    **dict.fromkeys(ISOLATION, lift_isolation),
}


def lift(model: Any) -> Forest:
    """Lift a live estimator or the record of one; see `bitvec.converters.sklearn.convert`."""
    kind = kind_of(model)
    forest = LIFTS[kind](model, kind)
    assert forest.source is not None
    metadata = {**forest.source.metadata, **refused(model, kind)}
    return replace(forest, source=replace(forest.source, metadata=metadata))
