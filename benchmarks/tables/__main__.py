"""Reproduce a paper's table: `python -m benchmarks.tables kddt --data FOLDER`."""

import sys

from benchmarks.runner import load, run

PAPERS = ("cpt", "e2edt", "kddt", "tao")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PAPERS:
        sys.exit(f"the first argument must name a paper: {', '.join(PAPERS)}")
    run(load(f"tables-{sys.argv.pop(1)}"), __doc__)
