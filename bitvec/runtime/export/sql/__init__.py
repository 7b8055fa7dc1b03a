"""SQL: a forest as one statement over a table of rows."""

from bitvec.runtime.export.sql.statement import DIALECTS, SqlOptions, to_sql

__all__ = ["DIALECTS", "SqlOptions", "to_sql"]
