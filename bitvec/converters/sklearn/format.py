"""scikit-learn: estimators, .skops files, and the options that convert exactly."""

from __future__ import annotations

import re
import zipfile
from typing import Final

from bitvec.converters.format import Content, Format

_BEGINNING: Final = 1 << 16


def is_skops(content: Content) -> bool:
    """Return whether this is a zip archive with a schema."""
    return "schema.json" in content.members


def root_class(content: Content) -> str | None:
    """Return the name of the class of the object in a .skops file; None of another file."""
    if not is_skops(content):
        return None
    try:
        with zipfile.ZipFile(content.path) as archive, archive.open("schema.json") as schema:
            head = schema.read(_BEGINNING)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        return None
    found = re.match(rb'\s*\{\s*"__class__":\s*"(\w+)"', head)
    return None if found is None else found[1].decode()


FORMATS: Final = (
    Format(
        name="scikit-learn",
        folder="sklearn",
        packages=("sklearn",),
        supported=(
            "DecisionTree",
            "ExtraTree",
            "RandomForest",
            "ExtraTrees",
            "GradientBoosting",
            "GradientBoosting loss log_loss",
            "GradientBoosting loss exponential",
            "GradientBoosting loss squared_error",
            "GradientBoosting loss absolute_error",
            "GradientBoosting loss huber",
            "GradientBoosting loss quantile",
            "GradientBoosting constant init",
            "HistGradientBoosting",
            "HistGradientBoosting loss log_loss",
            "HistGradientBoosting loss squared_error",
            "HistGradientBoosting loss absolute_error",
            "HistGradientBoosting loss poisson",
            "HistGradientBoosting loss gamma",
            "HistGradientBoosting loss quantile",
            "HistGradientBoosting NaN",
            "HistGradientBoosting integer categories",
            "HistGradientBoosting string categories",
            "IsolationForest",
            "AdaBoostClassifier",
            "AdaBoostRegressor",
            "Bagging",
            "Bagging feature subsets",
            "NaN",
            "multi-output",
            "multi-label",
            "labels of text",
            "labels of bool",
            "labels of float",
            "sample weights",
            "monotonic constraints",
        ),
        unsupported=(
            ("stacking", "a model reads the answers of others: convert members"),
            ("GradientBoosting with an `init` that is no constant", "it is another model"),
            ("AdaBoost and Bagging over other models", "they are no trees"),
            ("AdaBoost by SAMME.R, before 1.6", "it adds logarithms that no leaf can hold"),
        ),
        writes="sklearn",
    ),
    Format(
        name="scikit-learn file",
        folder="sklearn",
        recognises=is_skops,
        made_by="skops.io.dump(model, path)",
        supported=("skops file",),
        unsupported=(("a pickle or joblib file", "loading it can run any code"),),
        unneeded=("torch",),
    ),
)
