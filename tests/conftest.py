"""Test configuration: shapes are checked at run time if asked, Hypothesis is reproducible."""

from __future__ import annotations

import ctypes.util
import gc
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores: threads would only wait
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if not Path("/dev/nvidiactl").exists():  # no GPU: kernels run in Triton's interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")  # which is read when Triton is imported

import pytest
from hypothesis import HealthCheck, settings


class _WithoutOpenMP(MetaPathFinder):
    """Hides a LightGBM that cannot load, as on a minimal Debian, so that its tests are skipped."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "lightgbm":
            remedy = "the system has no libgomp.so.1, on Debian `apt install libgomp1`"
            raise ModuleNotFoundError(f"LightGBM cannot load: {remedy}", name=name)


if sys.platform == "linux" and ctypes.util.find_library("gomp") is None:
    # Decided once: some library may bring an OpenMP of its own into this process later.
    sys.meta_path.insert(0, _WithoutOpenMP())

# Whether calls check their shape annotations, which takes as long again as the tests themselves:
# of every core module; engines are left out, since numba compiles their functions' source.
SHAPES = os.environ.get("BITVEC_SHAPES") == "1"
CORE = ["bitvec.core", "bitvec.files", "bitvec.verify", "bitvec.errors"]
if SHAPES:
    import jaxtyping

    _hook = jaxtyping.install_import_hook(CORE, "beartype.beartype")

settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "long", deadline=None, max_examples=300, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("BITVEC_HYPOTHESIS", "fixed"))

# Scripts for environments and processes of their own.
collect_ignore = ["versions", "runtime/predict/gpu/machine_code.py"]


def _lacks(library: str) -> bool:
    try:
        return find_spec(library) is None
    except ModuleNotFoundError:
        return True


# Modules of samples, without tests, are looked through for doctests.
collect_ignore += [
    f"models/{name}.py"
    for name, library in {"lightgbm": "lightgbm", "pipelines": "lightgbm", "ydf": "ydf"}.items()
    if _lacks(library)
]


def pytest_collection_finish() -> None:
    """Leave a million objects of libraries and tests out of all later collections of garbage."""
    gc.freeze()


@pytest.fixture(scope="module")
def without_shape_checks():
    """Let wrong objects meet the checks that users have, not those of the test run."""
    if not SHAPES:
        yield
        return
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
