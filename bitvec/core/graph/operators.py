"""A computation as plain data: standard operators, constants, inputs and outputs, no library named.

Operators, their attributes and the numbers of element types are those of the open standard for
exchanging networks, whose files the converters make of such a graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.graph.interface import ML_OPSET, Interface
from bitvec.core.softplus import ARTANH, EXP, FAR, LN2_HIGH, LN2_LOW, LOG2_E, POWERS
from bitvec.errors import InputError, UnsupportedModelError

TENSOR_TYPE = {
    "float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11,
}  # fmt: skip
"""Numbers of the standard for the element types that Cast is asked for here."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of a graph; `name` is that of its first output when it was added."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    name: str
    domain: str = ""


@dataclass(slots=True)
class Graph:
    """Operators in the order of computation, built by `add`; names are unique and readable.

    Parameters
    ----------
    interface : Interface
        What the file's inputs and outputs are to be.
    """

    interface: Interface = field(default_factory=Interface)
    operators: list[Operator] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, tuple[np.dtype, tuple[str | int, ...]]] = field(default_factory=dict)
    outputs: dict[str, tuple[np.dtype, tuple[str | int, ...]]] = field(default_factory=dict)
    ml_opset: int = ML_OPSET
    _taken: dict[str, int] = field(default_factory=dict)

    def add(
        self, kind: str, *inputs: str | Array, name: str, domain: str = "", **attributes: Any
    ) -> str:
        """Append an operator and return the name of its output; arrays become constants."""
        return self.split(kind, *inputs, names=(name,), domain=domain, **attributes)[0]

    def split(
        self,
        kind: str,
        *inputs: str | Array,
        names: tuple[str, ...],
        domain: str = "",
        **attributes: Any,
    ) -> tuple[str, ...]:
        """Append an operator of several outputs and return their names."""
        for value in inputs:
            if isinstance(value, np.ndarray):
                _require_kept(kind, value)
        outputs = tuple(self._fresh(name) for name in names)
        read = tuple(
            value if isinstance(value, str) else self.constant(f"{outputs[0]}.{place}", value)
            for place, value in enumerate(inputs)
        )
        self.operators.append(Operator(kind, read, outputs, attributes, outputs[0], domain))
        return outputs

    def constant(self, name: str, value: Array) -> str:
        """Store an array under a fresh name."""
        name = self._fresh(name)
        self.constants[name] = np.asarray(value)
        return name

    def input(self, name: str, dtype: np.dtype, shape: tuple[str | int, ...]) -> str:
        """Declare an input of the graph and return the tensor that holds it in this dtype."""
        given = self.interface.input_dtype or dtype
        self.inputs[self._fresh(name)] = (given, self._shape(shape))
        return name if given == dtype else cast(self, name, dtype, f"{name}_as_{dtype.name}")

    def output(self, name: str, value: str, dtype: np.dtype, shape: tuple[str | int, ...]) -> None:
        """Declare an output of the graph: `value` under the name `name`.

        Whole numbers of int64 are given in the dtype that the interface says.
        """
        asked = self.interface.integer_dtype
        if asked is not None and asked != dtype and dtype == np.int64:
            value, dtype = cast(self, value, asked, f"{name}_given"), asked
        self.operators.append(Operator("Identity", (value,), (name,), {}, name))
        self.outputs[name] = (dtype, self._shape(shape))

    def _shape(self, shape: tuple[str | int, ...]) -> tuple[str | int, ...]:
        batch = self.interface.batch
        return tuple(batch if size == "batch" and batch else size for size in shape)

    def _fresh(self, name: str) -> str:
        count = self._taken.get(name, 0)
        self._taken[name] = count + 1
        return name if count == 0 else self._fresh(f"{name}_{count}")

    def finish(self) -> None:
        """Drop the outputs that are not asked for, and the Identity of each that is.

        Raises
        ------
        InputError
            If the interface asks for an output that there is not.
        """
        self._keep_outputs()
        self._name_outputs()

    def _keep_outputs(self) -> None:
        """Drop the outputs that are not asked for, and what nothing else needs."""
        wanted = self.interface.outputs
        if wanted is None:
            return
        for name in wanted:
            if name not in self.outputs:
                raise InputError(
                    f"`outputs` must be among {', '.join(self.outputs)}, got {name!r}: "
                    "choose among them."
                )
        self.outputs = {name: self.outputs[name] for name in wanted}
        needed, kept = set(wanted), []
        for operator in reversed(self.operators):
            if needed.intersection(operator.outputs):
                needed.update(operator.inputs)
                kept.append(operator)
        self.operators = kept[::-1]
        self.constants = {name: a for name, a in self.constants.items() if name in needed}

    def _name_outputs(self) -> None:
        """Give what an Identity would only rename the output's own name, where it has none yet."""
        made = {name for operator in self.operators for name in operator.outputs}
        names: dict[str, str] = {}
        for operator in self.operators:
            value = operator.inputs[0] if operator.inputs else ""
            renames = operator.kind == "Identity" and operator.outputs[0] in self.outputs
            if renames and value in made and value not in self.outputs:
                names.setdefault(value, operator.outputs[0])
        self.operators = [
            replace(
                operator,
                inputs=tuple(names.get(name, name) for name in operator.inputs),
                outputs=tuple(names.get(name, name) for name in operator.outputs),
            )
            for operator in self.operators
            if operator.kind != "Identity" or names.get(operator.inputs[0]) != operator.outputs[0]
        ]


def _require_kept(kind: str, constant: Array) -> None:
    """Refuse a number that a runtime takes for 1 or 0, and drops its operator.

    It rounds a single number of float64 to float32 to see whether the operator changes anything.
    """
    nothing = {"Mul": 1.0, "Div": 1.0, "Add": 0.0, "Sub": 0.0}.get(kind)
    if nothing is None or constant.size != 1 or constant.dtype != np.float64:
        return
    number = float(constant.ravel()[0])
    with np.errstate(over="ignore", under="ignore"):
        dropped = number != nothing and float(np.float32(number)) == nothing
    if dropped:
        raise UnsupportedModelError(
            f"a scale, divisor or base score must not round to {nothing:g} in float32, got "
            f"{number!r}: a runtime would leave it out; predict with bitvec."
        )


def cast(graph: Graph, value: str, dtype: np.dtype, name: str) -> str:
    """Append a Cast to a dtype."""
    return graph.add("Cast", value, name=name, to=TENSOR_TYPE[dtype.name])


def greater(graph: Graph, a: str | Array, b: str | Array, name: str, *, equal: bool = False) -> str:
    """Append a > b, or a >= b, as b < a or b <= a: to one runtime NaN is greater than anything."""
    return graph.add("LessOrEqual" if equal else "Less", b, a, name=name)


def table(graph: Graph, numbers: Array, dtype: np.dtype) -> str:
    """Append whole numbers from 0 on, stored in as few bytes as they need and cast at load."""
    narrow = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
    return cast(graph, graph.constant("narrow_table", narrow), dtype, "table")


def softplus(graph: Graph, x: str, dtype: np.dtype) -> str:
    """Append log(1 + exp(x)), bit for bit as `bitvec.core.softplus`.

    Of additions, products, quotients and comparisons of float64 alone.
    """

    def add(kind: str, *inputs: str | Array, name: str) -> str:
        return graph.add(kind, *inputs, name=f"softplus_{name}")

    def polynomial(coefficients: tuple[float, ...], at: str, name: str) -> str:
        value = add("Mul", at, np.array(coefficients[-1]), name=name)
        for one in reversed(coefficients[1:-1]):
            value = add("Mul", add("Add", value, np.array(one), name=name), at, name=name)
        return add("Add", value, np.array(coefficients[0]), name=name)

    wide = np.dtype(np.float64)
    value = x if dtype == wide else cast(graph, x, wide, "softplus_x")
    size = add("Abs", value, name="size")
    u = add(
        "Where", add("Less", size, np.array(FAR), name="is_near"), size, np.array(FAR), name="u"
    )
    k = add("Mul", u, np.array(LOG2_E), name="ratio")
    k = add("Floor", add("Add", k, np.array(0.5), name="ratio_half"), name="k")
    r = add("Sub", add("Mul", k, np.array(LN2_HIGH), name="high"), u, name="rest_high")
    r = add("Add", r, add("Mul", k, np.array(LN2_LOW), name="low"), name="rest")
    whole = cast(graph, k, np.dtype(np.int64), "softplus_exponent")
    power = add("Gather", np.array(POWERS), whole, name="power")
    t = add("Mul", polynomial(EXP, r, "exp"), power, name="t")
    s = add("Div", t, add("Add", t, np.array(2.0), name="t_2"), name="s")
    series = polynomial(ARTANH, add("Mul", s, s, name="s2"), "artanh")
    tail = add("Mul", add("Add", s, s, name="twice_s"), series, name="tail")
    is_below = add("Less", value, np.array(0.0), name="is_below")
    hinge = add("Where", is_below, np.array(0.0), value, name="hinge")
    found = add("Add", hinge, tail, name="wide")
    return found if dtype == wide else cast(graph, found, dtype, "softplus")
