"""Post-transforms of raw scores in SQL, in the order of operations of `bitvec.core.links`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.links import GROUPED, LINKS, Symbol, Writing
from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.sql.dialects import Dialect

FORMS = {
    "Neg": "(-{})",
    "Abs": "ABS({})",
    "Add": "({} + {})",
    "Sub": "({} - {})",
    "Mul": "({} * {})",
    "Div": "({} / {})",
    "Less": "{} < {}",
    "Exp": "EXP({})",
    "Log": "LN({})",
    # Kahan's: what rounding adds to 1 + x is divided out again.
    "Log1p": "CASE WHEN 1.0 + {0} = 1.0 THEN {0} "
    "ELSE LN(1.0 + {0}) * {0} / ((1.0 + {0}) - 1.0) END",
    "Sqrt": "SQRT({})",
    "Pow": "POWER({}, {})",
    "CopySign": "CASE WHEN {1} < 0 THEN -{0} ELSE {0} END",
    "Where": "CASE WHEN {} THEN {} ELSE {} END",
}
EXPONENTS = {4: (-103.97, 88.7228), 8: (-745.13, 709.7827)}
"""Between these an exponential is neither 0 nor infinite, of 4 and 8 bytes."""


@dataclass(frozen=True)
class Text(Symbol):
    """An expression of SQL of one dtype, or a condition."""

    dialect: Dialect
    dtype: np.dtype
    text: str

    def write(self, kind: str, *operands: Any) -> Text:
        """Return an operator, rounded to the dtype as NumPy rounds it."""
        forms = {**FORMS, "Max": f"{self.dialect.greatest}({{}}, {{}})"}
        forms["Min"] = f"{self.dialect.least}({{}}, {{}})"
        if self.dialect.infinity is not None:
            low, high = EXPONENTS[self.dtype.itemsize]
            beyond = f"WHEN {{0}} < {low} THEN 0 WHEN {{0}} > {high} THEN {self.dialect.infinity}"
            forms["Exp"] = f"CASE {beyond} ELSE EXP({{0}}) END"
        texts = [self._text(operand) for operand in operands]
        text = forms[kind].format(*texts)
        if kind != "Less" and self.dtype == np.float32 and self.dialect.holds(self.dtype):
            text = self.dialect.cast(text, self.dtype)
        return Text(self.dialect, self.dtype, text)

    def _text(self, operand: Any) -> str:
        if isinstance(operand, Text):
            return operand.text
        number = self.dialect.number(float(self.dtype.type(operand)))
        return self.dialect.cast(number, self.dtype) if self.dtype == np.float32 else number


class _Operations(Writing):
    def cast(self, x: Text, dtype: np.dtype) -> Text:
        """Return x as another dtype."""
        return Text(x.dialect, dtype, x.dialect.cast(x.text, dtype))

    def indicator(self, condition: Text) -> Text:
        """Return 1 where a condition holds, else 0."""
        return condition.write("Where", condition, 1, 0)


def unsupported_link(dialect: Dialect, output: Output) -> str | None:
    """Return why a post-transform is not written in a dialect, None if it is."""
    link = output.post_transform
    if link is PostTransform.SOFTMAX_ZERO:
        return f"the post-transform {link.value}"
    is_single = output.dtype == np.float32 and dialect.single is not None
    if link in (PostTransform.LOGISTIC, PostTransform.PROBIT) and not is_single:
        return f"the post-transform {link.value}, which is computed in 32 bits"
    return None


def link_steps(
    dialect: Dialect, output: Output, raw: list[str], name: str
) -> tuple[list[dict[str, str]], list[str]]:
    """Return steps of named expressions, and the names that hold the transformed scores.

    Parameters
    ----------
    raw : list of str
        Names of the raw scores.
    name : str
        The word that new names begin with.

    Raises
    ------
    UnsupportedModelError
    """
    reason = unsupported_link(dialect, output)
    if reason is not None:
        raise UnsupportedModelError(
            f"SQL of {dialect.name} does not hold {reason}: export the outputs raw and leaves only."
        )
    link, f = output.post_transform, _Operations(output, output.dtype)
    if link is PostTransform.IDENTITY:
        return [], raw
    x = [Text(dialect, output.dtype, one) for one in raw]
    values = [f"{name}_p{k}" for k in range(len(raw))]
    if link not in GROUPED:
        return [dict(zip(values, (LINKS[link](f, one).text for one in x), strict=True))], values
    tops: dict[str, str] = {}
    exponentials: dict[str, str] = {}
    totals: dict[str, str] = {}
    quotients: dict[str, str] = {}
    start = 0
    for group, size in enumerate(output.groups):
        part = range(start, start + size)
        start += size
        ratios = [f.ratio(x[k]) if link is PostTransform.SOFTMAX else x[k] for k in part]
        top = Text(dialect, output.dtype, f"{name}_top{group}")
        total = Text(dialect, output.dtype, f"{name}_total{group}")
        texts = [ratio.text for ratio in ratios]
        tops[top.text] = extreme(dialect.greatest, texts)
        powers = []
        for k, ratio in zip(part, ratios, strict=True):
            powers.append(Text(dialect, output.dtype, f"{name}_e{k}"))
            shifted = ratio - top if link is PostTransform.SOFTMAX else ratio
            exponentials[powers[-1].text] = f.exp(shifted).text
            share = powers[-1] / total
            if link is PostTransform.SOFTMAX_UNSHIFTED:
                share = powers[-1] * total.write("Div", 1, total)
            quotients[values[k]] = share.text
        totals[total.text] = _total(dialect, output, powers)
    return [tops, exponentials, totals, quotients], values


def extreme(function: str, parts: list[str]) -> str:
    """Return the least or the greatest of any number of values; SQLite takes 127 at a time."""
    while len(parts) > 1:
        blocks = [parts[at : at + 100] for at in range(0, len(parts), 100)]
        parts = [f"{function}({', '.join(b)})" if len(b) > 1 else b[0] for b in blocks]
    return parts[0]


def _total(dialect: Dialect, output: Output, terms: list[Text]) -> str:
    is_wide = output.softmax_sum is SoftmaxSum.WIDE
    is_wide &= output.post_transform is PostTransform.SOFTMAX
    if not is_wide or output.dtype == np.float64:
        return " + ".join(term.text for term in terms)
    wide = " + ".join(dialect.cast(term.text, np.dtype(np.float64)) for term in terms)
    return dialect.cast(wide, output.dtype)
