"""Post-transforms of raw scores as C, in the order of operations of `bitvec.core.transforms`.

Exponentials and logarithms are those of the C library that the header is compiled with; so their
last places are its own, and raw scores alone are promised bit for bit.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.runtime.export.c.literals import C_TYPES, number

WITHOUT_MATH = (
    PostTransform.IDENTITY,
    PostTransform.SIGNED_SQUARE,
    PostTransform.HINGE,
    PostTransform.AT_MOST_ONE,
)
"""Those that need nothing of <math.h>."""

_EACH = """    uint32_t k;
    for (k = 0; k < @@N_OUTPUTS; k++) {
        const @score v = $scaled;
        $line
    }
"""
_LINES = {
    PostTransform.SIGMOID: "value[k] = $one / ($exp(-v) + $one);",
    PostTransform.SOFTMAX_OF_HALVES: (
        "const @score e = $exp(v < 0 ? v : -v);\n"
        "        value[k] = (v < 0 ? e : $one) / (e + $one);"
    ),
    PostTransform.LOGISTIC: (
        "const float above = 1.0f / (1.0f + expf(v < 0 ? (float)v : -(float)v));\n"
        "        value[k] = (@score)(v < 0 ? 1.0f - above : above);"
    ),
    PostTransform.EXPONENTIAL: "value[k] = $exp(v);",
    PostTransform.EXPONENTIAL_STANDARD_RATIO: "value[k] = $pow($two, -v / $parameter);",
    PostTransform.LOGARITHM_ONE_PLUS_EXP: "value[k] = $log1p($exp(v));",
    PostTransform.SIGNED_SQUARE: "value[k] = v < 0 ? -(v * v) : v == 0 ? v : v * v;",
    PostTransform.HINGE: "value[k] = v > 0 ? $one : 0;",
    PostTransform.AT_MOST_ONE: "value[k] = v > $one ? $one : v;",
    PostTransform.PROBIT: (
        "const float p = 2.0f * (float)v - 1.0f;\n"
        "        const float l = (float)log((double)((1.0f - p) * (1.0f + p)));\n"
        "        const float c = $two_over + 0.5f * l;\n"
        "        const float root = sqrtf(sqrtf(c * c - $inverse * l) - c);\n"
        "        value[k] = (@score)($root_two * (p < 0 ? -root : root));"
    ),
}
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
            total = total + ($total_kind)value[k];
        }
        for (k = first; k < last; k++) {
            value[k] = $quotient;
        }
        first = last;
    }
"""
_EXPONENTIALS = {
    PostTransform.SOFTMAX: "value[k] = $exp(value[k] - top);",
    PostTransform.SOFTMAX_UNSHIFTED: "value[k] = $exp(value[k]);",
}
_SOFTMAX_ZERO = """    static const uint32_t size[] = {$sizes};
    uint32_t group;
    uint32_t first = 0;
    uint32_t k;
    for (group = 0; group < $n_groups; group++) {
        const uint32_t last = first + size[group];
        @score top = value[first];
        @score total = 0;
        for (k = first; k < last; k++) {
            top = value[k] > top || value[k] != value[k] ? value[k] : top;
        }
        for (k = first; k < last; k++) {
            if (value[k] > $tiny || value[k] < -$tiny) {
                value[k] = $exp(value[k] - top);
                total = total + value[k];
            } else {
                value[k] = value[k] * $exp(-top);
            }
        }
        for (k = first; k < last; k++) {
            value[k] = value[k] / total;
        }
        first = last;
    }
"""
_F = np.dtype(np.float32)
_SINGLE = {
    "two_over": number(np.float32(2) / (np.float32(np.pi) * np.float32(0.147)), _F),
    "inverse": number(np.float32(1) / np.float32(0.147), _F),
    "root_two": number(np.float32(1.41421356), _F),
}
"""The constants of `_probit` of `bitvec.core.transforms`."""


def needs_math(output: Output) -> bool:
    """Return whether a header needs <math.h> for its predictions."""
    return output.post_transform not in WITHOUT_MATH


def transform_body(output: Output) -> str:
    """Return the lines of C that turn `value` from raw scores into transformed ones."""
    kind, dtype = output.post_transform, output.dtype
    if kind is PostTransform.IDENTITY:
        return "    (void)value;\n"
    single = C_TYPES[dtype] == "float"
    parameter = number(output.parameter, dtype)
    scaled = "value[k]"
    if kind is PostTransform.SIGMOID:
        if output.parameter != 1.0:
            scaled += f" * {parameter}"
        if single:  # xgboost keeps its exponential finite
            bound = number(-88.7, dtype)
            scaled = f"({scaled}) < {bound} ? {bound} : {scaled}"
    divided = f" / {parameter}" if kind is PostTransform.SOFTMAX and output.parameter != 1 else ""
    wide = kind is PostTransform.SOFTMAX and output.softmax_sum is SoftmaxSum.WIDE
    one = number(1.0, dtype)
    quotient = "value[k] / (@score)total"
    if kind is PostTransform.SOFTMAX_UNSHIFTED:
        quotient = f"value[k] * ({one} / total)"
    body = {
        PostTransform.SOFTMAX: _SOFTMAX,
        PostTransform.SOFTMAX_UNSHIFTED: _SOFTMAX,
        PostTransform.SOFTMAX_ZERO: _SOFTMAX_ZERO,
    }.get(kind, _EACH)
    replacements = {
        "$line": _LINES.get(kind, ""),
        "$exponential": _EXPONENTIALS.get(kind, ""),
        "$quotient": quotient,
        "$total_kind": "double" if wide else "@score",
        "$scaled": scaled,
        "$divided": divided,
        "$sizes": ", ".join(f"{size}U" for size in output.groups),
        "$n_groups": f"{len(output.groups)}U",
        "$parameter": parameter,
        "$one": one,
        "$two_over": _SINGLE["two_over"],
        "$two": number(2.0, dtype),
        "$inverse": _SINGLE["inverse"],
        "$root_two": _SINGLE["root_two"],
        "$tiny": number(1e-7, dtype),
        **{f"${word}": word + "f" * single for word in ("exp", "log1p", "pow")},
    }
    for word, value in replacements.items():
        body = body.replace(word, value)
    return body
