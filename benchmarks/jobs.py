"""Jobs that a parent and the program of another library leave for each other in a folder.

It is imported in environments of other libraries: it needs NumPy alone. A program's first answer
(see `benchmarks.worker`) is what it has to tell; its arrays are the answers of this folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A folder with facts, rows by name, the file of a model, and in the end answers.

    Parameters
    ----------
    facts : dict
        As JSON has them: `library` and `model`, the name of its file here, if there is one.
    """

    folder: Path
    facts: dict[str, Any]

    @property
    def rows(self) -> dict[str, Array]:
        """Rows by name, read anew."""
        return _arrays(self.folder / "rows.npz")

    @property
    def answers(self) -> dict[str, Array]:
        """Arrays that a program answered; nothing if it left none."""
        path = self.folder / "answers.npz"
        return _arrays(path) if path.exists() else {}

    def answer(self, **answers: Any) -> None:
        """Leave what a program answers of the rows."""
        np.savez(self.folder / "answers.npz", **answers)

    @property
    def path(self) -> Path:
        """Place of the model's file."""
        return self.folder / self.facts["model"]

    def model(self) -> Any:
        """Return the fitted estimator of scikit-learn or xgboost, or the booster of LightGBM."""
        return load(self.facts["library"], self.path, classifies=self.facts["is_classifier"])


def write(folder: Path, facts: dict[str, Any], **rows: Array) -> Job:
    """Leave a job in a folder."""
    np.savez(folder / "rows.npz", **rows)
    (folder / "job.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return Job(folder, facts)


def read(folder: str | Path) -> Job:
    """Read the job of a folder."""
    text = (Path(folder) / "job.json").read_text(encoding="utf-8")
    return Job(Path(folder), json.loads(text))


def _arrays(path: Path) -> dict[str, Array]:
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}


def load(library: str, path: Path, *, classifies: bool) -> Any:
    """Return a model that its library kept in a file of this benchmark's own."""
    if library == "sklearn":
        import skops.io

        return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
    if library == "xgboost":
        import xgboost

        model = xgboost.XGBClassifier() if classifies else xgboost.XGBRegressor()
        model.load_model(path)
        return model
    if library == "catboost":
        import catboost

        model = catboost.CatBoost()
        model.load_model(str(path))
        return model
    import lightgbm

    return lightgbm.Booster(model_file=str(path))
