"""LightGBM's objectives: how `Booster.predict` turns raw scores into answers, and their texts."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from bitvec.core.output import Output, PostTransform
from bitvec.errors import FileFormatError, UnsupportedModelError


class Link(NamedTuple):
    """Answer of an objective to raw scores."""

    post_transform: PostTransform
    classifies: bool = False
    parameter: float = 1.0


LINKS: Final[dict[str, Link]] = {
    **dict.fromkeys(
        (
            "custom",
            "regression",
            "regression_l1",
            "huber",
            "fair",
            "quantile",
            "mape",
            "lambdarank",
            "rank_xendcg",
        ),
        Link(PostTransform.IDENTITY),
    ),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), Link(PostTransform.EXPONENTIAL)),
    "cross_entropy": Link(PostTransform.SIGMOID),
    "cross_entropy_lambda": Link(PostTransform.LOGARITHM_ONE_PLUS_EXP),
    "binary": Link(PostTransform.SIGMOID, classifies=True),
    "multiclass": Link(PostTransform.SOFTMAX, classifies=True),
    "multiclassova": Link(PostTransform.SIGMOID, classifies=True),
}

WITH_SIGMOID: Final = ("binary", "multiclassova")
WITH_CLASSES: Final = ("multiclass", "multiclassova")
WITH_SQRT: Final = ("regression", "regression_l1", "fair", "quantile", "mape")
"""The squared error and what LightGBM derives from it, except for those that refuse `reg_sqrt`."""


def link_of(text: str | None, n_outputs: int) -> Link:
    """Return the link that an `objective=` line names; a custom objective leaves no line.

    Raises
    ------
    UnsupportedModelError
        If the objective or one of its options is not known.
    FileFormatError
        If an option is missing or damaged, or the objective has another number of outputs.
    """
    if text is None:
        return LINKS["custom"]
    name, *options = text.split(" ")
    if name not in LINKS:
        raise UnsupportedModelError(
            f"the objective must be one of {', '.join(LINKS)}, got {name[:80]!r}: what it does to "
            "raw scores is not known."
        )
    link = LINKS[name]
    outputs = None if name == "custom" else 1
    for option in options:
        key, _, value = option.partition(":")
        if key == "sigmoid" and name in WITH_SIGMOID:
            link = link._replace(parameter=_positive(value))
        elif key == "num_class" and name in WITH_CLASSES:
            outputs = int(_positive(value))
        elif option == "sqrt" and name in WITH_SQRT:
            link = link._replace(post_transform=PostTransform.SIGNED_SQUARE)
        else:
            raise UnsupportedModelError(
                f"the objective {name} must have options that are known, got {option[:80]!r}."
            )
    if outputs is not None and outputs != n_outputs:
        raise FileFormatError(
            f"the objective {name} must have {outputs} outputs, got {n_outputs} trees a round."
        )
    return link


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        raise FileFormatError(f"an option of `objective` must be positive, got {text[:40]!r}.")
    return value


def objective_text(output: Output) -> str | None:
    """Return the `objective=` line whose link is the post-transform; None for a custom objective.

    Raises
    ------
    UnsupportedModelError
        If LightGBM has no such objective.
    """
    n, alpha, kind = output.n_outputs, repr(float(output.parameter)), output.post_transform
    if kind is PostTransform.IDENTITY:
        return "regression" if n == 1 else None
    if kind is PostTransform.SOFTMAX and output.groups == (n,) and n > 1 and alpha == "1.0":
        return f"multiclass num_class:{n}"
    if kind is PostTransform.SIGMOID:
        if n > 1:
            return f"multiclassova num_class:{n} sigmoid:{alpha}"
        return f"binary sigmoid:{alpha}"
    single = {
        PostTransform.EXPONENTIAL: "poisson",
        PostTransform.LOGARITHM_ONE_PLUS_EXP: "cross_entropy_lambda",
        PostTransform.SIGNED_SQUARE: "regression sqrt",
    }
    if n == 1 and kind in single:
        return single[kind]
    raise UnsupportedModelError(
        f"LightGBM must have an objective for the post-transform, got {kind} of {n} outputs."
    )
