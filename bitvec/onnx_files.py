"""A forest as an ONNX model for a target: which form, in which versions, and what is narrowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from bitvec.certificates.digest import forest_digest
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.forest import Forest
from bitvec.graph.interface import Interface
from bitvec.narrowing import fold_weights, narrow_scores, narrow_tests
from bitvec.targets import TARGETS, TREES, ExportTarget, find, require_runs

if TYPE_CHECKING:
    from bitvec.runtime.relax.module import SoftForest

OnnxForm = Literal["tree_ensemble", "traversal", "tensor", "portable"]
FORMS: Final = ("tree_ensemble", "traversal", "tensor", "portable")
WITHOUT_TARGET: Final = ("tree_ensemble", "tensor")
"""What is tried where neither a form nor a target is named: `tensor` holds every kind of node."""
NO_QUANTISATION: Final = (
    "Do not quantise this file: thresholds and counts are exact numbers, and generic quantisation "
    "changes most of its answers."
)


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """What is asked of an ONNX file.

    Parameters
    ----------
    form : str, optional
        One of `FORMS`; by default the first that holds the forest exactly and that the target runs.
    target : str, optional
        One of `bitvec.targets.TARGETS`.
    version : 3 or 5
        Of the operators of the form `tree_ensemble`.
    leaves : bool
        Whether the file also has the output `leaves`.
    interface : Interface
    """

    form: OnnxForm | None = None
    target: str | None = None
    version: Literal[3, 5] = 5
    leaves: bool = False
    interface: Interface = field(default_factory=Interface)

    def __post_init__(self) -> None:
        if self.form is not None and self.form not in FORMS:
            raise InputError(f"`form` must be one of {', '.join(FORMS)}, got {self.form!r}.")
        if self.version not in (3, 5):
            raise InputError(f"`version` must be 3 or 5, got {self.version!r}.")
        if self.target is not None:
            find(self.target)


def onnx_model(forest: Forest, options: OnnxOptions) -> Any:
    """Return a forest as an `onnx.ModelProto`.

    A target that has no float64 gets a forest that compares in float32, with the same routes for
    every row of float32, and adds in float32: raw scores are then within rounding, and the file's
    metadata says so.

    Raises
    ------
    UnsupportedModelError
        If no form holds the forest that the target runs; with the reason of each.
    """
    if forest.kernel is not None or forest.feature_map is not None:
        return _through_torch(forest, options)
    target = TARGETS[options.target or "onnxruntime"]
    forms = WITHOUT_TARGET if options.target is None else target.forms
    if options.form is not None:
        forms = (options.form,)
    reasons: dict[str, str] = {}
    for form in forms:
        try:
            return _built(forest, form, target, options)
        except UnsupportedModelError as error:
            reasons[form] = str(error)
    if len(reasons) == 1:
        raise UnsupportedModelError(*reasons.values())
    told = " ".join(f"{form}: {reason}" for form, reason in reasons.items())
    raise UnsupportedModelError(f"the forest must fit a form that {target.name} runs. {told}")


def _through_torch(forest: Forest, options: OnnxOptions) -> Any:
    """Return a forest that predicts softly, or reads a feature map, traced by torch."""
    if options != OnnxOptions(interface=options.interface):
        raise UnsupportedModelError(
            "a forest with a prediction kernel or a feature map must be exported without a form, "
            "a target, a version and leaves: what runs is traced by torch, in standard operators."
        )
    from bitvec.runtime.onnx.soft import forest_to_onnx

    return _told(forest_to_onnx(forest, interface=options.interface), forest, "within rounding")


def soft_model(soft: SoftForest, interface: Interface) -> Any:
    """Return a relaxed forest as an `onnx.ModelProto`."""
    from bitvec.runtime.onnx.soft import to_onnx

    return _told(to_onnx(soft, interface=interface), soft.forest, "within rounding")


def _told(model: Any, forest: Forest, adds: str, **facts: str) -> Any:
    """Return a model with what else its metadata tell."""
    told = {"adds": adds, "note": NO_QUANTISATION} | facts
    if not _has_module(forest):
        told["forest"] = forest_digest(forest)
    for key, value in told.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = f"bitvec.{key}", value
    return model


def _has_module(forest: Forest) -> bool:
    """Return whether a torch module stands in front, which has no digest."""
    return forest.feature_map is not None and hasattr(forest.feature_map, "module")


def _built(forest: Forest, form: str, target: ExportTarget, options: OnnxOptions) -> Any:
    if options.target is not None and form not in target.forms:
        raise UnsupportedModelError(
            f"a file for {target.name} must have one of the forms {', '.join(target.forms)}, got "
            f"{form}: choose one of them, or another target."
        )
    held = _for_target(forest, target)
    interface = _without_labels(held, form, target, options)
    if options.target is not None:
        interface = replace(interface, opset=target.opset, ir_version=target.ir_version)
    if target.fixed_batch and interface.batch is None:
        interface = replace(interface, batch=1)
    model = _WRITERS[form](held, options, interface, target)
    kinds = {node.op_type for node in model.graph.node}
    require_runs(target, kinds)
    if kinds & TREES and options.target is not None and not target.ml_opset:
        raise UnsupportedModelError(f"{target.name} must run ai.onnx.ml, and it does not.")
    facts = {"compares": held.dtype.name}
    if options.target is not None:
        facts |= {"target": target.name, "settings": target.settings}
    return _told(model, forest, _adds(forest, held, form, options), **facts)


def _without_labels(
    forest: Forest, form: str, target: ExportTarget, options: OnnxOptions
) -> Interface:
    """Return the interface, without `label` where the target has no such numbers or no strings."""
    classes = forest.output.classes
    whole = classes is None or all(labels.dtype.kind in "iub" for labels in classes)
    interface = options.interface
    if form == "portable":
        if interface.outputs is not None and not set(interface.outputs) <= {"raw", "leaves"}:
            raise UnsupportedModelError(
                "the ONNX form `portable` must have the outputs raw and leaves only, got "
                f"{', '.join(interface.outputs)}: it has no comparison to make labels with."
            )
        return interface
    if target.float64 or whole:
        return interface
    if interface.outputs is not None and "label" in interface.outputs:
        raise UnsupportedModelError(
            f"class labels for {target.name} must be whole numbers, got text or fractions: ask for "
            "`probabilities`, whose greatest says the class, or relabel the classes."
        )
    groups = len(forest.output.groups)
    names = ["probabilities"] if groups == 1 else [f"probabilities_{i}" for i in range(groups)]
    outputs = ("raw", *names, *(("leaves",) if options.leaves else ()))
    return interface if interface.outputs is not None else replace(interface, outputs=outputs)


def _adds(forest: Forest, held: Forest, form: str, options: OnnxOptions) -> str:
    """Return whether raw scores are the forest's bit for bit, or within rounding."""
    rounds = held.output is not forest.output
    rounds |= form == "tree_ensemble" and options.version == 3
    rounds |= form == "portable"
    return "within rounding" if rounds else "exactly"


def _for_target(forest: Forest, target: ExportTarget) -> Forest:
    """Return what the target can hold without changing a route."""
    if not target.float64:
        forest = narrow_scores(fold_weights(narrow_tests(forest)))
    if not target.int64 and forest.n_leaves > 1 << 24:
        raise UnsupportedModelError(
            f"a forest for {target.name} must have at most {1 << 24} leaves, got "
            f"{forest.n_leaves}: it counts in float32. Export fewer trees with forest.take."
        )
    if not target.subnormals:
        smallest = np.finfo(forest.dtype).tiny
        b = np.abs(forest.tests.b)
        small = int(np.count_nonzero((b > 0) & (b < smallest)))
        if small:
            raise UnsupportedModelError(
                f"a forest for {target.name} must have no threshold between 0 and {smallest:.3g}, "
                f"got {small}: it takes such numbers for 0. Choose another target."
            )
    return forest


def _tree_ensemble(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.converters.onnx import to_onnx

    return to_onnx(forest, leaves=options.leaves, interface=interface, version=options.version)


def _traversal(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.runtime.onnx import traversal

    return traversal.to_onnx(forest, leaves=options.leaves, interface=interface)


def _tensor(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.runtime.onnx import tensor

    return tensor.to_onnx(forest, leaves=options.leaves, interface=interface)


def _portable(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.runtime.onnx import portable

    ceil = target.runs is None or "Ceil" in target.runs
    return portable.to_onnx(forest, leaves=options.leaves, interface=interface, ceil=ceil)


_WRITERS: Final[dict[str, Callable[[Forest, OnnxOptions, Interface, ExportTarget], Any]]] = {
    "tree_ensemble": _tree_ensemble,
    "traversal": _traversal,
    "tensor": _tensor,
    "portable": _portable,
}
