"""LightGBM: files, objects, and the options that convert exactly."""

from __future__ import annotations

import re
from typing import Final

from bitvec.converters.format import Content, Format


def is_lightgbm(content: Content) -> bool:
    """Return whether the first line is the word tree, or in the oldest files gbdt."""
    return re.match(rb"\s*(tree|gbdt)\r?\n", content.head) is not None


def is_lightgbm_dump(content: Content) -> bool:
    """Return whether this is the JSON of dump_model, which rounds nothing but is no model file."""
    return content.first_key is not None and content.holds(b'"tree_info"', b'"max_feature_idx"')


FORMATS: Final = (
    Format(
        name="LightGBM",
        folder="lightgbm",
        packages=("lightgbm",),
        recognises=is_lightgbm,
        made_by="booster.save_model(path)",
        supported=(
            "text file",
            "text file of versions 2 and 3",
            "Booster",
            "scikit-learn wrapper",
            "gbdt",
            "dart",
            "rf",
            "goss",
            "missing None",
            "missing Zero",
            "missing NaN",
            "categories",
            "categories of a data frame",
            "linear_tree",
            "constant trees",
            "best_iteration",
            "multiclass",
            "multiclassova",
            "binary",
            "regression",
            "regression sqrt",
            "regression_l1",
            "huber",
            "fair",
            "poisson",
            "quantile",
            "mape",
            "gamma",
            "tweedie",
            "cross_entropy",
            "cross_entropy_lambda",
            "lambdarank",
            "rank_xendcg",
            "custom",
        ),
        unsupported=(
            ("the text format before v2", "LightGBM itself no longer reads it"),
            ("the JSON of dump_model", "it is no model file: save the text"),
        ),
        mistaken=(
            (
                is_lightgbm_dump,
                "the JSON of LightGBM's dump_model: save the model with "
                "booster.save_model('model.txt')",
            ),
        ),
        writes="lightgbm",
        unneeded=("pandas", "sklearn"),
    ),
)
