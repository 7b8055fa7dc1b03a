"""Test configuration: shapes are checked at run time if asked, Hypothesis is reproducible."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores: threads would only wait
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Whether calls check their shape annotations, which takes as long again as the tests themselves:
# of every core module; engines are left out, since numba compiles their functions' source.
SHAPES = os.environ.get("BITVEC_SHAPES") == "1"
CORE = ["bitvec.core", "bitvec.files", "bitvec.verify", "bitvec.errors"]
if SHAPES:
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
