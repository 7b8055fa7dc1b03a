"""Run the benchmark, or the one of recipes: `python -m benchmarks.retrain recipes`."""

import sys

import benchmarks.retrain as package
from benchmarks.retrain import recipes
from benchmarks.runner import run

if __name__ == "__main__":
    if sys.argv[1:2] == ["recipes"]:
        del sys.argv[1]
        run(recipes.BENCHMARK, recipes.__doc__)
    else:
        run(package.BENCHMARK, package.__doc__)
