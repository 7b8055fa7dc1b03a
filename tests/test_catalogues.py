"""Laws of the catalogues of models: each option that a format supports is trained twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

for library in ("catboost", "lightgbm", "sklearn", "skops", "treelite", "xgboost", "ydf"):
    pytest.importorskip(library)

from benchmarks import exactness  # noqa: E402
from benchmarks.exactness.cases import OPTIONS  # noqa: E402
from benchmarks.frames import Data  # noqa: E402


@pytest.fixture(scope="module")
def uses() -> Counter[tuple[str, str]]:
    cases = exactness.models_of(Data(Path("absent")), Path("absent"))
    return Counter((case.format, name) for case in cases for name in case.options)


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_of_a_format_has_two_models(name: str, uses: Counter[tuple[str, str]]) -> None:
    assert [option for option in OPTIONS[name] if uses[name, option] < 2] == []
