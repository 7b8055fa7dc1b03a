"""Functions that rise but for their last bits: powers, logarithms and quantiles.

Such a function g errs from a rising G by at most δ, which is stated. So g(x) reaches a result t for
every x from the first on where g reaches t + 2δ, and for none below the first where it reaches
t - 2δ; in between, each float is asked, so that every turn is found. The result is exact for the
libraries that were asked, which the forest's metadata name: another NumPy may round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from bitvec.converters.attribute_records import Record
from bitvec.converters.pipelines.derived_columns import (
    Block,
    Derived,
    Step,
    Walk,
    as_floats,
    checked,
)
from bitvec.converters.pipelines.operations import DOUBLE, Require
from bitvec.converters.pipelines.scalers import standard
from bitvec.core.arrays import Array
from bitvec.core.float_keys import first_taken_to, floats, key_of, keys
from bitvec.core.key_intervals import Values, complement, everything, intersection, joined, union
from bitvec.core.shape_annotations import Bool, Float, Float64
from bitvec.errors import UnsupportedModelError, needs

MOST_ASKED: Final = 1 << 16
"""Floats that are asked between the two ends of a turn, at most."""
ULPS: Final = 4
"""Error of a function of NumPy in float64, as its vector loops are tested to."""
EPS: Final = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Wavering:
    """A function that errs from a rising one by at most a stated bound; float64.

    Parameters
    ----------
    name : str
    function : callable
        Of an array; NaN of NaN and of what lies below `low`.
    error : callable
        Of results: how far each may lie from the rising function's.
    low : float
    """

    name: str
    function: Callable[[Array], Array]
    error: Callable[[Array], Array]
    low: float = -np.inf
    source: ClassVar[np.dtype] = DOUBLE
    target: ClassVar[np.dtype] = DOUBLE
    labels: ClassVar[None] = None

    def __call__(self, x: Float64[Array, " n"]) -> Float64[Array, " n"]:
        """Return the results."""
        with np.errstate(all="ignore"):
            return np.asarray(self.function(x.copy()), np.float64)

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the results; every number is taken."""
        return self(x.astype(DOUBLE)), np.ones(len(x), np.bool_)

    def domain(self) -> Values:
        """Return everything."""
        return everything(DOUBLE)

    def preimages(self, sets: list[Values]) -> list[Values]:
        """Return the numbers that lead into each set.

        Raises
        ------
        UnsupportedModelError
            If more floats would have to be asked than `MOST_ASKED`.
        """
        ends = sorted({e for s in sets for a, b in s.intervals for e in (a, b + 1)})
        reached = dict(zip(ends, self._reached(np.array(ends, np.int64)), strict=True))
        nothing = Values((), True)
        if self.low > -np.inf:
            below = -key_of(np.inf, DOUBLE), key_of(self.low, DOUBLE) - 1
            nothing = Values((below,), True)
        result = []
        for s in sets:
            found = nothing if s.nan else Values((), False)
            for first, last in s.intervals:
                beyond = complement(reached[last + 1], DOUBLE)
                found = union(found, intersection(reached[first], beyond))
            result.append(found)
        return result

    def _reached(self, key: Array) -> list[Values]:
        """Return the numbers whose results have at least each of these keys."""
        top = key_of(np.inf, DOUBLE)
        within = np.clip(key, -top, top)
        wanted = floats(within, DOUBLE)
        with np.errstate(over="ignore", invalid="ignore"):
            slack = np.where(np.isfinite(wanted), 2 * self.error(wanted), 0)
            ends = [
                first_taken_to(keys(wanted + sign * slack), self._rising, DOUBLE)
                for sign in (-1, 1)
            ]
        first, last = (np.minimum(end, top + 1) for end in ends)
        if int((last - first).max(initial=0)) > MOST_ASKED:
            raise UnsupportedModelError(
                f"the function {self.name} is too flat for its turns to be found: between those "
                f"that surely lie below and above a threshold of the trees there are "
                f"{int((last - first).max())} floats, more than {MOST_ASKED}."
            )
        return [
            self._one(*ends) if ends[0] <= top else Values((), False)
            for ends in zip(key.tolist(), first.tolist(), last.tolist(), strict=True)
        ]

    def _one(self, key: int, first: int, last: int) -> Values:
        top = key_of(np.inf, DOUBLE)
        lowest = key_of(self.low, DOUBLE)
        asked = np.arange(max(first, lowest), last)
        there = asked[keys(self(floats(asked, DOUBLE))) >= key] if asked.size else asked
        runs = [(at, at) for at in there.tolist()]
        if last <= top:
            runs.append((max(last, lowest), top))
        return Values(joined(runs), False)

    def _rising(self, x: Array) -> Array:
        result = self(np.maximum(x, self.low))
        return np.where(x < self.low, -np.inf, result)


def _logarithmic(y: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return the error of one function of NumPy."""
    return ULPS * EPS * np.abs(y) + np.finfo(np.float64).tiny


_FUNCTIONS: Final[dict[str, float]] = {
    "log1p": -1.0,
    "log": 0.0,
    "log2": 0.0,
    "log10": 0.0,
    "exp": -np.inf,
    "exp2": -np.inf,
    "expm1": -np.inf,
    "cbrt": -np.inf,
    "arcsinh": -np.inf,
    "sinh": -np.inf,
}
"""Rising functions of NumPy by name, and where each begins."""


def function(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a FunctionTransformer whose function is one of NumPy's, known by name."""
    func = step.option("func", None)
    name = next((n for n in _FUNCTIONS if func is getattr(np, n)), None)
    if name is None or step.option("kw_args", None):
        known = ", ".join(_FUNCTIONS)
        raise step.refuse(
            f"it calls a function, whose arithmetic is not known, other than NumPy's {known}"
        )
    if block.is_sparse or any(c.dtype != DOUBLE or not c.operations for c in block.columns):
        raise step.refuse(
            f"{name} rounds in the dtype of its column; put a step before it that makes float64, "
            "such as a SimpleImputer"
        )
    if step.option("validate", False):
        block = checked(block, nan=False)
    own = Wavering(name, func, _logarithmic, _FUNCTIONS[name])
    return _asked(block, walk, [own] * len(block.columns))


def power(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a PowerTransformer."""
    with needs("scipy", "sklearn", "Folding a PowerTransformer"):
        from scipy import special, stats
    block = _as_doubles(step, block)
    powers = step.array("lambdas_", len(block.columns))
    method = step.option("method", "yeo-johnson")
    if method not in ("yeo-johnson", "box-cox"):
        raise step.refuse(f"its method is {method!r}")
    if method == "yeo-johnson" and walk.version < (1, 9):
        raise step.refuse(
            "scikit-learn before 1.9 takes 1 from (x + 1)^λ, which cancels near 0; fit it with a "
            "later one, or with method='box-cox'"
        )
    made = stats.yeojohnson if method == "yeo-johnson" else special.boxcox
    low = -np.inf if method == "yeo-johnson" else float(np.nextafter(0.0, 1.0))

    def operation(a: Any) -> Wavering:
        def error(y: Array) -> Array:
            return _power_error(y, float(a), method)

        return Wavering(method, lambda x: made(x, a), error, low)

    operations = [operation(a) for a in powers]
    for one, a in zip(operations, powers.tolist(), strict=True):
        if not np.isfinite(a) or not _is_stable(one, a, method):
            raise step.refuse("scipy computes its power in another way than its error is known of")
    if method == "box-cox":
        block = block.each(lambda _, column: _positive(column))
    block = _asked(block, walk, operations)
    if not step.option("standardize", True):
        return block
    return standard(step.inner(step.fitted("_scaler"), "_scaler"), block, walk)


def _positive(column: Derived) -> Derived:
    """Return a column that holds nothing below the least positive number."""
    return column.then(_Positive())


@dataclass(frozen=True, eq=False)
class _Positive(Require):
    """A check that lets numbers above 0 pass, and NaN."""

    source: np.dtype = DOUBLE
    nan: bool = True
    infinite: bool = False

    def apply(self, x: Array) -> tuple[Array, Bool[Array, " n"]]:
        """Return the values themselves, and which of them pass."""
        return x, np.isnan(x) | ((x > 0) & np.isfinite(x))

    def domain(self) -> Values:
        """Return the numbers that pass."""
        return Values(((1, key_of(np.inf, DOUBLE) - 1),), True)


def _power_error(y: Array, a: float, method: str) -> Array:
    """Return the error of expm1(a · log(x)) / a near a result.

    u = a · log(x) errs by ULPS + 1 in its last place, which expm1 stretches by at most 1 + |u|.
    """
    power = np.where(y < 0, 2 - a, a) if method == "yeo-johnson" else np.full(y.shape, a)
    with np.errstate(all="ignore"):
        size = np.abs(y) if method == "yeo-johnson" else y
        u = np.abs(np.log1p(np.maximum(power * size, -1)))
    u = np.where(np.isfinite(u), np.minimum(u, 1500), 1500)
    relative = (2 * ULPS + 2) * (1 + u) + ULPS + 1
    return relative * EPS * np.abs(y) + np.finfo(np.float64).tiny


def _is_stable(operation: Wavering, a: float, method: str) -> bool:
    """Return whether the function is expm1(a · log(x)) / a to the bits, on a grid of numbers."""
    x = np.concatenate([np.geomspace(1e-300, 1e300, 601), np.geomspace(0.3, 3, 101)])
    expected = _literal(x, a, method)
    found = operation(x)
    if method == "yeo-johnson":
        expected = np.concatenate([expected, -_literal(x, 2 - a, method)])
        found = np.concatenate([found, operation(-x)])
    close = np.abs(found - expected) <= operation.error(expected)
    return bool(np.all(close | (found == expected) | ~np.isfinite(expected)))


def _literal(x: Array, a: float, method: str) -> Array:
    with np.errstate(all="ignore"):
        log = np.log1p(x) if method == "yeo-johnson" else np.log(x)
        result: Array = log if abs(a) < EPS else np.expm1(a * log) / a
    return result


def quantiles(step: Step, block: Block, walk: Walk) -> Block:
    """Follow a QuantileTransformer."""
    if isinstance(step.model, Record):
        raise step.refuse("its arithmetic is no part of the file; convert the live pipeline")
    block = _as_doubles(step, block)
    table = np.asarray(step.fitted("quantiles_"))
    if table.ndim != 2 or table.shape[1] != len(block.columns) or table.dtype != DOUBLE:
        raise step.refuse("its `quantiles_` must be float64, a column for each of its columns")
    normal = step.option("output_distribution", "uniform") == "normal"
    column_of = step.model._transform_col  # the library's own arithmetic
    error = _normal_error if normal else _uniform_error

    def operation(own: Array) -> Wavering:
        return Wavering("of quantiles", lambda x: column_of(x, own, False), error)

    return _asked(block, walk, [operation(own) for own in table.T])


def _uniform_error(y: Array) -> Array:
    """Return the error of the mean of two interpolations between 0 and 1."""
    return np.full(y.shape, 16 * EPS)


def _normal_error(y: Array) -> Array:
    """Return that error behind the quantiles of the normal distribution, whose own is added."""
    density = np.exp(-(np.minimum(np.abs(y), 6) ** 2) / 2) / np.sqrt(2 * np.pi)
    return 16 * EPS / density + 2 * ULPS * EPS * np.abs(y)


def _as_doubles(step: Step, block: Block) -> Block:
    if block.is_sparse:
        raise step.refuse("it reads a sparse matrix")
    block = checked(as_floats(block), nan=True)
    if any(column.dtype != DOUBLE for column in block.columns):
        raise step.refuse("it must compute in float64, got float32; hand the pipeline float64")
    return block


def _asked(block: Block, walk: Walk, operations: list[Wavering]) -> Block:
    walk.libraries.add("numpy")
    return block.each(lambda at, column: column.then(operations[at]))


def libraries() -> dict[str, Any]:
    """Return the versions and the processor's features on which the turns depend."""
    import scipy

    config: Any = np.show_config(mode="dicts")
    features = config.get("SIMD Extensions", {})
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "dispatch": [*features.get("baseline", []), *features.get("found", [])],
    }
