"""A YDF model directory: its headers and its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bitvec.converters.ydf import schema
from bitvec.converters.ydf.blobs import FORMATS, records
from bitvec.converters.ydf.messages import Messages, Schema
from bitvec.converters.ydf.wire import padded
from bitvec.errors import FileFormatError, UnsupportedModelError

RANDOM_FOREST: Final = "RANDOM_FOREST"
BOOSTED_TREES: Final = "GRADIENT_BOOSTED_TREES"
ISOLATION_FOREST: Final = "ISOLATION_FOREST"
HEADERS: Final[dict[str, Schema]] = {
    RANDOM_FOREST: schema.RANDOM_FOREST,
    BOOSTED_TREES: schema.BOOSTED_TREES,
    ISOLATION_FOREST: schema.ISOLATION_FOREST,
}
"""The header of each kind of model, by the name that YDF gives the kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """The messages of a model.

    Parameters
    ----------
    kind : str
        A key of `HEADERS`.
    model, header, data_spec : Messages
        One each.
    nodes : Messages
        The nodes of all trees, each tree's in depth-first order, the negative child first.
    n_trees : int
    """

    kind: str
    model: Messages
    header: Messages
    data_spec: Messages
    nodes: Messages
    n_trees: int


def read(path: Path) -> Directory:
    """Read a model directory.

    Raises
    ------
    FileFormatError
        If a file is missing, cut off or damaged.
    UnsupportedModelError
        If it is a kind of model, or of file, that is not known.
    """
    model = _single(path, schema.MODEL)
    kind = model.texts("name")[0].decode(errors="replace")
    if kind not in HEADERS:
        raise UnsupportedModelError(
            f"a YDF model must be one of {', '.join(HEADERS)}, got {kind[:80]!r}."
        )
    header = _single(path, HEADERS[kind])
    data_spec = _single(path, schema.DATA_SPEC)
    format_ = header.texts("node_format")[0].decode(errors="replace")
    if format_ not in FORMATS:
        raise UnsupportedModelError(
            f"the nodes must be stored as {' or '.join(FORMATS)}, got "
            f"{format_[:40] or 'TFE_RECORDIO'!r}: load the model with ydf and save it anew."
        )
    n_shards, n_trees = int(header.ints("num_node_shards")[0]), int(header.ints("num_trees")[0])
    if not (0 < n_shards < 100_000 and 0 < n_trees < 2**31):
        raise FileFormatError(
            f"a model must have trees in files, got {n_trees} trees in {n_shards} files."
        )
    names = (f"nodes-{shard:05d}-of-{n_shards:05d}" for shard in range(n_shards))
    data, start, end = records([_bytes(path / name) for name in names])
    nodes = Messages.read(schema.NODE, data, start, end)
    return Directory(kind, model, header, data_spec, nodes, n_trees)


def _single(path: Path, of: Schema) -> Messages:
    content = _bytes(path / of.name)
    one = np.zeros(1, np.int64), np.full(1, len(content), np.int64)
    return Messages.read(of, padded(content), *one)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise FileFormatError(
            f"a YDF model directory must hold {path.name}, got none: pass the directory that "
            "`model.save` wrote."
        ) from error
