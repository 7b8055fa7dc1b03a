"""scikit-learn models from skops files; pickles are refused, whatever they hold."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from bitvec.converters import sklearn
from bitvec.errors import FileFormatError, MissingLibraryError, UnsupportedModelError
from bitvec.forest import Forest
from bitvec.subject import Subject

try:
    import skops.io
except ImportError as error:
    raise MissingLibraryError("skops", "sklearn", "reading a .skops file") from error

PICKLES = frozenset({".pkl", ".pickle", ".joblib", ".cloudpickle", ".dill"})
TRUSTED = "sklearn.tree._tree.Tree"
"""The one type that is trusted besides those of skops: its arrays are checked before use."""
UNPACKED_LIMIT = 1 << 28
"""Bytes that any file may unpack to; a larger one may unpack to 100 times its own size."""


def load(path: str | Path) -> Any:
    """Load a scikit-learn model from a .skops file.

    What comes back is not yet known to be sound: hand it to `bitvec.converters.sklearn.convert`,
    which checks the node arrays, before anything is predicted with it.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If the file is a pickle, no skops file, damaged, or unpacks to an absurd size.
    UnsupportedModelError
        If it holds types that skops does not trust.
    """
    path = Path(path)
    if path.suffix.lower() in PICKLES:
        raise FileFormatError(
            f"a model file must not be a pickle, which runs code when it is read, got {path.name}: "
            "load it where you trust it and save it with `skops.io.dump(model, 'model.skops')`."
        )
    _require_sane_archive(path)
    # skops answers damage with exceptions of many kinds; each means that the file is not good.
    try:
        untrusted = sorted(set(skops.io.get_untrusted_types(file=path)) - {TRUSTED})
    except Exception as error:
        raise _damaged(path, error) from error
    if untrusted:
        raise UnsupportedModelError(
            f"{path.name} must hold only scikit-learn trees and forests, got types that are not "
            f"trusted ({', '.join(untrusted[:5])}): save the plain model with skops."
        )
    try:
        return skops.io.load(path, trusted=[TRUSTED])
    except Exception as error:
        raise _damaged(path, error) from error


def _require_sane_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise FileFormatError(
            f"{path.name} must be a skops file, got something else or a truncated one: save the "
            "model with `skops.io.dump(model, 'model.skops')`."
        ) from error
    if "schema.json" not in names:
        raise FileFormatError(f"{path.name} must be a skops file, got an archive without a schema.")
    limit = max(UNPACKED_LIMIT, 100 * path.stat().st_size)
    if unpacked > limit:
        raise FileFormatError(
            f"{path.name} must unpack to at most {limit} bytes, got {unpacked}: it is damaged or "
            "hostile."
        )


def _damaged(path: Path, error: Exception) -> FileFormatError:
    reason = " ".join(str(error).split())[:200]
    return FileFormatError(
        f"{path.name} must be a sound skops file, got a damaged or unsupported one "
        f"({type(error).__name__}: {reason}): save the model again with this version of skops."
    )


def convert(path: str | Path) -> Forest:
    """Lift the model in a .skops file; see `bitvec.converters.sklearn.convert`."""
    return sklearn.convert(load(path))


def subject(path: str | Path) -> Subject:
    """Return the model in a .skops file as the other side of a comparison."""
    return sklearn.subject(load(path))
