"""Explanations by other libraries, in processes of their own environments.

A folder holds the model as its library saves it, the rows, and what is asked for: `job.json`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray
SINGLE_ROWS: Final = 20
"""Calls with one row, of which the fastest counts."""
FIRST: Final = 16
"""Rows of the first call, where a library explains as many as take a second."""
SECOND: Final = 1.0


class Job(NamedTuple):
    """Explanation that is asked for.

    Parameters
    ----------
    model : str
        Its file.
    what : str
        "values", "pairs" or "background".
    """

    model: str
    what: str

    def write(self, folder: Path) -> None:
        """Keep it in a folder."""
        (folder / "job.json").write_text(json.dumps(self._asdict()), encoding="utf-8")


def least_time(work: Callable[[], Any], times: int) -> float:
    """Return the least processor time of some calls, in seconds."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def xgboost(place: str) -> dict[str, Any]:
    """Explain by `pred_contribs` and `pred_interactions`; rows become a DMatrix in each call."""
    import xgboost as xgb

    folder, job = _job(place)
    booster = xgb.Booster({"nthread": 1}, model_file=folder / job.model)
    wanted = {"pred_interactions" if job.what == "pairs" else "pred_contribs": True}
    named = {"feature_names": booster.feature_names}
    work = lambda X: booster.predict(xgb.DMatrix(X, nthread=1, **named), **wanted)  # noqa: E731
    return _timed(folder, job, work, f"xgboost {xgb.__version__}", with_base=True)


def lightgbm(place: str) -> dict[str, Any]:
    """Explain by `pred_contrib`."""
    import lightgbm as lgb

    folder, job = _job(place)
    booster = lgb.Booster(model_file=folder / job.model)
    work = lambda X: booster.predict(X, pred_contrib=True, num_threads=1)  # noqa: E731
    return _timed(folder, job, work, f"LightGBM {lgb.__version__}", with_base=True)


def woodelf(place: str) -> dict[str, Any]:
    """Explain all rows by woodelf-explainer, whose preparation, a second a call, is counted."""
    from importlib.metadata import version

    import pandas as pd
    from woodelf import WoodelfExplainer

    folder, job = _job(place)
    booster, names = _booster(folder / job.model)
    background = np.load(folder / "background.npy") if job.what == "background" else None

    def work(X: Array) -> Array:
        given = () if background is None else (pd.DataFrame(background, columns=names),)
        explainer = WoodelfExplainer(booster, *given)
        rows = pd.DataFrame(X, columns=names)
        found = explainer.shap_interaction_values if job.what == "pairs" else explainer.shap_values
        return np.asarray(found(rows))

    told = f"woodelf-explainer {version('woodelf-explainer')}"
    return _timed(folder, job, work, told, with_base=False)


def _booster(path: Path) -> tuple[Any, list[str]]:
    if path.suffix == ".txt":
        import lightgbm as lgb

        booster = lgb.Booster(model_file=path)
        return booster, booster.feature_name()
    import xgboost as xgb

    booster = xgb.Booster({"nthread": 1}, model_file=path)
    booster.feature_names = [f"f{i}" for i in range(booster.num_features())]
    return booster, booster.feature_names


def _job(place: str) -> tuple[Path, Job]:
    folder = Path(place)
    return folder, Job(**json.loads((folder / "job.json").read_text(encoding="utf-8")))


def _timed(
    folder: Path, job: Job, work: Callable[[Array], Array], told: str, *, with_base: bool
) -> dict[str, Any]:
    X = np.load(folder / "X.npy")
    found, n_rows, seconds = _second(X, work, FIRST if with_base else len(X))
    if with_base:
        found = found[..., :-1, :-1] if job.what == "pairs" else found[..., :-1]
    np.save(folder / "found.npy", found)
    answer = {"library": told, "us": seconds / n_rows * 1e6, "rows": n_rows}
    if with_base:
        answer["one_row_ms"] = least_time(lambda: work(X[:1]), SINGLE_ROWS) * 1e3
    return answer


def _second(X: Array, work: Callable[[Array], Array], n: int) -> tuple[Array, int, float]:
    """Explain so many rows that a call takes a second, or all; return answers, rows and time."""
    while True:
        start = time.process_time()
        found = work(X[:n])
        seconds = time.process_time() - start
        if seconds >= SECOND or n == len(X):
            break
        n = min(len(X), int(n * min(16, max(2, 1.2 * SECOND / max(seconds, 1e-3)))))
    if seconds < 10 * SECOND:
        seconds = min(seconds, least_time(lambda: work(X[:n]), 2))
    return found, n, seconds
