"""The losses of scikit-learn's boosted models: their links, and the scores to begin with."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bitvec.converters.attribute_records import library_class
from bitvec.converters.sklearn.unsupported import library_version, numbers
from bitvec.core.arrays import Array
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InvalidForestError, UnsupportedModelError, needs

LINKS = {
    "HalfSquaredError": (PostTransform.IDENTITY, 1.0),
    "AbsoluteError": (PostTransform.IDENTITY, 1.0),
    "PinballLoss": (PostTransform.IDENTITY, 1.0),
    "HuberLoss": (PostTransform.IDENTITY, 1.0),
    "HalfPoissonLoss": (PostTransform.EXPONENTIAL, 1.0),
    "HalfGammaLoss": (PostTransform.EXPONENTIAL, 1.0),
    "HalfBinomialLoss": (PostTransform.SIGMOID, 1.0),
    "ExponentialLoss": (PostTransform.SIGMOID, 2.0),
    "HalfMultinomialLoss": (PostTransform.SOFTMAX, 1.0),
}
"""The class of a fitted loss, and how its link is undone."""


def link(model: Any) -> tuple[PostTransform, float]:
    """Return the post-transform of a boosted model, and its parameter.

    Raises
    ------
    UnsupportedModelError
        If the loss is none of scikit-learn's own.
    """
    name = _loss(model)
    if name not in LINKS:
        raise UnsupportedModelError(
            f"the loss must be one of {', '.join(LINKS)}, got {name}, whose link is not known: "
            "train with a loss of scikit-learn's."
        )
    return LINKS[name]


def _loss(model: Any) -> str:
    return library_class(getattr(model, "_loss", None))


def start(model: Any, n_outputs: int, classes: Array | None) -> Float64[Array, " n_outputs"]:
    """Return the raw score of the initial model of GradientBoosting, which must be a constant.

    Raises
    ------
    UnsupportedModelError
        If the initial model reads X, or draws at random.
    """
    init = getattr(model, "init_", None)
    if isinstance(init, str) and init == "zero":
        return np.zeros(n_outputs)
    kind = library_class(init)
    strategy = getattr(init, "strategy", None)
    if classes is None and kind == "DummyRegressor":
        constant = np.asarray(getattr(init, "constant_", None))
        if constant.size != 1 or constant.dtype.kind not in "iuf":
            raise InvalidForestError("`init_.constant_` must be one number: the model is damaged.")
        return numbers(constant.ravel().astype(np.float64), "init_.constant_", 1)
    if classes is not None and kind == "DummyClassifier":
        prior = _prior(init, strategy, classes.size)
        return _score(_clipped(prior, library_version(model)), _loss(model))
    raise UnsupportedModelError(
        "the `init` of a boosted model must be 'zero', a DummyRegressor or a DummyClassifier, "
        f"whose scores are constants, got {kind}, whose score depends on the row: fit with "
        "`init=None`, or convert the trees with `init='zero'`."
    )


def _prior(init: Any, strategy: Any, n_classes: int) -> Float64[Array, " n_classes"]:
    """Return the probabilities that a DummyClassifier gives to every row."""
    prior = numbers(getattr(init, "class_prior_", None), "init_.class_prior_", n_classes)
    if strategy == "prior":
        return prior
    if strategy == "uniform":  # of which only labels are drawn
        return np.full(n_classes, 1 / n_classes)
    if strategy == "most_frequent":
        certain: Array = np.eye(n_classes)[prior.argmax()]
        return certain
    if strategy == "constant":
        constant = np.asarray(getattr(init, "constant", None)).ravel()
        index = np.flatnonzero(np.asarray(getattr(init, "classes_", None)) == constant[:1])
        if constant.size != 1 or index.size != 1 or index[0] >= n_classes:
            raise InvalidForestError("`init_.constant` must be one of its classes.")
        certain = np.eye(n_classes)[index[0]]
        return certain
    raise UnsupportedModelError(
        "the strategy of the initial DummyClassifier must be 'prior', 'uniform', 'most_frequent' "
        f"or 'constant', got {strategy!r}, which draws at random: fit with `init=None`."
    )


def _clipped(p: Float64[Array, " n"], version: str) -> Float64[Array, " n"]:
    """Return probabilities as far from 0 and 1 as the version of scikit-learn keeps them."""
    narrow, wide = (float(np.finfo(dtype).eps) for dtype in (np.float64, np.float32))
    now, before = (np.clip(p, eps, 1 - eps) for eps in (narrow, wide))
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is not None:
        return now if (int(release[1]), int(release[2])) >= (1, 8) else before
    if np.array_equal(now, before):
        return now
    raise UnsupportedModelError(
        "a boosted model that starts from certain classes must say which version of scikit-learn "
        f"it is from, for 1.8 begins at other scores than 1.7, got {version!r}: save it again."
    )


def _score(p: Float64[Array, " n_classes"], loss: str) -> Float64[Array, " n_outputs"]:
    """Return the link of probabilities, in the order in which scikit-learn computes it."""
    if loss == "HalfMultinomialLoss":
        # As scipy.stats.gmean and scikit-learn's multinomial link compute it, for one row.
        mean = np.exp(np.mean(np.log(p[None, :]), axis=1))
        centred: Array = np.log(p[None, :] / mean[:, None])[0]
        return centred
    with needs("scipy", "sklearn", "Converting a boosted classifier"):
        from scipy.special import logit
    score: Array = logit(p[1:2])
    return 0.5 * score if loss == "ExponentialLoss" else score
