"""ONNX: files, objects, and the operators and attributes that convert exactly."""

from __future__ import annotations

from typing import Final

from bitvec.converters.format import Content, Format

ORT: Final = b"ORTM"
"""Bytes 4 to 8 of an .ort file."""


def is_onnx(content: Content) -> bool:
    """Return whether this is a protobuf message whose first field is a small number, a version."""
    return len(content.head) > 2 and content.head[0] == 0x08 and 0 < content.head[1] < 0x40


def is_ort(content: Content) -> bool:
    """Return whether this is onnxruntime's own format, a flat buffer, by its identifier."""
    return content.head[4:8] == ORT


FORMATS: Final = (
    Format(
        name="ONNX",
        folder="onnx",
        packages=("onnx",),
        recognises=lambda content: is_onnx(content) or is_ort(content),
        made_by="onnx.save(model, path)",
        supported=(
            "TreeEnsembleClassifier v1",
            "TreeEnsembleRegressor v1",
            "TreeEnsembleClassifier v3",
            "TreeEnsembleRegressor v3",
            "TreeEnsemble v5",
            "BRANCH_LEQ",
            "BRANCH_LT",
            "BRANCH_GTE",
            "BRANCH_GT",
            "BRANCH_EQ",
            "BRANCH_NEQ",
            "mixed modes",
            "set membership",
            "chains of equalities",
            "missing values",
            "float64",
            "aggregate AVERAGE",
            "aggregate SUM",
            "aggregate MIN",
            "aggregate MAX",
            "post transform NONE",
            "post transform LOGISTIC",
            "post transform SOFTMAX",
            "post transform SOFTMAX_ZERO",
            "post transform PROBIT",
            "labels of text",
            "exported by skl2onnx",
            "exported by onnxmltools",
            "exported by bitvec",
            "Scaler",
            "Imputer",
            "OneHotEncoder",
            "LabelEncoder",
            "columns cast, clipped, computed with, joined and chosen",
        ),
        unsupported=(
            ("Normalizer, MatMul", "they mix columns, in sums whose order cannot be kept"),
            ("other operators beside the trees", "they are not part of a forest: they are named"),
        ),
        writes="onnx",
    ),
)
