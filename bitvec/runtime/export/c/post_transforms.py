"""Post-transforms of raw scores as C: those of `bitvec.core.links`.

Exponentials and logarithms are those of the C library that the header is compiled with; so their
last places are its own, and raw scores alone are promised bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.links import EXACT, GROUPED, LINKS, Symbol, Writing
from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.runtime.export.c.literals import C_TYPES, number

_EACH = """    uint32_t k;
    for (k = 0; k < @@N_OUTPUTS; k++) {
        const @score v = value[k];
$lines        value[k] = $value;
    }
"""
_SOFTMAX = """    static const uint32_t size[] = {$sizes};
    uint32_t group;
    uint32_t first = 0;
    uint32_t k;
    for (group = 0; group < $n_groups; group++) {
        const uint32_t last = first + size[group];
        @score top = value[first]$divided;
        $total_kind total = 0;
        for (k = first; k < last; k++) {
            value[k] = value[k]$divided;
            top = value[k] > top || value[k] != value[k] ? value[k] : top;
        }
        for (k = first; k < last; k++) {
$exponential
        }
        for (k = first; k < last; k++) {
            value[k] = $quotient;
        }
        first = last;
    }
"""
_ADDED = """            value[k] = {exponential};
            total = total + ($total_kind)value[k];"""
_ADDED_UNLESS_ZERO = """            if (value[k] > $tiny || value[k] < -$tiny) {
                value[k] = $exp(value[k] - top);
                total = total + value[k];
            } else {
                value[k] = value[k] * $exp(-top);
            }"""
_LOOPS = {
    PostTransform.SOFTMAX: (
        _ADDED.format(exponential="$exp(value[k] - top)"),
        "value[k] / (@score)total",
    ),
    PostTransform.SOFTMAX_UNSHIFTED: (
        _ADDED.format(exponential="$exp(value[k])"),
        "value[k] * ($one / total)",
    ),
    PostTransform.SOFTMAX_ZERO: (_ADDED_UNLESS_ZERO, "value[k] / total"),
}
"""Code that adds up the exponentials of a group, and code that divides by their sum: in place."""


def needs_math(output: Output) -> bool:
    """Return whether a header needs <math.h> for its predictions."""
    return output.post_transform not in EXACT


def transform_body(output: Output) -> str:
    """Return the lines of C that turn `value` from raw scores into transformed ones."""
    kind, dtype = output.post_transform, output.dtype
    if kind is PostTransform.IDENTITY:
        return "    (void)value;\n"
    if kind not in GROUPED:
        f = _Operations(output, dtype)
        value = LINKS[kind](f, _Value(f, "v", dtype))
        return _EACH.replace("$lines", "".join(f.lines)).replace("$value", value.code)
    exponential, quotient = _LOOPS[kind]
    scales = kind is PostTransform.SOFTMAX and output.parameter != 1
    wide = kind is PostTransform.SOFTMAX and output.softmax_sum is SoftmaxSum.WIDE
    body = _SOFTMAX
    for word, text in {
        "$exponential": exponential,
        "$quotient": quotient,
        "$divided": f" / {number(output.parameter, dtype)}" if scales else "",
        "$total_kind": "double" if wide else "@score",
        "$sizes": ", ".join(f"{size}U" for size in output.groups),
        "$n_groups": f"{len(output.groups)}U",
        "$one": number(1.0, dtype),
        "$tiny": number(1e-7, dtype),
        "$exp": "expf" if dtype == np.float32 else "exp",
    }.items():
        body = body.replace(word, text)
    return body


class _Value(Symbol):
    """An expression in C; what a function returns has a name of its own."""

    def __init__(self, f: _Operations, code: str, dtype: np.dtype) -> None:
        self.f, self.code, self.dtype = f, code, dtype

    def write(self, kind: str, *operands: Any) -> _Value:
        if kind in _INLINE:
            code = _INLINE[kind].format(*map(self.term, operands))
            return _Value(self.f, code, self.dtype)
        suffix = "f" if self.dtype == np.float32 else ""
        return self.f.named(_NAMED[kind].format(*map(self.term, operands), f=suffix), self.dtype)

    def term(self, operand: Any) -> str:
        """Return the code of an operand; a number has this value's dtype."""
        if not isinstance(operand, _Value):
            return number(operand, self.dtype)
        return operand.code if operand.code.isidentifier() else f"({operand.code})"


_INLINE = {
    "Neg": "-{0}",
    "Abs": "{0} > 0 ? {0} : 0 - {0}",  # -0 too becomes +0
    "Add": "{0} + {1}",
    "Sub": "{0} - {1}",
    "Mul": "{0} * {1}",
    "Div": "{0} / {1}",
    "Less": "{0} < {1}",
}
_NAMED = {
    "Exp": "exp{f}({0})",
    "Log1p": "log1p{f}({0})",
    "Sqrt": "sqrt{f}({0})",
    "Pow": "pow{f}({0}, {1})",
    "CopySign": "copysign{f}({0}, {1})",
    "Max": "{0} < {1} ? {1} : {0}",  # NaN of NaN
    "Min": "{0} > {1} ? {1} : {0}",
    "Where": "{0} ? {1} : {2}",
}


class _Operations(Writing):
    """Operations of C and of <math.h>."""

    def __init__(self, output: Output, dtype: np.dtype) -> None:
        super().__init__(output, dtype)
        self.lines: list[str] = []

    def named(self, code: str, dtype: np.dtype) -> _Value:
        """Return the variable that holds what this code computes."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"        const {C_TYPES[dtype]} {name} = {code};\n")
        return _Value(self, name, dtype)

    def log(self, x: _Value) -> _Value:
        return self.named(f"({C_TYPES[x.dtype]})log((double){x.term(x)})", x.dtype)

    def indicator(self, condition: _Value) -> _Value:
        return condition.write("Where", condition, 1.0, 0.0)

    def cast(self, x: _Value, dtype: np.dtype) -> _Value:
        if x.dtype == dtype:
            return x
        return self.named(f"({C_TYPES[dtype]}){x.term(x)}", dtype)
