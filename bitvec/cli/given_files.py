"""Files that a command is given, checked before any long work begins, and read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitvec.errors import InputError

if TYPE_CHECKING:
    from bitvec.core.arrays import Array
    from bitvec.core.composition import Converted
    from bitvec.core.forest import Forest


def readable(path: Path, *, directory: bool = False) -> Path:
    """Return a path that can be read.

    Parameters
    ----------
    directory : bool
        Whether it may be a directory, as some libraries save their models.

    Raises
    ------
    InputError
        If there is no such file, or it is a directory, a pipe or empty.
    OSError
        If it may not be read.
    """
    if path.is_dir():
        if directory:
            return path
        raise InputError(f"{path} must be a file, got a directory.")
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if not path.is_file():  # opening a named pipe would wait for ever
        raise InputError(f"{path} must be a file, got a device or a pipe.")
    with path.open("rb") as stream:
        if not stream.read(1):
            raise InputError(f"{path} must not be empty.")
    return path


def writable(
    path: Path, suffixes: tuple[str, ...], *, replace: bool, inputs: tuple[Path, ...]
) -> Path:
    """Return a path to which a file can be written now.

    Raises
    ------
    InputError
        If the path ends in none of `suffixes`, is a directory or one of the `inputs`, lies in a
        directory that does not exist, or exists and `replace` is false.
    OSError
        If nothing may be written there.
    """
    from bitvec.files import atomic

    if path.suffix.lower() not in suffixes:
        raise InputError(f"the output must end in {' or '.join(suffixes)}, got {path}.")
    if path.is_dir():
        raise InputError(f"the output must be a file, got the directory {path}.")
    if not path.parent.is_dir():
        raise InputError(f"the directory of {path} must exist: create {path.parent} first.")
    if path.exists():
        if any(given.exists() and path.samefile(given) for given in inputs):
            raise InputError(f"the output must be another file than the input {path}.")
        if not replace:
            raise InputError(
                f"{path} exists: give another name with -o, or replace it with --force."
            )
    atomic.require_writable(path)
    return path


def open_forest(path: Path) -> Forest:
    """Return a saved forest, or the forest of a model file; a composition of several is refused."""
    from bitvec.converters.dispatch import convert_forest

    return convert_forest(readable(path, directory=True))


def open_model(path: Path, dtypes: str | None = None) -> Converted:
    """Return a saved forest or composition, or that of a model file, for columns of `dtypes`."""
    from bitvec import api

    return api.convert(readable(path, directory=True), dtypes=dtypes)


def read_rows(path: Path | None, forest: Converted, header: bool | None) -> Any:
    """Read a file of rows, if one is given, as what a predictor takes."""
    if path is None:
        return None
    from bitvec.runtime.predict.datafiles import read

    return read(readable(path), header=header, inputs=forest.inputs).data


def read_target(
    path: Path, forest: Forest, header: bool | None, target: str
) -> tuple[Array, Array]:
    """Read X, in the forest's dtype, and y, the column `target`, with the classes' own dtype.

    Raises
    ------
    InputError
        If the column is not there, holds infinities, or text where the forest answers with numbers.
    """
    X, y, _ = read_weighted(path, forest, header, target, None)
    return X, y


def read_matrix(
    path: Path | None, forest: Forest, header: bool | None, target: str | None = None
) -> tuple[Any, Any]:
    """Read X in the forest's dtype and the labels, if a column holds them; each may be None."""
    if path is None:
        return None, None
    if target is not None:
        return read_target(path, forest, header, target)
    from bitvec.runtime.predict.tables import rows

    return rows(read_rows(path, forest, header), forest.inputs, forest.dtype), None


def read_weighted(
    path: Path, forest: Forest, header: bool | None, target: str, sample_weight: str | None
) -> tuple[Array, Array, Array | None]:
    """Read X and y as `read_target` does, and the column of weights if one is named."""
    import numpy as np

    from bitvec.runtime.predict.datafiles import read
    from bitvec.runtime.predict.tables import rows

    classes = forest.output.classes
    named = classes is not None and classes[0].dtype.kind == "U"
    text = {target: classes[0].tolist()} if classes is not None and named else {}
    whole = read(readable(path), header=header, inputs=forest.inputs, text=text, target=target)
    # By its number a column is counted in the whole file: the later one is taken out first.
    both = [target] if sample_weight is None else [target, sample_weight]
    if whole.names is None:
        both.sort(key=lambda name: -int(name) if name.isdigit() else 0)
    columns = {}
    for name in both:
        whole, columns[name] = whole.split(name)
    y = columns[target]
    weight = None if sample_weight is None else columns[sample_weight]
    if not named and y.dtype.kind not in "biuf":
        what = "truth values" if classes is not None and classes[0].dtype.kind == "b" else "numbers"
        raise InputError(
            f"the column {target!r} of {path} must hold {what}, as the forest's answers are, "
            f"got {str(y[0])[:40]!r}."
        )
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise InputError(f"the column {target!r} of {path} must be finite, got infinity.")
    return rows(whole.data, forest.inputs, forest.dtype), y, weight
