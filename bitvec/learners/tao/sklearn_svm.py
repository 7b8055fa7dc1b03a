"""Linear support vector machines by LIBLINEAR, through scikit-learn."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float64
from bitvec.errors import needs

with needs("scikit-learn", "sklearn", "An l1 penalty in TAO"):
    import sklearn
    from sklearn.svm import LinearSVC

TOL = 1e-2
"""LIBLINEAR's own: its objective is then within a thousandth of the least, in a sixth of the time
that scikit-learn's 1e-4 takes."""

_lock = threading.Lock()
"""LIBLINEAR has one random state for the whole process, which two threads would draw from in turn:
other weights at every run. Only its coordinate descent, for "l1", draws from it."""


def by_liblinear(
    x: Float64[Array, "n n_features"],
    target: Bool[Array, " n"],
    weight: Float64[Array, " n"],
    *,
    penalty: str,
    C: float,
    max_iter: int,
    seed: int,
) -> tuple[Float64[Array, " n_features"], float]:
    """Return weights and offset for standardised rows, both targets among them.

    "l2": ½ ‖w‖² + C Σ c_n hinge²; "l1": ‖w‖₁ + C Σ c_n hinge²; the offset regularised with w.
    """
    machine = LinearSVC(
        penalty=penalty,
        dual=False,
        C=C,
        tol=TOL,
        max_iter=max_iter,
        random_state=seed,
    )
    with (
        _lock if penalty == "l1" else nullcontext(),
        sklearn.config_context(assume_finite=True),
    ):
        machine.fit(x, target, sample_weight=weight)
    w: Array = np.array(machine.coef_[0], np.float64)
    return w, float(machine.intercept_[0])
