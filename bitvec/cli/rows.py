"""The rows that a command is given, read so that they fit a forest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitvec.cli.paths import readable
from bitvec.errors import InputError

if TYPE_CHECKING:
    from bitvec.core.arrays import Array
    from bitvec.core.forest import Forest


def read_rows(path: Path, forest: Forest, header: bool | None) -> Any:
    """Read a file of rows as what a predictor takes."""
    from bitvec.runtime.predict.datafiles import read

    return read(readable(path), header=header, inputs=forest.inputs).data


def read_target(
    path: Path, forest: Forest, header: bool | None, target: str
) -> tuple[Array, Array]:
    """Read X, in the forest's dtype, and y, the column `target`, with the classes' own dtype.

    Raises
    ------
    InputError
        If the column is not there, or holds text where the forest answers with numbers.
    """
    from bitvec.runtime.predict.datafiles import read
    from bitvec.runtime.predict.tables import rows

    classes = forest.output.classes
    named = classes is not None and classes[0].dtype.kind == "U"
    text = (target,) if named else ()
    table, y = read(
        readable(path), header=header, inputs=forest.inputs, text=text, target=target
    ).split(target)
    if not named and y.dtype.kind not in "biuf":
        raise InputError(
            f"the column {target!r} of {path} must hold numbers, as the forest's answers are, "
            f"got {str(y[0])[:40]!r}."
        )
    return rows(table.data, forest.inputs, forest.dtype), y
