"""A decision machine as named arrays and one JSON record.

It is written as the forest of its parts, without the intervals of a tree, which it has not: only
`bitvectors.leaf_ptr` stays, beside `machine.B` and `machine.c`.
"""

from __future__ import annotations

from bitvec.core.arrays import require, require_offsets
from bitvec.core.machine import DecisionMachine, chains
from bitvec.errors import FileFormatError
from bitvec.files.fields import Record, Tensors
from bitvec.files.records import pack, unpack

_INTERVALS = ("bitvectors.lo", "bitvectors.mid", "bitvectors.hi")


def pack_machine(machine: DecisionMachine) -> tuple[Tensors, Record]:
    """Return the arrays of a machine by name, without copying them, and its record.

    Raises
    ------
    UnsupportedModelError
        If its feature map is not one of `bitvec.core.feature_maps`, or its metadata are not JSON.
    """
    tensors, record = pack(machine.frame)
    for name in _INTERVALS:
        del tensors[name]
    tensors["machine.B"], tensors["machine.c"] = machine.B, machine.c
    return tensors, record


def unpack_machine(tensors: Tensors, record: Record) -> DecisionMachine:
    """Build the machine again from what `pack_machine` returned; both arguments are emptied.

    Raises
    ------
    FileFormatError
        If a value is missing, unknown or of another type.
    InvalidForestError
        If the values are no machine.
    """
    for name in ("machine.B", "machine.c", "bitvectors.leaf_ptr", "tests.b"):
        if name not in tensors:
            raise FileFormatError(f"the tensor `{name}` must be there, got none.")
    for name in _INTERVALS:
        if name in tensors:
            raise FileFormatError(f"the tensor `{name}` must not be there: B is `machine.B`.")
    B, c = tensors.pop("machine.B"), tensors.pop("machine.c")
    leaf_ptr = tensors["bitvectors.leaf_ptr"]
    # Before arrays are made that are as large as `leaf_ptr` claims.
    require(leaf_ptr.dtype == "int64" and leaf_ptr.ndim == 1, "`leaf_ptr` must be int64 offsets.")
    n_nodes = tensors["tests.b"].size
    require_offsets("leaf_ptr", leaf_ptr, n_nodes + leaf_ptr.size - 1)
    frame_bitvectors = chains(leaf_ptr)
    for name in _INTERVALS:
        tensors[name] = getattr(frame_bitvectors, name.removeprefix("bitvectors."))
    frame = unpack(tensors, record)
    if frame.kernel is not None:
        raise FileFormatError("a machine must have no prediction kernel.")
    return DecisionMachine(
        tests=frame.tests,
        leaf_ptr=frame.bitvectors.leaf_ptr,
        B=B,
        c=c,
        leaves=frame.leaves,
        output=frame.output,
        inputs=frame.inputs,
        source=frame.source,
        feature_map=frame.feature_map,
    )
