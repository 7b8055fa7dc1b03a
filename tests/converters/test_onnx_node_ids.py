"""Nodes named by ids: any ids do, and each must be known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from bitvec.converters.onnx.node_ids import read_by_ids  # noqa: E402
from bitvec.converters.onnx.operator_schema import REGRESSOR  # noqa: E402
from bitvec.errors import FileFormatError  # noqa: E402

FLOAT = np.dtype(np.float32)


def two_stumps() -> dict[str, Any]:
    """Return trees 7 and 3, whose nodes are 0, 1 and 2 each."""
    return {
        "nodes_treeids": np.array([7, 7, 7, 3, 3, 3]),
        "nodes_nodeids": np.array([0, 1, 2, 0, 1, 2]),
        "nodes_featureids": np.array([4, 0, 0, 5, 0, 0]),
        "nodes_values": np.array([0.5, 0, 0, 1.5, 0, 0], np.float32),
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        "nodes_truenodeids": np.array([1, 0, 0, 2, 0, 0]),
        "nodes_falsenodeids": np.array([2, 0, 0, 1, 0, 0]),
        "target_treeids": np.array([3, 3, 7, 7, 7]),
        "target_nodeids": np.array([1, 2, 2, 2, 1]),
        "target_ids": np.array([0, 0, 0, 1, 1]),
        "target_weights": np.array([10, 20, 30, 31, 40], np.float32),
        "n_targets": 2,
    }


def renamed(given: dict[str, Any], ids: dict[int, int]) -> dict[str, Any]:
    names = [name for name in given if name.endswith("nodeids")]
    return given | {name: np.array([ids[i] for i in given[name].tolist()]) for name in names}


@pytest.mark.parametrize(
    "ids",
    [
        {0: 0, 1: 1, 2: 2},
        {0: 5, 1: 3, 2: 4},
        {0: 0, 1: 10**9, 2: -(10**9)},
        {0: 2**63 - 1, 1: -(2**63), 2: 0},
    ],
    ids=["dense", "not from zero", "sparse", "the whole range"],
)
def test_any_ids_name_the_same_trees(ids: dict[int, int]) -> None:
    operator = read_by_ids(REGRESSOR, renamed(two_stumps(), ids), FLOAT)
    assert operator.roots.tolist() == [0, 1]
    assert operator.true.tolist() == [~0, ~3]
    assert operator.false.tolist() == [~1, ~2]
    assert operator.leaf_id.tolist() == [ids[1], ids[2], ids[1], ids[2]]
    assert operator.weight_leaf.tolist() == [0, 1, 1, 2, 3]
    assert operator.weight_target.tolist() == [1, 0, 1, 0, 0]
    assert operator.weight.tolist() == [40, 30, 31, 10, 20]


@pytest.mark.parametrize("spread", [1, 10**9, 2**61], ids=["dense", "sparse", "wide"])
@pytest.mark.parametrize("name", ["nodes_truenodeids", "target_nodeids", "target_treeids"])
@pytest.mark.parametrize("unknown", [-1, 4, 2**62 + 1, -(2**63)])
def test_a_name_that_no_node_has_is_refused(name: str, unknown: int, spread: int) -> None:
    given = renamed(two_stumps(), {0: 0, 1: spread, 2: 2 * spread})
    given[name] = given[name].copy()
    given[name][0] = unknown
    with pytest.raises(FileFormatError, match="must name nodes of their tree"):
        read_by_ids(REGRESSOR, given, FLOAT)


@pytest.mark.parametrize("spread", [1, 10**9])
def test_an_id_that_stands_twice_is_refused(spread: int) -> None:
    given = renamed(two_stumps(), {0: 0, 1: spread, 2: spread})
    with pytest.raises(FileFormatError, match="got one id twice"):
        read_by_ids(REGRESSOR, given, FLOAT)


def test_weights_of_inner_nodes_are_not_used() -> None:
    given = two_stumps()
    given["target_nodeids"] = np.array([1, 2, 0, 2, 1])
    operator = read_by_ids(REGRESSOR, given, FLOAT)
    assert operator.weight.tolist() == [40, 31, 10, 20]
    assert operator.weight_leaf.tolist() == [0, 1, 2, 3]
