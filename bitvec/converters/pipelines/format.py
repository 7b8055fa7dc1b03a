"""scikit-learn pipelines: the steps whose arithmetic is folded into the trees behind them."""

from __future__ import annotations

import re
import zipfile
from typing import Final

from bitvec.converters.format import Content, Format
from bitvec.converters.sklearn.format import is_skops

_BEGINNING: Final = 1 << 16


def is_pipeline_file(content: Content) -> bool:
    """Return whether this is a .skops file whose object is a Pipeline."""
    if not is_skops(content):
        return False
    try:
        with zipfile.ZipFile(content.path) as archive, archive.open("schema.json") as schema:
            head = schema.read(_BEGINNING)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        return False
    found = re.match(rb'\s*\{\s*"__class__":\s*"(\w+)"', head)
    return found is not None and found[1] == b"Pipeline"


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
    ),
)
