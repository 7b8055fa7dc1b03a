"""Leaf values as a table per tree: look each row's leaf number up and add its value.

The table of a small tree stands in registers, where AVX-512 looks values up without touching
memory; else values are loaded one by one. Sums run tree by tree, with one rounding each.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I32,
    I64,
    address,
    count,
    intrinsic_function,
    load,
    number,
    same,
    store,
    vector,
)

PADDING = 256
"""Values after the last table, since tables are loaded by whole registers."""
_IN_REGISTERS = {4: 256, 8: 64}
"""Leaves whose values are looked up in registers, by bytes of a value."""
_SHUFFLED = {8: "pd", 16: "ps", 32: "hi", 64: "qi"}
"""LLVM's names of the elements that are looked up, by their number in a register."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafTables:
    """Values that the leaves of each tree add, as tables by leaf number.

    Parameters
    ----------
    values : F, (n_values + padding,)
        Tree after tree, output after output, the values of its leaves, weighted and in the dtype of
        the sums.
    start : int64, (n_trees,)
        Where the values of each tree begin.
    n_leaves : int64, (n_trees,)
        Leaves of a tree: the length of its table for one output.
    output : int64, (n_trees,)
        The first output that each tree adds to.
    width : int
        The outputs that each tree adds to.
    """

    values: Array
    start: Array
    n_leaves: Array
    output: Array
    width: int

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that kernels take."""
        return self.values, self.start, self.n_leaves, self.output

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why leaves that are added as they are cannot stand in tables, or None."""
    if adds(forest) and forest.leaves.output is not None and _constant_output(forest) is None:
        return "leaves of one tree add to several outputs"
    return None


def adds(forest: Forest) -> bool:
    """Return whether raw scores are sums of constant leaf vectors."""
    aggregate = forest.output.aggregate
    return forest.leaves.linear is None and aggregate in (Aggregate.SUM, Aggregate.MEAN)


def _constant_output(forest: Forest) -> Array | None:
    """Return the one output that each tree adds to, or None where its leaves differ."""
    of_leaf = forest.leaves.output
    assert of_leaf is not None
    leaf_ptr = forest.bitvectors.leaf_ptr
    first = of_leaf[leaf_ptr[:-1]]
    same_in_tree = np.array_equal(np.repeat(first, np.diff(leaf_ptr)), of_leaf)
    return first.astype(np.int64) if same_in_tree else None


def leaf_tables(forest: Forest, order: Array, n_leaves: Array) -> LeafTables:
    """Pack the leaves of a forest that `adds`, for which `unsupported_reason` is None.

    Parameters
    ----------
    order : integers, (n,)
        The forest's leaf at each place of the trees' tables, tree after tree.
    n_leaves : integers, (n_trees,)
        The places of each tree.
    """
    leaves, output = forest.leaves, forest.output
    v = leaves.v.astype(output.dtype)
    if output.tree_weight is not None:
        v = np.repeat(output.tree_weight, np.diff(forest.bitvectors.leaf_ptr))[:, None] * v
    width = v.shape[1]
    first = np.concatenate([[0], np.cumsum(n_leaves)])
    n_leaves = np.asarray(n_leaves, np.int64)
    values = np.zeros(order.size * width + PADDING, output.dtype)
    tree = np.repeat(np.arange(n_leaves.size), n_leaves)
    place_in_tree = np.arange(order.size) - first[tree]
    for column in range(width):
        at = first[tree] * width + column * n_leaves[tree] + place_in_tree
        values[at] = v[order, column]
    outputs = np.zeros(n_leaves.size, np.int64)
    if leaves.output is not None:
        constant_output = _constant_output(forest)
        assert constant_output is not None
        outputs = constant_output
    return LeafTables(
        constant(values),
        constant((first[:-1] * width).astype(np.int64)),
        constant(n_leaves),
        constant(outputs),
        width,
    )


def registers(size: int, most_leaves: int) -> int:
    """Return how many values of `size` bytes are looked up in registers, 0 for none."""
    if vectors() != "avx512" or most_leaves > _IN_REGISTERS[size]:
        return 0
    pair = 2 * 64 // size
    return max(pair, 1 << (most_leaves - 1).bit_length())


@intrinsic(prefer_literal=True)
def add(typing_context, values, index, total, n, size, in_registers, index_bits):
    """Add values[index[i]] to total[i] for n rows i, and up to the next multiple of 16.

    `values`, `index` and `total` are addresses. `size` is 4 for float32, 8 for float64,
    `in_registers` what `registers` returns, `index_bits` 8 or 16: literals all three.
    """
    literals = size, in_registers, index_bits
    size, in_registers, index_bits = (literal.literal_value for literal in literals)
    element, integer = (F32, I32) if size == 4 else (F64, I64)
    lanes = 64 // size
    index_type = ir.IntType(index_bits)
    kind, integers = vector(element, lanes), vector(integer, lanes)

    def generate(context, builder, signature, arguments):
        values, index, total, n = arguments[:4]
        table = [load(builder, values, number(64 * k), kind) for k in range(in_registers // lanes)]

        def body(k, _):
            if table:
                offset = builder.mul(k, number(index_bits // 8))
                leaf = load(builder, index, offset, vector(index_type, lanes))
                value = looked_up(builder, table, builder.zext(leaf, integers), kind, integers)
            else:
                value = loaded(builder, values, index, k, kind, index_type)
            at = builder.mul(k, number(size))
            before = load(builder, total, at, kind)
            store(builder, builder.fadd(before, value), total, at)

        count(builder, number(0), n, body, step=lanes)
        return context.get_dummy_value()

    return types.void(address, address, address, address, *literals), generate


def looked_up(builder, table, index, kind, integers):
    """Return the values of 8, 16, 32 or 64 indices from tables in registers, two or more."""
    integer, lanes = integers.element, integers.count
    name = f"llvm.x86.avx512.vpermi2var.{_SHUFFLED[lanes]}.512"
    pair = intrinsic_function(builder, name, kind, [kind, integers, kind])
    found = [builder.call(pair, [table[k], index, table[k + 1]]) for k in range(0, len(table), 2)]
    bit = 2 * lanes
    while len(found) > 1:
        upper = builder.icmp_unsigned(
            "!=", builder.and_(index, same(integer, lanes, bit)), same(integer, lanes, 0)
        )
        found = [builder.select(upper, found[k + 1], found[k]) for k in range(0, len(found), 2)]
        bit *= 2
    return found[0]


def loaded(builder, values, index, first, kind, index_type):
    """Return the values of the indices from `first` on, one by one."""
    result = ir.Constant(kind, ir.Undefined)
    size = 64 // kind.count
    for lane in range(kind.count):
        offset = builder.mul(builder.add(first, number(lane)), number(index_type.width // 8))
        leaf = builder.zext(load(builder, index, offset, index_type), I64)
        value = load(builder, values, builder.mul(leaf, number(size)), kind.element)
        result = builder.insert_element(result, value, ir.Constant(I32, lane))
    return result
