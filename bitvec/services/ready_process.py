"""Makes a process ready to predict, by being imported: its copies need not do it again."""

from contextlib import suppress
from importlib import import_module

for name in (
    "bitvec.services.part_files",
    "bitvec.runtime.predict.cpu.engine",
    "pyarrow.parquet",
):
    with suppress(ImportError):
        import_module(name)
