"""What a forest costs once it is exported, and whether it still answers alike; beside other files.

    python -m benchmarks.export [--quick] [--json] [--save] [--peers-dir FOLDER] [--make-peers]

A row is a form, a model and a runtime: bytes, seconds to export and to load, milliseconds at 1 and
1,000 rows in one thread, and how many of at least 100,000 probing rows it answers otherwise than
the forest. Models are grown on the spot. `--make-peers` makes the environments of other libraries
in `--peers-dir`.
"""

from benchmarks.export.tables import asked, big_table, c_table, peer_table, table

__all__ = ["asked", "big_table", "c_table", "peer_table", "table"]
