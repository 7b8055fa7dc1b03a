"""Laws of YDF directories as others laid them out: names with a prefix, nodes as TFRecords."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.converters.ydf.blobs import records
from bitvec.errors import BitvecError, FileFormatError, UnsupportedModelError
from bitvec.verify.certificates.digest import forest_digest

ydf = pytest.importorskip("ydf")


@pytest.fixture(scope="module")
def model() -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    rows = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": (X[:, 0] * X[:, 1] > 0).astype(int)}
    return ydf.GradientBoostedTreesLearner(label="y", num_trees=4, max_depth=3).train(rows)


def saved(model: Any, folder: Path, prefix: str = "") -> Path:
    path = folder / f"model{prefix}"
    model.save(str(path))
    for file in [*path.iterdir()]:
        file.rename(path / f"{prefix}{file.name}")
    return path


def test_a_prefix_of_the_names_is_found(model: Any, tmp_path: Path) -> None:
    plain, prefixed = saved(model, tmp_path), saved(model, tmp_path, "3bb60e")
    forest = bitvec.convert(prefixed)
    assert forest_digest(forest) == forest_digest(bitvec.convert(plain))
    assert bitvec.certify(forest, prefixed).passed
    for file in [*prefixed.iterdir()]:
        file.with_name(file.name.replace("3bb60e", "other")).write_bytes(file.read_bytes())
    with pytest.raises(UnsupportedModelError, match="3bb60e, other"):
        bitvec.convert(prefixed)
    (prefixed / "otherheader.pb").unlink()
    assert forest_digest(bitvec.convert(prefixed)) == forest_digest(forest)


def as_tf_records(path: Path, *, cut: int = 0) -> None:
    """Write the nodes as TFRecords in a gzip stream, and leave the format out of the header."""
    (nodes,) = path.glob("nodes-*")
    data, start, end = records([nodes], "BLOB_SEQUENCE")
    content = b"".join(
        struct.pack("<Q4x", last - first) + data[first:last].tobytes() + bytes(4)
        for first, last in zip(start.tolist(), end.tolist(), strict=True)
    )
    nodes.write_bytes(gzip.compress(content[: len(content) - cut]))
    header = path / "gradient_boosted_trees_header.pb"
    name = b"BLOB_SEQUENCE"
    field = bytes([7 << 3 | 2, len(name)]) + name
    assert header.read_bytes().count(field) == 1
    header.write_bytes(header.read_bytes().replace(field, b""))


def test_nodes_may_be_tf_records(model: Any, tmp_path: Path) -> None:
    model.set_node_format(ydf.NodeFormat.BLOB_SEQUENCE)
    wanted = forest_digest(bitvec.convert(saved(model, tmp_path)))
    as_tf_records(tmp_path / "model")
    assert forest_digest(bitvec.convert(tmp_path / "model")) == wanted


@pytest.mark.parametrize("cut", [1, 4, 5, 17])
def test_tf_records_that_are_cut_off_are_refused(cut: int, model: Any, tmp_path: Path) -> None:
    model.set_node_format(ydf.NodeFormat.BLOB_SEQUENCE)
    as_tf_records(saved(model, tmp_path), cut=cut)
    with pytest.raises(FileFormatError, match="cut off"):
        bitvec.convert(tmp_path / "model")


def test_tf_records_that_are_not_compressed_are_refused(model: Any, tmp_path: Path) -> None:
    model.set_node_format(ydf.NodeFormat.BLOB_SEQUENCE)
    path = saved(model, tmp_path)
    as_tf_records(path)
    (nodes,) = path.glob("nodes-*")
    nodes.write_bytes(gzip.decompress(nodes.read_bytes()))
    with pytest.raises(BitvecError, match="compressed nodes are damaged"):
        bitvec.convert(path)
