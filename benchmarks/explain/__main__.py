"""Run the benchmark."""

import benchmarks.explain as package
from benchmarks.runner import run

if __name__ == "__main__":
    run(package.BENCHMARK, package.__doc__)
