"""A forest as an ONNX model for a target: which form, in which versions, and what is narrowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.to_float32 import F32
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.binned_rows import binned_forest, bins_of
from bitvec.runtime.export.export_target import ALL_FORMS, TREES, ExportTarget
from bitvec.runtime.export.onnx_targets import (
    TARGETS,
    find,
    require_reads,
    require_runs,
)
from bitvec.runtime.export.target_limits import (
    for_target,
    require_integers,
    without_labels,
    without_missing,
)
from bitvec.verify.certificates.digest import forest_digest

if TYPE_CHECKING:
    from bitvec.core.machine import DecisionMachine
    from bitvec.runtime.train.relax.module import SoftForest

OnnxForm = Literal["tree_ensemble", "traversal", "tensor", "portable"]
FORMS: Final = ALL_FORMS
TREE_FORM: Final = "tree_ensemble"
WITHOUT_TARGET: Final = ("tree_ensemble", "tensor")
"""Forms tried where neither a form nor a target is named: `tensor` holds every kind of node."""
NO_QUANTISATION: Final = (
    "Do not quantise this file: thresholds and counts are exact numbers, and generic quantisation "
    "changes most of its answers."
)
IN_FLOAT64: Final = (
    "It compares in float64: where a runtime rounds that to float32, rows on thresholds go another "
    "way, so export with the target of such a runtime."
)


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """Options of an ONNX file.

    Parameters
    ----------
    form : str, optional
        One of `FORMS`; by default the first that holds the forest exactly and that the target runs.
    target : str, optional
        One of `bitvec.runtime.export.onnx_targets.TARGETS`.
    version : 3 or 5
        Of the operators of the form `tree_ensemble`.
    leaves : bool
        Whether the file also has the output `leaves`; so it has where `interface` names it.
    finite : bool
        Whether a file, not of the form `tree_ensemble`, reads rows without missing values only.
    interface : Interface
    input : "values" or "bins"
        What X holds.
    """

    form: OnnxForm | None = None
    target: str | None = None
    version: Literal[3, 5] = 5
    leaves: bool = False
    finite: bool = False
    interface: Interface = field(default_factory=Interface)
    input: Literal["values", "bins"] = "values"

    def __post_init__(self) -> None:
        if self.form is not None and self.form not in FORMS:
            raise InputError(f"`form` must be one of {', '.join(FORMS)}, got {self.form!r}.")
        if self.version not in (3, 5):
            raise InputError(f"`version` must be 3 or 5, got {self.version!r}.")
        if self.input not in ("values", "bins"):
            raise InputError(f"`input` must be values or bins, got {self.input!r}.")
        if self.input == "bins" and self.finite:
            raise InputError("`finite` must be left out with bins, got True: none is missing.")
        runs = ALL_FORMS if self.target is None else find(self.target).forms
        if self.version == 3 and (self.form not in (None, TREE_FORM) or TREE_FORM not in runs):
            raise InputError(
                f"`version` must be left out unless the form is {TREE_FORM}, got 3 for "
                f"{self.form or self.target}: it is of that form's operators."
            )
        if self.finite and self.forms[0] == TREE_FORM:
            raise InputError(
                f"`finite` must come with the form portable, traversal or tensor, got "
                f"{self.forms[0]}, whose nodes say where a missing value goes: leave it out."
            )
        outputs = self.interface.outputs
        if outputs is not None and "leaves" in outputs:
            object.__setattr__(self, "leaves", True)
        elif outputs is not None and self.leaves:
            raise InputError(
                f"`outputs` must name leaves where `leaves` is true, got {', '.join(outputs)}: "
                "leave one of them out, or name leaves too."
            )

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms to try, the first one first."""
        if self.form is not None:
            return (self.form,)
        if self.version == 3:
            return (TREE_FORM,)
        return WITHOUT_TARGET if self.target is None else find(self.target).forms


def onnx_model(forest: Forest, options: OnnxOptions) -> Any:
    """Return a forest as an `onnx.ModelProto`.

    A target that has no float64 gets a forest that compares in float32, with the same routes for
    every row of float32, and adds in float32: raw scores are then within rounding, and the file's
    metadata says so. They also say why forms that stand before the file's own were not taken.

    Raises
    ------
    UnsupportedModelError
        If no form holds the forest that the target runs; with the reason of each.
    """
    if options.input == "bins":
        forest = binned_forest(forest, bins_of(forest))
        finite = TREE_FORM not in options.forms
        options = replace(options, input="values", finite=finite)
        return _tell(_of_first_form(forest, options.forms, options), {"input": "bins"})
    return _of_first_form(forest, options.forms, options)


def page_model(forest: Forest) -> Any:
    """Return a forest as the model of a page: for `onnxruntime-web`, with labels and leaves.

    Raises
    ------
    UnsupportedModelError
        If no form with these answers holds the forest; with the reason of each.
    """
    options = OnnxOptions(target="onnxruntime-web", leaves=True)
    return _of_first_form(forest, tuple(f for f in options.forms if f != "portable"), options)


def _of_first_form(forest: Forest, forms: tuple[str, ...], options: OnnxOptions) -> Any:
    if forest.kernel is not None:
        return _soft_forest(forest, options)
    if forest.feature_map is not None:
        return _mapped(forest, options)
    target = TARGETS[options.target or "onnxruntime"]
    reasons: dict[str, str] = {}
    for form in forms:
        try:
            model = _built(forest, form, target, options)
        except UnsupportedModelError as error:
            reasons[form] = str(error)
            continue
        return _tell(model, {"instead_of": _listed(reasons)}) if reasons else model
    told = (
        next(iter(reasons.values()))
        if len(set(reasons.values())) == 1
        else f"the forest must fit a form that {target.name} runs. {_listed(reasons)}"
    )
    advice = "" if options.target is None else _what_fits(forest, forms, target, options)
    raise UnsupportedModelError(f"{told}{advice}")


def _what_fits(
    forest: Forest, tried: tuple[str, ...], target: ExportTarget, options: OnnxOptions
) -> str:
    """Return a sentence on the forms, or else the targets, that hold what was refused, or ""."""

    def holding(forms: Iterable[str], target: ExportTarget) -> list[str]:
        held = []
        for form in forms:
            try:
                _built(forest, form, target, replace(options, target=target.name))
            except (UnsupportedModelError, InputError):
                continue
            held.append(form)
        return held

    fitting = holding((form for form in target.forms if form not in tried), target)
    if fitting:
        return f" For {target.name} this forest fits the form {' or '.join(fitting)}: export that."
    if not holding(ALL_FORMS, TARGETS["onnxruntime"]):
        return ""
    others = (name for name, other in TARGETS.items() if other.runs is None)
    return f" These targets run every form: {', '.join(others)}."


def _listed(reasons: dict[str, str]) -> str:
    """Return why forms were refused, each reason once."""
    forms: dict[str, list[str]] = {}
    for form, reason in reasons.items():
        forms.setdefault(reason, []).append(form)
    return " ".join(f"{', '.join(names)}: {reason}" for reason, names in forms.items())


def _soft_forest(forest: Forest, options: OnnxOptions) -> Any:
    """Return a forest that predicts softly, traced by torch."""
    if options != OnnxOptions(interface=options.interface):
        raise UnsupportedModelError(
            "a forest with a prediction kernel must be exported without a form, a target, a "
            "version, `finite` and leaves: what runs is traced by torch, in standard operators."
        )
    from bitvec.runtime.export.onnx.soft import forest_to_onnx

    model = forest_to_onnx(forest, interface=options.interface)
    return _told(model, "within rounding", **_digest(forest))


def _mapped(forest: Forest, options: OnnxOptions) -> Any:
    """Return a forest that reads a feature map and predicts hard."""
    if options != OnnxOptions(leaves=options.leaves, interface=options.interface):
        raise UnsupportedModelError(
            "a forest with a feature map must be exported without a form, a target, a version and "
            "`finite`: it has one form, in standard operators of the forest's own dtype, which "
            "onnxruntime runs."
        )
    from bitvec.runtime.export.onnx import mapped

    model = mapped.to_onnx(forest, leaves=options.leaves, interface=options.interface)
    return _told(model, "within rounding", compares=forest.dtype.name, **_digest(forest))


def soft_model(soft: SoftForest, options: OnnxOptions) -> Any:
    """Return a relaxed forest as an `onnx.ModelProto`.

    Raises
    ------
    InputError
        If anything is asked for that one traced form does not have.
    """
    _require_one_form(soft, options, OnnxOptions(interface=options.interface))
    from bitvec.runtime.export.onnx.soft import to_onnx

    return _told(to_onnx(soft, interface=options.interface), "within rounding")


def machine_model(machine: DecisionMachine, options: OnnxOptions) -> Any:
    """Return a decision machine as an `onnx.ModelProto`.

    Raises
    ------
    InputError
        If anything is asked for that its one form does not have.
    """
    allowed = OnnxOptions(leaves=options.leaves, interface=options.interface)
    _require_one_form(machine, options, allowed)
    from bitvec.runtime.export.onnx.machine_form import to_onnx

    model = to_onnx(machine, leaves=options.leaves, interface=options.interface)
    return _told(model, "exactly")


def _require_one_form(model: Any, options: OnnxOptions, allowed: OnnxOptions) -> None:
    if options == allowed:
        return
    given = [
        f.name for f in fields(options) if getattr(options, f.name) != getattr(allowed, f.name)
    ]
    raise InputError(
        f"a {type(model).__name__} must be exported without `{'`, `'.join(given)}`: it has one "
        "form, so leave them out."
    )


def _told(model: Any, adds: str, **facts: str) -> Any:
    """Return a model with what else its metadata tell."""
    return _tell(model, {"adds": adds, "note": NO_QUANTISATION} | facts)


def _tell(model: Any, facts: dict[str, str]) -> Any:
    for key, value in facts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = f"bitvec.{key}", value
    return model


def _digest(forest: Forest) -> dict[str, str]:
    """Return the digest that certificates carry; a torch module in front has none."""
    mapped = forest.feature_map is not None and hasattr(forest.feature_map, "module")
    return {} if mapped else {"forest": forest_digest(forest)}


def _built(forest: Forest, form: str, target: ExportTarget, options: OnnxOptions) -> Any:
    if options.target is not None and form not in target.forms:
        raise UnsupportedModelError(
            f"a file for {target.name} must have one of the forms {', '.join(target.forms)}, got "
            f"{form}."
        )
    require_reads(target, options.interface.input_dtype)
    held = for_target(forest, target)
    if options.finite and form != "portable":
        held = without_missing(held)
    interface = without_labels(held, form, target, options.interface, leaves=options.leaves)
    if options.target is not None:
        interface = replace(interface, opset=target.opset, ir_version=target.ir_version)
    if target.float32_only:
        dtype = interface.integer_dtype or np.dtype(F32)
        interface = replace(interface, integer_dtype=dtype, plain=True)
    require_integers(held, interface.integer_dtype, leaves=options.leaves)
    if target.fixed_batch and interface.batch is None:
        interface = replace(interface, batch=1)
    model = _WRITERS[form](held, options, interface, target)
    kinds = {node.op_type for node in model.graph.node}
    require_runs(target, kinds)
    if kinds & TREES and options.target is not None and not target.ml_opset:
        raise UnsupportedModelError(f"{target.name} must run ai.onnx.ml, and it does not.")
    narrows = form == TREE_FORM and options.version == 3
    facts = {"compares": F32.name if narrows else held.dtype.name}
    if facts["compares"] != F32.name:
        facts["note"] = f"{NO_QUANTISATION} {IN_FLOAT64}"
    if options.target is not None:
        facts |= {"target": target.name, "settings": target.settings_of(form)}
    if options.finite:
        facts["finite"] = "yes"
    rounds = narrows or form == "portable" or target.merges_constants or not target.float64
    return _told(model, "within rounding" if rounds else "exactly", **facts, **_digest(forest))


def _tree_ensemble(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.converters.onnx.write import to_onnx

    return to_onnx(forest, leaves=options.leaves, interface=interface, version=options.version)


def _traversal(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.runtime.export.onnx import traversal

    finite = options.finite
    return traversal.to_onnx(forest, leaves=options.leaves, interface=interface, finite=finite)


def _tensor(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.runtime.export.onnx import tensor

    return tensor.to_onnx(forest, leaves=options.leaves, interface=interface)


def _portable(
    forest: Forest, options: OnnxOptions, interface: Interface, target: ExportTarget
) -> Any:
    from bitvec.runtime.export.onnx import portable

    ceil = target.runs is None or "Ceil" in target.runs
    instead = portable.OTHERS
    if options.target is not None and target.forms == ("portable",):
        instead = f"{target.name} runs no other form, so choose another target"
    return portable.to_onnx(
        forest,
        leaves=options.leaves,
        interface=interface,
        ceil=ceil,
        finite=options.finite,
        instead=instead,
        float32_only=target.float32_only,
    )


_WRITERS: Final[dict[str, Callable[[Forest, OnnxOptions, Interface, ExportTarget], Any]]] = {
    "tree_ensemble": _tree_ensemble,
    "traversal": _traversal,
    "tensor": _tensor,
    "portable": _portable,
}
