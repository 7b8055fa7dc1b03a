"""A converter package's functions are not hidden by its modules, whatever is imported first."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

LIBRARIES = ("catboost", "lightgbm", "onnx", "sklearn", "treelite", "xgboost", "ydf")


@pytest.mark.parametrize("library", LIBRARIES)
def test_functions_stay_functions_when_every_module_is_imported(library: str) -> None:
    pytest.importorskip(library)
    package = import_module(f"bitvec.converters.{library}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)
    for name in package.__all__:
        assert callable(getattr(package, name)), name
