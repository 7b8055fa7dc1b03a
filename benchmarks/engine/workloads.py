"""The workloads, trained once and kept in a cache folder."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from benchmarks.engine import drawn, real, synthetic
from benchmarks.engine.cells import BETWEEN, STEPS
from benchmarks.frames import Data
from benchmarks.report import versions

Asks = Literal["values", "labels", "probabilities"]
SMALL: Final = (*STEPS, *BETWEEN)
BATCHES: Final = (*SMALL, 100_000)


@dataclass(frozen=True, slots=True)
class Workload:
    """A model, rows, and what is asked of it.

    Parameters
    ----------
    name : str
    library : str
        That trained the model, and whose format its file has.
    asks : "values", "labels" or "probabilities"
        What every engine is timed on: what `predict` of the library gives for such a model. Raw
        scores are timed beside it where they are neither that nor the probabilities.
    make : callable
        Takes a folder and trains; see `synthetic` and `real`.
    real : bool
        Whether `make` takes the real data.
    batches : tuple of int
        The largest is cut to the rows there are.
    shares : str
        Name of the workload whose model and rows this one has, if not its own.
    compared : bool
        Whether it is timed against baselines; the others serve one figure of their own.
    drawn : bool
        Whether it is one of those that chance made, which are timed on one thread.
    """

    name: str
    library: str
    asks: Asks
    make: Callable[..., synthetic.Trained]
    real: bool = False
    batches: tuple[int, ...] = BATCHES
    shares: str = ""
    compared: bool = True
    drawn: bool = False

    @property
    def what(self) -> str:
        """The model in a sentence."""
        make = self.make.func if isinstance(self.make, partial) else self.make
        return (make.__doc__ or "").strip()


WORKLOADS: Final = (
    Workload("W1", "xgboost", "values", synthetic.w1),
    Workload("W2", "lightgbm", "values", synthetic.w2),
    Workload("W3", "sklearn", "labels", synthetic.w3),
    Workload("W4", "xgboost", "values", synthetic.w4),
    Workload("W5", "sklearn", "labels", synthetic.w5),
    Workload(
        "W3 probabilities",
        "sklearn",
        "probabilities",
        synthetic.w3,
        batches=(10_000,),
        shares="W3",
    ),
    Workload("binary", "lightgbm", "probabilities", synthetic.binary),
    Workload("digits tree", "sklearn", "probabilities", synthetic.digits_tree),
    Workload("deep boosting", "xgboost", "values", synthetic.deep_boosting),
    *(
        Workload(f"oblivious {depth}", "catboost", "values", partial(synthetic.oblivious, depth))
        for depth in (4, 8, 10)
    ),
    Workload("adult", "lightgbm", "probabilities", real.adult, real=True),
    Workload("covtype", "xgboost", "probabilities", real.covtype, real=True),
    Workload("california", "sklearn", "values", real.california, real=True),
    Workload("california catboost", "catboost", "values", real.california_catboost, real=True),
    Workload("oblique forest", "bitvec", "values", synthetic.oblique_forest),
    Workload("oblique tree", "bitvec", "values", synthetic.oblique_tree),
    Workload("few sets", "lightgbm", "values", synthetic.few_sets, compared=False),
    Workload("many sets", "lightgbm", "values", synthetic.many_sets, compared=False),
    Workload(
        "adult frame", "lightgbm", "probabilities", real.adult_frame, real=True, compared=False
    ),
    Workload("sparse rows", "lightgbm", "values", synthetic.sparse_rows, compared=False),
    *(
        Workload(f"drawn {i}", *drawn.kind(i), partial(drawn.model, i), batches=SMALL, drawn=True)
        for i in range(1, drawn.MODELS + 1)
    ),
)


def cache_of_user() -> Path:
    """Return the folder of the user's caches."""
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base


def made(workload: Workload, cache: Path, data: Path | None, *, small: bool) -> Path:
    """Return the folder of a workload, trained now unless it is kept already.

    It holds `job.json`, which says what is what, the model, and `X.npy`. It is written aside and
    renamed, so that a run that was stopped leaves nothing half-made.
    """
    name = workload.shares or workload.name
    folder = cache / (name.replace(" ", "-") + ("-small" if small else ""))
    if not (folder / "job.json").exists():
        print(f"training {name}", file=sys.stderr, flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=cache, prefix=".training-"))
        try:
            _train(workload, aside, data, small=small)
            aside.chmod(0o755)
            aside.replace(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return folder


def _train(workload: Workload, folder: Path, data: Path | None, *, small: bool) -> None:
    if workload.real:
        assert data is not None, "the caller leaves out what needs real data"
        model, X = workload.make(folder, Data(data))
    else:
        model, X = workload.make(folder, small=small)
    np.save(folder / "X.npy", np.ascontiguousarray(X))
    job: dict[str, Any] = {
        "library": workload.library,
        "model": model,
        "n_rows": len(X),
        "n_features": X.shape[1],
        "dtype": str(X.dtype),
        "trained_by": versions(),
    }
    (folder / "job.json").write_text(json.dumps(job, indent=1) + "\n", encoding="utf-8")
