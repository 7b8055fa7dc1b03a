"""Text and numbers as one line of a terminal, whatever a file says."""

from __future__ import annotations

from typing import SupportsFloat


def plain(text: str) -> str:
    """Return text on one line, with control characters (colours, cursor moves) made visible.

    >>> plain("a\\n  b \\x1b[31m")
    'a b \\\\x1b[31m'
    """
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def number(value: SupportsFloat) -> str:
    """Return a number in few characters: whole numbers in full, others with six digits.

    >>> number(3.0), number(0.1234567), number(1234567.0)
    ('3', '0.123457', '1234567')
    """
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
