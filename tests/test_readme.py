"""Every snippet of the README and the docs runs and prints what it says it prints."""

from __future__ import annotations

import doctest
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

ROOT = Path(__file__).resolve().parent.parent


def in_full(page: str, at_least: int) -> ParameterSet:
    """A page that trains for seconds, or whose calls other tests make too."""
    return pytest.param(page, at_least, marks=pytest.mark.full)


@pytest.mark.parametrize(
    ("page", "at_least"),
    [
        ("README.md", 15),
        in_full("docs/after-hardening.md", 30),
        ("docs/c99.md", 15),
        ("docs/certificates.md", 12),
        in_full("docs/compress.md", 18),
        in_full("docs/cpt.md", 12),
        in_full("docs/decision-machines.md", 25),
        in_full("docs/e2edt.md", 35),
        ("docs/engine.md", 8),
        in_full("docs/explain.md", 20),
        ("docs/export.md", 30),
        ("docs/gpu.md", 6),
        ("docs/index.md", 9),
        ("docs/install.md", 1),
        in_full("docs/jax.md", 20),
        in_full("docs/kddt.md", 30),
        in_full("docs/models.md", 40),
        in_full("docs/oblique-forests.md", 10),
        ("docs/pipelines.md", 25),
        ("docs/predict.md", 15),
        ("docs/relaxations.md", 15),
        ("docs/representation.md", 14),
        in_full("docs/research.md", 35),
        in_full("docs/retraining.md", 15),
        ("docs/rules.md", 10),
        ("docs/scikit-learn.md", 15),
        ("docs/security.md", 2),
        ("docs/serve.md", 15),
        ("docs/ship.md", 24),
        ("docs/sql.md", 10),
        ("docs/supported-models.md", 4),
        in_full("docs/tao.md", 40),
        in_full("docs/torch.md", 18),
        in_full("docs/update.md", 35),
    ],
    ids=str,
)
def test_a_page_prints_what_it_says(page, at_least, tmp_path, monkeypatch):
    compilers = map(shutil.which, ("cc", "gcc", "clang"))
    if page in ("docs/c99.md", "docs/compress.md") and not any(compilers):
        pytest.skip("no C compiler is installed, and the page uses one")
    for library in ("lightgbm", "jax"):
        if f"import {library}" in (ROOT / page).read_text(encoding="utf-8"):
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
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
    assert pages == [
        "after-hardening.md",
        "browser.md",
        "c99.md",
        "certificates.md",
        "clusters.md",
        "compatibility.md",
        "compress.md",
        "cpt.md",
        "decision-machines.md",
        "e2edt.md",
        "engine.md",
        "exactness.md",
        "examples.md",
        "explain.md",
        "export.md",
        "figures.md",
        "gpu.md",
        "index.md",
        "install.md",
        "jax.md",
        "kddt.md",
        "models.md",
        "oblique-forests.md",
        "pipelines.md",
        "predict.md",
        "relaxations.md",
        "representation.md",
        "research.md",
        "retraining.md",
        "rules.md",
        "scikit-learn.md",
        "security.md",
        "serve.md",
        "ship.md",
        "sql.md",
        "supported-models.md",
        "tao.md",
        "torch.md",
        "update.md",
        "what-works.md",
        "when-to-retrain.md",
    ]


STRICT = """
[mypy]
strict = true
[mypy-sklearn.*]
ignore_missing_imports = true
[mypy-bitvec.*]
follow_imports = silent
"""


PUBLIC_TYPES = """
import numpy as np
import torch

import bitvec
import bitvec.learners


def base_of(forest: bitvec.Forest) -> np.ndarray:
    return forest.output.base_score


def scores_of(forest: bitvec.Forest, X: np.ndarray) -> torch.Tensor:
    return bitvec.to_torch(forest, "sigmoid")(X)


def hard_scores_of(forest: bitvec.Forest, x: torch.Tensor) -> torch.Tensor:
    return bitvec.to_torch(forest)(x)


def fitted(X: np.ndarray, y: np.ndarray) -> bitvec.learners.TAOClassifier:
    return bitvec.learners.TAOClassifier().fit(X, y)


"""


@pytest.mark.full
def test_the_readme_passes_mypy_strict_in_a_project_of_its_own(tmp_path):
    pytest.importorskip("mypy")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = doctest.DocTestParser().get_examples(text)
    source = PUBLIC_TYPES + "".join(example.source for example in examples)
    assert "bitvec.retrain(" in source
    (tmp_path / "snippets.py").write_text(source, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(STRICT, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "snippets.py"]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
