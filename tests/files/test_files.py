"""Files: load(save(f)) = f bit for bit, and no file, however hostile, does anything but fail."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from strategies import forests, forests_with_rows

from bitvec.core import reference
from bitvec.core.feature_maps import (
    Concatenate,
    Conv2d,
    Flatten,
    Identity,
    Layers,
    Linear,
    MaxPool2d,
    ReLU,
    StackedForest,
)
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import box
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Relation, axis_aligned
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.files import identical, load, save, store

pytestmark = pytest.mark.usefixtures("without_shape_checks")

TINY = 5e-324


def assert_same(a: object, b: object, where: str = "forest") -> None:
    """Compare two objects field by field; written without the code that packs forests."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        assert a.tobytes() == b.tobytes(), where
        assert not b.flags.writeable, where
    elif is_dataclass(a):
        for field in fields(a):
            name = field.name
            assert_same(getattr(a, name), getattr(b, name), f"{where}.{name}")
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b), where
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{k}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), where
        for key in a:
            assert_same(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(a, float):
        assert np.float64(a).tobytes() == np.float64(b).tobytes(), where
    else:
        assert a == b, where


def stump() -> Forest:
    return Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


def rich() -> Forest:
    """A small forest that has every optional field but the kernel."""
    tests = axis_aligned(
        [0, 1, 2, 0],
        np.array([-0.0, np.inf, TINY, -np.inf]),
        relation=Relation.GREATER_EQUAL,
        missing_right=np.array([True, False, True, False]),
    )
    B = np.array([[0, 1], [1, 0], [1, 1]])
    one = Forest.from_matrices(np.eye(2), [0, 0], B, [0, 0, 0]).bitvectors
    # Two trees of the same shape, one after the other.
    bitvectors = replace(
        one,
        lo=np.tile(one.lo, 2),
        mid=np.tile(one.mid, 2),
        hi=np.tile(one.hi, 2),
        leaf_ptr=np.array([0, 3, 6]),
    )
    return Forest(
        tests=replace(
            tests,
            substitute=np.array([np.nan, np.nan, np.nan, np.nan]),
            indicator=np.full(4, -1, np.int32),
        ),
        bitvectors=bitvectors,
        leaves=Leaves(
            np.array([[-0.0], [TINY], [np.inf], [np.nan], [1.5], [2.5]]),
            np.array([0, 0, 0, 1, 1, 1], np.int32),
        ),
        output=Output(
            4,
            np.dtype(np.float64),
            base_score=np.array([-0.0, 1.0, TINY, 0.1]),
            base_first=True,
            tree_weight=np.array([0.5, -0.25]),
            post_transform=PostTransform.SOFTMAX,
            parameter=0.1,
            classes=(np.array(["nein", "jå ☃"]), np.array([False, True])),
            groups=(2, 2),
            iteration=np.array([0, 1], np.int32),
        ),
        inputs=Inputs(
            3,
            feature_names=("width", 'a "b"\n', "\ud800"),
            categories=(None, ("x", "", "1"), (1, 1.0, True, -0.0, 2**63, "1")),
            missing_sentinel=-999.0,
            hashed=(1,),
        ),
        source=Source(
            "sklearn",
            "1.9.1",
            "RandomForestClassifier",
            leaf_id=np.array([1, 3, 4, 1, 3, 4]),
            node_id=np.array([0, 2, 0, 2]),
            leaf_cover=np.array([1.0, 2, 3, 1, 2, 3]),
            node_cover=np.array([6.0, 5, 6, 5]),
            gain=np.array([0.5, np.nan, -0.0, 1.0]),
            metadata={"z": [1, None, {"deep": [True, 1.0, "é"]}], "a": {}, "": float("inf")},
        ),
    )


def with_map(phi: object) -> Forest:
    return replace(stump(), feature_map=phi, inputs=Inputs(phi.n_inputs))


NETWORK = Layers(
    (
        Conv2d(np.ones((2, 1, 2, 2), np.float32), None, (1, 2), (1, 0)),
        ReLU(),
        MaxPool2d((2, 1), (1, 1), (1, 0)),
        Flatten(),
        Linear(np.full((3, 20), 0.1), np.array([-0.0, TINY, 1.0])),
    ),
    (1, 3, 4),
)


def forests_of_every_kind() -> dict[str, Forest]:
    labels = {
        "int8": np.array([-128, 127], np.int8),
        "uint64": np.array([0, 2**64 - 1], np.uint64),
        "float16": np.array([0.1, -0.0], np.float16),
        "float32": np.array([0.1, np.nan], np.float32),
        "float64": np.array([0.1, np.inf]),
        "bool": np.array([False, True]),
        "text": np.array(["", "long label"], "U17"),
    }
    classifiers = {
        name: replace(stump(), output=replace(stump().output, classes=(values,)))
        for name, values in labels.items()
    }
    median = Output(
        1,
        np.dtype(np.float32),
        aggregate=Aggregate.WEIGHTED_MEDIAN,
        tree_weight=np.ones(1, np.float32),
    )
    maps = {
        "one-hot": StackedForest(rich()),
        "values": StackedForest(with_map(StackedForest(stump(), values=True)), values=True),
        "network": NETWORK,
        "joined": Concatenate((Identity(12), NETWORK, Layers((Linear(np.ones((1, 12))),)))),
    }
    return {
        **classifiers,
        **{name: with_map(phi) for name, phi in maps.items()},
        "rich": rich(),
        "median": replace(stump(), output=median),
        "no tree": rich().take([]),
        "no node": Forest.from_matrices(np.zeros((0, 2)), [], np.zeros((1, 0)), [7]),
    }


@given(forests())
def test_a_loaded_forest_is_the_saved_one(tmp_path_factory, forest):
    path = tmp_path_factory.getbasetemp() / "drawn.safetensors"
    save(forest, path)
    again = load(path)
    assert_same(forest, again)
    assert identical(forest, again)


@given(forests(kinds=("axis", "kernel"), soft=True, max_leaves=8))
def test_a_loaded_prediction_kernel_is_the_saved_one(tmp_path_factory, forest):
    path = tmp_path_factory.getbasetemp() / "soft.safetensors"
    save(forest, path)
    assert_same(forest, load(path))


@given(forests_with_rows(max_leaves=8))
def test_a_loaded_forest_answers_the_same(tmp_path_factory, drawn):
    forest, X = drawn
    path = tmp_path_factory.getbasetemp() / "answers.safetensors"
    save(forest, path)
    assert reference.raw(forest, X).tobytes() == reference.raw(load(path), X).tobytes()


@pytest.mark.parametrize("name", forests_of_every_kind())
def test_every_kind_of_forest_survives(tmp_path, name):
    forest = forests_of_every_kind()[name]
    path = tmp_path / "forest.safetensors"
    save(forest, path)
    assert_same(forest, load(path))
    assert identical(load(path), forest)


def test_a_kernel_for_some_columns_only_survives(tmp_path):
    tests = axis_aligned([1], np.array([0.5]), kind=3)
    forest = replace(stump(), tests=tests, kernel=(None, box(0.25)))
    save(forest, tmp_path / "f")
    assert_same(forest, load(tmp_path / "f"))


def test_the_same_forest_gives_the_same_bytes(tmp_path):
    code = (
        "import sys; from bitvec.files import load, save;"
        "save(load(sys.argv[1]), sys.argv[2])"  # another process: another hash seed
    )
    save(rich(), tmp_path / "a")
    subprocess.run([sys.executable, "-c", code, tmp_path / "a", tmp_path / "b"], check=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_readers_open_the_file_and_see_readable_names(tmp_path):
    save(with_map(StackedForest(stump())), tmp_path / "f")
    tensors = safetensors.numpy.load_file(tmp_path / "f")
    assert tensors["tests.b"].tolist() == [0.5]
    assert tensors["bitvectors.lo"].tolist() == [0]
    assert tensors["leaves.v"].tolist() == [[10.0], [20.0]]
    assert tensors["feature_map.forest.tests.b"].tolist() == [0.5]
    with safetensors.safe_open(tmp_path / "f", framework="numpy") as file:
        metadata = file.metadata()
    assert (metadata["format"], metadata["version"]) == ("bitvec.forest", "1")
    assert json.loads(metadata["forest"])["inputs"]["n_features"] == 2


def test_arrays_lie_aligned_in_the_file(tmp_path):
    save(rich(), tmp_path / "f")
    _, header, start = _opened(tmp_path / "f")
    assert start % 8 == 0
    width = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "U8": 1, "BOOL": 1}
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["data_offsets"][0] % width[entry["dtype"]] == 0


def _changes():
    forest = rich()
    v = forest.leaves.v.copy()
    v[0] = 0.0  # it is -0.0
    b = forest.tests.b.copy()
    b[2] = 0.0  # it is the smallest subnormal
    books = forest.inputs.categories
    yield "signed zero", replace(forest, leaves=Leaves(v, forest.leaves.output))
    yield "subnormal", replace(forest, tests=replace(forest.tests, b=b))
    yield (
        "dtype of a label",
        replace(
            forest, inputs=replace(forest.inputs, categories=(*books[:2], (1.0, *books[2][1:])))
        ),
    )
    yield "name", replace(forest, inputs=replace(forest.inputs, feature_names=None))
    yield "hashes", replace(forest, inputs=replace(forest.inputs, hashed=()))
    yield "strictness", replace(forest, inputs=replace(forest.inputs, refuses_unseen=True))
    yield "source", replace(forest, source=None)
    yield "optional array", replace(forest, tests=replace(forest.tests, indicator=None))
    yield "metadata", replace(forest, source=replace(forest.source, metadata={}))
    yield "parameter", replace(forest, output=replace(forest.output, parameter=0.2))


def test_forests_that_differ_in_one_place_are_not_identical():
    assert identical(rich(), rich())
    for what, other in _changes():
        assert not identical(rich(), other), what


# What cannot be saved.


class _Doubled:
    n_inputs = 2
    n_features = 2

    def __call__(self, X):
        return 2 * X


def _circular() -> dict:
    metadata: dict = {}
    metadata["again"] = metadata
    return metadata


def _nested_map() -> Concatenate:
    phi: Concatenate = Concatenate((Identity(2),))
    for _ in range(10):
        phi = Concatenate((phi,))
    return phi


def _with_metadata(metadata: dict) -> Forest:
    return replace(stump(), source=Source("x", "1", metadata=metadata))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: with_map(_Doubled()), "_Doubled"),
        (lambda: with_map(Concatenate((Identity(2), _Doubled()))), "_Doubled"),
        (lambda: with_map(_nested_map()), "at most 8 deep"),
        (lambda: _with_metadata({"a": np.zeros(2)}), "got a ndarray"),
        (lambda: _with_metadata({"a": {1: 2}}), "a key that is no string"),
        (lambda: _with_metadata(_circular()), "at most 32 levels"),
        (lambda: _with_metadata({"a": "x" * (1 << 25)}), "must fit in 33554432 bytes"),
        (
            lambda: replace(
                stump(), output=replace(stump().output, classes=(np.array([1, 2], np.longdouble),))
            ),
            "numbers of up to 64 bits",
        ),
        (
            lambda: replace(
                stump(),
                output=replace(stump().output, classes=(np.array(["", "x" * (2**23 + 1)]),)),
            ),
            "class labels must fit",
        ),
        (lambda: replace(stump(), inputs=Inputs(2, (0, 1))), "feature_names` must be text"),
        (lambda: replace(stump(), source=Source("x", None)), "source.version` must be text"),
        (lambda: replace(stump(), inputs=Inputs(2, categories=(None, ((1, 2),)))), "categories"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_and_leaves_no_file(tmp_path, make, message):
    with pytest.raises(UnsupportedModelError, match=message):
        save(make(), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_numpy_scalars_in_metadata_become_numbers(tmp_path):
    forest = _with_metadata({"a": np.int64(3), "b": (np.float32(0.5), np.bool_(True))})
    save(forest, tmp_path / "f")
    assert load(tmp_path / "f").source.metadata == {"a": 3, "b": [0.5, True]}


# Writing.


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "f"
    save(stump(), path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match="must be a file that can be written, got: No space"
    ) as caught:
        save(rich(), path)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="kills with a POSIX signal")
def test_a_killed_writer_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "f"
    save(stump(), path)
    code = (
        "import os, signal, sys\n"
        "from bitvec.files import load, save\n"
        "os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)\n"
        "save(load(sys.argv[1]), sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert_same(stump(), load(path))


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_a_new_file_has_the_usual_permissions_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    save(stump(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert_same(stump(), load(tmp_path / "link"))


def test_paths_that_cannot_be_written_give_one_sentence(tmp_path):
    for path, kind in (
        (tmp_path / "no" / "f", FileNotFoundError),
        (tmp_path, OSError),
        (tmp_path / ("x" * 300), OSError),
    ):
        with pytest.raises(kind, match="must be a file that can be written, got: ") as caught:
            save(stump(), path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="POSIX devices")
def test_a_device_is_never_replaced_by_a_file():
    with pytest.raises(OSError, match="a directory or a device"):
        save(stump(), os.devnull)
    assert not Path(os.devnull).is_file()


# Reading what is no forest.


def test_paths_that_cannot_be_read_give_one_sentence(tmp_path):
    for path, kind in ((tmp_path / "missing", FileNotFoundError), (tmp_path, OSError)):
        with pytest.raises(kind, match="must be a file that can be read, got: ") as caught:
            load(path)
        assert str(caught.value).startswith(str(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX named pipes")
def test_a_named_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a directory or a device"):
        load(tmp_path / "pipe")


class _Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: path.write_bytes(b""), "an empty file"),
        (lambda path: path.write_bytes(b"\0" * 7), "7 bytes that are cut short"),
        (lambda path: path.write_bytes(b"\xff" * 4096), "4096 bytes that are cut short"),
        (
            lambda path: path.write_bytes(pickle.dumps([_Bomb()] * 2)),
            "a pickle, which bitvec never",
        ),
        (_zip, "a zip archive"),
        (lambda path: path.write_text('{"learner": {}}'), "JSON text"),
        (lambda path: path.write_text("tree\nversion=v4\n"), "a LightGBM text model"),
        (
            lambda path: safetensors.numpy.save_file({"a": np.zeros(1)}, path),
            "bitvec did not write",
        ),
        (
            lambda path: safetensors.numpy.save_file({}, path, {"format": "bitvec.other"}),
            "it holds a 'bitvec.other', not a 'bitvec.forest'",
        ),
    ],
)
def test_another_kind_of_file_is_named(tmp_path, write, message):
    path = tmp_path / "f"
    write(path)
    with pytest.raises(FileFormatError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def _opened(path: Path) -> tuple[bytes, dict, int]:
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    return data[start:], json.loads(data[8:start]), start


def _write(path: Path, body: bytes, header: dict | bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def _edit(path: Path, *, header=None, record=None, tensors=None) -> None:
    """Save `rich()` with its header, its record or its arrays changed."""
    save(rich(), path)
    if tensors is not None:
        arrays = safetensors.numpy.load_file(path)
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
        tensors(arrays)
        safetensors.numpy.save_file(arrays, path, metadata)
        return
    body, entries, _ = _opened(path)
    if record is not None:
        values = json.loads(entries["__metadata__"]["forest"])
        values = record(values) or values
        entries["__metadata__"]["forest"] = json.dumps(values)
    else:
        entries = header(entries) or entries
    _write(path, body, entries)


def _put(name, index, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (_put("tests.b", 0, np.nan), "`b` must not be NaN"),
        (_put("tests.column", 0, -1), "must not be negative"),
        (_put("tests.column", 0, 3), "below the 3 columns"),
        (_put("tests.kind", 0, 4), "`kind` must lie in 0 ... 3"),
        (_put("tests.relation", 0, 255), "`relation` must lie in"),
        (_put("tests.weight", 0, np.inf), "`weight` must be finite"),
        (_put("tests.row_ptr", 1, 2**62), "`row_ptr` must rise"),
        (_put("tests.row_ptr", 1, 0), "each row of S must have at least one entry"),
        (_put("tests.node_ptr", 1, -(2**62)), "`node_ptr` must rise"),
        (_put("bitvectors.lo", 1, 0), "overlap, leave gaps"),
        (_put("bitvectors.mid", 0, 3), "0 <= lo < mid < hi"),
        (_put("bitvectors.hi", 1, 2**31 - 1), "must not exceed the number of leaves"),
        (_put("bitvectors.leaf_ptr", 1, 0), "at least one leaf"),
        (_put("bitvectors.leaf_ptr", 2, 2**62), "must have fewer than"),
        (_put("leaves.output", 0, 4), "`leaves.output` must be below 4"),
        (lambda arrays: arrays.pop("tests.b"), "tensor `tests.b` must be there"),
        (lambda arrays: arrays.pop("output.base_score"), "`output.base_score` must be there"),
        (lambda arrays: arrays.update(extra=np.zeros(1)), "unknown tensor 'extra'"),
        (lambda arrays: arrays.update({"tests.b": np.zeros(4, np.int64)}), "`b` must have dtype"),
        (lambda arrays: arrays.update({"tests.b": np.zeros(4, np.float16)}), "must be of dtype"),
        (lambda arrays: arrays.update({"tests.b": np.zeros((4, 1))}), "must have shape"),
        (lambda arrays: arrays.update({"tests.b": np.array(1.0)}), "must have shape"),
        (lambda arrays: arrays.update({"source.gain": np.zeros(3)}), "must have 4 values"),
    ],
)
def test_arrays_that_are_no_forest_are_refused(tmp_path, tensors, message):
    path = tmp_path / "f"
    _edit(path, tensors=tensors)
    with pytest.raises(FileFormatError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_a_bool_that_is_neither_0_nor_1_is_refused(tmp_path):
    path = tmp_path / "f"
    save(rich(), path)
    _, header, start = _opened(path)
    data = bytearray(path.read_bytes())
    data[start + header["tests.missing_right"]["data_offsets"][0]] = 2
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"tests\.missing_right' must hold 0 and 1"):
        load(path)


def _set(*path_and_value):
    *path, last, value = path_and_value

    def change(record):
        for step in path:
            record = record[step]
        record[last] = value

    return change


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (_set("output", "aggregate", "product"), "must be one of sum, mean"),
        (_set("output", "post_transform", 7), "must be str, got int"),
        (_set("output", "dtype", "object"), "must be one of float32, float64"),
        (_set("output", "n_outputs", 10**12), "`groups` must sum to 1000000000000"),
        (_set("output", "n_outputs", True), "must be int, got bool"),
        (_set("output", "n_outputs", -1), "must lie in 0"),
        (_set("output", "n_outputs", 10**400), "must lie in 0"),
        (_set("output", "groups", [2, 1.5]), "must hold int only, got float"),
        (_set("output", "extra", 1), "unknown value 'extra'"),
        (_set("extra", 1), "unknown value 'extra'"),
        (_set("output", "classes", 0, "dtype", "U999999999"), "class labels must fit"),
        (_set("output", "classes", 0, "dtype", "object"), "must be a dtype of labels"),
        (_set("output", "classes", 0, "dtype", "U²"), "must be a dtype of labels"),
        (_set("output", "classes", 0, "dtype", "int64"), "must hold int only, got str"),
        (_set("output", "classes", 0, "labels", ["abcde", "b"]), "at most 4 characters"),
        (_set("output", "classes", 1, {"dtype": "int8", "labels": [1, 128]}), "must fit in int8"),
        (_set("output", "classes", 1, {"dtype": "int8", "labels": [[1], [2]]}), "got list"),
        (_set("output", "classes", [{}, {}]), "must have a value `dtype`"),
        (_set("inputs", "feature_names", ["a", "a", "b"]), "must be distinct"),
        (_set("inputs", "feature_names", [1, 2, 3]), "must hold str only"),
        (_set("inputs", "categories", [None, [None], None]), "got NoneType"),
        (_set("inputs", "missing_sentinel", 1), "must be float or null, got int"),
        (_set("inputs", "hashed", [0]), "`hashed` must name"),
        (_set("inputs", "decimals", [0]), "`decimals` must name"),
        (_set("inputs", "whole_numbers", [99]), "`whole_numbers` must name"),
        (_set("inputs", "refuses_unseen", 1), "must be bool, got int"),
        (_set("inputs", "hashed", [-1]), "must hold numbers in 0"),
        (_set("inputs", "hashed", 1), "must be list, got int"),
        (_set("inputs", "n_features", 1), "one entry for each of the 1 features"),
        (_set("source", "metadata", []), "must be dict, got list"),
        (_set("kernel", [False, False, 1]), "must hold bool only"),
        (_set("kernel", [True, False, False]), "tensor `kernel.0.edges` must be there"),
        (_set("linear_leaves", True), "tensor `leaves.linear.leaf_ptr` must be there"),
        (_set("feature_map", {"map": "shell"}), "must be one of identity"),
        (_set("feature_map", {"map": "identity", "n_inputs": 4}), "must read 3 columns"),
        (_set("feature_map", {"map": "stacked_forest", "forest": {}}), "must have a value"),
        (_set("feature_map", {"map": "layers", "layers": [], "input_shape": []}), "at least one"),
        (_set("feature_map", {"map": "layers", "layers": [{"layer": "os"}]}), "must be one of"),
        (
            _set(
                "feature_map",
                {
                    "map": "layers",
                    "layers": [{"layer": "max_pool2d", "kernel": [], "stride": [], "padding": []}],
                    "input_shape": [1, 2, 2],
                },
            ),
            "must be two numbers",
        ),
        (lambda record: [1], "its forest must be a JSON object"),
        (lambda record: {"output": {}}, "must have a value"),
    ],
)
def test_records_that_are_no_forest_are_refused(tmp_path, record, message):
    path = tmp_path / "f"
    _edit(path, record=record)
    with pytest.raises(FileFormatError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 500


def _nested(depth: int, inner: object, wrap) -> object:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def test_nesting_without_end_is_refused(tmp_path):
    path = tmp_path / "f"
    maps = _nested(
        9, {"map": "identity", "n_inputs": 3}, lambda x: {"map": "concatenate", "maps": [x]}
    )
    _edit(path, record=_set("feature_map", maps))
    with pytest.raises(FileFormatError, match="at most 8 deep"):
        load(path)
    _edit(path, record=_set("source", "metadata", _nested(40, {}, lambda x: {"a": x})))
    with pytest.raises(FileFormatError, match="at most 32 levels"):
        load(path)
    save(stump(), path)
    body, header, _ = _opened(path)
    header["__metadata__"]["forest"] = "[" * 200_000
    _write(path, body, header)
    with pytest.raises(FileFormatError, match="nested too deeply"):
        load(path)
    _write(path, body, b'{"a":' * 100_000)
    with pytest.raises(FileFormatError, match="nested too deeply"):
        load(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (_set("__metadata__", "version", "2"), "newer bitvec.* reads up to version 1: upgrade"),
        (_set("__metadata__", "version", "9" * 5000), "newer bitvec"),
        (_set("__metadata__", "version", "0"), "never a version 0"),
        (_set("__metadata__", "version", "one"), "must be a whole number, got 'one'"),
        (_set("__metadata__", "forest", "{"), "its forest must be JSON"),
        (_set("__metadata__", "forest", '{"a": 1, "a": 2}'), "stands twice"),
        (_set("__metadata__", "forest", None), "`forest` must be there"),
        (lambda header: header["__metadata__"].pop("forest") and None, "`forest` must be there"),
        (_set("__metadata__", None), "bitvec did not write"),
        (_set("tests.b", "dtype", "BF16"), "must be of dtype"),
        (_set("tests.b", 1), "must be of dtype"),
        (_set("tests.b", "shape", [2**60]), "truncated or damaged"),
        (_set("tests.b", "shape", [2**33, 2**33]), "truncated or damaged"),
        (_set("tests.b", "shape", [-1]), "truncated or damaged"),
        (_set("tests.b", "data_offsets", [0, 10**13]), "truncated or damaged"),
        (_set("tests.b", "data_offsets", [8, 0]), "truncated or damaged"),
        (_set("tests.b", "data_offsets", [0, 32]), "truncated or damaged"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, header, message):
    path = tmp_path / "f"
    _edit(path, header=header)
    with pytest.raises(FileFormatError, match=message):
        load(path)


def test_a_tensor_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "f"
    save(stump(), path)
    body, header, _ = _opened(path)
    entry = json.dumps({"tests.b": header["tests.b"]})[1:-1]
    _write(path, body, json.dumps(header)[:-1].encode() + b"," + entry.encode() + b"}")
    with pytest.raises(FileFormatError, match="stands twice"):
        load(path)


def test_keys_of_others_beside_the_record_are_ignored(tmp_path):
    path = tmp_path / "f"
    _edit(path, header=_set("__metadata__", "author", "someone"))
    assert_same(rich(), load(path))


def test_lying_files_cost_no_memory(tmp_path):
    path = tmp_path / "f"
    claims = [
        _set("output", "n_outputs", 2**62),
        _set("inputs", "n_features", 2**62),
        _set("output", "classes", 0, "dtype", "U99999999"),
        _set("feature_map", {"map": "identity", "n_inputs": 2**62}),
    ]
    for claim in claims:
        _edit(path, record=claim)
        tracemalloc.start()
        with pytest.raises(FileFormatError):
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    with pytest.raises(FileFormatError, match="10 bytes that are cut short"):
        load(path)


def test_a_huge_file_of_another_kind_is_not_read(tmp_path):
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.write(b"\xff" * 8)
        file.truncate(1 << 40)  # sparse: a terabyte that fills no disk
    with pytest.raises(FileFormatError, match="1099511627776 bytes"):
        load(path)


@pytest.mark.parametrize("make", [stump, rich, lambda: with_map(NETWORK)])
def test_every_truncated_file_is_refused(tmp_path, make):
    path = tmp_path / "f"
    save(make(), path)
    data = path.read_bytes()
    for size in reversed(range(len(data))):
        os.truncate(path, size)
        with pytest.raises(FileFormatError):
            load(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(FileFormatError):
        load(path)


@given(st.integers(0, 2**32 - 1))
def test_a_damaged_file_is_refused_or_holds_a_forest(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    forest = rich() if seed % 2 else with_map(StackedForest(stump()))
    save(forest, path)
    whole = path.read_bytes()
    for _ in range(10):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
        try:
            loaded = load(path)
        except FileFormatError:
            continue
        # What it holds is a forest: it runs and can be saved again.
        reference.raw(loaded, np.zeros((1, loaded.n_features)))
        save(loaded, path)
        assert identical(load(path), loaded)


def test_safetensors_still_refuses_what_bitvec_leaves_to_it():
    """Offsets, shapes and sizes are checked by safetensors; a looser version must not go unseen."""
    header = {"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}
    overlap = {**header, "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}
    gap = {**header, "b": {"dtype": "U8", "shape": [1], "data_offsets": [3, 4]}}
    for entries in (overlap, gap):
        text = json.dumps(entries).encode()
        data = len(text).to_bytes(8, "little") + text + b"\0" * 4
        with pytest.raises(FileFormatError, match="truncated or damaged"):
            store._tensors(data)


def test_loading_costs_about_twice_the_file_in_memory(tmp_path):
    n = 100_000
    S = (np.arange(n) % 7).astype(np.int32)
    chain = np.arange(n, dtype=np.int32)
    big = replace(
        stump(),
        tests=axis_aligned(S, np.zeros(n)),
        bitvectors=Bitvectors(chain, chain + 1, np.full(n, n + 1, np.int32), np.array([0, n + 1])),
        leaves=Leaves(np.zeros((n + 1, 1))),
        inputs=Inputs(7),
    )
    path = tmp_path / "f"
    save(big, path)
    size = path.stat().st_size
    tracemalloc.start()
    load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 5 << 20
    assert peak < 2.2 * size  # the file and its arrays; then the arrays and the checks on them
