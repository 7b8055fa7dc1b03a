"""Run the cases and say whether every figure that is asked for was met."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks.exactness.cases import Case
from benchmarks.exactness.data import Data
from benchmarks.exactness.measure import measure, of_mutants
from benchmarks.exactness.mutant_models import LIBRARIES
from benchmarks.exactness.of_others import BEFORE_V2, refusals
from benchmarks.exactness.summary import table, targets
from benchmarks.report import Target, finish, parser

MAKERS = (
    "of_sklearn",
    "of_xgboost",
    "of_lightgbm",
    "of_catboost",
    "of_treelite",
    "of_onnx",
    "of_ydf",
    "of_native",
    "of_others",
)
"""Modules of this package; each has `cases(data, models)`."""
QUICK_MUTANTS = 19
"""Mutants of each library in a quick run."""


def cases(data: Path, models: Path) -> Iterator[Case]:
    """Yield the cases of all libraries."""
    tables = Data(data)
    for name in MAKERS:
        yield from import_module(f"benchmarks.exactness.{name}").cases(tables, models)


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--data", type=Path, required=True, help="the folder of real data")
    arguments.add_argument("--models", type=Path, required=True, help="models that others made")
    arguments.add_argument("--only", default="", help="formats whose name contains this")
    options = arguments.parse_args()
    chosen = [
        case
        for case in cases(options.data, options.models)
        if options.only.lower() in case.format.lower()
    ]
    if options.quick:
        chosen = chosen[::8]
    rows = []
    for number, case in enumerate(chosen, 1):
        print(f"{number}/{len(chosen)} {case.format}: {case.name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(case, Path(folder)))
    libraries = [name for name in LIBRARIES if options.only.lower() in name.lower()]
    for library in libraries:
        print(f"mutants of {library}", file=sys.stderr, flush=True)
        rows.append(of_mutants(library, QUICK_MUTANTS if options.quick else None))
    whole = not options.quick and not options.only
    refused = sum(message != "" for _, message in refusals(options.models))
    wanted = len(BEFORE_V2)
    asked = [
        *targets(rows, whole=whole),
        Target(
            "LightGBM texts before v2 that are refused", str(wanted), refused, refused == wanted
        ),
    ]
    finish("exactness", options, rows, asked, table=table)


if __name__ == "__main__":
    main()
