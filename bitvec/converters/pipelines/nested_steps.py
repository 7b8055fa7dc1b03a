"""Steps that choose columns or hold other steps: pipelines, unions, transformers of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bitvec.converters.attribute_records import Record, class_name, library_class
from bitvec.converters.pipelines import encoders, imputers, scalers, wavering
from bitvec.converters.pipelines.derived_columns import (
    Block,
    Step,
    Walk,
    checked,
    joined,
)

Follow = Callable[[Step, Block, Walk], Block]


def follow(step: Step, block: Block, walk: Walk) -> Block:
    """Return what a fitted step makes of a block.

    Raises
    ------
    UnsupportedModelError
        If the step is not known, a subclass of one, not fitted, or cannot be folded exactly.
    """
    if _is_passthrough(step.model):
        return block
    found = _STEPS.get(library_class(step.model))
    if found is None:
        raise step.refuse(_why_unknown(step.model))
    width = getattr(step.model, "n_features_in_", None)
    if width is not None and width != len(block.columns):
        raise step.refuse(f"it was fitted on {width} columns and is given {len(block.columns)}")
    if frame := block.frame or step.frame_of(block):
        raise step.refuse(f"it reads or makes a frame of {frame} whose columns have several dtypes")
    return found(step, block, walk)


def _is_passthrough(model: Any) -> bool:
    return model is None or (isinstance(model, str) and model == "passthrough")


def _why_unknown(model: Any) -> str:
    name = class_name(model)
    known = ", ".join(sorted(_STEPS))
    if isinstance(model, str):
        return f"{model!r} is no step"
    bases = [cls.__name__ for cls in type(model).__mro__[1:] if cls.__name__ in _STEPS]
    if bases:
        return f"it is a subclass of {bases[0]}, whose arithmetic may be its own; use {bases[0]}"
    return _REASONS.get(name, f"steps that are known: {known}")


def pipeline(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a Pipeline of transformers."""
    for name, model in step.fitted("steps"):
        block = follow(step.inner(model, name), block, walk)
    return block


def column_transformer(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a ColumnTransformer."""
    places = step.fitted("_transformer_to_input_indices")
    weights = step.option("transformer_weights", None) or {}
    blocks = []
    for name, model, _ in step.fitted("transformers_"):
        which = [int(at) for at in places[name]]
        if (isinstance(model, str) and model == "drop") or not which:
            continue
        inner = step.inner(model, name)
        if any(not 0 <= at < len(block.columns) for at in which):
            raise inner.refuse("it reads columns that are not there")
        part = follow(inner, block.take(which), walk)
        blocks.append(scalers.weighted(inner, part, weights.get(name)))
    return joined(blocks, step, sparse=bool(step.fitted("sparse_output_")))


def union(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a FeatureUnion."""
    weights = step.option("transformer_weights", None) or {}
    blocks = []
    for name, model in step.fitted("transformer_list"):
        if not (isinstance(model, str) and model == "drop"):
            inner = step.inner(model, name)
            blocks.append(scalers.weighted(inner, follow(inner, block, walk), weights.get(name)))
    return joined(blocks, step, sparse=any(part.is_sparse for part in blocks))


def identity(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a FunctionTransformer, without a function or with one of NumPy's."""
    if step.option("func", None) is not None:
        return wavering.function(step, block, walk)
    if step.option("validate", False):
        raise step.refuse("it validates its input; set validate=False, which is the default")
    return block


def selector(step: Step, block: Block, walk: Walk) -> Block:
    """Follow what chooses columns by a mask: SelectKBest, VarianceThreshold and their like."""
    mask = np.asarray(_support(step), np.bool_)
    if mask.shape != (len(block.columns),):
        raise step.refuse(f"its mask must be of {len(block.columns)} columns")
    block = block.promoted()
    is_object = any(column.dtype == np.dtype(object) for column in block.columns)
    block = block if is_object else checked(block, nan=_takes_missing(step))
    walk.checked += [block.columns[at] for at in np.flatnonzero(~mask)]
    return block.take(np.flatnonzero(mask).tolist())


def _support(step: Step) -> Any:
    if not isinstance(step.model, Record):
        try:
            return step.model.get_support()
        except Exception as error:  # NotFittedError, of a library that is not imported here
            raise step.refuse(f"it is not fitted: {error}") from None
    if step.model.kind == "VarianceThreshold":
        return np.asarray(step.fitted("variances_")) > step.option("threshold", 0.0)
    if hasattr(step.model, "support_"):
        return step.model.support_
    raise step.refuse("its choice of columns is no part of the file")


def _takes_missing(step: Step) -> bool:
    if isinstance(step.model, Record):
        return step.model.kind == "VarianceThreshold"
    from sklearn.utils import get_tags

    return bool(get_tags(step.model).input_tags.allow_nan)


_STEPS: Final[dict[str, Follow]] = {
    "Binarizer": scalers.binarizer,
    "ColumnTransformer": column_transformer,
    "FeatureUnion": union,
    "FunctionTransformer": identity,
    "KBinsDiscretizer": encoders.bins,
    "MaxAbsScaler": scalers.max_abs,
    "MinMaxScaler": scalers.min_max,
    "MissingIndicator": imputers.indicator,
    "OneHotEncoder": encoders.one_hot,
    "OrdinalEncoder": encoders.ordinal,
    "Pipeline": pipeline,
    "PowerTransformer": wavering.power,
    "QuantileTransformer": wavering.quantiles,
    "RobustScaler": scalers.robust,
    "SimpleImputer": imputers.simple,
    "StandardScaler": scalers.standard,
    **dict.fromkeys(
        (
            "GenericUnivariateSelect",
            "RFE",
            "RFECV",
            "SelectFdr",
            "SelectFpr",
            "SelectFromModel",
            "SelectFwe",
            "SelectKBest",
            "SelectPercentile",
            "SequentialFeatureSelector",
            "VarianceThreshold",
        ),
        selector,
    ),
}

_LINEAR = (
    "it mixes columns, in sums whose order cannot be kept; PCA and TruncatedSVD behind scalers "
    "become a feature map with allow_rounding=True"
)
_REASONS: Final = {
    **dict.fromkeys(("PCA", "TruncatedSVD", "IncrementalPCA", "FastICA", "PLSRegression"), _LINEAR),
    **dict.fromkeys(("Normalizer", "PolynomialFeatures", "KernelPCA"), "it mixes columns"),
    "SplineTransformer": "it is not monotone, so that no threshold is exact",
    **dict.fromkeys(
        ("KNNImputer", "IterativeImputer"), "it fills in what depends on other columns"
    ),
    **dict.fromkeys(
        ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer"), "it reads free text"
    ),
    "TargetEncoder": "it is not built in",
}
