# %% [markdown]
"""Write one model in every format that holds it, and certify each file that can be certified here.

As a script:

    python examples/ship_everywhere.py [--quick] [FOLDER]
"""

# %%
from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import bitvec
from bitvec.errors import BitvecError
from bitvec.files import identical
from bitvec.runtime.export.c.compiled import COMPILERS, oracle_of
from bitvec.runtime.export.onnx_targets import TARGETS

FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "bitvec": ("model.safetensors", {}),
    "scikit-learn": ("model.skops", {}),
    "treelite": ("model.tl", {}),
    "xgboost": ("model.ubj", {}),
    **{f"ONNX for {name}": (f"{name}.onnx", {"target": name, "leaves": True}) for name in TARGETS},
    "C99": ("model.h", {}),
    "SQL of DuckDB": ("model.sql", {"dialect": "duckdb", "leaves": True}),
    "torch.export": ("model.pt2", {}),
}


QUICK = ("bitvec", "scikit-learn", "xgboost", "ONNX for onnxruntime", "C99")
"""Files of the short form."""


# %%
def lines(quick: bool, folder: Path) -> Iterator[str]:
    """Yield a table in Markdown: size and certificate of each file, or why there is none."""
    X, y = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(5 if quick else 100, max_depth=4, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    yield "| for | kB | certificate |"
    yield "| --- | ---: | --- |"
    for name, (file, options) in FILES.items():
        if quick and name not in QUICK:
            continue
        try:
            path = _written(forest, folder / file, options)
        except BitvecError as error:
            yield f"| {name} | | not written: {error} |"
            continue
        yield f"| {name} | {path.stat().st_size / 1000:,.0f} | {_certified(forest, path, X)} |"


def _written(forest: bitvec.Forest, path: Path, options: dict[str, Any]) -> Path:
    if path.suffix == ".safetensors":
        bitvec.save(forest, path)
        return path
    return bitvec.export(forest, path, **options)


def _certified(forest: bitvec.Forest, path: Path, X: Any) -> str:
    if path.suffix == ".safetensors":
        return "read again, identical" if identical(forest, bitvec.load(path)) else "FAILED"
    written: Any = path
    if path.suffix == ".h":
        if not any(map(shutil.which, COMPILERS)):
            return "not certified here: there is no C compiler"
        written = oracle_of(path, classes=forest.output.classes)
    certificate = bitvec.certify(forest, written, X, allow_values_only=True)
    return f"{'passed' if certificate.passed else 'FAILED'}, {certificate.grade}"


# %%
if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if Path(word).is_dir()]
    where = Path(given[0]) if given else Path(tempfile.mkdtemp())
    for line in lines("--quick" in sys.argv[1:], where):
        print(line, flush=True)
