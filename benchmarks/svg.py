"""Figures as SVG files whose texts stay texts."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

RASTER = 80
"""Dots an inch of what is no line or text."""
DIGITS = re.compile(r"(\d\.\d{3})\d+")


def write(figure: Any, path: Path) -> None:
    """Write a figure, to a thousandth of a point; two drawings of the same are the same file."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bitvec"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, dpi=RASTER)
    path.write_text(DIGITS.sub(r"\1", text.getvalue()), encoding="utf-8")
