"""A converter's folder: what its package and its format import, and the roles of its modules."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from bitvec.converters.dispatch import FORMATS

LIBRARIES = ("catboost", "lightgbm", "onnx", "sklearn", "treelite", "xgboost", "ydf")


def test_formats_import_neither_a_library_nor_a_converter() -> None:
    code = (
        "import sys\nimport bitvec.converters.dispatch\n"
        f"for name in {LIBRARIES}:\n"
        "    assert name not in sys.modules, name\n"
        "    prefix = f'bitvec.converters.{name}'\n"
        "    found = {m for m in sys.modules if m.startswith(prefix + '.')}\n"
        "    assert found == {prefix + '.format'}, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_folder_has_functions_of_one_name_in_its_roles(library: str) -> None:
    pytest.importorskip(library)
    assert library in {source.folder for source in FORMATS}
    folder = f"bitvec.converters.{library}"
    assert callable(import_module(f"{folder}.read").convert)
    assert callable(import_module(f"{folder}.oracle").oracle_of)
    if any(source.writes for source in FORMATS if source.folder == library):
        assert callable(getattr(import_module(f"{folder}.write"), f"to_{library}"))
