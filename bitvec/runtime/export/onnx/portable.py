"""The ONNX form `portable`: matrix products, sums and clipping, for devices that cannot compare.

Each tree is a chain of small matrices, so that the file grows with the trees and not with their
square. S picks columns, exactly, since x is finite; [x > t] is ⌈x − t⌉ held in [0, 1], where x and
t are scaled by a power of two if x − t may be subnormal, which some devices take for 0; a node is a
sum of such steps (`portable_steps`). With D the decision vectors (1 on a node's right leaves, −1 on
its left ones) and n the right turns on the way to each leaf, u = max(0, D · h − n + 1) is exactly 1
at the exit leaf and 0 elsewhere, and u · v its vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.converters.onnx.model_proto import model_proto
from bitvec.core import matrices
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.graph.score_operators import SUMS, require_hard, weighted_leaves
from bitvec.core.output import Aggregate
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.portable_steps import Steps, node_steps
from bitvec.runtime.predict.unsupported import refused_values

FORM = "portable"
LARGEST_MATRICES = 1 << 28
"""Elements of all matrices together, which a runtime expands at load."""
OTHERS = "use the form `traversal` or `tensor`"


def to_onnx(
    forest: Forest,
    *,
    name: str = "bitvec",
    leaves: bool = False,
    interface: Interface | None = None,
    ceil: bool = True,
    finite: bool = False,
    instead: str = OTHERS,
    float32_only: bool = False,
) -> Any:
    """Return a forest as an ONNX model of MatMul, Add, Ceil, Clip, Relu and Cast alone.

    Parameters
    ----------
    forest : Forest
        Nodes that test one column each; constant leaves; a sum or a mean.
    name : str
        Name of the graph.
    leaves : bool
        Whether the model also has an output `leaves`, int64, (batch, n_trees): the exit leaves.
    interface : Interface, optional
        The dtype of the inputs, which outputs, how many rows, and the versions of the file.
    ceil : bool
        Whether the device has Ceil; else ⌈x⌉ is written as −⌊−x⌋, by Neg and Floor.
    finite : bool
        Whether no value is ever missing, so that there is no `present`.
    instead : str
        What the error tells to do.
    float32_only : bool
        Whether constants are float32 as well, so that there is no Cast: for a forest that compares
        and adds in float32.

    Returns
    -------
    onnx.ModelProto
        Input `X`, (batch, n_features), in the forest's dtype: finite everywhere. Unless `finite`,
        or the forest's source refuses missing values, also `present`, of the same shape and dtype:
        1, or 0 where the value is missing, whatever finite number stands in X. Output `raw`,
        (batch, n_outputs), in the output's dtype: what the reference answers of NaN where
        `present` is 0. It equals that but for the sign of a zero; a mean is multiplied by the
        rounded 1 / n_trees, which is the same if n_trees is a power of two, and else differs by
        less than 2 of the dtype's epsilons, relative, before the base score is added.

    Raises
    ------
    UnsupportedModelError
        If the form cannot hold the forest.

    Notes
    -----
    Exact where products are those of the dtype (not of tf32 or float16). Cost per row and tree is
    n_nodes x (n_features + n_leaves) products.
    """
    _require_portable(forest, instead)
    graph = Graph(interface or Interface())
    _require_finite_cast(forest, graph.interface)
    shape = ("batch", forest.n_features)
    X = graph.input("X", forest.dtype, shape)
    masked = not finite and sees_missing(forest)
    present = graph.input("present", forest.dtype, shape) if masked else ""
    steps = node_steps(forest)
    _require_small(forest, steps, instead, masked=masked, leaves=leaves)
    inputs = _Inputs(X, present, ceil)
    exits = [_exit_leaf(graph, forest, steps, tree, inputs) for tree in range(forest.n_trees)]
    raw = _raw_score(graph, forest, X, exits)
    graph.output("raw", raw, forest.output.dtype, ("batch", forest.n_outputs))
    if leaves:
        local = _leaf_numbers(graph, forest, X, exits)
        kind = graph.interface.integer_dtype or np.dtype(np.int64)
        if kind != forest.dtype:
            local = cast(graph, local, kind, "exit_leaf")
        graph.output("leaves", local, kind, ("batch", forest.n_trees))
    if float32_only:
        _store_float32(graph)
    return model_proto(graph, forest, name=name, form=FORM)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The names of X and of `present`, or "", and whether there is Ceil."""

    X: str
    present: str
    ceil: bool


def sees_missing(forest: Forest) -> bool:
    """Return whether a missing value can reach a node."""
    refused = refused_values(forest)
    return forest.n_nodes > 0 and not (refused is not None and refused.missing)


def _require_portable(forest: Forest, instead: str) -> None:
    require_hard(forest, f"the ONNX form `{FORM}`")
    wide = int((~forest.tests.is_one_hot).sum())
    adds = forest.output.aggregate in SUMS
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.abs(weighted_leaves(forest))
        largest = np.maximum.reduceat(sizes, forest.bitvectors.leaf_ptr[:-1]).sum(axis=0)
        finite = np.isfinite(largest + np.abs(forest.output.base_score)).all()
    reasons = (
        (wide, f"nodes that test one column, got {wide} nodes that combine columns (oblique or "
               f"polytope): {instead}"),
        (forest.leaves.linear is not None,
         f"constant leaves, got leaves that are linear in x: {instead}"),
        (not adds, f"a sum or a mean over trees, got {forest.output.aggregate}: {instead}"),
        (forest.n_features == 0, f"at least one column, got none: {instead}"),
        (adds and not finite, f"leaf values whose sums are finite, got others: {instead}"),
    )  # fmt: skip
    for refused, sentence in reasons:
        if refused:
            raise UnsupportedModelError(f"the ONNX form `{FORM}` needs {sentence}.")


def _require_finite_cast(forest: Forest, interface: Interface) -> None:
    """Refuse rows whose finite numbers the forest's dtype would make infinite."""
    given = interface.input_dtype
    if given is not None and given.itemsize > forest.dtype.itemsize:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs rows no wider than {forest.dtype}, which the forest "
            f"compares in, got `input_dtype` {given}: leave it out."
        )


def _require_small(
    forest: Forest, steps: Steps, instead: str, *, masked: bool, leaves: bool
) -> None:
    B = forest.bitvectors
    n_leaves = np.diff(B.leaf_ptr)
    n_nodes = n_leaves - 1
    n_steps = np.bincount(B.tree_of_node[steps.node], minlength=B.n_trees)
    per_leaf = n_nodes + forest.n_outputs + leaves * B.n_trees
    # Each step is a row of weights only where a node is not one step.
    combined = np.bincount(B.tree_of_node[~steps.single], minlength=B.n_trees) > 0
    size = n_leaves * per_leaf + n_steps * (forest.n_features + combined * n_nodes)
    total = int(size.sum()) + masked * forest.n_features * B.n_nodes
    if total > LARGEST_MATRICES:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` must expand at most {LARGEST_MATRICES} elements of matrices, "
            f"got {total}: {instead}, or predict with bitvec."
        )


def _exit_leaf(
    graph: Graph, forest: Forest, steps: Steps, tree: int, inputs: _Inputs
) -> str | None:
    """Append u of one tree, (batch, n_leaves) in the forest's dtype; None for a single leaf."""
    B = forest.bitvectors
    nodes = np.arange(B.node_ptr[tree], B.node_ptr[tree + 1])
    if not nodes.size:
        return None
    h = _outcomes(graph, forest, steps, nodes, inputs)
    combined = not steps.single[nodes].all()
    if inputs.present:
        # 1 − present is added where missing goes right, and taken away where it goes left.
        toward = np.where(forest.tests.missing_right[nodes], 1, -1).astype(np.int8)
        P = np.zeros((forest.n_features, nodes.size), np.int8)
        P[forest.tests.feature[nodes], np.arange(nodes.size)] = -toward
        mask = _product(graph, inputs.present, P, forest.dtype, "present_at_node")
        h = graph.add("Add", h, mask, name="h_of_present")
        h = graph.add("Add", h, toward.astype(forest.dtype), name="h_or_missing")
    if inputs.present or combined:
        h = _held(graph, h, forest.dtype, "h")
    D = matrices.ternary(B.tree(tree))
    agreeing = _product(graph, h, np.ascontiguousarray(D.T), forest.dtype, "agreeing")
    rest = (1 - (D == 1).sum(axis=1)).astype(forest.dtype)
    return graph.add("Relu", graph.add("Add", agreeing, rest, name="above"), name="u")


def _outcomes(graph: Graph, forest: Forest, steps: Steps, nodes: Array, inputs: _Inputs) -> str:
    """Append h of the nodes of a tree before missing values are held in [0, 1], (batch, n)."""
    dtype = forest.dtype
    part = slice(*np.searchsorted(steps.node, [nodes[0], nodes[-1] + 1]).tolist())
    node, t, sign = steps.node[part], steps.threshold[part], steps.sign[part]
    column = forest.tests.feature[node]
    combined = not steps.single[nodes].all()
    if combined:
        distinct, which = np.unique(
            np.stack([column, sign, t.astype(np.float64)]), axis=1, return_inverse=True
        )
        column, sign, t = distinct[0].astype(np.int64), distinct[1], distinct[2].astype(dtype)
    info = np.finfo(dtype)
    scale = np.where(np.abs(t) < info.tiny / info.epsneg, 1 / info.epsneg, 1).astype(dtype)
    t = t * scale
    doubled = _is_dropped(t)
    S = np.zeros((forest.n_features, t.size), np.int8 if (scale == 1).all() else dtype)
    S[column, np.arange(t.size)] = sign * scale
    n_steps = t.size
    S, t = (np.repeat(a, 1 + doubled, axis=-1) for a in (S, t))
    if inputs.ceil:
        x = _product(graph, inputs.X, S, dtype, "x")
        above = graph.add("Ceil", graph.add("Add", x, -t, name="x_minus_t"), name="ceiling")
    else:
        x = _product(graph, inputs.X, -S, dtype, "minus_x")
        floor = graph.add("Floor", graph.add("Add", x, t, name="t_minus_x"), name="floor")
        above = graph.add("Neg", floor, name="ceiling")
    step = _held(graph, above, dtype, "step")
    if doubled:
        step = graph.add("MatMul", step, np.array([[1], [0]], dtype), name="one_step")
    if not combined:
        return step
    W = np.zeros((n_steps, nodes.size), np.int64)
    np.add.at(W, (which.ravel(), node - nodes[0]), steps.weight[part])
    h = _product(graph, step, W.astype(np.int8), dtype, "counted")
    return graph.add("Add", h, steps.constant[nodes].astype(dtype), name="h_of_steps")


def _plus(graph: Graph, value: str, constant: Array, name: str) -> str:
    """Append value + constant, (batch, n) and (n,); of two columns where one would be dropped."""
    if not _is_dropped(constant):
        return graph.add("Add", value, constant, name=name)
    twice = graph.add("MatMul", value, np.ones((1, 2), constant.dtype), name=f"{name}_twice")
    both = graph.add("Add", twice, np.repeat(constant, 2), name=f"{name}_both")
    return graph.add("MatMul", both, np.array([[1], [0]], constant.dtype), name=name)


def _is_dropped(constant: Array) -> bool:
    """Return whether onnxruntime 1.31 drops a sum: with one float64 number that is 0 in float32."""
    with np.errstate(under="ignore", over="ignore"):
        return bool(constant.size == 1 and constant[0] != 0 and np.float32(constant[0]) == 0)


def _held(graph: Graph, value: str, dtype: np.dtype, name: str) -> str:
    """Append a value, held in [0, 1]."""
    return graph.add("Clip", value, np.zeros((), dtype), np.ones((), dtype), name=name)


def _product(graph: Graph, left: str, matrix: Array, dtype: np.dtype, name: str) -> str:
    """Append left · matrix; whole numbers are stored as they are and cast once, at load."""
    right: str | Array = matrix
    if matrix.dtype != dtype:
        right = cast(graph, graph.constant(f"{name}_whole", matrix), dtype, f"{name}_matrix")
    return graph.add("MatMul", left, right, name=name)


def _raw_score(graph: Graph, forest: Forest, X: str, exits: list[str | None]) -> str:
    """Append the sum over the trees, in their order, and what makes it the raw score."""
    output, B = forest.output, forest.bitvectors
    v = weighted_leaves(forest)
    if forest.leaves.output is not None:
        v = v * (forest.leaves.output[:, None] == np.arange(forest.n_outputs))
    total = ""
    known = output.base_score if output.base_first else np.zeros(forest.n_outputs, output.dtype)
    for tree, u in enumerate(exits):
        vectors = v[B.leaf_ptr[tree] : B.leaf_ptr[tree + 1]]
        if u is None and total:
            total = _plus(graph, total, vectors[0], "score")
        elif u is None:
            known = known + vectors[0]
        else:
            if forest.dtype != output.dtype:
                u = cast(graph, u, output.dtype, "u_of_output")
            term = graph.add("MatMul", u, vectors, name="vector")
            total = (
                graph.add("Add", total, term, name="score")
                if total
                else _plus(graph, term, known, "score")
            )
    if not total:
        nothing = _nothing(graph, X, forest, forest.n_outputs)
        if forest.dtype != output.dtype:
            nothing = cast(graph, nothing, output.dtype, "zero")
        total = _plus(graph, nothing, known, "score")
    return _finish(graph, forest, total)


def _nothing(graph: Graph, X: str, forest: Forest, width: int) -> str:
    """Append zeros, (batch, width), in the forest's dtype: x is finite."""
    zeros = np.zeros((forest.n_features, width), np.int8)
    return _product(graph, X, zeros, forest.dtype, "nothing")


def _finish(graph: Graph, forest: Forest, total: str) -> str:
    """Append what makes the total of the trees a raw score, as `Output.finish` does."""
    output = forest.output
    factor = output.scale
    if output.aggregate is Aggregate.MEAN:
        trees = np.full(forest.n_outputs, forest.n_trees, output.dtype)
        factor = 1 / (trees if output.divisor is None else output.divisor)
    if factor is not None:
        total = graph.add("MatMul", total, np.diag(factor), name="score_scaled")
    if output.base_first:
        return total
    if output.base_score.dtype == output.dtype:
        return _plus(graph, total, output.base_score, "raw_score")
    wide = cast(graph, total, output.base_score.dtype, "score_wide")
    wide = _plus(graph, wide, output.base_score, "raw_score_wide")
    return cast(graph, wide, output.dtype, "raw_score")


def _leaf_numbers(graph: Graph, forest: Forest, X: str, exits: list[str | None]) -> str:
    """Append the exit leaves as numbers within each tree, (batch, n_trees), in X's dtype."""
    total = ""
    for tree, u in enumerate(exits):
        if u is None:
            continue
        n_leaves = int(np.diff(forest.bitvectors.leaf_ptr)[tree])
        numbers = np.zeros((n_leaves, forest.n_trees), np.int16)
        numbers[:, tree] = np.arange(n_leaves)
        term = _product(graph, u, numbers, forest.dtype, "leaf_number")
        total = graph.add("Add", total, term, name="leaf_numbers") if total else term
    return total or _nothing(graph, X, forest, forest.n_trees)


def _store_float32(graph: Graph) -> None:
    """Store whole numbers, which are small enough, as float32 instead of casting them at load."""
    casts = [o for o in graph.operators if o.kind == "Cast" and o.inputs[0] in graph.constants]
    for operator in casts:
        whole = graph.constants.pop(operator.inputs[0])
        graph.constants[operator.outputs[0]] = whole.astype(np.float32)
    graph.operators = [operator for operator in graph.operators if operator not in casts]
