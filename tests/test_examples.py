"""Each example runs in its short form, and its long form's output is kept as it prints it."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

pytest.importorskip("torch")
pytest.importorskip("sklearn")


def module(name: str) -> Any:
    """Import an example by its name."""
    spec = spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def cells(lines: list[str]) -> list[list[str]]:
    """Return the cells of a table in Markdown, without its heading."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_page_an_output_and_a_short_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert f"python examples/{path.name} [--quick]" in text
    assert (ROOT / "examples" / "outputs" / f"{path.stem}.md").exists()
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert f"<!-- table: examples.{path.stem} -->" in page


def test_a_retrained_tree_is_better_and_no_larger() -> None:
    ((_, before, after, leaves),) = cells(list(module("retrain_a_tree").lines(quick=True)))
    grown, left = map(int, leaves.split(" -> "))
    assert float(after) > float(before)
    assert left <= grown


def test_learners_are_compared_on_the_same_folds(recwarn: pytest.WarningsRecorder) -> None:
    heading, _, row = module("compare_learners").lines(quick=True)
    ((name, *scores),) = cells([heading, "", row])
    assert name == "iris"
    assert len(scores) == heading.count("|") - 2
    assert all(float(score.split(" ± ")[0]) > 0.8 for score in scores)


def test_files_that_are_written_are_certified(tmp_path: Path) -> None:
    for library in ("onnx", "onnxruntime", "skops"):
        pytest.importorskip(library)
    rows = {row[0]: row for row in cells(list(module("ship_everywhere").lines(True, tmp_path)))}
    held = re.compile("passed, (proved|two-sided)|read again, identical|not certified here")
    for name, (_, size, certificate) in rows.items():
        if name == "xgboost":
            assert certificate.startswith("not written: xgboost must have")
        else:
            assert size
            assert held.match(certificate), (name, certificate)
