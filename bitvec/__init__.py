"""bitvec: a trained tree is four arrays, T(x) = v[argmax(B · σ(Sx − b))].

Convert any trained tree or forest (`convert`), certify that the conversion is exact (`certify`),
run it (`compile`), explain what it predicts (`explain`), retrain it end to end (`retrain`), update
it on new rows (`update`), calibrate its probabilities (`calibrate`), compress it for a device
(`compress`), and export it (`export`).
Estimators are in `bitvec.learners`, trees of the papers in `bitvec.converters.native`, errors in
`bitvec.errors`.
Names and rooms are loaded when first used, so that `import bitvec` needs no library but NumPy.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitvec import converters as converters
    from bitvec import errors as errors
    from bitvec import explanations as explanations
    from bitvec import files as files
    from bitvec import learners as learners
    from bitvec import plots as plots
    from bitvec import services as services
    from bitvec.api import certify, compile, to_torch
    from bitvec.compression.compress import compress
    from bitvec.converters.dispatch import convert
    from bitvec.core.forest import Forest
    from bitvec.core.machine import DecisionMachine
    from bitvec.differences import diff
    from bitvec.errors import BitvecError
    from bitvec.explanations.explainer import explain
    from bitvec.files import load, save
    from bitvec.learners.converted import as_estimator
    from bitvec.learners.retrained.retrain import retrain
    from bitvec.runtime.export.exports import export
    from bitvec.runtime.export.jax_functions import to_jax
    from bitvec.runtime.train.calibration.calibrate import calibrate
    from bitvec.runtime.train.pruning.prune import prune
    from bitvec.runtime.train.relax.harden import from_torch
    from bitvec.runtime.train.update.update import update
    from bitvec.services.batch_predictor import BatchPredictor
    from bitvec.verify.certificates import Certificate

    __version__: str

_HOME = {
    "BatchPredictor": "bitvec.services.batch_predictor",
    "BitvecError": "bitvec.errors",
    "Certificate": "bitvec.verify.certificates",
    "DecisionMachine": "bitvec.core.machine",
    "Forest": "bitvec.core.forest",
    "as_estimator": "bitvec.learners.converted",
    "calibrate": "bitvec.runtime.train.calibration.calibrate",
    "certify": "bitvec.api",
    "compile": "bitvec.api",
    "compress": "bitvec.compression.compress",
    "convert": "bitvec.converters.dispatch",
    "diff": "bitvec.differences",
    "explain": "bitvec.explanations.explainer",
    "export": "bitvec.runtime.export.exports",
    "from_torch": "bitvec.runtime.train.relax.harden",
    "load": "bitvec.files",
    "prune": "bitvec.runtime.train.pruning.prune",
    "retrain": "bitvec.learners.retrained.retrain",
    "save": "bitvec.files",
    "to_jax": "bitvec.runtime.export.jax_functions",
    "to_torch": "bitvec.api",
    "update": "bitvec.runtime.train.update.update",
}
_ROOMS = ("converters", "errors", "explanations", "files", "learners", "plots", "services")
"""Packages and modules that `import bitvec` makes reachable, as `bitvec.learners` is."""

__all__ = [
    "BatchPredictor",
    "BitvecError",
    "Certificate",
    "DecisionMachine",
    "Forest",
    "as_estimator",
    "calibrate",
    "certify",
    "compile",
    "compress",
    "convert",
    "diff",
    "explain",
    "export",
    "from_torch",
    "load",
    "prune",
    "retrain",
    "save",
    "to_jax",
    "to_torch",
    "update",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from bitvec.distribution import version

        return version()
    if name in _ROOMS:
        return import_module(f"bitvec.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bitvec' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    modules = (name for name, value in globals().items() if isinstance(value, ModuleType))
    special = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, *_ROOMS, *modules, *special, "__version__"})
