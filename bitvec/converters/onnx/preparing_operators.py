"""Operators that prepare columns before the trees of an ONNX graph, as onnxruntime 1.31 runs them.

Each takes columns on their way, one by one, through the operations of
`bitvec.converters.pipelines.operations`: scaled in float32 where the runtime does, encoded, cast,
chosen and put side by side. An operator that is not listed is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx

from bitvec.converters.onnx.operator_schema import DOMAIN
from bitvec.converters.onnx.outputs import cast_target, is_standard
from bitvec.converters.onnx.prepared_columns import (
    BOOL,
    FLOAT,
    STRING,
    WHOLE,
    WIDE,
    Prepared,
    Preparing,
    Value,
    dtype_of,
    truncated,
)
from bitvec.converters.pipelines.derived_columns import Derived
from bitvec.converters.pipelines.operations import (
    DOUBLE,
    SINGLE,
    Encode,
    Negate,
    Replace,
    Require,
    Rising,
)
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError

Follow = Callable[[Preparing, list[Value]], Value]


def follow(node: Any, inputs: list[Value], version: int) -> Value:
    """Return what an operator makes of its inputs.

    Parameters
    ----------
    inputs : list of Value
        Without those that are left out.
    version : int
        Of the domain ai.onnx.ml.

    Raises
    ------
    UnsupportedModelError
        If it is not known, or cannot be folded exactly.
    """
    place = Preparing(node, version)
    known = (
        _PREPARING if node.domain == DOMAIN else _STANDARD if is_standard(node, *_STANDARD) else {}
    )
    found = known.get(node.op_type)
    if found is None:
        raise place.refuse(_REASONS.get(node.op_type, f"known operators: {', '.join(KNOWN)}"))
    return found(place, inputs)


def _one(place: Preparing, inputs: list[Value], *, count: int = 1) -> Prepared:
    """Return the first input, of `count`, which must be columns."""
    if len(inputs) != count or not isinstance(inputs[0], Prepared):
        raise place.refuse(f"it must read columns as the first of {count} inputs")
    return inputs[0]


def _constant(place: Preparing, value: Value) -> Array:
    if isinstance(value, Prepared):
        raise place.refuse("it computes with two columns")
    return value


def _cast_to(column: Derived, element: int, to: int) -> Derived:
    if to in WHOLE:
        if element == BOOL or (element in WHOLE and WHOLE[element] <= WHOLE[to]):
            return column
        return truncated(column, WHOLE[to])
    if to == BOOL:
        return column.then(Encode((0.0,), np.zeros(1), 1.0, column.values, DOUBLE), DOUBLE)
    return column.to(dtype_of(to))


def _cast(place: Preparing, inputs: list[Value]) -> Value:
    x, to = _one(place, inputs), cast_target(place.node)
    if (x.element == STRING) != (to == STRING) or to not in (FLOAT, WIDE, STRING, BOOL, *WHOLE):
        raise place.refuse(f"it casts ONNX type {x.element} to {to}")
    return x.each(lambda _, column: _cast_to(column, x.element, to), to)


def _scaler(place: Preparing, inputs: list[Value]) -> Value:
    x = _one(place, inputs)
    if x.element not in (FLOAT, WIDE, *WHOLE):
        raise place.refuse(f"it scales ONNX type {x.element}")
    n = len(x.columns)
    offset, scale = place.numbers("offset", n), place.numbers("scale", n)

    def scaled(at: int, column: Derived) -> Derived:
        column = column.to(DOUBLE if x.element == WIDE else SINGLE)  # whole numbers as float32
        column = _computed(place, column, "subtract", offset[at : at + 1])
        return _computed(place, column, "multiply", scale[at : at + 1]).to(SINGLE)

    return x.each(scaled, FLOAT)


def _computed(place: Preparing, column: Derived, name: str, operand: Array) -> Derived:
    """Return a column after one operation with a number, mirrored where that is negative."""
    factor = name in ("multiply", "divide")
    if not np.isfinite(operand).all() or (factor and operand[0] == 0):
        raise place.refuse(f"it must compute with finite numbers, factors not 0, got {operand}")
    own = column.values
    falls = factor and operand[0] < 0
    column = column.then(Rising(name, (abs(operand) if falls else operand,), own, own))
    return column.then(Negate(own)) if falls else column


def _arithmetic(name: str) -> Follow:
    def computed(place: Preparing, inputs: list[Value]) -> Value:
        if len(inputs) != 2:
            raise place.refuse(f"it must have 2 inputs, got {len(inputs)}")
        mirrored = not isinstance(inputs[0], Prepared)
        x = _one(place, inputs[::-1] if mirrored else inputs, count=2)
        constant = _constant(place, inputs[0] if mirrored else inputs[1])
        if x.element not in (FLOAT, WIDE) or constant.dtype != dtype_of(x.element):
            raise place.refuse("it must compute in float32 or float64")
        if mirrored and name == "divide":
            raise place.refuse("it divides by a column")
        if x.n_axes == 1 and constant.size != 1:
            raise place.refuse("it makes several columns of one")
        operands = place.spread(constant, len(x.columns), "constant")

        def change(at: int, column: Derived) -> Derived:
            operand = operands[at : at + 1]
            if mirrored and name == "subtract":  # a - x is a + -x, rounded alike
                return _computed(place, column.then(Negate(column.values)), "add", operand)
            return _computed(place, column, name, operand)

        return x.each(change, x.element)

    return computed


def _clip(place: Preparing, inputs: list[Value]) -> Value:
    x = _one(place, inputs, count=len(inputs))
    if x.element not in (FLOAT, WIDE):
        raise place.refuse("it must clip float32 or float64")
    ends = [place.number("min", -np.inf), place.number("max", np.inf)]
    given = iter(inputs[1:])
    for at, name in enumerate(place.node.input[1:3]):
        if name and (end := _constant(place, next(given))).size == 1:
            ends[at] = float(end.ravel()[0])
    if not ends[0] <= ends[1]:
        raise place.refuse(f"its ends must rise, got {ends}")

    def clipped(_: int, column: Derived) -> Derived:
        own = column.values
        column = column.then(Require(own, nan=False, infinite=True))
        return column.then(Rising("clip", tuple(np.array([e], own) for e in ends), own, own))

    return x.each(clipped, x.element)


def _binarizer(place: Preparing, inputs: list[Value]) -> Value:
    x, threshold = _one(place, inputs), place.number("threshold", 0.0)
    if x.element != FLOAT or not np.isfinite(threshold):
        raise place.refuse("it must read float32 and have a finite threshold")

    def told(_: int, column: Derived) -> Derived:
        column = column.then(Require(SINGLE, nan=False, infinite=True))
        return column.then(Rising("exceeds", (np.array([threshold], SINGLE),), SINGLE, SINGLE))

    return x.each(told, FLOAT)


def _imputer(place: Preparing, inputs: list[Value]) -> Value:
    x = _one(place, inputs)
    n = len(x.columns)
    if x.element == FLOAT:
        missing = place.number("replaced_value_float", 0.0)
        values = place.numbers("imputed_value_floats", n)
    elif x.element == onnx.TensorProto.INT64:
        missing = float(place.whole("replaced_value_int64", 0))
        wholes = np.array(place.wholes("imputed_value_int64s"), np.float64)
        values = place.spread(wholes, n, "`imputed_value_int64s`")
    else:
        raise place.refuse(f"it fills in ONNX type {x.element}")

    def filled(at: int, column: Derived) -> Derived:
        own = column.values
        return column.then(Replace(missing, float(values[at]), own, own))

    return x.each(filled, x.element)


def _categories(place: Preparing, given: list[Any]) -> tuple[Any, ...]:
    if not given or len(set(given)) < len(given):
        raise place.refuse("its categories must all be different")
    return tuple(given)


def _one_hot(place: Preparing, inputs: list[Value]) -> Value:
    x = _one(place, inputs)
    texts, wholes = place.texts("cats_strings"), place.wholes("cats_int64s")
    if len(x.columns) != 1 or x.n_axes > 2:
        raise place.refuse(f"it encodes {len(x.columns)} columns at once; give each its own")
    if (x.element == STRING) != bool(texts) or bool(texts) == bool(wholes):
        raise place.refuse("its categories must be of the type of its column")
    column = x.columns[0]
    if wholes:
        column = _cast_to(column, x.element, onnx.TensorProto.INT64)
    categories = _categories(place, [*texts, *map(float, wholes)])
    other = 0.0 if place.whole("zeros", 1) else None
    codes = np.arange(len(categories))
    columns = tuple(
        column.then(Encode(categories, codes == code, other, column.values, SINGLE), SINGLE)
        for code in codes
    )
    return Prepared(columns, FLOAT, x.n_axes + 1)


LEAST_NAN: Final = 4
"""Version of ai.onnx.ml from which on the runtime finds the key NaN of a LabelEncoder."""
_LABELS: Final = {"strings": STRING, "int64s": onnx.TensorProto.INT64, "floats": FLOAT}


def _label_encoder(place: Preparing, inputs: list[Value]) -> Value:
    x = _one(place, inputs)
    old = place.texts("classes_strings")
    keys, key_type = _labels(place, "keys")
    values, value_type = _labels(place, "values")
    if old:
        keys, key_type = old, STRING
        values, value_type = [*map(float, range(len(old)))], onnx.TensorProto.INT64
    if value_type == STRING or len(keys) != len(values):
        raise place.refuse("it must make a number of each of its keys")
    if place.version < LEAST_NAN:
        known = [at for at, key in enumerate(keys) if key == key]
        keys, values = [keys[at] for at in known], [values[at] for at in known]
    if x.element != key_type:
        raise place.refuse(f"it reads ONNX type {x.element} and has keys of {key_type}")
    default = _default(place, value_type)
    to = dtype_of(value_type)
    categories, numbers = _categories(place, keys), np.array(values, np.float64)

    def encoded(_: int, column: Derived) -> Derived:
        return column.then(Encode(categories, numbers, default, column.values, to), to)

    return x.each(encoded, value_type)


def _labels(place: Preparing, what: str) -> tuple[list[Any], int]:
    """Return the keys or values of a LabelEncoder, numbers as Python floats, and their type."""
    for name, element in _LABELS.items():
        own = f"{what}_{name}"
        if element == STRING:
            found: list[Any] = place.texts(own)
        elif element == FLOAT:
            attribute = place._attribute(own)
            found = [] if attribute is None else np.array(attribute.floats, np.float32).tolist()
        else:
            found = [float(number) for number in place.wholes(own)]
        if found:
            return found, element
    stored = place.tensor(f"{what}_tensor")
    if stored is None:
        return [], STRING
    elements = {np.dtype(np.int64): onnx.TensorProto.INT64, SINGLE: FLOAT, DOUBLE: WIDE}
    if stored.dtype not in elements or np.any(np.abs(stored) > 2.0**53) & (
        stored.dtype.kind == "i"
    ):
        raise place.refuse(f"its {what} are of {stored.dtype}")
    return stored.ravel().astype(np.float64).tolist(), elements[stored.dtype]


def _default(place: Preparing, element: int) -> float:
    stored = place.tensor("default_tensor")
    if stored is not None and stored.size == 1:
        return float(stored.ravel()[0])
    if element == onnx.TensorProto.INT64:
        return float(place.whole("default_int64", -1))
    return place.number("default_float", -0.0)


def _chosen(place: Preparing, inputs: list[Value]) -> Value:
    """Follow ArrayFeatureExtractor, and Gather of columns."""
    x = _one(place, inputs, count=2)
    index = _constant(place, inputs[1])
    is_gather = place.node.op_type == "Gather"
    if x.n_axes != 2 or index.dtype.kind != "i" or (is_gather and place.whole("axis", 0) != 1):
        raise place.refuse("it must choose columns of a matrix by constant numbers")
    which, n = index.ravel().tolist(), len(x.columns)
    if not which or not all(-n * is_gather <= at < n for at in which):
        raise FileFormatError(f"{place.kind} must choose among {n} columns, got {which[:5]}.")
    flat = is_gather and index.ndim == 0
    return replace(x, columns=tuple(x.columns[at] for at in which), n_axes=1 if flat else 2)


def _joined(place: Preparing, inputs: list[Value]) -> Value:
    parts = [part for part in inputs if isinstance(part, Prepared)]
    if not parts or len(parts) < len(inputs):
        raise place.refuse("it joins columns and constants")
    axes, elements = {part.n_axes for part in parts}, {part.element for part in parts}
    (n_axes, *more), axis = axes, place.whole("axis", 1)
    if more or len(elements) > 1 or n_axes == 1 or axis not in (-1, n_axes - 1):
        raise place.refuse("it must join columns of one type side by side")
    columns = tuple(column for part in parts for column in part.columns)
    return Prepared(columns, parts[0].element, n_axes)


def _vectorizer(place: Preparing, inputs: list[Value]) -> Value:
    """Follow a FeatureVectorizer, which makes float32 of all that it joins."""
    parts = [part for part in inputs if isinstance(part, Prepared)]
    if len(parts) < len(inputs) or any(p.element == STRING or p.n_axes > 2 for p in parts):
        raise place.refuse("it must join columns of numbers")
    widths = place.wholes("inputdimensions")
    if widths and widths != [len(part.columns) for part in parts]:
        raise place.refuse(f"its inputs must be {widths} wide")
    columns = tuple(column.to(SINGLE) for part in parts for column in part.columns)
    return Prepared(columns, FLOAT)


def _reshaped(place: Preparing, inputs: list[Value]) -> Value:
    x = _one(place, inputs, count=2)
    n = len(x.columns)
    shape = _constant(place, inputs[1]).ravel().tolist()
    if shape in ([-1, n], [0, n], [0, -1]):
        return replace(x, n_axes=2)
    if shape == [-1] and n == 1:
        return replace(x, n_axes=1)
    raise place.refuse(f"it makes shape {shape} of {n} columns")


def _flattened(place: Preparing, inputs: list[Value]) -> Value:
    if place.whole("axis", 1) != 1:
        raise place.refuse("it must keep rows apart")
    return replace(_one(place, inputs), n_axes=2)


def _identity(place: Preparing, inputs: list[Value]) -> Value:
    return _one(place, inputs)


_PREPARING: Final[dict[str, Follow]] = {
    "ArrayFeatureExtractor": _chosen,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _vectorizer,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "OneHotEncoder": _one_hot,
    "Scaler": _scaler,
}
_STANDARD: Final[dict[str, Follow]] = {
    "Add": _arithmetic("add"),
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _joined,
    "Div": _arithmetic("divide"),
    "Flatten": _flattened,
    "Gather": _chosen,
    "Identity": _identity,
    "Mul": _arithmetic("multiply"),
    "Reshape": _reshaped,
    "Sub": _arithmetic("subtract"),
}
KNOWN: Final = (*_PREPARING, *_STANDARD)
_MIXES: Final = "it mixes columns, in sums whose order cannot be kept"
_REASONS: Final = {
    "Normalizer": "it divides each row by a norm of several columns",
    **dict.fromkeys(("MatMul", "Gemm"), _MIXES),
}
