"""Hardening of a soft forest, in the units and the dtype of inference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.core.source import retrained_source
from bitvec.errors import InvalidForestError
from bitvec.runtime.train.relax.dense_rows import DenseRows
from bitvec.runtime.train.relax.leaf_functions import to_leaves
from bitvec.runtime.train.relax.module import SoftForest


def harden(module: SoftForest) -> Forest:
    """Return the hard forest of a module: same B, output and inputs; S, b, v, φ as they have moved.

    What may not move comes back bit for bit, and so does what has not moved since the module was
    made or calibrated: the rows of S and the threshold of a node, a leaf's number (with logits, a
    leaf's vector) and a base score. Weights that are exactly 0 leave a row of S that has moved.

    Raises
    ------
    InvalidForestError
        If a number that has moved is not finite, or not in the forest's dtype.
    """
    if not isinstance(module, SoftForest):
        raise TypeError(
            f"a SoftForest must be given, got {type(module).__module__}."
            f"{type(module).__qualname__}: relax a forest with bitvec.to_torch first."
        )
    forest, trainable = module.forest, module.trainable
    leaves, output = forest.leaves, forest.output
    start_v, start_base = (start.numpy() for start in module.start())
    # What overflows is refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        if "v" in trainable and module.leaf_functions is not None:
            leaves = to_leaves(module.leaf_functions)
        elif "v" in trainable:
            moved = _differs(module.v, start_v) & module.may_move.v[:, None]
            if module.leaves == "logits":  # one logit moves all numbers of its leaf
                moved = np.broadcast_to(moved.any(axis=1, keepdims=True), moved.shape)
            v = module.leaf_vectors().detach().cpu().numpy()
            if module.leaves == "logits":  # a sum of 1 in the forest's dtype, not in the module's
                v = v.astype(np.float64)
                v = v / v.sum(axis=1, keepdims=True)
            v = v.astype(leaves.v.dtype)
            leaves = replace(leaves, v=_moved("v", leaves.v, v, moved))
        if "base_score" in trainable:
            base, moved = output.base_score, _differs(module.base_score, start_base)
            new = module.base_score.detach().cpu().numpy().astype(base.dtype)
            output = replace(output, base_score=_moved("base_score", base, new, moved))
        tests = _tests(module)
    return replace(
        forest,
        tests=tests,
        leaves=leaves,
        output=output,
        feature_map=forest.feature_map if module.phi is None else module.phi.hardened(harden),
        source=retrained_source(forest.source),
    )


from_torch = harden


def _differs(parameter: torch.Tensor, start: Array) -> Array:
    now = parameter.detach().cpu().numpy()
    differs: Array = (now != start) & ~(np.isnan(now) & np.isnan(start))
    return differs


def _moved(name: str, old: Array, new: Array, moved: Array) -> Array:
    """Return the old values with the new ones where they have moved."""
    if not np.all(np.isfinite(new[moved])):
        raise InvalidForestError(
            f"what has moved in `{name}` must be finite in {new.dtype} to be hardened, got NaN or "
            "infinity: lower the learning rate."
        )
    return np.where(moved, new, old)


def _numpy(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().numpy().astype(np.float64)


def _tests(module: SoftForest) -> NodeTests:
    tests, units = module.forest.tests, module.scaling
    shift, may_move = _numpy(module.thresholds()), module.may_move
    b = tests.b.copy()
    fixed = module.is_fixed.cpu().numpy()
    compares = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    at = np.flatnonzero(fixed & compares & may_move.b & (shift != 0))
    new = (b[at] + (shift[at] * units.margin[at] - units.cut[at])).astype(b.dtype)
    b[at] = _moved("b", b[at], new, np.ones(len(at), bool))
    if module.rows is None:
        return replace(tests, b=b)
    rows, parameters = module.rows, module.rows.read()
    margin = units.margin[rows.nodes]
    row_node, plain = rows.row_node, rows.plain_row
    node_moved = rows.moved(module.thresholds().detach().cpu().numpy()[rows.nodes])
    row_moved = node_moved[row_node]
    S = _numpy(parameters.S) / units.spread
    S *= np.where(plain, margin[row_node], 1.0)[:, None]
    centred = np.where(rows.centred, S @ units.center, 0.0)
    threshold = shift[rows.nodes] * margin
    threshold += np.bincount(row_node, np.where(plain, centred, 0.0))
    new = threshold.astype(b.dtype)
    b[rows.nodes] = _moved("b", b[rows.nodes], new, node_moved & may_move.b[rows.nodes])
    r, offset = tests.r.copy(), tests.offset.copy()
    shaped = ~plain & row_moved
    at = rows.rows[shaped]
    new = (_numpy(parameters.r) * margin[row_node])[shaped].astype(r.dtype)
    r[at] = _moved("r", r[at], new, may_move.r[rows.nodes][row_node][shaped])
    tests = replace(tests, b=b, r=r)
    row_moved &= rows.row_moves
    if not row_moved.any():
        return tests
    shaped = ~plain & row_moved
    at = rows.rows[shaped]
    new = (_numpy(parameters.offset) + centred)[shaped].astype(offset.dtype)
    offset[at] = _moved("S", offset[at], new, np.ones(len(at), bool))
    S = S[row_moved].astype(tests.dtype)
    _moved("S", S, S, np.ones(S.shape, bool))
    return _with_rows(replace(tests, offset=offset), rows, row_moved, S, units.center)


def _with_rows(
    tests: NodeTests, rows: DenseRows, moved: Array, S: Array, center: Array
) -> NodeTests:
    """Put the dense rows that have moved in the place of the rows of S that they come from."""
    keep = S != 0
    keep[~keep.any(axis=1), 0] = True  # a row of zeros still needs an entry
    own, place = rows.own[moved], rows.rows[moved]
    imputed = rows.imputed[rows.rule_of_row[moved]]
    dense_row, column = np.nonzero(keep)
    n_entries = np.diff(tests.row_ptr)
    is_dense = np.zeros(tests.n_rows, bool)
    is_dense[place] = True
    kept = np.flatnonzero(~np.repeat(is_dense, n_entries))
    n_entries[place] = keep.sum(axis=1)
    row = np.concatenate(
        [np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))[kept], place[dense_row]]
    )
    order = np.argsort(row, kind="stable")
    nothing = np.full(tests.column.size, np.nan, tests.dtype)
    old_substitute = nothing if tests.substitute is None else tests.substitute
    new_substitute = np.where((imputed & ~own)[dense_row, column], center[column], np.nan).astype(
        tests.dtype
    )
    substitute = np.concatenate([old_substitute[kept], new_substitute])[order]
    indicator = None
    if tests.indicator is not None:
        plain = np.full(len(column), -1, np.int32)
        indicator = np.concatenate([tests.indicator[kept], plain])[order]
    return replace(
        tests,
        row_ptr=np.concatenate([[0], np.cumsum(n_entries)]).astype(np.int64),
        column=np.concatenate([tests.column[kept], column.astype(np.int32)])[order],
        weight=np.concatenate([tests.weight[kept], S[dense_row, column]])[order],
        substitute=None if np.isnan(substitute).all() else substitute,
        indicator=indicator,
    )
