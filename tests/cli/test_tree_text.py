"""Descriptions hold for every kind of forest, and what a file says cannot steer a terminal."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import forests

from bitvec.cli.answer import json_value
from bitvec.cli.array_text import arrays
from bitvec.cli.summary import lines, node_kinds, summary
from bitvec.core import tree_paths
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, axis_aligned, set_bits
from bitvec.core.output import Output
from bitvec.core.plain_text import plain
from bitvec.core.structure import from_children
from bitvec.core.tree_text import MAX_LINES, column_name, draw, questions


@given(forests(), st.data())
def test_a_drawing_has_one_line_per_node_and_leaf(forest: Forest, data: st.DataObject) -> None:
    tree = forest[data.draw(st.integers(0, forest.n_trees - 1))]
    drawing = list(draw(tree))
    assert len(drawing) == tree.n_nodes + tree.n_leaves
    assert sum(" leaf " in f" {line.replace('│', ' ')}" for line in drawing) >= tree.n_leaves
    assert all("\n" not in line for line in (*drawing, *arrays(tree)))


@given(forests())
def test_a_summary_counts_every_node_once_and_is_json(forest: Forest) -> None:
    facts = summary(forest)
    assert sum(facts["node_kinds"].values()) == forest.n_nodes == facts["nodes"]
    assert facts["missing"]["goes_left"] + facts["missing"]["goes_right"] == forest.n_nodes
    assert facts["depth_max"] == int(tree_paths.leaf_depth(forest.bitvectors).max())
    json.dumps(json_value(facts), allow_nan=False)
    assert all(text for _, text in lines({"file": "f", "file_bytes": 1, **facts}))


def test_depths_are_those_of_each_tree() -> None:
    # A chain of two nodes, a single leaf, and a stump.
    B = from_children([1, -1, -1], [~1, ~2, ~4], [0, ~3, 2])
    forest = Forest(
        axis_aligned([0, 0, 0], np.zeros(3)),
        B,
        Leaves(np.zeros((6, 1))),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )
    assert tree_paths.tree_depth(forest.bitvectors).tolist() == [2, 0, 1]
    assert node_kinds(forest) == {"axis-aligned": 3}


def test_a_drawing_of_a_large_tree_is_cut_and_says_so() -> None:
    n = 2 * MAX_LINES
    left, right = [*range(1, n), -1], [*range(-2, -n - 2, -1)]
    forest = Forest(
        axis_aligned([0] * n, np.zeros(n)),
        from_children(left, right, [0]),
        Leaves(np.zeros((n + 1, 1))),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )
    drawing = list(draw(forest))
    assert len(drawing) == MAX_LINES + 1
    assert drawing[-1] == "... 401 subtrees more"


def test_questions_name_columns_categories_and_classes() -> None:
    ptr, words = set_bits([np.array([0, 2]), np.array([], int)])
    forest = Forest(
        axis_aligned(
            [0, 1],
            np.array([0, 0.1], np.float32),
            kind=np.array([Kind.SET, Kind.MARGIN]),
            missing_right=np.array([True, False]),
            set_ptr=ptr,
            set_words=words,
        ),
        from_children([1, -1], [-2, -3], [0]),
        Leaves(np.eye(3)),
        Output(3, np.dtype(np.float64), classes=(np.array(["a", "b", "c"]),)),
        Inputs(2, ("colour", "size"), (("red", "blue", "green"), None)),
    )
    assert list(draw(forest)) == [
        "colour in {red, green} ?  [missing: yes]",
        "├─ no:  size > 0.1 ?  [missing: no]",
        "│  ├─ no:  leaf 0: a 1, b 0, c 0",
        "│  └─ yes: leaf 1: a 0, b 1, c 0",
        "└─ yes: leaf 2: a 0, b 0, c 1",
    ]


def test_oblique_questions_show_their_terms() -> None:
    tree = Forest.from_matrices([[0.5, 0, -2]], [1.25], [[0], [1]], [0, 1])
    assert questions(tree)(0) == "0.5·x0 + -2·x2 > 1.25 ?  [missing: no]"


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "a\rb", "a\nb", "\u202egnp", "bell\x07"])
def test_names_out_of_files_cannot_steer_a_terminal(hostile: str) -> None:
    assert plain(hostile).isprintable()
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    forest = replace(forest, inputs=Inputs(2, (hostile, "x")))
    assert column_name(forest, 0).isprintable()
    assert all(line.isprintable() for line in draw(forest))
