"""Figures as SVG files whose texts stay texts, and several of them as one that moves."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

RASTER = 80
"""Dots an inch of what is no line or text."""
DIGITS = re.compile(r"(\d\.\d{3})\d+")
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
HELD = 5.0
"""Seconds that the last frame of an animation stays."""


def write(figure: Any, path: Path) -> None:
    """Write a figure, to a thousandth of a point; two drawings of the same are the same file."""
    path.write_text(text_of(figure), encoding="utf-8")


def text_of(figure: Any) -> str:
    """Return a figure as `write` writes it."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bitvec"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, dpi=RASTER)
    return DIGITS.sub(r"\1", text.getvalue())


def write_animation(figures: Sequence[Any], path: Path, seconds: float) -> None:
    """Write figures as one SVG that shows them in turn, without end; what they share is there once.

    Who asks the system for reduced motion sees the last one, as do programs without animation.

    Parameters
    ----------
    figures : sequence of Figure
        Of one size.
    seconds : float
        Of each but the last, which stays for `HELD`.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    merged = _merged([ElementTree.fromstring(text_of(figure)) for figure in figures])
    style = ElementTree.Element(f"{{{SVG}}}style")
    style.text = _style(len(figures), seconds)
    merged.insert(0, style)
    path.write_text(ElementTree.tostring(merged, encoding="unicode") + "\n", encoding="utf-8")


def _merged(frames: Sequence[ElementTree.Element]) -> ElementTree.Element:
    """Return the first frame, where children that differ stand in a group for each frame."""
    first = deepcopy(frames[0])
    if len({ElementTree.tostring(frame) for frame in frames}) == 1:
        return first
    for place, children in enumerate(zip(*frames, strict=True)):
        alike = len({(child.tag, len(child), _shallow(child)) for child in children}) == 1
        if alike:
            first[place] = _merged(children)
            continue
        first[place] = ElementTree.Element(f"{{{SVG}}}g")
        for number, child in enumerate(children):
            group = ElementTree.SubElement(first[place], f"{{{SVG}}}g", {"class": f"f{number}"})
            group.append(child)
    return first


def _shallow(element: ElementTree.Element) -> tuple[Any, ...]:
    """Return an element's attributes and, of one without children, its text."""
    return (*sorted(element.items()), element.text if not len(element) else None)


def _style(n: int, seconds: float) -> str:
    """Return the style by which groups `f0`, `f1`, ... are seen in turn."""
    whole = seconds * (n - 1) + HELD
    lines = [", ".join(f".f{k}" for k in range(n - 1)) + " { visibility: hidden }"]
    moving = []
    for k in range(n):
        start, end = (100 * seconds * at / whole for at in (k, k + 1))
        on = f"{start:.3f}% {{ visibility: visible }}"
        before = "" if k == 0 else "0% { visibility: hidden } "
        after = "" if k == n - 1 else f" {end:.3f}%, 100% {{ visibility: hidden }}"
        lines.append(f"@keyframes s{k} {{ {before}{on}{after} }}")
        moving.append(f".f{k} {{ animation: s{k} {whole:g}s step-end infinite }}")
    asked = "@media (prefers-reduced-motion: no-preference)"
    return "\n".join(["", *lines, f"{asked} {{", *moving, "}", ""])
