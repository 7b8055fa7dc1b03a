"""The ONNX form `soft`: a relaxed forest as it is, and forests behind a feature map.

The computation is the relaxed forest's own forward, which torch's exporter traces. Its answers are
operators of `bitvec.core.graph.output_operators`, as in every other form.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.converters.onnx.model_proto import model_proto
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import Interface
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.graph.output_operators import add_answers
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.onnx import mapped
from bitvec.runtime.export.onnx.soft import traced
from bitvec.runtime.train.relax import block_scores
from bitvec.runtime.train.relax.feature_modules import HardMap
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.relaxations import RELAXATIONS, Relaxation

FORM = "soft"
LARGEST_DEPTH = 512
"""Levels, each of three operators, which torch traces and a runtime plans at load."""


def to_onnx(
    soft: SoftForest,
    *,
    name: str = "bitvec",
    interface: Interface | None = None,
) -> Any:
    """Return a relaxed forest, with its parameters as they are now, as an ONNX model.

    Parameters
    ----------
    soft : SoftForest
        Of any relaxation, in float32 or float64; with constant or linear leaves; a feature map may
        stand before it if it is Layers, TorchMap, Identity or a Concatenate of them, and a
        StackedForest too where it moves.
    name : str
        Name of the graph.
    interface : Interface, optional
        The dtype of X, which outputs, how many rows, and the versions of the file.

    Returns
    -------
    onnx.ModelProto
        Input `X`, (batch, n_features), in the forest's dtype. Output `raw`, (batch, n_outputs), in
        the output's dtype: the module's own numbers but for rounding in the module's dtype, since
        sums run in another order and exponentials differ in their last place. Besides, of those
        scores, `prediction` of a regressor, and `label` and `probabilities` of a classifier, as
        `bitvec.core.graph.output_operators` states for every form. The metadata name the
        relaxation and gamma.

    Raises
    ------
    InputError
        If `soft` is no SoftForest.
    UnsupportedModelError
        If it computes in bfloat16, its trees are deeper than 512 levels, or its feature map cannot
        be traced.
    """
    _require_exportable(soft)
    if soft.device.type != "cpu":
        soft = copy.deepcopy(soft).cpu()
    graph, forest = Graph(interface or Interface()), soft.forest
    X = graph.input("X", forest.dtype, ("batch", forest.n_features))
    with torch.no_grad():
        module = Frozen(soft)
    raw = traced.append(graph, module, X, forest.dtype, forest.n_features)
    if soft.dtype != torch.tensor(np.zeros(0, forest.output.dtype)).dtype:
        raw = cast(graph, raw, forest.output.dtype, "raw_in_output_dtype")
    add_answers(graph, forest, raw)
    model = model_proto(graph, forest, name=name, form=FORM)
    facts = {"relaxation": relaxation_name(soft.relaxation), "gamma": repr(float(soft.gamma))}
    for key, fact in facts.items():
        model.metadata_props.add(key=f"bitvec.{key}", value=fact)
    return model


def forest_to_onnx(
    forest: Forest,
    *,
    name: str = "bitvec",
    interface: Interface | None = None,
) -> Any:
    """Return a forest that predicts softly, or that reads a feature map, as an ONNX model.

    Parameters
    ----------
    forest : Forest
        With a prediction kernel, or a feature map, or both.
    name : str
        Name of the graph.
    interface : Interface, optional

    Returns
    -------
    onnx.ModelProto
        Inputs and outputs as in `to_onnx`. With a prediction kernel, in float64: `raw` equals the
        reference within 1e-6 times the sum over trees of the largest |v|, plus the rounding of
        the output's dtype; an input is a single number in the forest's dtype, whose distance from
        a threshold is rounded to that dtype once. With a feature map and no kernel, trees route
        hard: exit leaves are those of the forest wherever φ, whose sums run in another order, is
        not within its rounding of a threshold.

    Raises
    ------
    UnsupportedModelError
        If the forest has neither, its trees are neither summed nor averaged, or its feature map
        has no form in ONNX.
    """
    if forest.kernel is not None:
        soft = SoftForest.from_forest(forest, "kernel", trainable=(), dtype=torch.float64)
        return to_onnx(soft, name=name, interface=interface)
    if forest.feature_map is None:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs a relaxed forest, or a forest with a prediction kernel "
            "or a feature map, got one with neither: use the form `tree_ensemble`, or relax it "
            "with bitvec.to_torch."
        )
    return mapped.to_onnx(forest, name=name, interface=interface)


class Frozen(nn.Module):
    """A relaxed forest whose parameters stay, put in order once.

    Parameters
    ----------
    soft : SoftForest
    """

    def __init__(self, soft: SoftForest) -> None:
        super().__init__()
        self.soft, self.plan, self.part = soft, soft.plan(), soft.whole(learned=True)

    def forward(self, X: Tensor) -> Tensor:
        """Return raw scores, (batch, n_outputs)."""
        rows = self.soft.ready(X)
        total = block_scores.total(self.plan, [self.part], rows, always_again=False)
        return self.soft.finish(total)


def relaxation_name(relaxation: Relaxation) -> str:
    """Return the short name of a relaxation, or its parts if it has none.

    >>> relaxation_name(Relaxation("smooth_step", "softmax", "ternary_per_depth"))
    'softmax of ternary_per_depth of smooth_step'
    """
    for short, known in RELAXATIONS.items():
        if known == relaxation:
            return short
    gate = relaxation.gate
    said = gate if isinstance(gate, str) else getattr(gate, "__name__", type(gate).__name__)
    parts = (relaxation.leaf_map, relaxation.score, said)
    return " of ".join(part for part in parts if part is not None)


def _require_exportable(soft: SoftForest) -> None:
    if not isinstance(soft, SoftForest):
        raise InputError(
            f"`soft` must be a SoftForest, got {type(soft).__name__}: make one with "
            "bitvec.to_torch."
        )
    if soft.plan().dtype == torch.bfloat16:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs float32 or float64, got a module in bfloat16: relax the "
            "forest in torch.float32 and load its state_dict."
        )
    for part in soft.modules():
        if isinstance(part, HardMap):
            part.refuse()
    depth = len(soft.blocks(whole=True)[0].layout.levels)
    if depth > LARGEST_DEPTH:
        raise UnsupportedModelError(
            f"the ONNX form `{FORM}` needs trees of depth {LARGEST_DEPTH} at most, got {depth}: "
            "predict with bitvec."
        )
