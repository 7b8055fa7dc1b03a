"""scikit-learn's ensembles of other models: those whose members' answers are combined exactly."""

from __future__ import annotations

from typing import Any, Final

from bitvec.converters.format import Content, Format
from bitvec.converters.sklearn.format import root_class

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
    from bitvec.converters.attribute_records import class_name, library_class

    if library_class(model) not in COMBINING:
        return False
    members = getattr(model, "estimators_", None) or []
    of_trees = all(class_name(member) in _TREES for member in members)
    return not (class_name(model).startswith("Bagging") and of_trees)


def is_composition_file(content: Content) -> bool:
    """Return whether this is a .skops file of such an ensemble."""
    name = root_class(content)
    if name not in COMBINING or not name.startswith("Bagging"):
        return name in COMBINING
    from bitvec.converters.sklearn.skops_schema import read
    from bitvec.errors import BitvecError
    from bitvec.files.sound import sound

    try:
        with sound(content.path.name, "hold a model as scikit-learn leaves it"):
            return combines(read(content.path))
    except BitvecError:  # which the converter of scikit-learn's files says again
        return False


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
            (
                "members of CatBoost on other processors than x86",
                "its exponentials are not known to the last bit there",
            ),
            ("ONNX, C, SQL and pages of a composition", "they hold one sum over trees"),
        ),
    ),
    Format(
        name="scikit-learn composition file",
        folder="compositions",
        recognises=is_composition_file,
        takes_dtypes=True,
        made_by="skops.io.dump(ensemble, path)",
        supported=("skops file",),
        unsupported=(
            (
                "members of xgboost and LightGBM in a .skops file",
                "their objects are not read there",
            ),
        ),
        unneeded=("torch",),
    ),
)
