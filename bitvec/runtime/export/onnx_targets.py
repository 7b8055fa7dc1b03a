"""Targets of ONNX files: a static table of runtimes, what each runs, and what keeps it exact.

A target runs an operator here only if it answers as the standard says, with NaN and infinities too.
An execution provider of onnxruntime leaves what it does not run to onnxruntime's own kernels: the
answers stay, the accelerator is not used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.edge_targets import EDGE_TARGETS
from bitvec.runtime.export.export_target import ALL_FORMS, STANDARD, ExportTarget, types

_OPENVINO_WRONG = (
    ("Cast", "bool of NaN is false, and float64 of infinity is the largest float32"),
    ("Clip", "NaN becomes the lower bound"),
    ("Div", "a constant divisor becomes a product with its rounded reciprocal"),
    ("Greater", "a comparison with NaN is true"),
    ("GreaterOrEqual", "a comparison with NaN is true"),
    ("Max", "NaN loses against a number that stands after it"),
    ("Min", "NaN loses against a number that stands after it"),
    ("Relu", "NaN becomes 0"),
)
"""Measured on the CPU of version 2026.4.1, where some answers depend on the processor. Two stay in:
bitvec casts no float to bool, and float64 is no choice here anyway; scores of a target that merges
constants are divided beforehand."""

_OPENVINO = STANDARD - {kind for kind, _ in _OPENVINO_WRONG} | {"Cast", "Div"}

_ONE_THREAD = (
    "tree_ensemble",
    "Run it by version 1.24 or later, as older ones take some inner nodes for leaves, and on one "
    "thread: several add the trees of a row in another order.",
)

_TENSORRT = STANDARD - {"BitwiseAnd"}

_COREML = types(
    "Add ArgMax Cast Ceil Clip Concat Div Exp Identity MatMul Max Mul Pow ReduceMax ReduceSum "
    "Relu Reshape Shape Slice Softmax Split Sqrt Squeeze Sub Transpose Unsqueeze"
)

_NNAPI = types(
    "Abs Add Cast Clip Concat Div Exp Floor Gather Identity Log MatMul Max Min Mul Neg Pad Pow "
    "Relu Reshape Slice Softmax Sqrt Squeeze Sub Transpose Unsqueeze"
)

_QNN = STANDARD - {"BitwiseAnd"}

TARGETS: Final[dict[str, ExportTarget]] = {
    target.name: target
    for target in (
        ExportTarget(
            name="onnxruntime",
            runs=None,
            forms=ALL_FORMS,
            opset=21,
            ml_opset=5,
            ir_version=10,
            float64=True,
            int64=True,
            subnormals=True,
            merges_constants=False,
            fixed_batch=False,
            float16=True,
            ort=True,
            measured="1.31.1",
            settings="Leave session.set_denormal_as_zero off.",
            wrong=(),
            source="onnxruntime 1.31.1 itself, which loads opsets to 26 and IR versions to 13",
            form_settings=(_ONE_THREAD,),
        ),
        ExportTarget(
            name="onnxruntime-mobile",
            runs=None,
            forms=ALL_FORMS,
            opset=21,
            ml_opset=5,
            ir_version=10,
            float64=True,
            int64=True,
            subnormals=True,
            merges_constants=False,
            fixed_batch=False,
            float16=True,
            ort=True,
            measured="1.31.1",
            settings="Leave session.set_denormal_as_zero off; a reduced build needs the "
            "required_operators_and_types.config that "
            "onnxruntime.tools.convert_onnx_models_to_ort writes for the .onnx file.",
            wrong=(),
            source="https://onnxruntime.ai/docs/performance/model-optimizations/"
            "ort-format-models.html; microsoft/onnxruntime: core/providers/cpu/ml/"
            "tree_ensemble_attribute.h; read November 2026",
            form_settings=(
                (
                    "tree_ensemble",
                    f"{_ONE_THREAD[1]} A minimal build throws at TreeEnsemble version 5: export "
                    "the form traversal for it.",
                ),
                ("tensor", "Convert without optimisation, which would expand B in the file."),
            ),
        ),
        ExportTarget(
            name="onnxruntime-web",
            runs=None,
            forms=ALL_FORMS,
            opset=21,
            ml_opset=5,
            ir_version=10,
            float64=True,
            int64=True,
            subnormals=True,
            merges_constants=False,
            fixed_batch=False,
            float16=True,
            ort=True,
            measured="1.30.0",
            settings="Ask for executionProviders: ['wasm']; webgl, webgpu and webnn run fewer "
            "operators and no float64.",
            wrong=(),
            source="README of onnxruntime-web 1.24.3: its wasm backend is the native CPU engine, "
            "with all operators",
            form_settings=(
                ("tree_ensemble", f"Set ort.env.wasm.numThreads to 1. {_ONE_THREAD[1]}"),
            ),
        ),
        ExportTarget(
            name="openvino",
            runs=_OPENVINO,
            forms=("traversal", "tensor"),
            opset=18,
            ml_opset=0,
            ir_version=8,
            float64=False,
            int64=False,
            subnormals=False,
            merges_constants=True,
            fixed_batch=False,
            float16=True,
            ort=False,
            measured="2026.4.1",
            settings="Compile for CPU with INFERENCE_PRECISION_HINT f32 and EXECUTION_MODE_HINT "
            "ACCURACY: by default it computes in bfloat16 where the processor can.",
            wrong=_OPENVINO_WRONG,
            source="openvinotoolkit/openvino: src/frontends/onnx/docs/supported_ops.md, issues "
            "35927 (Greater), 35839 (Min), 35649 (Relu), 35932 (Cast) of May 2026, all still so "
            "in 2026.4.1",
        ),
        ExportTarget(
            name="tensorrt",
            runs=_TENSORRT,
            forms=("traversal", "tensor", "portable"),
            opset=18,
            ml_opset=0,
            ir_version=8,
            float64=False,
            int64=True,
            subnormals=False,
            merges_constants=True,
            fixed_batch=False,
            float16=True,
            ort=False,
            measured="",
            settings="Clear BuilderFlag.TF32, which is on by default, set neither FP16 nor BF16, "
            "and give an optimization profile for the number of rows.",
            wrong=(),
            source="onnx/onnx-tensorrt: docs/operators.md of TensorRT 10.15 (opsets 9 to 24)",
        ),
        ExportTarget(
            name="coreml",
            runs=_COREML,
            forms=("portable",),
            opset=18,
            ml_opset=0,
            ir_version=8,
            float64=False,
            int64=False,
            subnormals=False,
            merges_constants=True,
            fixed_batch=True,
            float16=False,
            ort=True,
            measured="",
            settings="Set ModelFormat MLProgram and MLComputeUnits CPUOnly: the GPU and the Neural "
            "Engine compute in float16.",
            wrong=(),
            source="microsoft/onnxruntime: tools/ci_build/github/apple/"
            "coreml_supported_mlprogram_ops.md, read November 2026",
        ),
        ExportTarget(
            name="nnapi",
            runs=_NNAPI,
            forms=("portable",),
            opset=18,
            ml_opset=0,
            ir_version=8,
            float64=False,
            int64=False,
            subnormals=False,
            merges_constants=True,
            fixed_batch=True,
            float16=False,
            ort=True,
            measured="",
            settings="Leave NNAPI_FLAG_USE_FP16 off and set NNAPI_FLAG_CPU_ONLY: drivers of other "
            "devices state no precision.",
            wrong=(),
            source="microsoft/onnxruntime: tools/ci_build/github/android/nnapi_supported_ops.md, "
            "read November 2026",
        ),
        ExportTarget(
            name="qnn",
            runs=_QNN,
            forms=("portable",),
            opset=18,
            ml_opset=0,
            ir_version=8,
            float64=False,
            int64=False,
            subnormals=False,
            merges_constants=True,
            fixed_batch=True,
            float16=False,
            ort=True,
            measured="",
            settings="Use the CPU backend, for the HTP backend computes float32 files in float16 "
            "unless enable_htp_fp16_precision is 0.",
            wrong=(),
            source="onnxruntime/onnxruntime-qnn: docs/execution_providers/"
            "QNN-ExecutionProvider.md, op_builder_factory.cc (Identity, IsNaN, Reshape), "
            "notes of 2.5.0 (Shape), read November 2026",
        ),
        *EDGE_TARGETS,
    )
}


def find(name: object) -> ExportTarget:
    """Return the target of a name.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> find("openvino").forms
    ('traversal', 'tensor')
    """
    found = next((target for target in TARGETS.values() if target.name == name), None)
    if found is None:
        raise InputError(
            f"the target must be one of {', '.join(TARGETS)}, got {name!r}: choose one."
        )
    return found


def require_reads(target: ExportTarget, dtype: np.dtype | None) -> None:
    """Refuse a dtype of X that a target does not read as it is; None is the forest's.

    Raises
    ------
    UnsupportedModelError
    """
    read = {np.dtype(np.float32): True, np.dtype(np.float64): target.float64}
    if dtype is None or read.get(dtype, target.float16):
        return
    raise UnsupportedModelError(
        f"a file for {target.name} must read X of a dtype that {target.name} has, got {dtype}: "
        "leave `input_dtype` out, and hand in float32."
    )


def require_runs(target: ExportTarget, operator_types: Iterable[str]) -> None:
    """Refuse a file with operators that a target does not run, or answers wrongly.

    Parameters
    ----------
    target : ExportTarget
    operator_types : iterable of str
        Types of the operators in the file.

    Raises
    ------
    UnsupportedModelError
        Naming each such operator, and how its answer is wrong.
    """
    if target.runs is None:
        return
    left = sorted(set(operator_types) - target.runs)
    if not left:
        return
    wrong = dict(target.wrong)
    named = ", ".join(f"{kind} ({wrong[kind]})" if kind in wrong else kind for kind in left)
    raise UnsupportedModelError(
        f"a file for {target.name} must hold only operators that it runs as the standard says, got "
        f"{named}."
    )
