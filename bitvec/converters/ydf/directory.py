"""A YDF model directory: its headers and its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bitvec.converters.ydf import schema
from bitvec.converters.ydf.blobs import FORMATS, opened, records
from bitvec.converters.ydf.format import prefixes
from bitvec.converters.ydf.protobuf import Messages, Schema
from bitvec.converters.ydf.wire import padded
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int64, UInt8
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
NODES: Final = 1 << 15
"""Nodes that are read at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """The messages of a model.

    Parameters
    ----------
    kind : str
        A key of `HEADERS`.
    model, header, data_spec : Messages
        One each.
    n_trees : int
    nodes : bytes of all nodes, and where each node begins and ends
        Each tree's in depth-first order, the negative child first.
    """

    kind: str
    model: Messages
    header: Messages
    data_spec: Messages
    n_trees: int
    nodes: tuple[
        UInt8[Array, " n_bytes"], Int64[Array, " n_positions"], Int64[Array, " n_positions"]
    ]

    def parts(self) -> Iterator[Messages]:
        """Give the nodes in their order, some at a time: their fields take much memory."""
        data, start, end = self.nodes
        for first in range(0, max(start.size, 1), NODES):
            some = slice(first, first + NODES)
            yield Messages.read(schema.NODE, data, start[some], end[some])


def read(path: Path) -> Directory:
    """Read a model directory.

    Raises
    ------
    FileFormatError
        If a file is missing, cut off or damaged.
    UnsupportedModelError
        If it is a kind of model, or of file, that is not known.
    """
    found = prefixes(path)
    if len(found) > 1:
        raise UnsupportedModelError(
            f"a directory must hold the files of one model, got prefixes {', '.join(found[:4])}: "
            "copy those of one into a directory."
        )
    before = found[0] if found else ""
    model = _single(path, before, schema.MODEL)
    kind = model.texts("name")[0].decode(errors="replace")
    if kind not in HEADERS:
        raise UnsupportedModelError(
            f"a YDF model must be one of {', '.join(HEADERS)}, got {kind[:80]!r}."
        )
    header = _single(path, before, HEADERS[kind])
    data_spec = _single(path, before, schema.DATA_SPEC)
    format_ = header.texts("node_format")[0].decode(errors="replace") or FORMATS[-1]
    if format_ not in FORMATS:
        raise UnsupportedModelError(
            f"the nodes must be stored as {' or '.join(FORMATS)}, got "
            f"{format_[:40]!r}: load the model with ydf and save it anew."
        )
    n_shards, n_trees = int(header.ints("num_node_shards")[0]), int(header.ints("num_trees")[0])
    if not (0 < n_shards < 100_000 and 0 < n_trees < 2**31):
        raise FileFormatError(
            f"a model must have trees in files, got {n_trees} trees in {n_shards} files."
        )
    names = (f"{before}nodes-{shard:05d}-of-{n_shards:05d}" for shard in range(n_shards))
    nodes = records([path / name for name in names], format_)
    return Directory(kind, model, header, data_spec, n_trees, nodes)


def _single(path: Path, before: str, of: Schema) -> Messages:
    with opened(path / f"{before}{of.name}") as file:
        content = file.read()
    one = np.zeros(1, np.int64), np.full(1, len(content), np.int64)
    return Messages.read(of, padded(content), *one)
