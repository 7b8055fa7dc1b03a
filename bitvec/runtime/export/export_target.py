"""The facts of a runtime for ONNX files, and the names of forms and operators in bitvec's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """A runtime for ONNX files.

    Parameters
    ----------
    name : str
    runs : frozenset of str, optional
        Operator types, of those in bitvec's files, that it runs and answers as the standard says;
        None where it runs all.
    forms : tuple of str
        ONNX forms for it, the one to try first at the front.
    opset, ml_opset, ir_version : int
        Versions to write: the oldest that these forms need. `ml_opset` is 0 where the operators of
        `ai.onnx.ml` do not run.
    float64 : bool
        Whether float64 stays float64; where not, it silently becomes float32.
    int64 : bool
        Whether int64 stays int64; where not, whole numbers are exact below 2**24 only.
    subnormals : bool
        Whether constants below the smallest normal number stay what they are.
    merges_constants : bool
        Whether sums and products with several constants in a row are merged or fused, so that a raw
        score that is scaled, averaged or added to another base score moves in its last place.
    fixed_batch : bool
        Whether the number of rows must be fixed in the file.
    float16 : bool
        Whether it casts X of float16 to float32 without changing a number.
    ort : bool
        Whether it reads onnxruntime's own format too.
    measured : str
        Version whose answers the tests hold to the reference, or "": known from its documentation.
    settings : str
        What the user must set so that the answers stay exact.
    form_settings : tuple of (str, str)
        Forms, and what must be set for such a file besides.
    wrong : tuple of (str, str)
        Operator types that it loads and answers otherwise than the standard says, and how.
    source : str
        Where this is written.
    float32_only : bool
        Whether all constants, leaf numbers and outputs are float32.
    subnormal_rows : bool
        Whether subnormal numbers of X stay what they are; where not, `settings` says so.
    """

    name: str
    runs: frozenset[str] | None
    forms: tuple[str, ...]
    opset: int
    ml_opset: int
    ir_version: int
    float64: bool
    int64: bool
    subnormals: bool
    merges_constants: bool
    fixed_batch: bool
    float16: bool
    ort: bool
    measured: str
    settings: str
    wrong: tuple[tuple[str, str], ...]
    source: str
    form_settings: tuple[tuple[str, str], ...] = ()
    float32_only: bool = False
    subnormal_rows: bool = True

    def settings_of(self, form: str) -> str:
        """Return what the user must set for a file of a form."""
        return " ".join(filter(None, (self.settings, dict(self.form_settings).get(form, ""))))


def types(names: str) -> frozenset[str]:
    """Return operator types, of their names in one line."""
    return frozenset(names.split())


STANDARD: Final = types(
    "Abs Add And ArgMax BitwiseAnd Cast Ceil Clip Concat CumSum Div Equal Exp Expand Floor "
    "Gather GatherElements Greater GreaterOrEqual Identity IsNaN Less LessOrEqual Log MatMul "
    "Max Min Mul Neg Not Or Pad Pow ReduceMax ReduceSum Relu Reshape Shape Sign Slice Softmax "
    "Split Sqrt Squeeze Sub Transpose Unsqueeze Where"
)
"""Operator types of the standard's first domain that occur in bitvec's files."""

TREES: Final = frozenset(("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"))
"""Operator types of `ai.onnx.ml` that occur in bitvec's files."""

ALL_FORMS: Final = ("tree_ensemble", "traversal", "tensor", "portable")
