"""From a soft forest back to a hard one, in the units and the dtype of inference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bitvec.arrays import Array
from bitvec.errors import InvalidForestError
from bitvec.forest import Forest
from bitvec.node_tests import Kind, NodeTests
from bitvec.runtime.torch.dense_rows import DenseRows
from bitvec.runtime.torch.module import SoftForest
from bitvec.source import Source


def harden(module: SoftForest) -> Forest:
    """Return the hard forest of a module: same B, output and inputs; S, b and v as they have moved.

    What may not move comes back bit for bit, and so does a threshold that has not moved while its
    row of S is fixed. Weights that are exactly 0 leave their row of S.

    Raises
    ------
    InvalidForestError
        If a parameter is not finite.
    """
    if not isinstance(module, SoftForest):
        raise TypeError(
            f"a SoftForest must be given, got {type(module).__module__}."
            f"{type(module).__qualname__}: relax a forest with bitvec.to_torch first."
        )
    forest, movable = module.forest, module.movable
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and not bool(torch.isfinite(parameter).all()):
            raise InvalidForestError(
                f"the parameter `{name}` must be finite to be hardened, got NaN or infinity: "
                "lower the learning rate."
            )
    leaves, output = forest.leaves, forest.output
    if "v" in movable:
        v = module.leaf_vectors().detach().cpu().numpy().astype(leaves.v.dtype)
        leaves = replace(leaves, v=v)
    if "base_score" in movable:
        base = module.base_score.detach().cpu().numpy().astype(output.dtype)
        output = replace(output, base_score=base)
    return replace(
        forest, tests=_tests(module), leaves=leaves, output=output, source=retrained_source(forest)
    )


from_torch = harden


def retrained_source(forest: Forest) -> Source | None:
    """Return the source record of a forest whose numbers have moved."""
    source = forest.source
    if source is None:
        return None
    origin = source.metadata.get("retrained_from", f"{source.library} {source.version}")
    # Ids still name the same nodes and leaves; covers and gains belong to values that have moved.
    return replace(
        source,
        leaf_cover=None,
        node_cover=None,
        gain=None,
        metadata={**source.metadata, "retrained_from": origin},
    )


def _numpy(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().numpy().astype(np.float64)


def _tests(module: SoftForest) -> NodeTests:
    tests, units = module.forest.tests, module.scaling
    shift = _numpy(module.b)
    b = tests.b.copy()
    if "b" in module.movable:
        fixed = module.is_fixed.cpu().numpy()
        compares = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
        moved = np.flatnonzero(fixed & compares & (shift != 0))
        b[moved] = (b[moved] + shift[moved] * units.margin[moved]).astype(b.dtype)
    if module.rows is None:
        return replace(tests, b=b)
    rows = module.rows
    margin = units.margin[rows.nodes]
    row_node, plain = rows.row_node.cpu().numpy(), rows.plain_row.cpu().numpy()
    S = _numpy(rows.S) / units.spread
    S *= np.where(plain, margin[row_node], 1.0)[:, None]
    centred = np.where(rows.centred.cpu().numpy(), S @ units.center, 0.0)
    if "b" in module.movable:
        threshold = shift[rows.nodes] * margin
        threshold += np.bincount(row_node, np.where(plain, centred, 0.0))
        b[rows.nodes] = threshold.astype(b.dtype)
    r, offset = tests.r.copy(), tests.offset.copy()
    shaped = ~plain
    at = rows.rows[shaped]
    if rows.moves_r:
        r[at] = (_numpy(rows.r)[shaped] * margin[row_node][shaped]).astype(r.dtype)
    tests = replace(tests, b=b, r=r)
    if not rows.moves_S:
        return tests
    offset[at] = (_numpy(rows.offset) + centred)[shaped].astype(offset.dtype)
    return _with_rows(replace(tests, offset=offset), rows, S.astype(tests.dtype), units.center)


def _with_rows(tests: NodeTests, rows: DenseRows, S: Array, center: Array) -> NodeTests:
    """Put dense rows in the place of the rows of S that they come from."""
    keep = S != 0
    keep[~keep.any(axis=1), 0] = True  # a row of zeros still needs an entry
    own, imputed = rows.own.cpu().numpy(), rows.imputed.cpu().numpy()[rows.rule_of_row]
    dense_row, column = np.nonzero(keep)
    n_entries = np.diff(tests.row_ptr)
    is_dense = np.zeros(tests.n_rows, bool)
    is_dense[rows.rows] = True
    kept = np.flatnonzero(~np.repeat(is_dense, n_entries))
    n_entries[rows.rows] = keep.sum(axis=1)
    row = np.concatenate(
        [np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))[kept], rows.rows[dense_row]]
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
