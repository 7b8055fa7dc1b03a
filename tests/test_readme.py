"""Every snippet of the README and the docs runs and prints what it says it prints."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("page", "at_least"),
    [("README.md", 20), ("docs/what-lifts.md", 4), ("docs/engine.md", 8)],
    ids=str,
)
def test_a_page_prints_what_it_says(page, at_least):
    result = doctest.testfile(
        str(ROOT / page),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
        encoding="utf-8",
    )
    assert result.attempted > at_least
    assert result.failed == 0


def test_every_page_is_tried():
    pages = sorted(page.name for page in (ROOT / "docs").glob("*.md"))
    assert pages == ["engine.md", "what-lifts.md"]
