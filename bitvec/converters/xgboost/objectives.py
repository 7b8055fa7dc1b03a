"""xgboost's objectives around the trees: links of `base_score`, transforms of answers."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float32
from bitvec.errors import FileFormatError, UnsupportedModelError

RT_EPS: Final = np.float32(1e-6)
"""xgboost's kRtEps: since 3.2, `base_score` of a logistic objective is clipped this far inside."""

CLIPPING_SINCE: Final = (3, 2)
SORTING_SINCE: Final = (3, 4)


class Objective(NamedTuple):
    """Transform of margins into answers, and of `base_score` into a margin, by one objective."""

    post_transform: PostTransform
    margin: Callable[[np.float32], np.float32]
    """ProbToMargin, applied to each element of `base_score`."""
    classifies: bool = False
    labels_from_raw: bool = False


@cache
def _c_function(name: str) -> Callable[[float], float]:
    """Return the C library's logf or expf, which xgboost calls.

    One in six values of NumPy's float32 logarithm, and one in two hundred of the rounded float64
    logarithm, have another last bit.
    """
    try:
        function = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)[name]
    except (OSError, AttributeError) as error:
        raise UnsupportedModelError(
            f"`base_score` of this objective goes through the C library's {name}, which was not "
            "found on this platform: convert the model on another one, and save the forest there."
        ) from error
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    c_function: Callable[[float], float] = function
    return c_function


def _identity(base: np.float32) -> np.float32:
    return base


def _log(base: np.float32) -> np.float32:
    if not base > 0:
        raise FileFormatError(f"`base_score` must be positive for this objective, got {base}.")
    return np.float32(_c_function("logf")(float(base)))


def _logit(base: np.float32) -> np.float32:
    if not 0 <= base <= 1:
        raise FileFormatError(f"`base_score` must lie in [0, 1] for this objective, got {base}.")
    one = np.float32(1)
    base = min(max(base, RT_EPS), one - RT_EPS)
    return -np.float32(_c_function("logf")(float(one / base - one)))


OBJECTIVES: Final[dict[str, Objective]] = {
    **dict.fromkeys(
        (
            "reg:squarederror",
            "reg:linear",  # its name before 0.90, which xgboost still takes
            "reg:squaredlogerror",
            "reg:pseudohubererror",
            "reg:absoluteerror",
            "reg:quantileerror",
            "reg:expectileerror",
            "rank:pairwise",
            "rank:ndcg",
            "rank:map",
        ),
        Objective(PostTransform.IDENTITY, _identity),
    ),
    **dict.fromkeys(
        ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"),
        Objective(PostTransform.EXPONENTIAL, _log),
    ),
    "multi:softprob": Objective(PostTransform.SOFTMAX, _identity, classifies=True),
    "multi:softmax": Objective(
        PostTransform.SOFTMAX, _identity, classifies=True, labels_from_raw=True
    ),
    "reg:logistic": Objective(PostTransform.SIGMOID, _logit),
    "binary:logistic": Objective(PostTransform.SIGMOID, _logit, classifies=True),
    "binary:logitraw": Objective(PostTransform.IDENTITY, _identity, classifies=True),
    "binary:hinge": Objective(PostTransform.HINGE, _identity, classifies=True),
}

_LOSS: Final = {"reg_loss_param": {"scale_pos_weight": "1"}}
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    **dict.fromkeys(("binary:logistic", "binary:logitraw"), _LOSS),
    **dict.fromkeys(("reg:linear", "reg:squarederror", "reg:logistic", "reg:gamma"), _LOSS),
    "count:poisson": {"poisson_regression_param": {"max_delta_step": "0.7"}},
    "reg:tweedie": {"tweedie_regression_param": {"tweedie_variance_power": "1.5"}},
}
"""Entries of a model document on an objective besides its name: defaults, which matter to training
only."""


def objective_named(name: str) -> Objective:
    """Return what is known of an objective.

    Raises
    ------
    UnsupportedModelError
        If its links are not known.
    """
    if name not in OBJECTIVES:
        raise UnsupportedModelError(
            f"the objective must be one of {', '.join(sorted(OBJECTIVES))}, got {name[:80]!r}: its "
            "link functions are not known, so it cannot be converted exactly."
        )
    return OBJECTIVES[name]


def require_each_apart(name: str, version: tuple[int, ...]) -> None:
    """Refuse objectives that make an answer of several outputs.

    Raises
    ------
    UnsupportedModelError
        For several expectiles, which are sums of the outputs before them, and for several
        quantiles, which xgboost sorts since 3.4.
    """
    sorts = name == "reg:quantileerror" and version >= SORTING_SINCE
    if name == "reg:expectileerror" or sorts:
        rule = "sorts the quantiles of a row" if sorts else "adds the expectiles of a row up"
        raise UnsupportedModelError(
            f"a model of {name} must have one output, got several: xgboost "
            f"{'.'.join(map(str, version))} {rule}, which no link here does; train one for each."
        )


def answer(objective: Objective, margin: np.float32) -> np.float32:
    """Return what the objective makes of one margin, with the bits that xgboost computes.

    Parameters
    ----------
    objective : Objective
        None of several classes.
    margin : float32
    """
    one = np.float32(1)
    match objective.post_transform:
        case PostTransform.SIGMOID:
            # xgboost keeps the exponential finite.
            power = _c_function("expf")(float(min(-margin, np.float32(88.7))))
            return one / (np.float32(power) + one)
        case PostTransform.EXPONENTIAL:
            return np.float32(_c_function("expf")(float(margin)))
        case PostTransform.HINGE:
            return np.float32(margin > 0)
    return margin


def base_margin(
    objective: Objective, base_score: Float32[Array, " n"], version: tuple[int, ...]
) -> Float32[Array, " n"]:
    """Return `base_score` as margins, with the bits that xgboost computes.

    Parameters
    ----------
    objective : Objective
    base_score : float32, (n,)
        On the scale of the objective's answers, as model files hold it.
    version : tuple of int
        Of the xgboost that wrote the model.

    Raises
    ------
    FileFormatError
        If the objective does not admit this `base_score`.
    UnsupportedModelError
        If versions of xgboost disagree on it.
    """
    clipped = (base_score < RT_EPS) | (base_score > np.float32(1) - RT_EPS)
    if objective.margin is _logit and version < CLIPPING_SINCE and bool(np.any(clipped)):
        raise UnsupportedModelError(
            f"`base_score` of a logistic objective must lie in [1e-6, 1 - 1e-6] in a model of "
            f"xgboost {'.'.join(map(str, version))}, got {base_score.tolist()}: xgboost 3.2 clips "
            "it and older ones do not; load and save the model with 3.2 or later."
        )
    return np.array([objective.margin(score) for score in base_score], np.float32)
