"""CatBoost: how trees grow, missing numbers, categories, losses and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd

from benchmarks.exactness.cases import Case, Made
from benchmarks.frames import Data, Table

ROWS = 3000
FILES = {".json": "JSON file", ".cbm": "binary file", "": "fitted model"}
Target = Callable[[Table], np.ndarray]


def cases(data: Data, models: Path) -> Iterator[Case]:
    """Yield the cases."""
    adult, house, cover, letter = data.adult, data.california, data.covtype, data.letter

    for policy, file, mode in (
        ("SymmetricTree", ".json", "Min"),
        ("Depthwise", ".cbm", "Max"),
        ("Lossguide", "", "Max"),
    ):
        grown = {"grow_policy": policy, "nan_mode": mode}
        yield _trained(
            f"Logloss on adult, {policy}",
            adult,
            "Logloss",
            ("one-hot categories",),
            grown,
            file=file,
        )
        yield _trained(
            f"RMSE on california, {policy}",
            house,
            "RMSE",
            (f"nan_mode {mode}", "one-hot categories"),
            grown,
            file=file,
        )
        yield _trained(
            f"MultiClass on letter, {policy}",
            letter,
            "MultiClass",
            ("labels of text",),
            grown,
            rounds=10,
            file=file,
        )
        yield _trained(
            f"RMSE on california with scale and bias, {policy}",
            house,
            "RMSE",
            ("scale and bias", f"nan_mode {mode}"),
            grown,
            file=file,
            scale_and_bias=(0.3, 1.7),
        )
    for name, table in (("adult", adult), ("california", house)):
        yield _trained(
            f"Logloss on {name}, with the texts of categories",
            table,
            "Logloss",
            ("one-hot categories", "texts of categories"),
            file=".json",
            target=lambda part: part.y > part.y.mean(),
            texts=True,
        )
    for name, table in (("letter", letter), ("covtype", cover)):
        yield _trained(f"MultiClassOneVsAll on {name}", table, "MultiClassOneVsAll", (), rounds=10)
    for name, table in (("higgs", data.higgs), ("mushroom", data.mushroom)):
        yield _trained(
            f"MultiLogloss on {name}", table, "MultiLogloss", (), target=_labels, file=".json"
        )
        yield _trained(
            f"CrossEntropy on {name}",
            table,
            "CrossEntropy",
            (),
            target=lambda part: 0.1 + 0.8 * part.y,
        )
        yield _trained(
            f"YetiRank on {name}",
            table,
            "YetiRank",
            (),
            group_id=lambda part: np.arange(len(part.y)) // 20,
        )
    for policy in ("SymmetricTree", "Depthwise"):
        grown = {"grow_policy": policy}
        yield _trained(
            f"two targets of california, {policy}",
            house,
            "MultiRMSE",
            ("nan_mode Min",),
            grown,
            target=lambda part: np.column_stack([part.y, part.y**2]),
        )
        for loss in ("Poisson", "Quantile", "Tweedie:variance_power=1.5", "RMSEWithUncertainty"):
            yield _trained(
                f"{loss} on california, {policy}", house, loss, ("nan_mode Min",), grown, rounds=25
            )


def _trained(
    name: str,
    table: Callable[[], Table],
    loss: str,
    options: tuple[str, ...],
    parameters: dict[str, Any] | None = None,
    *,
    target: Target = lambda part: part.y,
    rounds: int = 40,
    file: str = "",
    texts: bool = False,
    scale_and_bias: tuple[float, float] | None = None,
    **pooled: Target,
) -> Case:
    """Train on 3,000 rows; `file` has the model saved, with `texts` of its categories."""
    given = {
        "grow_policy": "SymmetricTree",
        "loss_function": loss,
        "iterations": rounds,
        "depth": 5,
        "learning_rate": 0.3,
        "one_hot_max_size": 255,
        "thread_count": 2,
        "random_seed": 0,
        "allow_writing_files": False,
        "logging_level": "Silent",
    } | (parameters or {})

    def make(folder: Path) -> Made:
        part = table().head(ROWS)
        frame = _frame(part, texts=texts)
        more = {key: value(part) for key, value in pooled.items()}
        pool = cb.Pool(frame, target(part), cat_features=part.categorical, **more)
        model = cb.CatBoost(given).fit(pool)
        if scale_and_bias is not None:
            model.set_scale_and_bias(*scale_and_bias)
        X = frame.to_numpy(object if texts else np.float64)
        if not file:
            return Made(model, X)
        path = folder / f"model{file}"
        model.save_model(str(path), format=file[1:], pool=pool if texts else None)
        return Made(path, X)

    known = (given["grow_policy"], loss.partition(":")[0], FILES[file])
    return Case(name, "CatBoost", (*known, *options), make)


def _frame(part: Table, *, texts: bool) -> pd.DataFrame:
    """Return categories as texts or whole numbers, blanks as one of them."""
    frame = part.frame.copy()
    for column in frame.columns[part.categorical]:
        values = frame[column]
        frame[column] = (
            values.astype(object).where(values.notna(), "").map(str) if texts else values.cat.codes
        )
    return frame


def _labels(part: Table) -> np.ndarray:
    """Return the label and two more, of the first columns."""
    return np.column_stack([part.y, part.codes[:, 1:3] > part.codes[:, 1:3].mean(axis=0)])
