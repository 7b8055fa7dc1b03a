"""CatBoost: files, objects, and the options that convert exactly."""

from __future__ import annotations

from typing import Final

from bitvec.converters.format import Content, Format

MAGIC: Final = b"CBM1"
"""First bytes of CatBoost's binary files."""


def is_catboost(content: Content) -> bool:
    """Return whether this is the library's own binary format, or JSON with features and trees."""
    if content.head.startswith(MAGIC):
        return True
    return content.first_key is not None and content.holds(b'"features_info"', b'rees"')


FORMATS: Final = (
    Format(
        name="CatBoost",
        folder="catboost",
        packages=("catboost",),
        recognises=is_catboost,
        made_by="model.save_model(path, format='json')",
        supported=(
            "JSON file",
            "binary file",
            "fitted model",
            "SymmetricTree",
            "Depthwise",
            "Lossguide",
            "nan_mode Min",
            "nan_mode Max",
            "one-hot categories",
            "texts of categories",
            "CTR Borders",
            "CTR Buckets",
            "CTR BinarizedTargetMeanValue",
            "CTR Counter",
            "CTR combinations",
            "labels of text",
            "scale and bias",
            "Logloss",
            "CrossEntropy",
            "MultiClass",
            "MultiClassOneVsAll",
            "MultiLogloss",
            "RMSE",
            "MultiRMSE",
            "RMSEWithUncertainty",
            "Poisson",
            "Tweedie",
            "Quantile",
            "YetiRank",
        ),
        unsupported=(
            (
                "text and embedding features",
                "what they read is computed from the training data: the feature is named",
            ),
            (
                "CTRs of labels with several columns, but for Counter",
                "CatBoost's JSON does not tell of which column they are",
            ),
        ),
    ),
)
