"""scikit-learn's ensembles of other models: those whose members' answers are combined exactly."""

from __future__ import annotations

from typing import Any, Final

from bitvec.converters.format import Format

COMBINING: Final = (
    "VotingClassifier",
    "VotingRegressor",
    "CalibratedClassifierCV",
    "TransformedTargetRegressor",
    "BaggingClassifier",
    "BaggingRegressor",
)
_TREES: Final = (
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
)


def combines(model: Any) -> bool:
    """Return whether a model combines forests; bagging of trees is a forest itself."""
    from bitvec.converters.sklearn.attribute_records import class_name, library_class

    if library_class(model) not in COMBINING:
        return False
    members = getattr(model, "estimators_", None) or []
    of_trees = all(class_name(member) in _TREES for member in members)
    return not (class_name(model).startswith("Bagging") and of_trees)


FORMATS: Final = (
    Format(
        name="scikit-learn composition",
        folder="compositions",
        packages=("sklearn.ensemble", "sklearn.calibration", "sklearn.compose"),
        holds=combines,
        takes_dtypes=True,
        supported=(
            "VotingClassifier, soft",
            "VotingRegressor",
            "CalibratedClassifierCV, sigmoid",
            "CalibratedClassifierCV, isotonic",
            "TransformedTargetRegressor",
            "Bagging of forests",
            "members of xgboost and LightGBM",
            "members that are pipelines",
        ),
        unsupported=(
            ("VotingClassifier, hard", "it counts labels, which are no sums of answers"),
            ("CalibratedClassifierCV, temperature", "its softmax rounds in an order of its own"),
            ("StackingClassifier, StackingRegressor", "a model reads the answers of others"),
            ("members of CatBoost", "it approximates exponentials, which is then averaged"),
            ("ONNX, C, SQL and pages of a composition", "they hold one sum over trees"),
        ),
    ),
)
