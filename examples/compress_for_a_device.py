# %% [markdown]
"""Compress a random forest for a device, and judge each size on rows that nothing has seen.

The digits of scikit-learn stand in the order of the people who wrote them: models are fitted to the
first rows, chosen by others', and judged on those of people that neither has seen.

As a script:

    python examples/compress_for_a_device.py [--quick]
"""

# %%
from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import bitvec
from bitvec.compression.compress_result import CompressResult

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""`C` of the linear model; the rows that choose choose it, too."""


# %%
def compressed(
    fit: tuple[Any, Any], choose: tuple[Any, Any], *, quick: bool = False
) -> CompressResult:
    """Return the front of a random forest: 100 trees within 8 KB, or 10 trees within 256 bytes."""
    model = RandomForestClassifier(10 if quick else 100, random_state=0).fit(*fit)
    budget, seconds = ("256 bytes", 1.0) if quick else ("8 KB", None)
    return bitvec.compress(model, *fit, budget=budget, validation=choose, time=seconds)


def rows(quick: bool) -> tuple[tuple[Any, Any], ...]:
    """Return rows and labels to fit, to choose by and to judge by; of two digits if quick."""
    X, y = load_digits(return_X_y=True, n_class=2 if quick else 10)
    ends = (160, 240) if quick else (999, 1198)
    return tuple(zip(np.split(X, ends), np.split(y, ends), strict=True))


def lines(quick: bool) -> Iterator[str]:
    """Yield a table in Markdown: the given model, the front from large to small, a linear model."""
    fit, choose, judge = rows(quick)
    result = compressed(fit, choose, quick=quick)
    yield "| bytes | leaves | rows that chose | new writers | model |"
    yield "| ---: | ---: | ---: | ---: | --- |"
    for point in (result.given, *reversed(result.front)):
        right = bitvec.as_estimator(point.forest).score(*judge)
        yield (
            f"| {point.bytes:,} | {point.forest.n_leaves:,} | {point.score:.3f} | {right:.3f} "
            f"| {point.recipe} |"
        )
    linear = max(
        (LogisticRegression(C=C, max_iter=5000).fit(*fit) for C in STRENGTHS),
        key=lambda one: one.score(*choose),
    )
    scores = " | ".join(f"{linear.score(*part):.3f}" for part in (choose, judge))
    numbers = linear.coef_.size + linear.intercept_.size
    yield f"| {4 * numbers:,} | | {scores} | logistic regression, {numbers} numbers of 4 bytes |"


# %%
if __name__ == "__main__":
    for line in lines("--quick" in sys.argv[1:]):
        print(line, flush=True)
