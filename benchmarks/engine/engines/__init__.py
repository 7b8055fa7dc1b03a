"""The engines: which reads which models, where it runs, and what it is.

An engine's class is made from a `Job` and has `calls(threads)`, which returns `Calls`. Its module
is imported in the engine's own process only, so that the parent needs none of the libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.engine.cells import AVX2

ALL: Final = ("xgboost", "lightgbm", "sklearn", "catboost", "bitvec")
BOOSTING: Final = ("xgboost", "lightgbm")
BOOSTED: Final = (*BOOSTING, "catboost")


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine.

    Parameters
    ----------
    name : str
    path : str
        Module of this package and class, as `of_bitvec:Bitvec`.
    reads : tuple of str
        Libraries whose models it can be asked to run.
    environment : str
        Name of the virtual environment of `benchmarks/engine/requirements` that it runs in where
        there is one; "" for the interpreter of the benchmark.
    ours : bool
        Whether it is bitvec: not a baseline.
    only : tuple of str
        Workloads that it is for, if not all.
    variables : tuple of (str, str)
        Environment variables of its process. A value of "AVX2" names the features of this
        processor without those of AVX-512.
    why_not : dict
        Workloads that it is not asked to run, and why.
    limited : bool
        Whether it serves one comparison: few batches, one thread, and no model that chance made.
    """

    name: str
    path: str
    reads: tuple[str, ...]
    environment: str = ""
    ours: bool = False
    only: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    why_not: tuple[tuple[str, str], ...] = ()
    limited: bool = False

    def refuses(self, workload: str, library: str) -> str | None:
        """Return why it cannot be asked to run a workload."""
        if library not in self.reads:
            return f"does not read models of {library}"
        return dict(self.why_not).get(workload)


_LARGE: Final = "half a million leaves as source code: no compiler finishes in minutes"
_FIVE: Final = ("W1", "W2", "W3", "W4", "W5")
_VECTORS: Final = ("W1", "W2", "W4", "binary", "deep boosting")

ENGINES: Final = (
    Engine("bitvec", "of_bitvec:Bitvec", ALL, ours=True),
    Engine("bitvec torch", "of_bitvec:Torch", ALL, ours=True),
    Engine(
        AVX2,
        "of_bitvec:Bitvec",
        ALL,
        ours=True,
        variables=(("BITVEC_VECTORS", "portable"), ("NUMBA_CPU_FEATURES", "AVX2")),
        limited=True,
    ),
    Engine(
        "bitvec plain loops",
        "of_bitvec:Bitvec",
        BOOSTING,
        ours=True,
        only=_VECTORS,
        variables=(("BITVEC_VECTORS", "none"),),
        limited=True,
    ),
    Engine("xgboost", "of_native:Xgboost", ("xgboost",)),
    Engine("xgboost DMatrix", "of_native:XgboostMatrix", ("xgboost",)),
    Engine("LightGBM", "of_native:Lightgbm", ("lightgbm",)),
    Engine("scikit-learn", "of_native:Sklearn", ("sklearn",)),
    Engine("CatBoost", "of_native:Catboost", ("catboost",)),
    Engine("daal4py", "of_daal4py:Daal4py", BOOSTING, "plain"),
    Engine("onnxruntime", "of_onnxruntime:Onnxruntime", ALL[:4]),
    Engine("treelite GTIL", "of_treelite:Gtil", ALL[:3]),
    Engine(
        "tl2cgen",
        "of_treelite:Tl2cgen",
        ALL[:3],
        "plain",
        why_not=(("W3", _LARGE), ("W3 probabilities", _LARGE)),
    ),
    Engine("pylignum", "of_pylignum:Pylignum", BOOSTED, "plain"),
    Engine("pylignum compiled", "of_pylignum:PylignumCompiled", BOOSTING, "plain"),
    Engine("lleaves", "of_lleaves:Lleaves", ("lightgbm",), "lleaves"),
    Engine("hummingbird gemm", "of_hummingbird:Gemm", ALL[:3], "hummingbird", only=_FIVE),
    Engine("hummingbird tree_trav", "of_hummingbird:TreeTrav", ALL[:3], "hummingbird", only=_FIVE),
    Engine(
        "hummingbird perf_tree_trav",
        "of_hummingbird:PerfTreeTrav",
        ALL[:3],
        "hummingbird",
        only=_FIVE,
    ),
    Engine("YDF", "of_ydf:Ydf", ("sklearn",)),
    Engine(
        "numpy GEMM",
        "of_numpy:Gemm",
        ("bitvec",),
        variables=(("OPENBLAS_THREAD_TIMEOUT", "24"),),  # its threads spin 2^24 cycles, not 2^26
    ),
)

NATIVE: Final = {
    "xgboost": "xgboost",
    "lightgbm": "LightGBM",
    "sklearn": "scikit-learn",
    "catboost": "CatBoost",
    "bitvec": "numpy GEMM",
}
"""The engine of each library with which all others are compared."""
