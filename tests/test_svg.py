"""Pictures as SVG files, and animations whose frames share what is the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")
from benchmarks import svg

ROOT = Path(__file__).resolve().parents[1]


def frame(title: str, height: float) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 2))
    axis = figure.subplots()
    axis.plot([0, 1], [0, height])
    axis.set(title=title, xlabel="shared by all", xlim=(0, 1), ylim=(0, 3))
    return figure


def test_one_frame_for_ever_is_the_picture_itself(tmp_path: Path) -> None:
    svg.write(frame("one", 1), tmp_path / "still.svg")
    svg.write_animation([frame("one", 1), frame("one", 1)], tmp_path / "moving.svg", 1.0)
    still, moving = (ElementTree.parse(tmp_path / f"{name}.svg") for name in ("still", "moving"))
    style, *shown = moving.getroot()
    assert style.tag.endswith("style")
    assert list(map(ElementTree.tostring, shown)) == list(
        map(ElementTree.tostring, still.getroot())
    )


def test_frames_share_what_is_the_same_and_differ_where_they_must(tmp_path: Path) -> None:
    titles = ["soft", "harder", "hard"]
    figures = [frame(title, height) for height, title in enumerate(titles)]
    svg.write_animation(figures, tmp_path / "moving.svg", 0.5)
    text = (tmp_path / "moving.svg").read_text(encoding="utf-8")
    assert text.count(">shared by all<") == 1
    for k, title in enumerate(titles):
        groups = ElementTree.fromstring(text).findall(f".//{{*}}g[@class='f{k}']")
        inside = "".join(ElementTree.tostring(group, encoding="unicode") for group in groups)
        assert [each for each in titles if f">{each}<" in inside] == [title]
        svg.write(figures[k], tmp_path / "still.svg")
        line = re.search(r'<path d="([^"]+)" clip-path', inside)
        assert line is not None
        still = (tmp_path / "still.svg").read_text(encoding="utf-8")
        assert " ".join(line[1].split()) in " ".join(still.split())


def test_the_last_frame_stands_still_for_who_asks_for_no_motion(tmp_path: Path) -> None:
    svg.write_animation([frame("soft", 1), frame("hard", 2)], tmp_path / "moving.svg", 1.0)
    style = ElementTree.parse(tmp_path / "moving.svg").getroot()[0].text
    assert style is not None
    still, moving = style.split("@media (prefers-reduced-motion: no-preference)")
    assert ".f0 { visibility: hidden }" in still
    assert ".f1 {" not in still
    assert "animation:" not in still
    assert moving.count("animation:") == 2


def test_the_animation_of_the_docs_is_small() -> None:
    assert (ROOT / "docs" / "annealing.svg").stat().st_size < 400_000
