"""Decision machines: a tree's encodings exit where the tree does, and scores are exact sums."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, KERNEL, forests, forests_with_rows

from bitvec.converters.dispatch import convert
from bitvec.core import reference, tree_paths
from bitvec.core.feature_maps import StackedForest
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.machine import (
    ENCODINGS,
    DecisionMachine,
    exit_leaves,
    from_forest,
    on_grid,
    raw,
    scores,
    to_forest,
)
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output
from bitvec.errors import FileFormatError, InputError, InvalidForestError, UnsupportedModelError
from bitvec.files import identical, load, loads, save, store
from bitvec.files.machines import pack_machine

pytestmark = pytest.mark.usefixtures("without_shape_checks")

NAMES = list(ENCODINGS)
DTYPES = [np.float32, np.float64]


def three_leaves():
    return Forest.from_matrices(np.eye(2), [0.0, 0.0], [[0, 0], [0, 1], [1, 1]], [1.0, 2.0, 3.0])


def free_machine(n_leaves: list[int], seed: int = 0, dtype: type = np.float64) -> DecisionMachine:
    """Return a machine of real numbers that are no tree's, on one column each test."""
    rng = np.random.default_rng(seed)
    leaf_ptr = np.concatenate([[0], np.cumsum(n_leaves)]).astype(np.int64)
    total, n_nodes = int(leaf_ptr[-1]), int(leaf_ptr[-1]) - len(n_leaves)
    size = sum(n * (n - 1) for n in n_leaves)
    B, c = on_grid(
        rng.normal(size=size).astype(dtype), rng.normal(size=total).astype(dtype), leaf_ptr
    )
    return DecisionMachine(
        tests=axis_aligned(rng.integers(0, 3, n_nodes), rng.normal(size=n_nodes)),
        leaf_ptr=leaf_ptr,
        B=B,
        c=c,
        leaves=Leaves(rng.normal(size=(total, 2))),
        output=Output(2, np.dtype(np.float64), classes=(np.array(["no", "yes"]),)),
        inputs=Inputs(3),
    )


# The encodings of a tree.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("encoding", NAMES)
@settings(max_examples=25)
@given(forests_with_rows())
def test_an_encoding_exits_and_answers_as_the_forest_bit_for_bit(encoding, dtype, drawn):
    forest, X = drawn
    machine = from_forest(forest, encoding, dtype=dtype)
    assert machine.B.dtype == machine.c.dtype == dtype
    assert np.array_equal(exit_leaves(machine, X), reference.exit_leaves(forest, X))
    assert raw(machine, X).tobytes() == reference.raw(forest, X).tobytes()


@settings(max_examples=25)
@given(forests(linear=False), st.integers(0, 2**32 - 1))
def test_the_ternary_maximum_is_unique_and_zero(forest, seed):
    h = np.random.default_rng(seed).random((8, forest.n_nodes)) < 0.5
    machine = from_forest(forest, "ternary")
    score, exits = scores(machine, h), reference.exit_leaf_ternary(forest.bitvectors, h)
    for tree, (first, last) in enumerate(pairwise(machine.leaf_ptr)):
        part = np.sort(score[:, first:last], axis=1)
        assert np.array_equal(score[:, first:last].argmax(axis=1), exits[:, tree])
        assert np.all(part[:, -1] == 0)
        assert last - first == 1 or np.all(part[:, -2] <= -2)


@settings(max_examples=25)
@given(forests(linear=False, kinds=(AXIS,)), st.integers(0, 2**32 - 1))
def test_any_positive_ones_and_any_negative_zeros_keep_the_first_maximum(forest, seed):
    """The sign rule of Eq. (7): one positive constant per tree, negative numbers at will."""
    rng = np.random.default_rng(seed)
    machine = from_forest(forest, "bitvector")
    B = machine.B.copy()
    constant = np.repeat(rng.integers(1, 9, forest.n_trees) / 4, np.diff(_blocks(machine)))
    B = np.where(B > 0, constant, -rng.integers(0, 9, B.size) / 8)
    signed = replace(machine, B=B)
    X = rng.normal(size=(16, forest.n_features)).astype(forest.dtype)
    assert np.array_equal(exit_leaves(signed, X), reference.exit_leaves(forest, X))
    assert np.array_equal(to_forest(signed).bitvectors.mid, forest.bitvectors.mid)


def _blocks(machine):
    count = np.diff(machine.leaf_ptr)
    return np.concatenate([[0], np.cumsum(count * (count - 1))])


@pytest.mark.parametrize("encoding", NAMES)
@settings(max_examples=25)
@given(forests())
def test_while_B_is_a_trees_it_determines_the_forest(encoding, forest):
    assert identical(to_forest(from_forest(forest, encoding)), forest)


@pytest.mark.parametrize("encoding", NAMES)
def test_once_B_has_moved_there_is_no_forest(encoding):
    machine = from_forest(three_leaves(), encoding)
    for name in ("B", "c"):
        for place in range(getattr(machine, name).size):
            values = getattr(machine, name).copy()
            values[place] += 1.5  # of the sign rule, −1/2 would still be a zero
            with pytest.raises(UnsupportedModelError, match=r"tree 0, whose B has moved"):
                to_forest(replace(machine, **{name: values}))


def test_a_matrix_of_signs_that_is_no_trees_is_no_forest():
    machine = from_forest(three_leaves(), "bitvector")
    no_run = np.array([[0, 0], [1, 1], [0, 1]], np.float64)  # the zeros of column 0 are no run
    with pytest.raises(UnsupportedModelError, match="has moved"):
        to_forest(replace(machine, B=no_run.ravel()))


def test_a_machine_says_how_its_B_reads():
    machine = from_forest(three_leaves(), "sign")
    block, c = machine.block(0)
    assert block.tolist() == [[-1, -1], [-1, 1], [1, 1]]
    assert c.tolist() == [0, 0, 0]
    assert "1 block, 2 tests, 3 leaves, 2 features -> 1 outputs" in repr(machine)
    with pytest.raises(IndexError, match="below 1"):
        machine.block(1)


@settings(max_examples=10)
@given(forests(kinds=(AXIS, KERNEL), soft=True).filter(lambda f: f.kernel is not None))
def test_a_soft_forest_is_no_machine(forest):
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        from_forest(forest)


def test_what_no_machine_holds_is_refused_in_one_sentence(monkeypatch):
    with pytest.raises(InputError, match="`encoding` must be one of ternary, bitvector, sign"):
        from_forest(three_leaves(), "gray")
    with pytest.raises(TypeError, match="Forest"):
        from_forest(object())
    monkeypatch.setattr("bitvec.core.matrices.DENSE_LIMIT", 5)
    with pytest.raises(UnsupportedModelError, match="at most 5 elements, got 6"):
        from_forest(three_leaves())


# Any B.


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
    st.sampled_from(DTYPES),
)
def test_scores_are_the_same_in_every_order_of_summation(sizes, seed, dtype):
    machine = free_machine(sizes, seed, dtype)
    rng = np.random.default_rng(seed)
    h = rng.random((8, machine.n_nodes)) < 0.5
    total = scores(machine, h)
    assert total.dtype == dtype
    node = 0
    for tree, size in enumerate(sizes):
        block, c = machine.block(tree)
        order = rng.permutation(size - 1)
        part = np.tile(-c, (len(h), 1))
        for k in order:
            part = part + np.where(h[:, node + k, None], block[:, k], dtype(0))
        first = int(machine.leaf_ptr[tree])
        assert np.array_equal(total[:, first : first + size], part)
        node += size - 1


def test_the_exit_leaf_is_the_first_maximum():
    machine = from_forest(three_leaves(), "bitvector")
    tied = replace(machine, B=np.zeros(6))
    assert exit_leaves(tied, np.array([[1.0, 1.0], [-1.0, -1.0]])).tolist() == [[0], [0]]


def test_a_prototype_wins_by_its_inner_product_with_h():
    machine = from_forest(three_leaves(), "bitvector")
    free = replace(machine, B=np.array([2.0, -1.0, 0.5, 0.5, -1.0, 2.0]), c=np.array([0, 0, 0.25]))
    X = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    # h = 00: 0, 0, -1/4; 10: 2, 1/2, -5/4; 01: -1, 1/2, 7/4; 11: 1, 1, 3/4.
    assert exit_leaves(free, X).tolist() == [[0], [0], [2], [0]]
    assert raw(free, X).tolist() == [[1.0], [1.0], [3.0], [1.0]]


def test_a_feature_map_stands_in_front_of_a_machine():
    inner = three_leaves()
    outer = Forest.from_matrices(np.eye(5)[[4]], [0.5], [[0], [1]], [10.0, 20.0])
    forest = replace(outer, feature_map=StackedForest(inner), inputs=Inputs(2))
    X = np.array([[1.0, 1.0], [-1.0, 1.0]])
    assert np.array_equal(raw(from_forest(forest), X), reference.raw(forest, X))


@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_any_number_of_rows_and_trees_is_answered(n_rows):
    X = np.zeros((n_rows, 2))
    machine = from_forest(three_leaves())
    assert exit_leaves(machine, X).shape == (n_rows, 1)
    assert raw(machine, X).shape == (n_rows, 1)
    none = from_forest(three_leaves().take([]))
    assert exit_leaves(none, X).shape == (n_rows, 0)
    assert raw(none, X).tolist() == [[0.0]] * n_rows


def test_parts_that_do_not_fit_are_refused():
    machine = free_machine([3, 1, 2])
    cases = {
        "k − 1 tests, got 6 leaves in 2 blocks": {"leaf_ptr": np.array([0, 3, 6])},
        "`B` must have shape": {"B": machine.B[:-1]},
        "`c` must have shape": {"c": machine.c[:-1]},
        "`B` must be finite": {"B": np.full(machine.B.size, np.nan)},
        "`c` must be finite": {"c": np.full(machine.c.size, np.inf)},
        "`B` must have dtype float32 or float64": {"B": machine.B.astype(np.int64)},
        "`c` must have dtype float64": {"c": machine.c.astype(np.float32)},
        "at least one leaf": {"leaf_ptr": np.array([0, 0, 4, 6])},
        "must rise from 0": {"leaf_ptr": np.array([0, 4, 3, 6])},
        "round them with bitvec.core.machine.on_grid": {"B": machine.B * (1 / 3)},
        "must be finite in float64": {"B": np.full(machine.B.size, 1.7e308)},
    }
    for message, change in cases.items():
        with pytest.raises(InvalidForestError, match=message):
            replace(machine, **change)


# Files.


@settings(max_examples=25)
@given(forests(), st.sampled_from(NAMES), st.sampled_from(DTYPES))
def test_a_loaded_machine_is_the_saved_one(tmp_path_factory, forest, encoding, dtype):
    path = tmp_path_factory.getbasetemp() / "machine.safetensors"
    machine = from_forest(forest, encoding, dtype=dtype)
    machine.save(path)
    again = DecisionMachine.load(path)
    assert isinstance(again, DecisionMachine)
    assert identical(machine, again)
    assert again.B.tobytes() == machine.B.tobytes()
    assert again.c.tobytes() == machine.c.tobytes()
    assert identical(to_forest(again), forest)


def test_a_machine_is_not_identical_to_another_or_to_its_forest():
    machine = free_machine([3, 2])
    assert identical(machine, free_machine([3, 2]))
    assert not identical(machine, replace(machine, c=-machine.c))
    assert not identical(machine, machine.frame)


def test_the_file_says_what_it_is_and_holds_no_intervals(tmp_path):
    free_machine([3, 1, 2]).save(tmp_path / "f")
    _, tensors, _ = store._parse((tmp_path / "f").read_bytes(), "bitvec.machine")
    assert {"machine.B", "machine.c", "bitvectors.leaf_ptr", "leaves.v"} < set(tensors)
    assert not {"bitvectors.lo", "bitvectors.mid", "bitvectors.hi"} & set(tensors)


def test_a_file_of_the_other_kind_is_refused_by_the_name_of_its_reader(tmp_path):
    f, g = tmp_path / "f", tmp_path / "g"
    free_machine([3]).save(f)
    save(three_leaves(), g)
    assert identical(load(g), three_leaves())
    machine = "forest( or composition)?, but it holds a decision machine: read it with bitvec"
    for read in (load, convert, lambda path: loads(path.read_bytes())):
        with pytest.raises(FileFormatError, match=rf"{machine}\.DecisionMachine\.load\.$"):
            read(f)
    with pytest.raises(
        FileFormatError, match=r"but it holds a forest: read it with bitvec\.load\.$"
    ):
        DecisionMachine.load(g)
    with pytest.raises(TypeError, match="Forest"):
        save(object(), tmp_path / "h")


def _damaged(tmp_path, change):
    """Write a machine's file after `change` has had its tensors and its record."""
    tensors, record = pack_machine(free_machine([3, 1, 2]))
    tensors = dict(tensors)
    change(tensors, record)
    header = store._header(store.MACHINE_FORMAT, tensors, record)
    body = b"".join(bytes(store._little_endian(array)) for array in tensors.values())
    (tmp_path / "bad").write_bytes(header + body)
    return tmp_path / "bad"


def _put(name, value):
    return lambda tensors, record: tensors.update({name: value})


def _drop(name):
    return lambda tensors, record: tensors.pop(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop("machine.B"), "`machine.B` must be there"),
        (_drop("machine.c"), "`machine.c` must be there"),
        (_drop("bitvectors.leaf_ptr"), "`bitvectors.leaf_ptr` must be there"),
        (_drop("tests.b"), r"`tests\.b` must be there"),
        (_put("bitvectors.lo", np.zeros(3, np.int32)), "must not be there"),
        (_put("machine.d", np.zeros(3)), "unknown tensor 'machine.d'"),
        (_put("machine.B", np.zeros(7)), "`B` must have shape"),
        (_put("machine.B", np.full(8, np.nan)), "`B` must be finite"),
        (_put("machine.B", np.full(8, 0.1)), "on_grid"),
        (_put("bitvectors.leaf_ptr", np.array([0, 2**62, 2**62 + 1, 6])), "must rise"),
        (_put("bitvectors.leaf_ptr", np.array([0, 2**62])), "must rise"),
        (_put("bitvectors.leaf_ptr", np.array([0, 3, 3, 6])), "at least one leaf"),
        (_put("bitvectors.leaf_ptr", np.array([0, 3, 4, 6], np.int32)), "int64 offsets"),
        (_put("bitvectors.leaf_ptr", np.zeros(0, np.int64)), "must rise"),
        (_put("tests.b", np.zeros((2, 2))), "must rise"),
        (lambda tensors, record: record.update(kernel=[False] * 3), "kernel"),
        (lambda tensors, record: record.update(extra=1), "unknown value 'extra'"),
    ],
)
def test_a_damaged_machine_fails_in_one_sentence(tmp_path, change, message):
    path = _damaged(tmp_path, change)
    with pytest.raises(FileFormatError, match=message) as caught:
        DecisionMachine.load(path)
    assert str(caught.value).startswith(str(path))


def test_every_cut_of_a_machines_file_is_refused(tmp_path):
    free_machine([2]).save(tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    for size in range(0, len(data), 37):
        (tmp_path / "cut").write_bytes(data[:size])
        with pytest.raises(FileFormatError, match="decision machine"):
            DecisionMachine.load(tmp_path / "cut")


def test_a_machine_of_a_later_version_is_refused(tmp_path):
    free_machine([2]).save(tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"]["version"] = "2"
    text = json.dumps(header).encode()
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    with pytest.raises(FileFormatError, match="newer bitvec, in version 2"):
        DecisionMachine.load(tmp_path / "f")


@settings(max_examples=20)
@given(forests(max_leaves=12))
def test_the_ternary_offsets_are_twice_the_right_turns(forest):
    """c = D · 1 + depth, so 0 on every leftmost leaf."""
    machine = from_forest(forest, "ternary")
    ptr, _, right = tree_paths.path_table(forest.bitvectors)
    turns = np.array([right[a:b].sum() for a, b in pairwise(ptr)])
    assert np.array_equal(machine.c, 2 * turns)
