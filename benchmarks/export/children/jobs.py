"""What a parent hands to the program of another library, and what comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


class Job:
    """A model, rows of float32, and the folder where what was made of them goes."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        facts = json.loads((self.folder / "job.json").read_text(encoding="utf-8"))
        self.library: str = facts["library"]
        self.is_classifier: bool = facts["is_classifier"]

    def rows(self) -> Any:
        """Return X, (n, n_features)."""
        return np.load(self.folder / "rows.npy")

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

    def tell(self, **told: Any) -> None:
        """Leave what was measured."""
        (self.folder / "told.json").write_text(json.dumps(told), encoding="utf-8")

    def answer(self, **answers: Any) -> None:
        """Leave arrays: `scores` and, of a classifier, `label`."""
        np.savez(self.folder / "answers.npz", **answers)
