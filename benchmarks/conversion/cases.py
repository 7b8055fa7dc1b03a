"""Every format, with what parses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.conversion import models
from benchmarks.conversion.measure import Case

_XGBOOST: Final = "bitvec.converters.xgboost.open:parse"
_CATBOOST: Final = "bitvec.converters.catboost.open:parse"
_TREELITE: Final = "bitvec.converters.treelite.read:read_checkpoint"
_ONNX: Final = "bitvec.converters.onnx.read:read_model"


def _by_ydf(path: Path) -> Any:
    import ydf

    return ydf.load_model(str(path))


def _by_lightgbm(path: Path) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=path)


_OWN: Final = {"LightGBM text": _by_lightgbm, "YDF directory": _by_ydf}
"""The library's own reading, where the converter's cannot be set apart."""


_TABLE: Final[tuple[tuple[str, str, Callable[[Path, int, int], Any], str | None], ...]] = (
    ("scikit-learn", "10 classes", models.sklearn_classes, None),
    ("scikit-learn", "numbers", models.sklearn_numbers, None),
    ("xgboost JSON", "numbers", models.xgboost_json, _XGBOOST),
    ("xgboost UBJ", "numbers", models.xgboost_ubj, _XGBOOST),
    ("xgboost legacy binary", "numbers", models.xgboost_binary, _XGBOOST),
    ("LightGBM text", "numbers", models.lightgbm_text, None),
    ("CatBoost JSON", "oblivious", models.catboost_oblivious, _CATBOOST),
    ("CatBoost JSON", "nested", models.catboost_nested, _CATBOOST),
    ("treelite Model", "10 classes", models.treelite_model, None),
    ("treelite checkpoint", "10 classes", models.treelite_checkpoint, _TREELITE),
    ("treelite checkpoint", "numbers", models.treelite_numbers, _TREELITE),
    ("ONNX v3", "numbers", models.onnx_v3_numbers, _ONNX),
    ("ONNX v3", "10 classes", models.onnx_v3_classes, _ONNX),
    ("ONNX v5", "numbers", models.onnx_v5_numbers, _ONNX),
    ("ONNX v5 by bitvec", "numbers", models.onnx_exported_numbers, _ONNX),
    ("ONNX v5 by bitvec", "10 classes", models.onnx_exported_classes, _ONNX),
    ("YDF directory", "numbers", models.ydf_numbers, None),
    ("YDF directory", "10 classes", models.ydf_classes, None),
)


def cases(times: int, leaves: int) -> Iterator[Case]:
    """Yield a case for each format and kind of leaf.

    Parameters
    ----------
    times : int
        How often the grown trees are repeated.
    leaves : int
        Of a tree.
    """
    for name, leaf, make, parser in _TABLE:
        made = partial(make, times=times, leaves=leaves)
        yield Case(name, made, leaf, parser, _OWN.get(name))
