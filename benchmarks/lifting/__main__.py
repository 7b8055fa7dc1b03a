"""Make the models, lift them, and say whether every figure that is asked for was met."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.lifting.cases import cases
from benchmarks.lifting.chains import CHAINS, measure_chain
from benchmarks.lifting.measure import measure
from benchmarks.lifting.models import GROWN, LEAVES
from benchmarks.lifting.summary import DEPTH, table, targets
from benchmarks.report import finish, parser

TREES = 100


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--only", default="", help="formats whose name contains this")
    options = arguments.parse_args()
    times, leaves, depth = TREES // GROWN, LEAVES, DEPTH
    if options.quick:
        times, leaves, depth = 2, LEAVES // 8, DEPTH // 50
    rows = []
    for case in cases(times, leaves):
        if options.only.lower() in case.format.lower():
            print(f"{case.format}, {case.what}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(case, Path(folder)))
    for name in CHAINS:
        if options.only.lower() in name.lower():
            print(f"{name}, chain", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure_chain(name, depth, Path(folder)))
    whole = not options.quick and not options.only
    finish("lifting", options, rows, targets(rows, whole=whole), table=table)


if __name__ == "__main__":
    main()
