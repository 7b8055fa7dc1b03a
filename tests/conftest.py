"""Test configuration: shape annotations are checked at run time, Hypothesis is reproducible."""

from __future__ import annotations

import os
import pkgutil

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores: threads would only wait
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

import bitvec

# Every core module; engines are left out, since numba compiles their functions' source.
OTHERS = {"bitvec.cli", "bitvec.converters", "bitvec.learners", "bitvec.runtime"}
CORE = sorted({module.name for module in pkgutil.iter_modules(bitvec.__path__, "bitvec.")} - OTHERS)
_hook = install_import_hook(CORE, "beartype.beartype")

settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "long", deadline=None, max_examples=300, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("BITVEC_HYPOTHESIS", "fixed"))

collect_ignore = ["versions"]  # scripts for environments of their own
