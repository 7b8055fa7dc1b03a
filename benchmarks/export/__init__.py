"""Cost of exported forests beside other files, and whether they still answer alike.

    python -m benchmarks.export [--quick] [--json] [--save] [--baselines-dir FOLDER]

A row is a form, a model and a runtime: bytes, seconds to export and to load, milliseconds at 1 and
1,000 rows in one thread, and how many of at least 100,000 probing rows it answers otherwise than
the forest. Models are grown on the spot. `--make-baselines` makes the environments of other
libraries in `--baselines-dir`.
"""

from benchmarks.export.tables import baseline_table, big_table, c_table, table

__all__ = ["baseline_table", "big_table", "c_table", "table"]
