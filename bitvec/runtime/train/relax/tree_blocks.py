"""Runs of trees that are computed together, so that what a step needs stays small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure
from bitvec.core.forest import Forest
from bitvec.runtime.train.relax import kernel_gate
from bitvec.runtime.train.relax.dense_margins import in_block_order
from bitvec.runtime.train.relax.dense_rows import DenseRows, RowParameters
from bitvec.runtime.train.relax.kernel_gate import KernelGate
from bitvec.runtime.train.relax.node_margins import BlockParameters, NodeBlock, node_blocks
from bitvec.runtime.train.relax.path_layout import PathLayout
from bitvec.runtime.train.relax.scaling import Scaling

CACHED_NODES = 512
"""Nodes of a block on a CPU: with about 1,000 rows what a step needs stays in its cache."""
NODES = 1 << 16
"""Nodes of a block on any other device."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeBlock:
    """A run of trees.

    Parameters
    ----------
    trees, nodes, leaves : slice
        In the forest.
    dense_rows : slice
        In the module's `DenseRows`.
    layout : PathLayout
    tests : NodeBlock
        In level order.
    kernel : KernelGate, optional
    """

    trees: slice
    nodes: slice
    leaves: slice
    dense_rows: slice
    layout: PathLayout
    tests: NodeBlock
    kernel: KernelGate | None


def runs_of_trees(forest: Forest, tree_chunk: int | None, device: torch.device) -> list[int]:
    """Return where each run of trees starts, and the number of trees at the end."""
    if tree_chunk is not None:
        return [*range(0, forest.n_trees, tree_chunk), forest.n_trees]
    most = CACHED_NODES if device.type == "cpu" else NODES
    size = np.diff(forest.bitvectors.node_ptr)
    starts, held = [0], 0
    for tree in range(forest.n_trees):
        if held and held + size[tree] > most:
            starts.append(tree)
            held = 0
        held += int(size[tree])
    return [*starts, forest.n_trees]


def blocks(
    forest: Forest,
    dense: DenseRows | None,
    units: Scaling,
    *,
    starts: list[int],
    with_kernel: bool,
    learned: bool,
    device: torch.device,
) -> list[TreeBlock]:
    """Return the blocks of a forest.

    Parameters
    ----------
    dense : DenseRows, optional
    units : Scaling
    starts : list of int
        See `runs_of_trees`.
    with_kernel : bool
        Whether the gate is the kernel gate.
    learned : bool
        Whether columns have a gradient.
    """
    rows_before = np.zeros(forest.n_nodes + 1, np.int64)
    if dense is not None:
        count = np.bincount(dense.row_node, minlength=dense.n_nodes)
        rows_before[dense.nodes + 1] = count
    rows_before = np.cumsum(rows_before)
    B = forest.bitvectors
    of_nodes = node_blocks(
        forest, dense, units, with_kernel=with_kernel, learned=learned, device=device
    )

    def block(first: int, last: int) -> TreeBlock:
        part, _ = structure.select(B, np.arange(first, last))
        nodes = slice(int(B.node_ptr[first]), int(B.node_ptr[last]))
        layout = PathLayout(part, device)
        return TreeBlock(
            slice(first, last),
            nodes,
            slice(int(B.leaf_ptr[first]), int(B.leaf_ptr[last])),
            slice(int(rows_before[nodes.start]), int(rows_before[nodes.stop])),
            layout,
            of_nodes(nodes.start + layout.order.cpu().numpy()),
            kernel_gate.kernel_gate(forest, part, nodes, units, layout) if with_kernel else None,
        )

    return [block(first, last) for first, last in pairwise(starts)]


def with_parameters(
    blocks: list[TreeBlock], b: Tensor, rows: RowParameters | None, vectors: Tensor
) -> Iterator[tuple[TreeBlock, BlockParameters]]:
    """Yield each block with its part of the forest's parameters.

    One split for each parameter: its backward pass joins the parts' gradients once, where a slice
    for each block would fill a whole gradient for each.
    """
    own_b = _split(b, [part.nodes for part in blocks])
    own_vectors = _split(vectors, [part.leaves for part in blocks])
    own_rows: Iterable[RowParameters | None] = [None] * len(blocks)
    if rows is not None:
        split = (_split(values, [part.dense_rows for part in blocks]) for values in rows)
        own_rows = (RowParameters(*part) for part in zip(*split, strict=True))
    for block, its_b, its_rows, its_vectors in zip(
        blocks, own_b, own_rows, own_vectors, strict=True
    ):
        if block.tests.dense is not None and its_rows is not None:
            its_rows = in_block_order(its_rows, block.tests.dense)
        yield block, BlockParameters(block.layout.by_level(its_b), its_rows, its_vectors)


def _split(values: Tensor, parts: list[slice]) -> tuple[Tensor, ...]:
    return torch.split_with_sizes(values, [part.stop - part.start for part in parts])
