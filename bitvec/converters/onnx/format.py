"""ONNX: files, objects, and the operators and attributes that convert exactly."""

from __future__ import annotations

from typing import Final

from bitvec.converters.format import Content, Format


def is_onnx(content: Content) -> bool:
    """Return whether this is a protobuf message whose first field is a small number, a version."""
    return len(content.head) > 2 and content.head[0] == 0x08 and 0 < content.head[1] < 0x40


FORMATS: Final = (
    Format(
        name="ONNX",
        folder="onnx",
        packages=("onnx",),
        recognises=is_onnx,
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
        ),
        unsupported=(
            ("other operators beside the trees", "they are not part of a forest: they are named"),
        ),
        writes="onnx",
    ),
)
