"""Programs of torch.export that bitvec wrote, run by torch."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.torch_program.plain_archive import plain_program
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, MissingLibraryError
from bitvec.verify.oracle import Oracle

try:
    import torch
except ImportError as error:
    raise MissingLibraryError("torch", "torch", "Running .pt2 files") from error


def oracle_of(path: str | Path) -> Oracle:
    """Return a file that `bitvec.export` has written as the oracle of a certificate.

    Raises
    ------
    UnsupportedModelError, FileFormatError
        As `plain_program`.
    """
    data, facts = plain_program(Path(path))
    program: Any = torch.export.load(io.BytesIO(data)).module()
    dtype, n_features = facts.get("dtype"), facts.get("n_features")
    if dtype not in ("float32", "float64") or not isinstance(n_features, int):
        raise FileFormatError(
            f"{path} must state `dtype` and `n_features`, got {dtype!r} and {n_features!r}: "
            "export it again."
        )

    def answers(name: str, X: Array) -> Array:
        found: Array = program(torch.tensor(np.asarray(X, dtype)))[name].numpy()
        return found

    return Oracle(
        name="torch",
        version=torch.__version__,
        raw=lambda X: answers("raw", X),
        leaf_ids=lambda X: answers("leaves", X),
        n_features=n_features,
        input_dtype=np.dtype(dtype),
        notes=("raw scores and leaves were compared, not probabilities and labels",),
    )
