"""Predictions, probabilities and labels from raw scores, as functions of C."""

from __future__ import annotations

from bitvec.core.arrays import Array
from bitvec.core.output import Output, PostTransform
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import number, text
from bitvec.runtime.export.c.post_transforms import needs_math, transform_body

MOST_CLASSES = 1 << 16
MOST_NAME_BYTES = 4095
"""C99 promises texts of this length."""


def n_probabilities(output: Output) -> int:
    """Return how many probabilities a classifier has for a row, all its groups together."""
    assert output.classes is not None
    pairs = zip(output.classes, output.groups, strict=True)
    return sum(2 if size == 1 and labels.size == 2 else size for labels, size in pairs)


def add_outputs(header: Header, output: Output, whole: str = "") -> None:
    """Append what follows from raw scores; `whole` are lines that take some labels
    without them.

    Raises
    ------
    UnsupportedModelError
        If labels do not fit 2 bytes, or a name is longer than C promises to hold.
    """
    math = needs_math(output)
    by_raw = output.is_classifier and output.labels_from_raw
    if by_raw:
        _add_labels(header, output, whole)
    if math:
        header.code("#ifndef @@NO_MATH\n#include <math.h>\n")
    header.code(_TRANSFORM, body=header.filled(transform_body(output)))
    if not output.is_classifier:
        header.code(_PREDICT)
    else:
        if not by_raw:
            _add_labels(header, output, whole, _clear_labels(output) + "    @transform(value);\n")
        _add_probabilities(header, output)
    if math:
        header.code("#endif /* @@NO_MATH */\n")
    if output.classes is not None:
        _add_names(header, output.classes)


def _clear_labels(output: Output) -> str:
    """Return lines that take a label from raw scores where no exponential could bring another."""
    one = output.groups == (1,) and output.second_above == 0.5
    if output.parameter != 1 or len(output.groups) > 1:
        return ""
    if output.post_transform is PostTransform.SIGMOID and one:
        return _CLEAR_SIGN
    return _CLEAR_MAXIMUM if output.post_transform is PostTransform.SOFTMAX else ""


def _add_labels(header: Header, output: Output, whole: str, transform: str = "") -> None:
    assert output.classes is not None
    most = max(labels.size for labels in output.classes)
    if most > MOST_CLASSES:
        raise UnsupportedModelError(
            f"a C header needs at most {MOST_CLASSES} classes of a target, got {most}: "
            "predict with bitvec."
        )
    lines, first = [], 0
    pairs = zip(output.classes, output.groups, strict=True)
    for group, (labels, size) in enumerate(pairs):
        if size == 1 and labels.size == 2:
            relation = ">=" if output.tie_to_second else ">"
            boundary = number(output.second_above, output.dtype)
            lines.append(f"    label[{group}] = value[{first}] {relation} {boundary};")
        else:
            lines.append(f"    label[{group}] = @first_maximum(value + {first}, {size}U);")
        first += size
    if any("first_maximum" in line for line in lines):
        header.code(_FIRST_MAXIMUM)
    if "stands_out" in transform:
        header.code(_STANDS_OUT)
    whole, transform = header.filled(whole), header.filled(transform)
    header.code(_LABELS, whole=whole, transform=transform, lines="\n".join(lines))
    if len(output.groups) == 1:
        header.code(_LABEL)


def _add_probabilities(header: Header, output: Output) -> None:
    assert output.classes is not None
    lines, first, place = [], 0, 0
    for labels, size in zip(output.classes, output.groups, strict=True):
        if size == 1 and labels.size == 2:
            one = number(1.0, output.dtype)
            lines.append(f"    probability[{place}] = {one} - value[{first}];")
            place += 1
        lines += [
            f"    probability[{place + k}] = value[{first + k}];" for k in range(size)
        ] if size <= 4 else [
            f"    for (k = 0; k < {size}U; k++) {{",
            f"        probability[{place}U + k] = value[{first}U + k];",
            "    }",
        ]  # fmt: skip
        first, place = first + size, place + size
    loop = "    uint32_t k;\n" if any("for (" in line for line in lines) else ""
    header.code(_PROBABILITIES, lines="\n".join(lines), loop=loop)


def _add_names(header: Header, classes: tuple[Array, ...]) -> None:
    """Append the labels as texts: for a log or a display; a linker drops what nobody calls."""
    for group, labels in enumerate(classes):
        suffix = f"_{group}" if len(classes) > 1 else ""
        values = labels.tolist()
        longest = max(len(str(value).encode("utf-8", "surrogatepass")) for value in values)
        if longest > MOST_NAME_BYTES:
            raise UnsupportedModelError(
                f"a C header needs class names of at most {MOST_NAME_BYTES} bytes in UTF-8, got "
                f"{longest}: relabel the classes."
            )
        names = [text(str(value)) for value in values]
        body = "".join(f"        {name},\n" for name in names)
        header.plain(header.filled(_NAMES, suffix=suffix, n=len(values)).replace("NAMES\n", body))


_TRANSFORM = """
/* Turn raw scores into transformed ones, in place. */
static inline void @transform(@score *value)
{
$body}
"""
_PREDICT = """
/* The predictions: @@N_OUTPUTS numbers, the raw scores after the post-transform. */
static inline void @predict(const @input *x, @score *prediction)
{
    @raw(x, prediction);
    @transform(prediction);
}
"""
_FIRST_MAXIMUM = """
/* Where the largest value stands, the first of equal ones; NaN counts as the largest. */
static inline uint16_t @first_maximum(const @score *value, const uint32_t n)
{
    uint32_t best = 0;
    uint32_t k;
    for (k = 1; k < n; k++) {
        if (value[best] == value[best] && !(value[k] <= value[best])) {
            best = k;
        }
    }
    return (uint16_t)best;
}
"""
_CLEAR_SIGN = """    if (value[0] > (@score)0x1p-10 || value[0] < (@score)-0x1p-10) {
        label[0] = value[0] > 0;
        return;
    }
"""
_CLEAR_MAXIMUM = """    label[0] = @first_maximum(value, @@N_OUTPUTS);
    if (@stands_out(value, label[0])) {
        return;
    }
"""
_STANDS_OUT = """
/* Whether a finite score is so much above all others that its exponential is above theirs. */
static inline int @stands_out(const @score *value, const uint32_t best)
{
    uint32_t k;
    for (k = 0; k < @@N_OUTPUTS; k++) {
        if (k != best && !(value[best] - value[k] > (@score)0x1p-10)) {
            return 0;
        }
    }
    return value[best] - value[best] == 0;
}
"""
_LABELS = """
/* The predicted classes, as indices: @@N_TARGETS numbers. */
static inline void @predict(const @input *x, uint16_t *label)
{
    @score value[@@N_OUTPUTS];
$whole    @raw(x, value);
$transform$lines
}
"""
_LABEL = """
/* The predicted class, as an index. */
static inline uint16_t @label(const @input *x)
{
    uint16_t label[1];
    @predict(x, label);
    return label[0];
}
"""
_PROBABILITIES = """
/* The probabilities of the classes: @@N_PROBABILITIES numbers. */
static inline void @probabilities(const @input *x, @score *probability)
{
    @score value[@@N_OUTPUTS];
$loop    @raw(x, value);
    @transform(value);
$lines
}
"""
_NAMES = """
/* The name of a class. */
static inline const char *@class_name$suffix(const uint16_t label)
{
    static const char *const names[$n] = {
NAMES
    };
    return names[label];
}
"""
