"""Native trees refuse arrays that are none of the paper's, in one sentence that names the array."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import bitvec
from bitvec.converters.native import (
    convert,
    from_cpt,
    from_e2edf,
    from_e2edt,
    from_kddt,
    from_tao,
    gaussian_pieces,
)
from bitvec.converters.native.oracle import oracle_of
from bitvec.core.feature_maps import Identity
from bitvec.core.kernels import box
from bitvec.errors import BitvecError, InputError, InvalidForestError

TWO = {"left": [1, -1], "right": [-3, -2]}
CPT: dict[str, Any] = {
    "beta": np.ones((2, 1, 3)), "r": [[1], [1]], "q": [0.5, 0.5], "mean": [1, 2, 3], **TWO,
}  # fmt: skip
E2EDT: dict[str, Any] = {
    "theta": np.ones((2, 2)), "bias": [0, 0], "pi": [[0, 1], [1, 0], [0.5, 0.5]], **TWO,
}  # fmt: skip
KDDT: dict[str, Any] = {"j": [0, 1], "tau": [0, 1], "V": [1, 2, 3], "n_features": 2, **TWO}
TAO: dict[str, Any] = {"W": np.ones((2, 2)), "bias": [0, 0], "V": [1, 2, 3], **TWO}
AXIS: dict[str, Any] = {
    "feature": [0, 1], "threshold": [0, 1], "n_features": 2, "V": [1, 2, 3], **TWO,
}  # fmt: skip
NAN, INF = np.nan, np.inf

BAD = [
    # children, the same for all
    (from_tao, TAO, {"left": [1, 0]}, "each of the 3 leaves must be named once"),
    (from_tao, TAO, {"left": [0, 1], "right": [-1, -2]}, "each of the 3 leaves must be named"),
    (from_tao, TAO, {"left": [1, -1], "right": [1, -2]}, "node 1 with 2"),
    (from_tao, TAO, {"left": [2, -1]}, "must name nodes 0 ... 1 or leaves"),
    (from_tao, TAO, {"left": [1, -9]}, "got -9 ... 1"),
    (from_tao, TAO, {"left": [1, -1, -2]}, "must have one entry per node, got 3 and 2"),
    (from_tao, TAO, {"left": [1.0, -1.0]}, "`left` must hold integers, got float64"),
    (from_tao, TAO, {"left": [[1, -1]]}, "`left` must have one axis"),
    (from_tao, TAO, {"left": np.array([2**63, 0], np.uint64)}, "`left` must fit in int64"),
    (from_kddt, KDDT, {"left": [-1, 1], "right": [-2, -3]}, "node 1 on or below a cycle"),
    # CPT
    (from_cpt, CPT, {"beta": np.full((2, 1, 3), NAN)}, "`beta` must be finite, got nan"),
    (from_cpt, CPT, {"beta": np.ones((2, 1, 3), np.float16)}, "got float16: cast it"),
    (from_cpt, CPT, {"beta": np.ones((2, 3))}, "`beta` must have shape (n_nodes, K"),
    (from_cpt, CPT, {"beta": np.ones((2, 1, 1))}, "one for the bias, got (2, 1)"),
    (from_cpt, CPT, {"beta": [[["a"]]]}, "`beta` must hold numbers"),
    (from_cpt, CPT, {"beta": [[[1, 2, 3]], [[1, 2]]]}, "`beta` must be an array of numbers"),
    (from_cpt, CPT, {"beta": np.ones((3, 1, 3)), "r": np.ones((3, 1))}, "`tau` must have|ptr"),
    (from_cpt, CPT, {"r": [[1], [-0.5]]}, "`r` must not be negative, got -0.5"),
    (from_cpt, CPT, {"r": [[1], [INF]]}, "`r` must be finite, got inf at index [1]"),
    (from_cpt, CPT, {"r": np.ones((2, 1), np.float32)}, "`r` must have dtype float64, got float32"),
    (from_cpt, CPT, {"q": [0.5, 1.0]}, "`q` must lie in [0, 1), got 1.0"),
    (from_cpt, CPT, {"q": [0.5, -0.1]}, "`q` must lie in [0, 1), got -0.1"),
    (from_cpt, CPT, {"q": [0.5, NAN]}, "`q` must lie in [0, 1), got nan"),
    (from_cpt, CPT, {"q": [0.5]}, "`tau` must have shape (2), got (1,)"),
    (from_cpt, CPT, {"q": None}, "exactly one of `q` and `tau` must be given, got neither"),
    (from_cpt, CPT, {"tau": [1, 1]}, "exactly one of `q` and `tau` must be given, got both"),
    (from_cpt, CPT, {"q": None, "tau": [1, -1]}, "`tau` must not be negative, got -1.0"),
    (from_cpt, CPT, {"facet_ptr": [0, 1, 2]}, "`beta` must have shape (any, any)"),
    (from_cpt, CPT, {"inside_right": [True]}, "`inside_right` must have shape (2)"),
    (from_cpt, CPT, {"mean": [1, 2]}, "each of the 3 leaves (one more than nodes)"),
    (from_cpt, CPT, {"mean": [1, 2, NAN]}, "`mean` must be finite"),
    (from_cpt, CPT, {"mean": None}, "`pi` (leaf distributions) and `mean` (leaf values)"),
    (from_cpt, CPT, {"pi": [0, 1, 1]}, "must be given, got both"),
    (from_cpt, CPT, {"classes": [0, 1]}, "`classes` must come with `pi`"),
    # E2EDT
    (from_e2edt, E2EDT, {"theta": np.ones((2, 0))}, "`theta` must have a column at least"),
    (from_e2edt, E2EDT, {"theta": [[1, INF], [0, 0]]}, "`theta` must be finite, got inf at index"),
    (from_e2edt, E2EDT, {"bias": [0]}, "`bias` must have shape (2), got (1,)"),
    (from_e2edt, E2EDT, {"gamma": 0}, "`gamma` must be positive and finite, got 0"),
    (from_e2edt, E2EDT, {"gamma": NAN}, "`gamma` must be positive"),
    (from_e2edt, E2EDT, {"pi": [[1, 0], [1, 0], [3, 5]]}, "got [3.0, 5.0] at leaf 2: divide"),
    (from_e2edt, E2EDT, {"pi": [[1, 0], [2, -1], [0, 1]]}, "got [2.0, -1.0] at leaf 1"),
    (from_e2edt, E2EDT, {"pi": [0.5, 1.5, 0]}, "got [1.5] at leaf 1"),
    (from_e2edt, E2EDT, {"pi": np.zeros((3, 0))}, "a column at least, got shape (3, 0)"),
    (from_e2edt, E2EDT, {"pi": np.ones((4, 1))}, "each of the 3 leaves"),
    (from_e2edt, E2EDT, {"classes": ["a"]}, "for each of the 2 columns"),
    (from_e2edt, E2EDT, {"classes": ["a", "a"]}, "`classes` must be distinct"),
    (from_e2edt, E2EDT, {"classes": [["a"], ["b"]]}, "`classes` must hold one number or text"),
    (from_e2edt, E2EDT, {"classes": [None, "b"]}, "`classes` must hold one number or text"),
    (from_e2edt, E2EDT, {"phi": Identity(3)}, "each of the 3 columns of `phi`, got 2"),
    (from_e2edt, E2EDT, {"phi": [Identity(2)]}, "one feature map for each of 2 nodes, got 1"),
    (from_e2edt, E2EDT, {"phi": [1, 2]}, "`phi` must be a feature map"),
    # KDDT
    (from_kddt, KDDT, {"j": [0, 2]}, "`j` must lie in 0 ... 1"),
    (from_kddt, KDDT, {"j": [0, -1]}, "`j` must lie in 0 ... 1"),
    (from_kddt, KDDT, {"j": [0]}, "`j` must have shape (2), got (1,)"),
    (from_kddt, KDDT, {"tau": [0, NAN]}, "`tau` must be finite"),
    (from_kddt, KDDT, {"n_features": 0}, "`n_features` must be positive"),
    (from_kddt, KDDT, {"V": [1, 2]}, "`V` must have one row for each of the 3 leaves"),
    (from_kddt, KDDT, {"h": -1}, "`h` must be finite and not negative"),
    (from_kddt, KDDT, {"h": [1, 2, 3]}, "`h` must be one number or one for each of the 2"),
    (from_kddt, KDDT, {"kernel": "cosine"}, "`kernel` must be one of box, gaussian"),
    (from_kddt, KDDT, {"kernel": [box(1.0)]}, "one entry for each of the 2 features, got 1"),
    (from_kddt, KDDT, {"kernel": [box(1.0), None]}, "must have a kernel, got none for 1"),
    (from_kddt, KDDT, {"kernel": [box(1.0)] * 2, "h": 1}, "`h` must be left out"),
    # TAO
    (from_tao, TAO, {"W": np.ones((1, 2))}, "for each of the 2 nodes, got 1"),
    (from_tao, TAO, {"W": np.ones(2)}, "`W` must have two axes, got shape (2,)"),
    (from_tao, TAO, {"W": np.zeros((2, 0))}, "W must have a column at least, got 0"),
    (from_tao, TAO, {"W": [[1, NAN], [0, 1]]}, "`W` must be finite"),
    (from_tao, TAO, {"bias": None}, "nodes must be given either by"),
    (from_tao, TAO, {"feature": [0, 1]}, "got W, bias, feature"),
    (from_tao, TAO, {"U": np.ones((3, 3))}, "`U` must have shape (3, 1, 2)"),
    (from_tao, TAO, {"U": np.ones((3, 2), np.float32)}, "`U` must have dtype float64"),
    (from_tao, TAO, {"fallback": [0, 0, 0]}, "`fallback` must come with `U`"),
    (from_tao, TAO, {"classes": ["a", "b", "c"]}, "`classes` must hold one number or text"),
    (from_tao, AXIS, {"feature": [0, 2]}, "`feature` must lie in 0 ... 1"),
    (from_tao, AXIS, {"threshold": [0, INF]}, "`threshold` must be finite"),
    (from_tao, AXIS, {"threshold": [0]}, "`threshold` must have shape (2)"),
    (from_tao, AXIS, {"n_features": None}, "got feature, threshold"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "good", "bad", "message"), BAD, ids=[f"{b[0].__name__}-{b[3][:40]}" for b in BAD]
)
def test_bad_array_is_refused_by_name(build: Any, good: Any, bad: Any, message: str) -> None:
    build(**good)
    parts = [re.escape(part) for part in message.split("|")]
    with pytest.raises(InvalidForestError, match="|".join(parts)) as caught:
        build(**{**good, **bad})
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")


def test_a_cycle_apart_from_the_root_is_refused() -> None:
    # Nodes 1 and 2 are each other's child; nodes 0's tree is whole without them.
    with pytest.raises(InvalidForestError, match="node 1 on or below a cycle"):
        from_kddt(
            [0] * 3, [0.0] * 3, left=[-1, 2, 1], right=[-2, -3, -4], V=[1, 2, 3, 4], n_features=1
        )


def test_trees_of_a_forest_must_fit_each_other() -> None:
    tree = from_e2edt(**E2EDT)
    others = {
        "columns of X": from_e2edt(**{**E2EDT, "theta": np.ones((2, 3))}),
        "dtype": from_e2edt(**{**E2EDT, "theta": np.ones((2, 2), np.float32)}),
        "outputs": from_e2edt(**{**E2EDT, "pi": np.eye(3)}),
        "dtype of leaves": from_e2edt(**{**E2EDT, "pi": np.ones((3, 2), np.float32) / 2}),
        "classes": from_e2edt(**E2EDT, classes=["a", "b"]),
    }
    for name, other in others.items():
        with pytest.raises(InvalidForestError, match=f"must have the same {name}, got .* tree 1"):
            from_e2edf([tree, other])
    with pytest.raises(InvalidForestError, match="at least one tree"):
        from_e2edf([])
    with pytest.raises(
        InvalidForestError, match="must be of class E2EDT, got dict: see from_e2edt"
    ):
        from_e2edf([{}])  # type: ignore[list-item]


SINGLE = [
    from_cpt(np.zeros((0, 1, 3)), np.zeros((0, 1)), q=[], left=[], right=[], pi=[[0.25, 0.75]]),
    from_e2edt(np.zeros((0, 2)), [], left=[], right=[], pi=[[0.25, 0.75]]),
    from_e2edf([from_e2edt(np.zeros((0, 2)), [], left=[], right=[], pi=[[0.25, 0.75]])]),
    from_kddt([], [], left=[], right=[], V=[[0.25, 0.75]], n_features=2, h=1, classes=[0, 1]),
    from_tao(W=np.zeros((0, 2)), bias=[], left=[], right=[], V=[[0.25, 0.75]], classes=[0, 1]),
]


@pytest.mark.parametrize("native", SINGLE, ids=lambda native: type(native).__name__)
@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_single_leaf_answers_every_row(native: Any, n_rows: int) -> None:
    X = np.full((n_rows, 2), np.nan)
    predictor = bitvec.compile(convert(native))
    assert native.predict(X).tolist() == predictor.predict(X).tolist() == [1] * n_rows
    assert native.raw(X).tolist() == [[0.25, 0.75]] * n_rows


@pytest.mark.parametrize("native", SINGLE, ids=lambda native: type(native).__name__)
@pytest.mark.parametrize("X", [np.zeros(2), np.zeros((1, 3)), [["a", "b"]]], ids=["1d", "3", "str"])
def test_rows_that_do_not_fit_are_refused(native: Any, X: Any) -> None:
    with pytest.raises(InputError, match=r"`X` must be numbers of shape \(n, 2\)"):
        native.predict(X)


def test_certificate_refuses_a_native_tree_of_other_sizes() -> None:
    forest, other = convert(from_tao(**TAO)), from_tao(**{**TAO, "W": np.ones((2, 3))})
    with pytest.raises(InputError, match="must have as many features"):
        bitvec.certify(forest, oracle_of(other))


def test_certificate_fails_for_another_tree_of_the_same_sizes() -> None:
    forest = convert(from_tao(**TAO))
    for change in ({"bias": [0.0, 0.5]}, {"V": [1, 2, 3.5]}, {"left": [1, -2], "right": [-3, -1]}):
        assert not bitvec.certify(forest, oracle_of(from_tao(**{**TAO, **change}))).passed


def test_native_trees_are_immutable() -> None:
    tree = from_cpt(**CPT)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tree.r = np.zeros(2)  # type: ignore[misc]
    for name in ("left", "right", "beta", "r", "facet_ptr", "tau", "inside_right", "mean"):
        assert not getattr(tree, name).flags.writeable, name


def test_memberships_need_a_kernel() -> None:
    with pytest.raises(BitvecError, match="must have a `kernel`"):
        from_kddt(**KDDT).memberships([[0, 0]])


def test_gaussian_pieces_need_a_positive_number_and_reach() -> None:
    for options in ({"n_pieces": 0}, {"reach": 0.0}, {"reach": np.inf}):
        with pytest.raises(InvalidForestError, match="must be positive"):
            gaussian_pieces(**options)  # type: ignore[arg-type]
