"""YDF: directories, objects, and the options that convert exactly."""

from __future__ import annotations

from typing import Final

from bitvec.converters.format import Content, Format


def is_ydf(content: Content) -> bool:
    """Return whether this is a directory with a header and a data specification."""
    return all((content.path / name).is_file() for name in ("header.pb", "data_spec.pb"))


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
