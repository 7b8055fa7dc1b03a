"""Statements run in DuckDB."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.errors import MissingLibraryError

try:
    import duckdb
except ImportError as error:
    raise MissingLibraryError("duckdb", "duckdb", "Running a statement in DuckDB") from error

VERSION: str = duckdb.__version__


def run(statement: str, table: str, columns: dict[str, Array]) -> dict[str, Array]:
    """Return the columns of a statement's result over one table, whose order is kept.

    The statement sees this table only, neither files nor the network.
    """
    connection: Any = duckdb.connect(config={"threads": 1})
    try:
        connection.register(table, columns)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        found = connection.execute(statement).fetchnumpy()
        return {name: _filled(values) for name, values in found.items()}
    finally:
        connection.close()


def _filled(values: Any) -> Array:
    if np.ma.isMaskedArray(values) and values.dtype.kind == "f":
        return np.asarray(values.filled(np.nan))
    return np.asarray(values)
