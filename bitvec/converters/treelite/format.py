"""treelite: checkpoints, objects, and the options that convert exactly."""

from __future__ import annotations

import struct
from typing import Final

from bitvec.converters.format import Content, Format


def is_treelite(content: Content) -> bool:
    """Return whether three numbers of a version in 4 bytes each and two type codes begin it."""
    if len(content.head) < 14:
        return False
    major, minor, patch = struct.unpack_from("<iii", content.head)
    codes = content.head[12], content.head[13]
    return major in (3, 4) and 0 <= minor < 100 and 0 <= patch < 100 and max(codes) <= 3


FORMATS: Final = (
    Format(
        name="treelite",
        folder="treelite",
        packages=("treelite",),
        recognises=is_treelite,
        made_by="model.serialize(path)",
        supported=(
            "Model",
            "checkpoint",
            "imported from xgboost",
            "imported from LightGBM",
            "imported from scikit-learn",
            "built by the model builder",
            "float32",
            "float64",
            "operators < <= > >= ==",
            "category lists of the left child",
            "category lists of the right child",
            "leaf vectors",
            "trees of one class",
            "several targets",
            "averaged trees",
            "identity",
            "identity_multiclass",
            "max_index",
            "signed_square",
            "hinge",
            "sigmoid",
            "multiclass_ova",
            "exponential",
            "exponential_standard_ratio",
            "logarithm_one_plus_exp",
            "softmax",
        ),
        unsupported=(("checkpoints of treelite 3", "treelite 4 itself no longer reads them"),),
        writes="treelite",
    ),
)
