"""bitvec: a trained tree is four arrays, T(x) = v[argmax(B · σ(Sx − b))].

Lift any trained tree or forest (`convert`), prove the lift exact (`certify`), run it (`compile`),
retrain it end to end (`retrain`), and export it (`export`). Names are loaded when first used, so
that `import bitvec` needs no library but NumPy.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitvec.api import certify, compile, to_torch
    from bitvec.converters.dispatch import convert
    from bitvec.converters.native import (
        from_cpt,
        from_e2edf,
        from_e2edt,
        from_kddt,
        from_kddt_forest,
        from_tao,
    )
    from bitvec.converters.sklearn import to_sklearn
    from bitvec.converters.treelite import to_treelite
    from bitvec.core.forest import Forest, from_matrices
    from bitvec.core.machine import DecisionMachine
    from bitvec.differences import diff
    from bitvec.errors import (
        BitvecError,
        FileFormatError,
        InputError,
        InvalidForestError,
        MissingLibraryError,
        UnsupportedModelError,
    )
    from bitvec.files import identical, load, save
    from bitvec.learners.cpt.sklearn import CPTClassifier, CPTRegressor
    from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTRegressor
    from bitvec.learners.e2edt.sklearn_forests import E2EDFClassifier, E2EDFRegressor
    from bitvec.learners.kddt.sklearn import KDDTClassifier, KDDTRegressor
    from bitvec.learners.kddt.sklearn_forests import (
        KDDTExtraTreesClassifier,
        KDDTExtraTreesRegressor,
        KDDTRandomForestClassifier,
        KDDTRandomForestRegressor,
    )
    from bitvec.learners.retrained.sklearn import RetrainedClassifier, RetrainedRegressor
    from bitvec.learners.tao.refine import tao_refine
    from bitvec.learners.tao.sklearn import TAOClassifier, TAORegressor
    from bitvec.runtime.export.exports import export, export_page, to_c
    from bitvec.runtime.train.pruning.prune import prune
    from bitvec.runtime.train.relax.harden import from_torch
    from bitvec.runtime.train.retrain.retrain import retrain
    from bitvec.verify.certificates import Certificate

    __version__: str

_HOME = {
    "certify": "bitvec.api",
    "compile": "bitvec.api",
    "convert": "bitvec.converters.dispatch",
    "export": "bitvec.runtime.export.exports",
    "export_page": "bitvec.runtime.export.exports",
    "to_c": "bitvec.runtime.export.exports",
    "to_torch": "bitvec.api",
    "Certificate": "bitvec.verify.certificates",
    "diff": "bitvec.differences",
    "BitvecError": "bitvec.errors",
    "FileFormatError": "bitvec.errors",
    "InputError": "bitvec.errors",
    "InvalidForestError": "bitvec.errors",
    "MissingLibraryError": "bitvec.errors",
    "UnsupportedModelError": "bitvec.errors",
    "load": "bitvec.files",
    "save": "bitvec.files",
    "Forest": "bitvec.core.forest",
    "from_matrices": "bitvec.core.forest",
    "tao_refine": "bitvec.learners.tao.refine",
    "TAOClassifier": "bitvec.learners.tao.sklearn",
    "TAORegressor": "bitvec.learners.tao.sklearn",
    "DecisionMachine": "bitvec.core.machine",
    "CPTClassifier": "bitvec.learners.cpt.sklearn",
    "CPTRegressor": "bitvec.learners.cpt.sklearn",
    "E2EDFClassifier": "bitvec.learners.e2edt.sklearn_forests",
    "E2EDFRegressor": "bitvec.learners.e2edt.sklearn_forests",
    "E2EDTClassifier": "bitvec.learners.e2edt.sklearn",
    "E2EDTRegressor": "bitvec.learners.e2edt.sklearn",
    "KDDTClassifier": "bitvec.learners.kddt.sklearn",
    "KDDTRegressor": "bitvec.learners.kddt.sklearn",
    "KDDTExtraTreesClassifier": "bitvec.learners.kddt.sklearn_forests",
    "KDDTExtraTreesRegressor": "bitvec.learners.kddt.sklearn_forests",
    "KDDTRandomForestClassifier": "bitvec.learners.kddt.sklearn_forests",
    "KDDTRandomForestRegressor": "bitvec.learners.kddt.sklearn_forests",
    "from_cpt": "bitvec.converters.native",
    "from_e2edf": "bitvec.converters.native",
    "from_e2edt": "bitvec.converters.native",
    "from_kddt": "bitvec.converters.native",
    "from_kddt_forest": "bitvec.converters.native",
    "from_tao": "bitvec.converters.native",
    "to_sklearn": "bitvec.converters.sklearn",
    "to_treelite": "bitvec.converters.treelite",
    "identical": "bitvec.files",
    "RetrainedClassifier": "bitvec.learners.retrained.sklearn",
    "RetrainedRegressor": "bitvec.learners.retrained.sklearn",
    "from_torch": "bitvec.runtime.train.relax.harden",
    "prune": "bitvec.runtime.train.pruning.prune",
    "retrain": "bitvec.runtime.train.retrain.retrain",
}

__all__ = [
    "BitvecError",
    "CPTClassifier",
    "CPTRegressor",
    "Certificate",
    "DecisionMachine",
    "E2EDFClassifier",
    "E2EDFRegressor",
    "E2EDTClassifier",
    "E2EDTRegressor",
    "FileFormatError",
    "Forest",
    "InputError",
    "InvalidForestError",
    "KDDTClassifier",
    "KDDTExtraTreesClassifier",
    "KDDTExtraTreesRegressor",
    "KDDTRandomForestClassifier",
    "KDDTRandomForestRegressor",
    "KDDTRegressor",
    "MissingLibraryError",
    "RetrainedClassifier",
    "RetrainedRegressor",
    "TAOClassifier",
    "TAORegressor",
    "UnsupportedModelError",
    "certify",
    "compile",
    "convert",
    "diff",
    "export",
    "export_page",
    "from_cpt",
    "from_e2edf",
    "from_e2edt",
    "from_kddt",
    "from_kddt_forest",
    "from_matrices",
    "from_tao",
    "from_torch",
    "identical",
    "load",
    "prune",
    "retrain",
    "save",
    "tao_refine",
    "to_c",
    "to_sklearn",
    "to_torch",
    "to_treelite",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from bitvec.distribution import version

        return version()
    if name not in _HOME:
        raise AttributeError(f"module 'bitvec' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    modules = (name for name, value in globals().items() if isinstance(value, ModuleType))
    special = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, *modules, *special, "__version__"})
