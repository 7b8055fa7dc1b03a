"""Native trees of the papers: the conversion answers as the paper's own recursion, bit for bit."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_strategies import (
    cpts,
    e2edfs,
    e2edts,
    general_natives,
    kddt_forests,
    kddts,
    natives,
    taos,
    trees_of,
)
from proof_laws import some_in_full
from strategies import rows

import bitvec
import bitvec.api
from bitvec.converters.native import (
    E2EDT,
    KDDT,
    TAO,
    convert,
    from_cpt,
    from_e2edf,
    from_e2edt,
    from_kddt,
    from_kddt_forest,
    from_tao,
)
from bitvec.converters.native.oracle import oracle_of
from bitvec.core import reference, structure
from bitvec.core.feature_maps import Identity, Layers, Linear, ReLU
from bitvec.core.forest import Forest
from bitvec.verify.certificates import compare
from tests.models import samples
from tests.models.native import MODELS, small, trained

EXAMPLES = settings(max_examples=25)


def leaf_ids(forest: Forest, exits: np.ndarray) -> np.ndarray:
    assert forest.source is not None
    assert forest.source.leaf_id is not None
    return forest.source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal values of one dtype; one NaN is as good as another, and so are the zeros."""
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


# The conversion answers as the native tree does.


@EXAMPLES
@given(st.data(), natives)
def test_conversion_equals_the_papers_recursion_on_every_kind_of_row(
    data: Any, native: Any
) -> None:
    forest = convert(native)
    X = data.draw(rows(forest))
    exits = np.stack([tree.decide(X) for tree in trees_of(native)], axis=1)
    assert np.array_equal(leaf_ids(forest, reference.exit_leaves(forest, X)), exits)
    assert same(reference.raw(forest, X), native.raw(X))
    predictor = bitvec.compile(forest, engine="reference")
    assert same(np.asarray(predictor.predict(X)), native.predict(X))


@EXAMPLES
@given(st.data(), general_natives)
def test_conversion_with_general_weights_equals_the_recursion_on_every_engine(
    data: Any, native: Any
) -> None:
    forest = convert(native)
    X = data.draw(rows(forest))
    exits = np.stack([tree.decide(X) for tree in trees_of(native)], axis=1)
    for engine in ("reference", "numba"):
        predictor = bitvec.compile(forest, engine=engine)
        assert np.array_equal(leaf_ids(forest, predictor.engine.exit_leaves(X)), exits)
        assert same(predictor.engine.raw(X), native.raw(X))


@settings(max_examples=12)
@given(st.one_of(cpts(), e2edts(), e2edfs(), kddts(), kddt_forests(), taos()))
def test_certificate_covers_every_reachable_node_and_finds_no_difference(native: Any) -> None:
    forest = convert(native)
    certificate = compare(forest, oracle_of(native))
    assert certificate.n_leaf_mismatches == certificate.n_value_mismatches == 0
    assert certificate.n_raw_mismatches == certificate.n_label_mismatches == 0
    if forest.feature_map is None:  # coverage of a feature map is what the given rows show
        assert certificate.n_covered == certificate.n_reachable
        assert certificate.passed


def test_certificate_of_a_tree_over_one_column_asks_for_no_side_that_no_value_takes() -> None:
    tree = from_e2edt(
        np.array([[0], [0], [0.5], [1], [-1], [-0.75], [0.75], [1], [-0.5], [-0.5]], np.float32),
        np.array([0.75, -0.25, -0.5, 0.75, -0.5, -0.25, 0.25, 0, -1, -1], np.float32),
        left=np.array([6, 5, 3, -4, 2, -11, -9, 1, 4, -6]),
        right=np.array([-10, -1, -7, -5, 7, 9, -3, -2, 0, -8]),
        mean=np.arange(11, dtype=np.float32),
    )
    certificate = compare(convert(tree), oracle_of(tree))
    assert certificate.n_covered == certificate.n_reachable == 9
    assert certificate.passed


@EXAMPLES
@given(natives)
def test_saved_forest_of_a_native_tree_loads_as_it_was(native: Any) -> None:
    forest = convert(native)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "forest.safetensors")
        bitvec.save(forest, path)
        assert bitvec.files.identical(bitvec.load(path), forest)


@EXAMPLES
@given(natives)
def test_conversion_keeps_the_tree_and_the_native_numbers(native: Any) -> None:
    forest = convert(native)
    left, right = structure.children(forest.bitvectors)
    source = forest.source
    assert source is not None

    def own_number(child: np.ndarray) -> np.ndarray:
        named = [source.leaf_id[~at] if at < 0 else source.node_id[at] for at in child]
        return np.where(child < 0, ~np.array(named, int), np.array(named, int))

    for number, tree in enumerate(trees_of(native)):
        first = int(forest.bitvectors.node_ptr[number])
        nodes = slice(first, int(forest.bitvectors.node_ptr[number + 1]))
        swap = getattr(tree, "inside_right", np.zeros(tree.n_nodes, bool))
        inside, outside = np.where(swap, [tree.right, tree.left], [tree.left, tree.right])
        for own, converted in ((inside, left[nodes]), (outside, right[nodes])):
            assert np.array_equal(own[source.node_id[nodes]], own_number(converted))


# The recursion is the paper's rule, in arithmetic of another kind.


def exact_leaf(tree: Any, x: list[Fraction], goes_right: Any) -> int:
    at = next((i for i in range(tree.n_nodes) if i not in {*tree.left, *tree.right}), ~0)
    while at >= 0:
        at = int(tree.right[at] if goes_right(at, x) else tree.left[at])
    return ~at


def quarters(rng: np.random.Generator, tree: Any) -> np.ndarray:
    return (rng.integers(-8, 9, (30, tree.n_features)) / 4).astype(tree.dtype)


@EXAMPLES
@given(e2edts(), st.integers(0, 2**32 - 1))
def test_e2edt_goes_right_where_the_exact_margin_is_positive(tree: E2EDT, seed: int) -> None:
    X = quarters(np.random.default_rng(seed), tree)

    def goes_right(node: int, x: list[Fraction]) -> bool:
        pairs = zip(tree.theta[node], x, strict=True)
        return sum(Fraction(float(w)) * v for w, v in pairs) + Fraction(float(tree.bias[node])) > 0

    expected = [exact_leaf(tree, [Fraction(float(v)) for v in x], goes_right) for x in X]
    assert tree.decide(X).tolist() == expected
    assert np.array_equal(tree.raw(X), tree.values[expected])


@EXAMPLES
@given(taos(), st.integers(0, 2**32 - 1))
def test_tao_goes_right_where_the_exact_margin_is_positive(tree: TAO, seed: int) -> None:
    X = quarters(np.random.default_rng(seed), tree)
    dense = np.zeros((tree.n_nodes, tree.n_features))
    row = np.repeat(np.arange(tree.n_nodes), np.diff(tree.W.ptr))
    dense[row, tree.W.column] = tree.W.weight

    def goes_right(node: int, x: list[Fraction]) -> bool:
        pairs = zip(dense[node], x, strict=True)
        return sum(Fraction(float(w)) * v for w, v in pairs) + Fraction(float(tree.bias[node])) > 0

    expected = [exact_leaf(tree, [Fraction(float(v)) for v in x], goes_right) for x in X]
    assert tree.decide(X).tolist() == expected
    if tree.U is not None:
        linear = tree.V[expected] + np.einsum("bqd,bd->bq", tree.U[expected], X)
        # Two orders of summation of at most 5 terms of a few units.
        assert np.allclose(tree.raw(X), linear, rtol=0, atol=64 * np.finfo(tree.V.dtype).eps)


@EXAMPLES
@given(cpts(), st.integers(0, 2**32 - 1))
def test_cpt_goes_right_where_the_noisy_or_exceeds_q(tree: Any, seed: int) -> None:
    X = quarters(np.random.default_rng(seed), tree)
    # In Python's own floats, away from ties that rounding decides.
    close = 1e-4 if tree.dtype == np.float32 else 1e-10
    for node in range(tree.n_nodes):
        right = tree.goes_right(node, X)
        for x, goes in zip(X.tolist(), right.tolist(), strict=True):
            inside = 1.0
            for k in range(tree.facet_ptr[node], tree.facet_ptr[node + 1]):
                beta = tree.beta[k].tolist()
                dot = sum(w * v for w, v in zip(beta, [*x, 1.0], strict=True))
                inside *= (1 + math.exp(dot)) ** -float(tree.r[k])
            f, q = 1 - inside, float(tree.q[node])
            if abs(f - q) > close:
                assert goes == ((f > q) != bool(tree.inside_right[node]))


@EXAMPLES
@given(kddts(soft=True), st.integers(0, 2**32 - 1))
def test_kddt_memberships_are_products_of_truncated_kernels(tree: KDDT, seed: int) -> None:
    """Section 3.2 with its sign put right: at a node the left mass is F truncated to its box."""
    X = quarters(np.random.default_rng(seed), tree)
    u = np.zeros((len(X), tree.n_leaves))
    every = range(len(X))
    for row in every:
        todo = [(next((i for i in range(tree.n_nodes) if i not in {*tree.left, *tree.right}), ~0))]
        state: dict[int, tuple[float, dict[int, tuple[float, float]]]] = {todo[0]: (1.0, {})}
        while todo:
            at = todo.pop()
            mass, box = state[at]
            if at < 0:
                u[row, ~at] = mass
                continue
            j, tau = int(tree.j[at]), float(tree.tau[at])
            low, high = box.get(j, (-math.inf, math.inf))
            F = [float(tree.kernel[j].cdf(t, float(X[row, j]))) for t in (low, tau, high)]
            whole = F[2] - F[0]
            q = min(max((F[1] - F[0]) / whole, 0.0), 1.0) if whole > 0 else 0.0
            for child, part, bounds in (
                (int(tree.left[at]), q, (low, min(high, tau))),
                (int(tree.right[at]), 1 - q, (max(low, tau), high)),
            ):
                state[child] = (mass * part, {**box, j: bounds})
                todo.append(child)
    # Quotients and products of at most 12 factors against one difference for each feature.
    assert np.allclose(tree.memberships(X), u, rtol=0, atol=1e-12)
    assert np.allclose(u.sum(axis=1), 1, rtol=0, atol=1e-12)


def test_kddt_answers_the_mean_of_the_crisp_tree_under_the_kernel() -> None:
    tree = from_kddt(
        [0, 1, 0], [0.0, 0.5, 0.75], left=[1, -1, -3], right=[2, -2, -4], V=[1, 2, 4, 8],
        n_features=2, h=[0.5, 1.0],
    )  # fmt: skip
    x = np.array([[0.3, 0.2]])
    noise = np.random.default_rng(0).uniform(-1, 1, (200_000, 2)) * [0.5, 1.0]
    crisp = dataclasses.replace(tree, kernel=None)
    # The standard error of the mean is below 0.01.
    assert abs(float(tree.raw(x)[0, 0]) - float(crisp.raw(x + noise).mean())) < 0.05


def test_kddt_with_bandwidth_zero_is_crisp() -> None:
    tree = from_kddt([0], [1.0], left=[-1], right=[-2], V=[0, 8], n_features=1, h=0)
    above = np.nextafter(1.0, 2.0)
    assert tree.predict([[1.0], [above]]).tolist() == [0.0, 8.0]


def test_cpt_with_tau_beyond_every_q_below_one_converts_exactly() -> None:
    tree = from_cpt([[[1, 0]]], [[1]], tau=[50.0], left=[-1], right=[-2], mean=[1, 2])
    assert tree.q.tolist() == [1.0]
    forest = convert(tree)
    X = np.array([[49.0], [50.0], [np.nextafter(50.0, 51)], [np.nan], [np.inf], [-np.inf]])
    assert tree.predict(X).tolist() == [1.0, 1.0, 2.0, 1.0, 2.0, 1.0]
    assert bitvec.compile(forest).predict(X).tolist() == tree.predict(X).tolist()


def test_zero_weights_and_zero_facets_read_nothing() -> None:
    nan, inf = np.nan, np.inf
    tree = from_cpt(
        [[[0, 1, 0], [5, 5, 5]], [[0, 0, 3], [0, 1, 0]]], [[1, 0], [1, 1]], tau=[1.0, 3.5],
        left=[1, -1], right=[-3, -2], mean=[1, 2, 3],
    )  # fmt: skip
    X = np.array([[nan, 0], [inf, 0], [-inf, 2], [nan, 0.9], [inf, -inf], [nan, nan]])
    expected = [2.0, 2.0, 3.0, 3.0, 1.0, 1.0]
    assert tree.predict(X).tolist() == expected
    assert bitvec.compile(convert(tree)).predict(X).tolist() == expected


def test_constant_facet_stays_constant_where_the_others_are_infinite() -> None:
    tree = from_cpt(
        [[[0, 0, 3], [0, 1, 0]]], [[1, 1]], tau=[3.5], left=[-1], right=[-2], mean=[1, 2]
    )
    X = np.array([[np.nan, np.inf], [np.inf, -np.inf], [0, np.nan], [np.inf, 0.0]])
    assert tree.predict(X).tolist() == [2.0, 1.0, 1.0, 2.0]
    for engine in ("reference", "numba"):
        predictor = bitvec.compile(convert(tree), engine=engine)
        assert predictor.predict(X).tolist() == tree.predict(X).tolist()
    assert compare(convert(tree), oracle_of(tree)).passed


@pytest.mark.parametrize("bias", [-1.0, 0.0, 1.0])
def test_constant_test_of_tao_sends_every_row_one_way(bias: float) -> None:
    tree = from_tao(W=np.zeros((1, 2)), bias=[bias], left=[-1], right=[-2], V=[1, 2])
    X = np.array([[np.nan, 0.0], [np.inf, np.nan], [-np.inf, 1.0], [0.0, 0.0]])
    forest = convert(tree)
    expected = [2.0 if bias > 0 else 1.0] * 4
    assert tree.predict(X).tolist() == expected
    for engine in ("reference", "numba"):
        assert bitvec.compile(forest, engine=engine).predict(X).tolist() == expected
    assert compare(forest, oracle_of(tree)).passed


def test_axis_aligned_tao_is_axis_aligned_in_the_forest() -> None:
    tree = from_tao(
        feature=[2, 0], threshold=[0.1, -3.5], n_features=3, left=[1, -1], right=[-3, -2],
        V=np.eye(3), classes=["a", "b", "c"],
    )  # fmt: skip
    forest = convert(tree)
    assert forest.tests.feature.tolist() == [2, 0]
    assert forest.tests.b.tolist() == [0.1, -3.5]
    assert bitvec.compile(forest).predict([[0, 0, 0.1]]).tolist() == ["b"]


def test_sparse_w_is_the_dense_one() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    W = np.array([[0.0, 1.5, 0.0], [0.25, 0.0, -1.0]], np.float32)
    rest = {"bias": [0.5, -0.5], "left": [1, -1], "right": [-3, -2], "V": [1, 2, 3]}
    dense = convert(from_tao(W=W, **rest))
    twice = sparse.coo_array(
        (np.append(W[W != 0] / 2, W[W != 0] / 2), np.tile(np.nonzero(W), 2)), W.shape
    )
    for other in (sparse.csr_matrix(W), sparse.csc_array(W), twice):
        assert bitvec.files.identical(convert(from_tao(W=other, **rest)), dense)


def test_e2edf_with_one_shared_map_computes_it_once() -> None:
    phi = Layers((Linear(np.array([[1.0, -1.0]])), ReLU()))
    trees = [
        from_e2edt([[w]], [-1], left=[-1], right=[-2], phi=phi, mean=[0, w]) for w in (1.0, 2.0)
    ]
    forest = convert(from_e2edf(trees))
    assert forest.feature_map is phi
    plain = from_e2edt([[1.0, 0.0]], [-1], left=[-1], right=[-2], phi=Identity(2), mean=[0, 4])
    mixed = from_e2edf([*trees, plain])
    X = np.array([[2.0, 0.0], [2.0, 1.5], [0.0, 3.0]])
    assert mixed.predict(X).tolist() == convert_and_predict(mixed, X) == [7 / 3, 4 / 3, 0.0]


def convert_and_predict(native: Any, X: np.ndarray) -> list[float]:
    return list(bitvec.compile(convert(native)).predict(X).tolist())


def test_chain_of_five_thousand_nodes_converts_without_recursion() -> None:
    n = 5_000
    left, right = np.arange(1, n + 1), ~np.arange(n)
    left[-1] = ~n
    t = np.arange(n, 0, -1, dtype=np.float64)
    V = np.arange(n + 1, dtype=np.float64)
    tree = from_kddt(np.zeros(n, int), t, left=left, right=right, V=V, n_features=1)
    X = np.array([[0.0], [1.0], [1.5], [float(n)], [n + 1.0]])
    assert tree.predict(X).tolist() == convert_and_predict(tree, X) == [n, n, n - 1.0, 1.0, 0.0]


# What the rest of the package does with a converted native tree.


@settings(max_examples=10)
@given(st.one_of(cpts(), e2edts(), e2edfs(), kddts(soft=False), taos()))
def test_relaxed_and_hardened_native_tree_is_what_it_was(native: Any) -> None:
    pytest.importorskip("torch")
    forest = convert(native)
    if forest.leaves.linear is not None:
        return
    hard = bitvec.from_torch(bitvec.to_torch(forest, "sigmoid"))
    assert bitvec.files.identical(dataclasses.replace(hard, source=forest.source), forest)


@settings(max_examples=25)
@given(e2edts(general=True), st.sampled_from([0.5, 3.0]), st.integers(0, 2**32 - 1))
def test_sigmoid_relaxation_of_e2edt_is_its_own_soft_tree(
    tree: E2EDT, gamma: float, seed: int
) -> None:
    torch = pytest.importorskip("torch")
    tree = dataclasses.replace(tree, gamma=gamma)
    X = quarters(np.random.default_rng(seed), tree)
    soft = bitvec.to_torch(convert(tree), "sigmoid", gamma=gamma, dtype=torch.float64)
    expected = tree.memberships(X) @ tree.values.astype(np.float64)
    # Margins are rounded in float32 on one side where the tree is float32.
    tolerance = 1e-5 if tree.dtype == np.float32 else 1e-12
    assert np.allclose(soft(X).detach().numpy(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", small())
def test_exported_native_tree_is_certified(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    native = small()[name]
    path = bitvec.export(convert(native), tmp_path / "tree.onnx", form="tensor", leaves=True)
    assert bitvec.certify(convert(native), path).passed


@pytest.mark.parametrize("name", some_in_full([(name,) for name in MODELS], one_in=3))
def test_trees_of_the_catalogue_are_certified(name: str) -> None:
    native = trained(name)
    certificate = bitvec.certify(convert(native), native, np.nan_to_num(samples.small().X))
    assert certificate.passed, certificate.summary()


def test_convert_refuses_what_is_no_native_tree() -> None:
    forest = convert(from_tao(W=[[1]], bias=[0], left=[-1], right=[-2], V=[0, 1]))
    with pytest.raises(
        bitvec.errors.UnsupportedModelError,
        match="CPT, E2EDT, E2EDF, KDDT, KDDTForest, TAO, TAOForest, TAOBoosting, got",
    ):
        convert(forest)
    with pytest.raises(
        bitvec.errors.UnsupportedModelError, match="got an object of class builtins"
    ):
        oracle_of({})


def test_trees_of_a_kernel_forest_share_one_kernel() -> None:
    stump = from_kddt([0], [1.0], left=[-1], right=[-2], V=[0, 8], n_features=1, h=0.5)
    same = from_kddt([0], [2.0], left=[-1], right=[-2], V=[0, 8], n_features=1, h=0.5)
    forest = from_kddt_forest([stump, same])
    assert forest.predict([[1.25], [9.0]]).tolist() == [3.0, 8.0]
    wider = from_kddt([0], [1.0], left=[-1], right=[-2], V=[0, 8], n_features=1, h=1)
    with pytest.raises(
        bitvec.errors.InvalidForestError, match="the same `kernel`, got another at tree 1"
    ):
        from_kddt_forest([stump, wider])
    with pytest.raises(
        bitvec.errors.InvalidForestError, match="of class KDDT, got TAO: see from_kddt"
    ):
        from_kddt_forest([stump, from_tao(W=[[1]], bias=[0], left=[-1], right=[-2], V=[1, 2])])
