"""Compile kernels for GPUs that need not be here, and print their resources as JSON.

    python machine_code.py [once] SM...

Run in a process of its own, without Triton's interpreter: a line for each variant of a kernel, or
for the first of each, and target.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bitvec.runtime.predict.gpu import bit_kernels
from bitvec.runtime.predict.gpu import triton_kernels as kernels

I32 = "i32"
_TRAVERSED = {
    "n_planes": I32, "word": "*i32", "plane_of": "*i32", "base": "*i32", "steps": "*i32",
    "slot_value": "*fp32", "trees": "*i32", "group_ptr": "*i32", "start": "*fp32", "out": "*fp32",
    "out_stride": I32, "n_rows": I32, "TILE": 32, "ROWS": 128,
}  # fmt: skip
_FULL = {**_TRAVERSED, "codes": "*u8", "DEPTH": 6, "SHARED": False, "WIDE": False, "ADDS": True}
_ENCODED = {
    "x": "*fp32", "row_stride": I32, "column_stride": 1, "n_rows": I32, "column": "*i32",
    "missing": "*i32", "start": "*i32", "half": "*i32", "thresholds": "*fp32", "codes": "*u8",
    "n_planes": I32, "begin": I32, "end": I32, "unit": I32, "STEPS": 8, "SIDE_BY_SIDE": True,
    "TILE": 32, "ROWS": 32, "PLANES": 32,
}  # fmt: skip
_ADDED = {
    "values": "*fp32", "stride": I32, "trees": "*i32", "group_ptr": "*i32", "start": "*fp32",
    "out": "*fp32", "out_stride": I32, "n_rows": I32, "ROWS": 128,
}  # fmt: skip
_VECTORS = {
    "leaves": "*i32", "stride": I32, "n_trees": I32, "first_leaf": "*i64", "v": "*fp64",
    "width": I32, "start": "*fp64", "out": "*fp64", "n_rows": I32, "ROWS": 32, "COLUMNS": 16,
}  # fmt: skip
_SPLIT = {
    "words": "*i32", "n_planes": I32, "room": I32, "first_bit": "*i32", "bits": "*i32",
    "n_bits": I32, "SHIFT": 4, "WIDTH": 8,
}  # fmt: skip
_FOLLOWED = {
    "bits": "*i32", "n_bits": I32, "nodes": "*i32", "node_ptr": "*i32", "group_ptr": "*i32",
    "n_groups": I32, "exits": "*i32", "n_blocks": I32, "WIDTH": 6,
}  # fmt: skip
_EXITS = {
    "exits": "*i32", "n_blocks": I32, "v": "*fp64", "first_leaf": "*i32", "group_ptr": "*i32",
    "start": "*fp64", "out": "*fp64", "out_stride": I32, "n_rows": I32,
}  # fmt: skip
VARIANTS = {
    "split codes": (bit_kernels.split_codes, _SPLIT),
    "follow": (bit_kernels.follow, _FOLLOWED),
    "add exits": (bit_kernels.add_exits, _EXITS),
    "encode": (kernels.encode, _ENCODED),
    "encode one by one": (
        kernels.encode,
        {**_ENCODED, "SIDE_BY_SIDE": False, "column_stride": I32},
    ),
    "encode float16": (kernels.encode, {**_ENCODED, "x": "*fp16"}),
    "encode float64": (kernels.encode, {**_ENCODED, "x": "*fp64", "thresholds": "*fp64"}),
    "full": (kernels.traverse, _FULL),
    "full, depth 12": (kernels.traverse, {**_FULL, "DEPTH": 12}),
    "full, wide": (kernels.traverse, {**_FULL, "codes": "*i32", "WIDE": True}),
    "oblivious": (kernels.traverse, {**_FULL, "SHARED": True}),
    "exits": (kernels.traverse, {**_FULL, "ADDS": False, "slot_value": "*i32", "out": "*i32"}),
    "linked": (kernels.traverse, {**_FULL, "word": "*i64", "codes": "*u16", "DEPTH": 0}),
    "linked, wide": (
        kernels.traverse,
        {**_FULL, "word": "*i64", "codes": "*i32", "DEPTH": 0, "WIDE": True},
    ),
    "values": (kernels.add_values, _ADDED),
    "vectors": (kernels.add_vectors, _VECTORS),
}


def compiled(kernel: triton.JITFunction, arguments: dict[str, object], capability: int) -> dict:
    """Return the registers, and the bytes of local memory and of shared memory, of a kernel."""
    names = kernel.arg_names
    constants = {(names.index(k),): v for k, v in arguments.items() if not isinstance(v, str)}
    signature = {k: v if isinstance(v := arguments[k], str) else "constexpr" for k in names}
    aligned = {(at,): [["tt.divisibility", 16]] for at, k in enumerate(names)
               if signature[k].startswith("*")}  # fmt: skip
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    target = GPUTarget("cuda", capability, 32)
    warps = 1 if kernel in {bit_kernels.split_codes, bit_kernels.follow} else 4
    options = {"num_warps": warps, "enable_fp_fusion": False}
    found = triton.compile(source, target=target, options=options)
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(found.asm["cubin"])
        file.flush()
        command = [str(tools / "cuobjdump"), "-res-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        command = [str(tools / "cuobjdump"), "-sass", file.name]
        code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    usage = {name.lower(): int(value) for name, value in re.findall(r"([A-Z]+):(\d+)", told)}
    fused = len(re.findall(r"\b[FD]FMA\b", code))
    return {**{name: usage[name] for name in ("reg", "stack", "local", "shared")}, "fused": fused}


def main() -> None:
    once, *kinds = sys.argv[1:] if sys.argv[1] == "once" else ["", *sys.argv[1:]]
    first = {kernel: name for name, (kernel, _) in reversed(VARIANTS.items())}
    names = sorted(first.values()) if once else list(VARIANTS)
    for capability in map(int, kinds):
        for name in names:
            kernel, arguments = VARIANTS[name]
            facts = compiled(kernel, arguments, capability)
            print(json.dumps({"kernel": name, "sm": capability, **facts}))


if __name__ == "__main__":
    main()
