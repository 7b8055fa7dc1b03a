"""Model files and rows as a user has them, and a way to run a command among them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import xgboost
from click.testing import CliRunner, Result
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from bitvec import files
from bitvec.cli.program import program
from bitvec.core.forest import Forest

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def models() -> dict[str, Any]:
    """Train the models, once."""
    cancer, iris = load_breast_cancer(as_frame=True), load_iris(as_frame=True)
    X = cancer.data.mask(np.random.default_rng(0).random(cancer.data.shape) < 0.1)
    booster = xgboost.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1).fit(X, cancer.target)
    names = iris.target_names[iris.target]
    return {
        "cancer": X,
        "cancer_y": cancer.target,
        "booster": booster,
        "iris": iris.data,
        "iris_y": names,
        "tree": DecisionTreeClassifier(max_depth=3, random_state=0).fit(iris.data, names),
        "forest": RandomForestClassifier(5, random_state=0).fit(iris.data, names),
    }


@pytest.fixture(scope="session")
def shelf(models: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the models and rows as files, once."""
    shelf = tmp_path_factory.mktemp("shelf")
    models["booster"].save_model(shelf / "cancer.ubj")
    models["booster"].save_model(shelf / "cancer.json")
    for name in ("tree", "forest"):
        skops.io.dump(models[name], shelf / f"{name}.skops")
    models["cancer"].to_csv(shelf / "cancer.csv", index=False)
    models["cancer"].to_parquet(shelf / "cancer.parquet")
    models["cancer"].assign(y=models["cancer_y"]).to_csv(shelf / "cancer-y.csv", index=False)
    models["iris"].to_csv(shelf / "iris.csv", index=False)
    models["iris"].assign(species=models["iris_y"]).to_csv(shelf / "iris-y.csv", index=False)
    models["iris"].to_csv(shelf / "iris-bare.csv", index=False, header=False)
    files.save(stump(), shelf / "stump.safetensors")
    (shelf / "stump.csv").write_text("0,9\n1,9\n")
    return shelf


def stump() -> Forest:
    """Return the smallest forest with a test."""
    return Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


@pytest.fixture
def desk(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a fresh directory with copies of the files."""
    for path in shelf.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(desk: Path) -> Run:
    """Run `bitvec` with some arguments on the desk."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(program, [str(argument) for argument in arguments])

    return run
