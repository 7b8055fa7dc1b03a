"""Run exported programs of hard forests in ExecuTorch, and compare the bits.

    python tests/runtimes/programs.py

It runs where bitvec, scikit-learn, xgboost and executorch are installed. Raw scores and leaves are
compared with the reference's on rows that include missing values. Exits with 1 if a bit differs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xgboost
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.tree import DecisionTreeClassifier

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest

ROWS = 64
OUTPUTS = ("raw", "leaves")


def models() -> dict[str, tuple[Forest, np.ndarray]]:
    """Return forests of float32 and float64 sums, with rows."""
    X, y = load_iris(return_X_y=True)
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    Z, z = load_breast_cancer(return_X_y=True)
    Z[np.random.default_rng(0).random(Z.shape) < 0.1] = np.nan
    boosted = xgboost.XGBClassifier(n_estimators=10, max_depth=4).fit(Z, z)
    return {"one tree": (bitvec.convert(tree), X[::2]), "xgboost": (bitvec.convert(boosted), Z)}


def executorch(module: torch.nn.Module, x: torch.Tensor) -> tuple[int, Callable[[], Any]]:
    """Return the bytes of a .pte file of the portable operators, and what runs it."""
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    program = to_edge_transform_and_lower(torch.export.export(module, (x,))).to_executorch()
    path = Path(tempfile.mkdtemp(), "model.pte")
    path.write_bytes(program.buffer)
    method = Runtime.get().load_program(path).load_method("forward")
    return path.stat().st_size, lambda: method.execute([x])[0].numpy()


def main() -> int:
    """Print for each model and output whether the bits are equal; return 1 if any is not."""
    print("executorch", version("executorch"))
    failed = 0
    for name, (forest, X) in models().items():
        rows = X[:ROWS].astype(forest.dtype)
        answers = (reference.raw(forest, rows), reference.exit_leaves(forest, rows))
        for output, expected in zip(OUTPUTS, answers, strict=True):
            module = bitvec.to_torch(forest, output=output).eval()
            size, answer = executorch(module, torch.tensor(rows))
            equal = np.array_equal(np.asarray(answer()).reshape(expected.shape), expected)
            failed |= not equal
            print(
                f"  {name}, {output}: {'equal' if equal else 'differs'}, {size:,} bytes", flush=True
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
