"""Estimators in .skops files, built and saved by skops.

A conversion reads the schema alone (`skops_schema`). The library's own answers need the library's
own objects: skops builds them of a file whose conversion has succeeded and whose types are all on a
list.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bitvec.converters.sklearn.read import convert
from bitvec.errors import FileFormatError, UnsupportedModelError, needs
from bitvec.files.sound import reason

_LOSS = "sklearn._loss."
TRUSTED = frozenset(
    {
        "functools.partial",
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.compose._column_transformer._RemainderColsList",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
        "sklearn.utils.validation.check_array",
        *(
            f"{_LOSS}link.{name}"
            for name in (
                "HalfLogitLink",
                "IdentityLink",
                "Interval",
                "LogLink",
                "LogitLink",
                "MultinomialLogit",
            )
        ),
        *(
            f"{place}{name}"
            for name in (
                "AbsoluteError",
                "ExponentialLoss",
                "HalfBinomialLoss",
                "HalfGammaLoss",
                "HalfMultinomialLoss",
                "HalfPoissonLoss",
                "HalfSquaredError",
                "HuberLoss",
                "PinballLoss",
            )
            for place in (f"{_LOSS}loss.", f"{_LOSS}_loss.Cy", "_loss.Cy")
        ),
    }
)
"""Types that `load` lets skops build, besides those that skops itself trusts."""


def load(path: str | Path, accepts: Callable[[Path], object] = convert) -> Any:
    """Have skops build the estimator in a .skops file that a conversion accepts.

    Raises
    ------
    FileNotFoundError, FileFormatError, UnsupportedModelError, InvalidForestError
        As `convert`; UnsupportedModelError also for types that are not on the list.
    MissingLibraryError
        If skops or scikit-learn is not installed.
    """
    path = Path(path)
    accepts(path)
    with needs("skops", "sklearn", "Asking the model in a .skops file"):
        import skops.io
    # skops answers damage with exceptions of many kinds; each means that the file is not good.
    try:
        needed = set(skops.io.get_untrusted_types(file=path))
        if needed <= TRUSTED:
            return skops.io.load(path, trusted=sorted(needed))
    except Exception as error:
        raise FileFormatError(
            f"{path.name} must be a file that the installed skops and scikit-learn can load, got "
            f"{reason(error)}: install the versions that it was saved with."
        ) from error
    raise UnsupportedModelError(
        f"{path.name} must hold only types of scikit-learn's trees, got others "
        f"({', '.join(sorted(needed - TRUSTED)[:5])}): save the plain model with skops."
    )


def dumps(estimator: Any) -> bytes:
    """Return an estimator as the content of a .skops file.

    Raises
    ------
    MissingLibraryError
        If skops is not installed.
    """
    with needs("skops", "sklearn", "Writing a .skops file"):
        import skops.io
    content: bytes = skops.io.dumps(estimator)
    return content
