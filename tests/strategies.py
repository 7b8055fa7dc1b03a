"""Hypothesis strategies: forests of every node kind, and rows that sit where trees decide.

Sizes and options are drawn, so failures shrink; the bulk numbers come from a drawn seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from bitvec.core import structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.kernels import FeatureKernel, box
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import (
    ZERO_THRESHOLD,
    Activation,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    set_bits,
)
from bitvec.core.output import Aggregate, Output, PostTransform, SoftmaxSum

AXIS = "axis"
OBLIQUE = "oblique"
POLYTOPE = "polytope"
SET = "set"
EQUAL = "equal"
KERNEL = "kernel"
KINDS = (AXIS, OBLIQUE, POLYTOPE, SET, EQUAL, KERNEL)
ONE_HOT = (AXIS, SET, EQUAL)
"""Kinds whose outcome no rounding can move: every engine must agree on them bit for bit."""

SENTINEL = -999.0


def examples(n: int) -> settings:
    """Settings of a slow test: `n` examples, and as many times more in the long run as others."""
    usual = settings.get_profile("fixed").max_examples
    return settings(max_examples=n * settings.default.max_examples // usual)


def special_values(dtype: np.dtype) -> np.ndarray:
    """Values around which comparisons go wrong: signed zeros, subnormals, extremes."""
    info = np.finfo(dtype)
    tiny = [info.smallest_subnormal, info.tiny, 1e-35, 2e-35, 0.5, 1.0, 3.0, info.max]
    return np.array([0.0, *tiny, -0.0, *(-value for value in tiny)], dtype)


@st.composite
def bitvectors(draw: st.DrawFn, max_trees: int = 3, max_leaves: int = 70) -> structure.Bitvectors:
    """Trees of every shape: single leaves, stumps, chains, complete and random trees."""
    few = st.integers(1, min(8, max_leaves))
    sizes = [few, few, few]
    if max_leaves >= 65:
        sizes.append(st.sampled_from([63, 64, 65, max_leaves]))
    n_leaves = draw(st.lists(st.one_of(*sizes), min_size=1, max_size=max_trees))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    left: list[int] = []
    right: list[int] = []
    roots: list[int] = []
    n_named = 0
    for count in n_leaves:
        shape = draw(st.sampled_from(["random", "left chain", "right chain", "complete"]))
        if count == 1:
            roots.append(~n_named)
            n_named += 1
            continue
        roots.append(len(left))
        left.append(0)
        right.append(0)
        todo = [(roots[-1], 0, count)]
        while todo:
            node, lo, hi = todo.pop()
            size = hi - lo
            cut = {
                "random": lambda size: int(rng.integers(1, size)),
                "left chain": lambda size: size - 1,
                "right chain": lambda size: 1,
                "complete": lambda size: size // 2,
            }[shape](size)
            for side, first, last in ((left, lo, lo + cut), (right, lo + cut, hi)):
                if last - first == 1:
                    side[node] = ~(n_named + first)
                    continue
                side[node] = len(left)
                left.append(0)
                right.append(0)
                todo.append((side[node], first, last))
        n_named += count
    return structure.arrange(np.array(left), np.array(right), np.array(roots))[0]


def node_tests(
    rng: np.random.Generator,
    n_nodes: int,
    n_features: int,
    dtype: np.dtype,
    kinds: Sequence[str],
    missing_rules: Sequence[MissingRule] = tuple(MissingRule),
    extras: bool = True,
) -> NodeTests:
    """Random tests of these kinds, mixed; `extras` adds substitutes and indicators to rows."""
    special = special_values(dtype)
    moderate = special[np.abs(special) <= 3]
    node_ptr, row_ptr, column, weight, offset = [0], [0], [], [], []
    activation, r, b, kind, codes = [], [], [], [], []
    for _ in range(n_nodes):
        name = kinds[rng.integers(len(kinds))]
        kind.append({SET: Kind.SET, EQUAL: Kind.EQUAL, KERNEL: Kind.KERNEL}.get(name, Kind.MARGIN))
        right = rng.choice(70, size=rng.integers(0, 8), replace=False) if name == SET else []
        codes.append(np.array(right, np.int64))
        if name == EQUAL:
            b.append(rng.choice(np.append(special, [2.0, 5.0]).astype(dtype)))
        elif name in (OBLIQUE, POLYTOPE):
            b.append(rng.choice([0.0, 0.25, 1.0, rng.normal()]))
        else:
            b.append(rng.choice(special) if rng.random() < 0.5 else rng.integers(-3, 4) / 2)
        n_rows = int(rng.integers(1, 4)) if name == POLYTOPE else 1
        for _ in range(n_rows):
            wide = name in (OBLIQUE, POLYTOPE)
            size = int(rng.integers(1, n_features + 1)) if wide else 1
            column += rng.choice(n_features, size, replace=False).tolist()
            # Small binary fractions, so that exact zero margins and ties do occur.
            weight += (rng.integers(-4, 5, size) / 4).tolist() if wide else [1.0]
            offset.append(rng.integers(-2, 3) / 2 if name == POLYTOPE else 0.0)
            activation.append(Activation.SOFTPLUS if name == POLYTOPE else Activation.IDENTITY)
            r.append(rng.integers(1, 5) / 2 if name == POLYTOPE else 1.0)
            row_ptr.append(len(column))
        node_ptr.append(len(offset))
    set_ptr, set_words = set_bits(codes)
    relation = rng.integers(0, 2, n_nodes).astype(np.uint8)
    relation[np.array(kind, int) == Kind.KERNEL] = 0
    wide_entry = np.repeat(np.diff(row_ptr) > 1, np.diff(row_ptr)) if column else np.zeros(0, bool)
    substitute = indicator = None
    if extras and wide_entry.any():
        substitute = np.full(len(column), np.nan, dtype)
        pick = wide_entry & (rng.random(len(column)) < 0.3)
        substitute[pick] = rng.choice(moderate, int(pick.sum()))
        indicator = np.full(len(column), -1, np.int32)
        pick = wide_entry & (rng.random(len(column)) < 0.2)
        indicator[pick] = rng.integers(0, 4, int(pick.sum()))
    return NodeTests(
        node_ptr=np.array(node_ptr, np.int64),
        row_ptr=np.array(row_ptr, np.int64),
        column=np.array(column, np.int32),
        weight=np.array(weight, dtype),
        offset=np.array(offset, dtype),
        activation=np.array(activation, np.uint8),
        r=np.array(r, dtype),
        b=np.array(b, dtype),
        kind=np.array(kind, np.uint8),
        relation=relation,
        missing_rule=rng.choice(list(missing_rules), n_nodes).astype(np.uint8),
        code_rule=rng.integers(0, len(CodeRule), n_nodes).astype(np.uint8),
        missing_right=rng.random(n_nodes) < 0.5,
        other_right=rng.random(n_nodes) < 0.5,
        set_ptr=set_ptr,
        set_words=set_words,
        substitute=substitute,
        indicator=indicator,
    )


def _linear_terms(
    rng: np.random.Generator, n_leaves: int, n_features: int, width: int, dtype: np.dtype
) -> LinearTerms:
    count = rng.integers(0, 3, n_leaves)
    n_terms = int(count.sum())
    return LinearTerms(
        np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        rng.integers(0, n_features, n_terms).astype(np.int32),
        rng.normal(size=(n_terms, width)).astype(dtype),
        rng.normal(size=(n_leaves, width)).astype(dtype),
        rng.choice([0.0, ZERO_THRESHOLD, 0.75]),
    )


def _kernels(rng: np.random.Generator, n_features: int) -> tuple[FeatureKernel, ...]:
    asymmetric = FeatureKernel(
        np.array([-1.0, 0.0, 2.0]), np.array([0.75, 0.25]), np.array([0.0, 0.5]), np.array([0.25])
    )
    return tuple(box(0.5) if rng.random() < 0.5 else asymmetric for _ in range(n_features))


@st.composite
def forests(
    draw: st.DrawFn,
    kinds: Sequence[str] = KINDS,
    max_trees: int = 3,
    max_leaves: int = 70,
    dtypes: Sequence[type] = (np.float32, np.float64),
    missing_rules: Sequence[MissingRule] = tuple(MissingRule),
    aggregates: Sequence[Aggregate] = (Aggregate.SUM, Aggregate.MEAN, Aggregate.MIN, Aggregate.MAX),
    linear: bool = True,
    soft: bool = False,
    classifier: bool | None = None,
) -> Forest:
    """A forest whose nodes are of these kinds, mixed; `soft` gives it a prediction kernel."""
    B = draw(bitvectors(max_trees=max_trees, max_leaves=max_leaves))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = np.dtype(draw(st.sampled_from(list(dtypes))))
    out_dtype = np.dtype(draw(st.sampled_from([np.float32, np.float64])))
    n_features = draw(st.integers(1, 5))
    n_outputs = draw(st.integers(1, 4))
    sparse = n_outputs > 1 and draw(st.booleans())
    aggregate = draw(st.sampled_from(list(aggregates)))
    is_classifier = draw(st.booleans()) if classifier is None else classifier
    width = 1 if sparse else n_outputs
    leaves = Leaves(
        rng.normal(size=(B.n_leaves, width)).astype(out_dtype),
        rng.integers(0, n_outputs, B.n_leaves).astype(np.int32) if sparse else None,
        _linear_terms(rng, B.n_leaves, n_features, width, out_dtype)
        if linear and draw(st.booleans())
        else None,
    )
    classes = None
    transform = PostTransform.IDENTITY
    if is_classifier:
        names = {"int": np.arange(10, 15), "str": np.array(list("edcba")), "bool": None}
        labels = names[draw(st.sampled_from(["int", "str"]))]
        classes = (labels[: 2 if n_outputs == 1 else n_outputs],)
        transform = PostTransform.SIGMOID if n_outputs == 1 else PostTransform.SOFTMAX
    use_kernel = soft and bool(set(kinds) & {KERNEL})
    tests = node_tests(rng, B.n_nodes, n_features, dtype, kinds, missing_rules)
    from_raw = is_classifier and draw(st.booleans())
    base_first = aggregate is Aggregate.SUM and draw(st.booleans())
    base_dtype = np.dtype(np.float64) if not base_first and draw(st.booleans()) else out_dtype
    scaled = aggregate is Aggregate.SUM and not base_first and draw(st.booleans())
    single = is_classifier and n_outputs == 1
    has_kernel_nodes = bool(np.any(tests.kind == Kind.KERNEL)) or B.n_nodes == 0
    return Forest(
        tests=tests,
        bitvectors=B,
        leaves=leaves,
        output=Output(
            n_outputs,
            out_dtype,
            aggregate=aggregate,
            base_score=rng.normal(size=n_outputs).astype(base_dtype),
            base_first=base_first,
            scale=rng.choice([-1.5, 0.3, 2.0], n_outputs).astype(out_dtype) if scaled else None,
            tree_weight=rng.normal(size=B.n_trees).astype(out_dtype)
            if aggregate is Aggregate.SUM and draw(st.booleans())
            else None,
            post_transform=transform,
            parameter=draw(st.sampled_from([1.0, 2.0])),
            classes=classes,
            divisor=rng.integers(1, 9, n_outputs).astype(out_dtype)
            if aggregate is Aggregate.MEAN and draw(st.booleans())
            else None,
            labels_from_raw=from_raw,
            tie_to_second=from_raw and draw(st.booleans()),
            boundary=0.375 if single and draw(st.booleans()) else None,
            softmax_sum=draw(st.sampled_from(list(SoftmaxSum))),
        ),
        inputs=Inputs(n_features, missing_sentinel=SENTINEL),
        kernel=_kernels(rng, n_features) if use_kernel and has_kernel_nodes else None,
    )


@st.composite
def rows(draw: st.DrawFn, forest: Forest, max_rows: int = 24, finite: bool = False) -> np.ndarray:
    """Rows on the forest's thresholds, one ulp to each side, on its codes, missing and infinite."""
    n_rows = draw(st.integers(1, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = forest.dtype
    feature = forest.tests.feature
    X = np.empty((n_rows, forest.n_features), dtype)
    for column in range(forest.n_features):
        b = forest.tests.b[feature == column]
        with np.errstate(over="ignore"):
            near = [b, np.nextafter(b, dtype.type(np.inf)), np.nextafter(b, dtype.type(-np.inf))]
        codes = np.array([0, 1, 2, 3, 31, 32, 69, 70, 200, 2.5, -1, -0.5, 1e9], dtype)
        others = [special_values(dtype), codes, (rng.integers(-6, 7, 8) / 4).astype(dtype)]
        if not finite:
            others.append(np.array([np.nan, np.nan, np.nan, np.inf, -np.inf, SENTINEL], dtype))
        pool = np.concatenate([*(near * 3), *others])
        X[:, column] = rng.choice(pool[np.isfinite(pool)] if finite else pool, n_rows)
    return X


@st.composite
def forests_with_rows(draw: st.DrawFn, **options: object) -> tuple[Forest, np.ndarray]:
    """A forest and rows for it."""
    forest = draw(forests(**options))  # type: ignore[arg-type]
    return forest, draw(rows(forest))


@st.composite
def raw_scores(draw: st.DrawFn, dtype: np.dtype, width: int, *, least: int = 0) -> np.ndarray:
    """Draw scores of few rows, (batch, width), of all sizes: at times some at the ends of links."""
    n = draw(st.integers(least, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1e-30, 0.1, 1, 10, 100, 1000]))
    raw = (rng.normal(size=(n, width)) * scale).astype(dtype)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 88.5, -88.5, 709.5, -709.5, -746, -104])
    spoilt = rng.random(raw.shape) < draw(st.sampled_from([0, 0, 0.05]))
    raw[spoilt] = rng.choice(odd, int(spoilt.sum())).astype(dtype)
    return raw
