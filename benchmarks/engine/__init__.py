"""Speed of the engine beside the others: a row a workload, batch, threads, engine.

    python -m benchmarks.engine [--json] [--quick] [--save] [--data FOLDER] [--baselines-dir DIR]

Models are trained at the first run and kept in `--cache`. Each engine runs in a process of its own
and they are timed in turns. `--baselines-dir DIR --make-baselines` makes environments for the
engines that need other versions of libraries; `--data` is the folder of real data.
"""

from benchmarks.engine.tables import alone, others, table

__all__ = ["alone", "others", "table"]
