"""Exactness of conversions: a row a model, over all options that `converters` name.

    python -m benchmarks.exactness --models FOLDER --data FOLDER [--json] [--quick] [--save]

`--data` holds real data (adult, california, covtype, letter, ...), `--models` models that others
serialized, with the outputs that they stored. `--only NAME` measures the formats whose name
contains it.
"""

from benchmarks.exactness.summary import frames, mutants, table

__all__ = ["frames", "mutants", "table"]
