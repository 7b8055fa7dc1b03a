"""Sets of categories in which a build of onnxruntime takes a missing value for code 0.

TreeEnsemble compares with each member of a small set. Of a larger one it looks up x converted to an
integer, before it asks for NaN: where that conversion saturates, as in WebAssembly, NaN becomes 0.
"""

from __future__ import annotations

import numpy as np

from bitvec.converters.onnx.branches import branches
from bitvec.converters.onnx.operator_schema import Mode
from bitvec.converters.onnx.trees import SMALL_SET
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError


def n_misread(forest: Forest) -> int:
    """Return the number of large sets with code 0 that a missing value does not belong to."""
    nodes = branches(forest, forest.tests.feature)
    sets = np.split(nodes.members, np.flatnonzero(np.isnan(nodes.members)) + 1)[:-1]
    belongs = nodes.missing_true[nodes.mode == Mode.BRANCH_MEMBER]
    return sum(
        bool(codes[0] == 0 and not missing and (codes.size > SMALL_SET or codes[-1] > SMALL_SET))
        for codes, missing in zip((s[:-1] for s in sets), belongs, strict=True)
    )


def require_read(forest: Forest, target: str) -> None:
    """Refuse a forest whose missing values a target would read as code 0.

    Raises
    ------
    UnsupportedModelError
    """
    wrong = n_misread(forest)
    if wrong:
        raise UnsupportedModelError(
            f"a file of the form tree_ensemble for {target} must have no set of over {SMALL_SET} "
            f"codes, or with one above {SMALL_SET}, that holds code 0 and not a missing value, got "
            f"{wrong}: {target} reads NaN as code 0 there, so use the form traversal."
        )
