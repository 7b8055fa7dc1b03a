"""Strategies for the native trees of the papers.

Weights and thresholds are small binary fractions, so that sums are exact and ties do occur, unless
`general`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bitvec.converters.native import (
    E2EDF,
    E2EDT,
    KDDT,
    TAO,
    KDDTForest,
    TAOBoosting,
    TAOForest,
    from_cpt,
    from_e2edf,
    from_e2edt,
    from_kddt,
    from_kddt_forest,
    from_tao,
    from_tao_boosting,
    from_tao_forest,
)
from bitvec.converters.native.native_forest import NativeForest
from bitvec.core.feature_maps import Layers, Linear, ReLU
from bitvec.core.kernels import FeatureKernel

DTYPES = (np.float32, np.float64)


@st.composite
def children(draw: st.DrawFn, max_nodes: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Trees of every shape, their nodes and leaves numbered in any order."""
    n = draw(st.integers(0, max_nodes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chain = draw(st.booleans())
    place, leaf = rng.permutation(n), rng.permutation(n + 1)
    side = np.zeros((2, n), np.int64)
    slots: list[tuple[int, int]] = []
    for node in range(n):
        if node:
            at = len(slots) - 1 if chain else int(rng.integers(len(slots)))
            side[slots.pop(at)] = place[node]
        slots += [(0, place[node]), (1, place[node])]
    for slot, number in zip(slots, leaf, strict=n > 0):
        side[slot] = ~number
    return side[0], side[1]


def weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, general: bool) -> Any:
    if general:
        return rng.normal(size=shape).astype(dtype)
    return (rng.integers(-4, 5, shape) / 4).astype(dtype)


def drawn_leaves(draw: st.DrawFn, rng: np.random.Generator, n_leaves: int) -> dict[str, Any]:
    """`pi` with classes of any type, or `mean`; one axis or two; either dtype."""
    width = draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(DTYPES))
    if draw(st.booleans()):
        value = rng.normal(size=(n_leaves, width)).astype(dtype)
        return {"mean": value[:, 0] if width == 1 and draw(st.booleans()) else value}
    if width == 1:
        return {"pi": rng.random(n_leaves).astype(dtype), "classes": ["no", "yes"]}
    pi = rng.integers(0, 4, (n_leaves, width)) + 0.5
    pi = (pi / pi.sum(axis=1, keepdims=True)).astype(dtype)
    return {"pi": pi, "classes": draw(st.sampled_from([None, np.array([7, 3, 5])[:width]]))}


@st.composite
def cpts(draw: st.DrawFn, general: bool = False) -> Any:
    left, right = draw(children())
    n, d = left.size, draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(DTYPES))
    count = rng.integers(0, 4, n)
    r = (rng.integers(0, 5, count.sum()) / 2).astype(dtype)
    return from_cpt(
        weights(rng, (count.sum(), d + 1), dtype, general),
        rng.random(r.size).astype(dtype) if general else r,
        q=rng.choice([0.0, 0.3, 0.5, 0.9, 0.999], n).astype(dtype),
        facet_ptr=np.concatenate([[0], np.cumsum(count)]),
        left=left,
        right=right,
        inside_right=rng.random(n) < 0.3 if draw(st.booleans()) else None,
        **drawn_leaves(draw, rng, n + 1),
    )


@st.composite
def e2edts(draw: st.DrawFn, general: bool = False, maps: bool = False) -> E2EDT:
    left, right = draw(children())
    n, d = left.size, draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(DTYPES))
    phi: Any = None
    if maps:

        def one() -> Layers:
            return Layers((Linear(weights(rng, (3, d), dtype, general)), ReLU()))

        phi = [one() for _ in range(n)] if n and draw(st.booleans()) else one()
    return from_e2edt(
        weights(rng, (n, 3 if maps else d), dtype, general),
        weights(rng, (n,), dtype, general),
        left=left,
        right=right,
        phi=phi,
        **drawn_leaves(draw, rng, n + 1),
    )


@st.composite
def e2edfs(draw: st.DrawFn, general: bool = False) -> E2EDF:
    first = draw(e2edts(general=general, maps=draw(st.booleans())))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trees = [first]
    for _ in range(draw(st.integers(0, 3))):
        left, right = draw(children())
        plain = draw(st.booleans())
        n_columns = first.n_features if plain else first.theta.shape[1]
        n = left.size
        value = first.values[rng.integers(0, first.n_leaves, n + 1)]
        phi = None if plain else first.phi if not isinstance(first.phi, tuple) else first.phi[0]
        trees.append(
            from_e2edt(
                weights(rng, (n, n_columns), first.dtype, general),
                weights(rng, (n,), first.dtype, general),
                left=left,
                right=right,
                phi=phi,
                pi=None if first.pi is None else value,
                mean=None if first.mean is None else value,
                classes=first.classes,
            )
        )
    return from_e2edf(trees)


ASYMMETRIC = FeatureKernel(
    np.array([-1.0, 0.0, 2.0]), np.array([0.75, 0.25]), np.array([0.0, 0.5]), np.array([0.25])
)


@st.composite
def kddts(draw: st.DrawFn, soft: bool | None = None) -> KDDT:
    left, right = draw(children())
    n, d = left.size, draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    leaves = drawn_leaves(draw, rng, n + 1)
    classes = leaves.get("classes")
    options: dict[str, Any] = {}
    if draw(st.booleans()) if soft is None else soft:
        options = draw(
            st.sampled_from(
                [
                    {"h": 0.5},
                    {"h": rng.choice([0.0, 0.3, 2.0], d), "kernel": "gaussian"},
                    {"kernel": [ASYMMETRIC] * d},
                ]
            )
        )
    return from_kddt(
        rng.integers(0, d, n),
        (rng.integers(-3, 4, n) / 2).astype(draw(st.sampled_from(DTYPES))),
        left=left,
        right=right,
        V=leaves.get("pi", leaves.get("mean")),
        n_features=d,
        classes=classes,
        **options,
    )


@st.composite
def taos(draw: st.DrawFn, general: bool = False) -> TAO:
    left, right = draw(children())
    n, d = left.size, draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(DTYPES))
    leaves = drawn_leaves(draw, rng, n + 1)
    V = leaves.get("pi", leaves.get("mean"))
    nodes: dict[str, Any] = {
        "W": weights(rng, (n, d), dtype, general),
        "bias": weights(rng, (n,), dtype, general),
    }
    if draw(st.booleans()):
        nodes = {
            "feature": rng.integers(0, d, n),
            "threshold": weights(rng, (n,), dtype, general),
            "n_features": d,
        }
    linear: dict[str, Any] = {}
    if draw(st.booleans()):
        shape = (n + 1, 1 if V.ndim == 1 else V.shape[1], d)
        linear = {"U": rng.normal(size=shape).astype(V.dtype) * (rng.random((n + 1, 1, d)) < 0.5)}
        linear["U"] = linear["U"].astype(V.dtype)
        if draw(st.booleans()):
            linear["fallback"] = np.full(V.shape, -9, V.dtype)
    return from_tao(left=left, right=right, V=V, classes=leaves.get("classes"), **nodes, **linear)


@st.composite
def kddt_forests(draw: st.DrawFn) -> KDDTForest:
    first = draw(kddts())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trees = [first]
    for _ in range(draw(st.integers(0, 3))):
        left, right = draw(children())
        columns = first.j if first.j.size else np.zeros(1, np.int64)
        n = left.size if first.j.size else 0
        if n == 0:
            left = right = np.zeros(0, np.int64)
        tau = rng.choice(first.tau, n) if n else first.tau[:0]
        other = dataclasses.replace(
            first,
            left=left,
            right=right,
            j=rng.choice(columns, n),
            tau=tau,
            V=first.V[rng.integers(0, first.n_leaves, n + 1)],
        )
        trees.append(other)
    return from_kddt_forest(trees)


@st.composite
def tao_forests(draw: st.DrawFn, general: bool = False) -> TAOForest:
    first = draw(taos(general=general))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trees = [first]
    for _ in range(draw(st.integers(0, 2))):
        V = first.V[rng.permutation(first.n_leaves)]
        U = None if draw(st.booleans()) else first.U  # of linear leaves, in some trees only
        trees.append(
            dataclasses.replace(first, V=V, U=U, fallback=None if U is None else first.fallback)
        )
    return from_tao_forest(trees)


@st.composite
def tao_boostings(draw: st.DrawFn, general: bool = False) -> TAOBoosting:
    forest = draw(tao_forests(general=general))
    trees = [dataclasses.replace(tree, classes=None) for tree in forest.trees]
    first = trees[0]
    base = draw(st.sampled_from([0, -0.375, 2.5])) * np.ones(first.n_outputs)
    labels = np.arange(max(first.n_outputs, 2)) if draw(st.booleans()) else None
    return from_tao_boosting(trees, base.astype(first.V.dtype), classes=labels)


natives = st.one_of(
    cpts(), e2edts(), e2edts(maps=True), e2edfs(), kddts(), kddt_forests(), taos(), tao_forests(),
    tao_boostings(),
)  # fmt: skip
general_natives = st.one_of(
    cpts(general=True), e2edts(general=True), e2edfs(general=True), taos(general=True),
    tao_forests(general=True), tao_boostings(general=True),
)  # fmt: skip


def trees_of(native: Any) -> tuple[Any, ...]:
    return native.trees if isinstance(native, NativeForest) else (native,)
