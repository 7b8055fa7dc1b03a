"""Makes a process ready to predict, by being imported: its copies need not do it again."""

from contextlib import suppress
from importlib import import_module

for name in (
    "bitvec.services.part_files",
    "bitvec.runtime.predict.cpu.engine",
    "numba.np.arraymath",
    "pyarrow.parquet",
    "pyarrow.compute",
):
    with suppress(ImportError):
        import_module(name)

with suppress(ImportError):
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()  # before the first kernel is loaded
