"""A model and rows, as the exporter of another library is given them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import old_jobs as jobs


class Job:
    """A model, rows of float32, and the folder where what is made of them goes."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        facts, rows = jobs.read(self.folder)
        self.library: str = facts["library"]
        self.is_classifier: bool = facts["is_classifier"]
        self.X: Any = rows["X"]

    def model(self) -> Any:
        """Return the fitted estimator, or LightGBM's booster."""
        if self.library == "sklearn":
            import skops.io

            path = self.folder / "model.skops"
            return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
        if self.library == "xgboost":
            import xgboost

            model = xgboost.XGBClassifier() if self.is_classifier else xgboost.XGBRegressor()
            model.load_model(self.folder / "model.ubj")
            return model
        import lightgbm

        return lightgbm.Booster(model_file=str(self.folder / "model.txt"))

    def answer(self, **answers: Any) -> None:
        """Leave arrays: `scores` and, of a classifier, `label`."""
        jobs.write_answers(self.folder, **answers)
