"""Soft models as ONNX: relaxed forests, kernels, and forests behind a feature map."""

from bitvec.runtime.export.onnx.soft.soft_form import forest_to_onnx, to_onnx

__all__ = ["forest_to_onnx", "to_onnx"]
