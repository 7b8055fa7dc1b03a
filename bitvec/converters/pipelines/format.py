"""scikit-learn pipelines: the steps whose arithmetic is folded into the trees behind them."""

from __future__ import annotations

from typing import Final

from bitvec.converters.format import Content, Format
from bitvec.converters.sklearn.format import root_class

HOLDERS: Final = {
    **dict.fromkeys(
        ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"),
        "best_estimator_",
    ),
    "FrozenEstimator": "estimator",
}
"""Models that answer as one that they hold, and where."""


def is_pipeline_file(content: Content) -> bool:
    """Return whether this is a .skops file whose object is a Pipeline, or holds what it chose."""
    return root_class(content) in ("Pipeline", *HOLDERS)


FORMATS: Final = (
    Format(
        name="scikit-learn pipeline",
        folder="pipelines",
        packages=("sklearn.pipeline", "sklearn.model_selection", "sklearn.frozen"),
        takes_dtypes=True,
        supported=(
            "StandardScaler",
            "MinMaxScaler",
            "MaxAbsScaler",
            "RobustScaler",
            "Binarizer",
            "KBinsDiscretizer",
            "PowerTransformer",
            "QuantileTransformer",
            "FunctionTransformer of NumPy's functions",
            "SimpleImputer",
            "MissingIndicator",
            "OneHotEncoder",
            "OrdinalEncoder",
            "ColumnTransformer",
            "FeatureUnion",
            "selectors of columns",
            "passthrough",
            "search wrappers",
            "FrozenEstimator",
        ),
        unsupported=(
            (
                "PCA and other steps that mix columns",
                "the order of their sums cannot be kept; PCA and TruncatedSVD with allow_rounding",
            ),
            ("FunctionTransformer with another function", "its arithmetic is not known"),
            ("a subclass of a step", "its arithmetic may be its own"),
            ("stacking", "a model reads the answers of others"),
            ("sparse rows", "the steps compute with them in another way"),
        ),
    ),
    Format(
        name="scikit-learn pipeline file",
        folder="pipelines",
        recognises=is_pipeline_file,
        takes_dtypes=True,
        made_by="skops.io.dump(pipeline, path)",
        supported=("skops file",),
        unneeded=("torch",),
    ),
)
