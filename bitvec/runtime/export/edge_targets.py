"""Targets of small runtimes: plain files without NaN, in float32, of few operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bitvec.runtime.export.export_target import ExportTarget, types

_WALK = types(
    "Add And Cast Concat Div Equal Floor Gather GatherElements Greater Identity Less LessOrEqual "
    "Mul Not Or Pad Squeeze Sub Transpose Where"
)
"""Operator types of `traversal` without NaN."""

_RUNS = types("Add Ceil Clip Identity MatMul Relu") | _WALK

_EDGE = ExportTarget(
    name="edge",
    runs=_RUNS,
    forms=("portable", "traversal"),
    opset=13,
    ml_opset=0,
    ir_version=7,
    float64=False,
    int64=False,
    subnormals=False,
    merges_constants=True,
    fixed_batch=False,
    float16=False,
    ort=True,
    measured="",
    settings="Leave quantisation, float16 and bfloat16 off, in the runtime and in its converter.",
    wrong=(),
    source="operators of opset 13 alone",
    float32_only=True,
    form_settings=(
        ("traversal", "Not for MNN: version 3.6.1 answers some files of this form wrongly."),
    ),
)
_PORTABLE = replace(_EDGE, forms=("portable",), form_settings=())
"""A runtime of which `traversal` is not known to be right."""
_WALKS = replace(_EDGE, form_settings=())

_BY = "tests/runtimes/compare.py runs it"
_FLUSHES = "It reads numbers of X below 1.2e-38 in size as 0."

EDGE_TARGETS: Final = (
    _EDGE,
    replace(
        _WALKS,
        name="tract",
        measured="0.23.9",
        subnormal_rows=False,
        settings=f"{_EDGE.settings} {_FLUSHES}",
        source=_BY,
    ),
    replace(
        _WALKS,
        name="tvm",
        measured="0.27.0.post1",
        settings="Compile without fast math.",
        source=_BY,
    ),
    replace(
        _WALKS,
        name="opencv",
        measured="5.0.0.93",
        subnormal_rows=False,
        settings="Leave the target at DNN_TARGET_CPU: those with FP16 compute in float16. "
        f"{_FLUSHES}",
        source=_BY,
    ),
    replace(
        _PORTABLE,
        name="mnn",
        measured="3.6.1",
        settings="Convert without --fp16 and --weightQuantBits, and set precision to high.",
        source=_BY,
    ),
    replace(
        _PORTABLE,
        name="ncnn",
        measured="1.0.20261020",
        fixed_batch=True,
        settings="Convert by pnnx with fp16=0, for it writes float16 by default, and set use_fp16_ "
        "storage, packed and arithmetic and use_bf16_storage of the net's options to false.",
        source=_BY,
    ),
    replace(
        _PORTABLE,
        name="litert",
        measured="2.1.0",
        fixed_batch=True,
        subnormal_rows=False,
        settings="Convert by onnx2tf (tried: 1.29.24), and take the file that ends in "
        f"_float32.tflite. {_FLUSHES}",
        source=_BY,
    ),
    replace(
        _WALKS,
        name="iree",
        measured="3.13.0",
        fixed_batch=True,
        subnormal_rows=False,
        settings=f"{_EDGE.settings} {_FLUSHES}",
        source=_BY,
    ),
    replace(
        _WALKS,
        name="onnx2torch",
        runs=_RUNS - {"Floor"},  # of sets, which it does not load in `traversal`
        measured="1.5.15",
        settings="Call the module in float32, without autocast.",
        source=_BY,
    ),
)
