"""What is said of a model of scikit-learn that is not lifted: why, and what to do instead."""

from __future__ import annotations

from typing import Any

from bitvec.converters.sklearn.records import class_name
from bitvec.errors import UnsupportedModelError

_ADVICE = {
    "RandomTreesEmbedding": "it returns leaf indicators; convert its members, "
    "`model.estimators_[i]`",
    "SearchCV": "convert the model that it chose, `model.best_estimator_`",
    "CalibratedClassifier": "its calibrators come after the trees; convert "
    "`model.calibrated_classifiers_[i].estimator`",
    "TunedThreshold": "convert the classifier, `model.estimator_`",
    "FixedThreshold": "convert the classifier, `model.estimator_`",
    "TransformedTarget": "convert the regressor, `model.regressor_`, and transform its answers",
    "Voting": "its members may be of any kind; convert them, `model.estimators_[i]`",
    "Stacking": "its last model reads the answers of others; convert `model.estimators_[i]`",
    "MultiOutput": "convert its members, `model.estimators_[i]`, or fit one forest on all targets",
    "Chain": "each member reads the answers before it; convert `model.estimators_[i]`",
    "OneVsRest": "convert its members, `model.estimators_[i]`, or fit one model on all classes",
    "OneVsOne": "convert its members, `model.estimators_[i]`, or fit one model on all classes",
}
"""Part of a class name, and what its owner can do instead; the first match counts."""


def refuse(model: Any, supported: tuple[str, ...]) -> UnsupportedModelError:
    """Return the error for a model whose class is not one of `supported`."""
    name = class_name(model)
    steps = getattr(model, "steps", None)
    if name.endswith("Pipeline") and isinstance(steps, list) and steps:
        last = class_name(steps[-1][-1])
        return UnsupportedModelError(
            f"a {name} cannot be lifted, because its other steps change the columns that the "
            f"trees read: convert its last step, `model[-1]` (a {last}), and give it the rows "
            "that `model[:-1].transform(X)` returns."
        )
    match = next((advice for part, advice in _ADVICE.items() if part in name), None)
    return UnsupportedModelError(
        f"the model must be one of {', '.join(supported)}, got {name}"
        + (f": {match}." if match else ".")
    )
