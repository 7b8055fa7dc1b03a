"""Messages of exceptions that are more than their text."""

from __future__ import annotations

import ast
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

import bitvec
from bitvec.errors import MissingLibraryError, needs

REQUIRES = [
    "numpy>=1.26",
    "ydf>=0.10; python_version < '3.14' and extra == 'ydf'",
    'onnx>=1.17; extra == "onnx"',
    'onnxruntime>=1.20; python_version < "3.15" and extra == "onnx"',
    'numba>=0.60; python_version < "3.16" and platform_machine in "x86_64 arm64"',
]


@pytest.mark.parametrize("library", ["numpy", "ydf", "onnx", "onnxruntime"])
@pytest.mark.parametrize("python", [(3, 11), (3, 14), (3, 15), (4, 0)])
def test_a_library_without_a_wheel_for_this_python_is_said_to_have_none(
    library, python, monkeypatch
):
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(sys, "version_info", (*python, 0, "final", 0))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    message = str(MissingLibraryError(library, "all", "Reading"))
    without = python >= {"ydf": (3, 14), "onnxruntime": (3, 15)}.get(library, (9, 0))
    assert message.startswith(f"Reading needs the library {library}, which ")
    assert ("had no wheel for Python {}.{} on x86_64 when".format(*python) in message) == without
    assert (f"run `pip install {library}` if" in message) == without
    assert ('run `pip install "bitvec-trees[all]"`' in message) == (not without)
    assert "\n" not in message


@pytest.mark.parametrize("machine", ["x86_64", "arm64", "riscv64"])
def test_a_library_without_a_wheel_for_this_machine_is_said_to_have_none(machine, monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(sys, "version_info", (3, 12, 0, "final", 0))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    message = str(MissingLibraryError("numba", "all", "Reading"))
    assert (f"had no wheel for Python 3.12 on {machine} when" in message) == (machine == "riscv64")


def test_a_checkout_that_is_not_installed_names_the_extra(monkeypatch):
    def nowhere(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", nowhere)
    assert "bitvec-trees[ydf]" in str(MissingLibraryError("ydf", "ydf", "Reading"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("libgomp.so.1: cannot open"), "libgomp.so.1: cannot open: install what it lacks"),
        (ImportError("one line\nand more"), "does not load, one line: install what it lacks."),
        (ImportError(), "does not load, ImportError: install what it lacks."),
        (ModuleNotFoundError("no lightgbm"), 'which is not installed: run `pip install "bitvec'),
    ],
)
def test_a_library_that_is_installed_and_does_not_load_is_not_said_to_be_missing(error, told):
    with pytest.raises(MissingLibraryError) as caught, needs("lightgbm", "lightgbm", "Asking"):
        raise error
    message = str(caught.value)
    assert told in message
    assert ("sudo apt install libgomp1" in message) == ("libgomp" in str(error))
    assert "\n" not in message


def test_a_sentence_begins_with_a_capital_or_with_the_name_that_is_used():
    checked = 0
    for path in Path(bitvec.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            if call.func.id not in ("MissingLibraryError", "library", "needs") or not call.args:
                continue
            purpose = getattr(call.args[-1], "value", None)
            if isinstance(purpose, str):
                assert purpose[0].isupper() or re.fullmatch(r"[\w.`]+", purpose), (path, purpose)
                checked += 1
    assert checked > 40
