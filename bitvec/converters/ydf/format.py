"""YDF: directories, objects, and the options that convert exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bitvec.converters.format import Content, Format


def is_ydf(content: Content) -> bool:
    """Return whether this is a directory with a header and a data specification."""
    return bool(prefixes(content.path))


def prefixes(path: Path) -> list[str]:
    """Return what the names of a model's files begin with, for each model of a directory.

    One without prefix hides others, as YDF has it.
    """
    if not path.is_dir():
        return []
    names = [one.name for one in path.iterdir() if one.name.endswith("data_spec.pb")]
    found = sorted(name.removesuffix("data_spec.pb") for name in names)
    held = [prefix for prefix in found if (path / f"{prefix}header.pb").is_file()]
    return [""] if "" in held else held


FORMATS: Final = (
    Format(
        name="YDF",
        folder="ydf",
        packages=("ydf",),
        recognises=is_ydf,
        made_by="model.save(directory)",
        supported=(
            "directory",
            "model object",
            "gradient boosted trees",
            "random forest",
            "CART",
            "isolation forest",
            "two classes",
            "several classes",
            "shares",
            "regression",
            "Poisson",
            "absolute error",
            "ranking",
            "numerical conditions",
            "categorical conditions",
            "boolean conditions",
            "sparse oblique conditions",
            "discretized numbers",
            "missing values",
        ),
        unsupported=(
            ("uplift models", "they answer with an effect, not with a score"),
            ("sets of categories and vector sequences as features", "a cell of X is one number"),
        ),
    ),
)
