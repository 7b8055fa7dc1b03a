"""Rows that lie on a device, and what answers them there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.errors import InputError
from bitvec.runtime.predict.gpu.device_forest import DeviceForest
from bitvec.runtime.predict.gpu.replay import Replayed
from bitvec.runtime.predict.isolation_scores import isolation_offset
from bitvec.runtime.predict.torch.hard_links import Labels, Probabilities

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_CUDA, _CUDA_MANAGED = 2, 13  # DLPack's numbers


def as_rows(X: Any, forest: Forest, device: torch.device) -> Tensor | None:
    """Return an array of the engine's device as a tensor, not copied; None of any other table.

    Raises
    ------
    InputError
        If it lies on another GPU, or has another number of columns or no floats.
    """
    if isinstance(X, Tensor):
        rows = X.detach()
    elif hasattr(X, "__cuda_array_interface__"):
        rows = torch.as_tensor(X, device="cuda")
    elif hasattr(X, "__dlpack_device__") and not isinstance(X, np.ndarray):
        if int(X.__dlpack_device__()[0]) not in (_CUDA, _CUDA_MANAGED):
            return None
        rows = torch.utils.dlpack.from_dlpack(X)
    else:
        return None
    if rows.device.type != device.type:
        return None
    if device.type == "cuda" and rows.get_device() != _number(device):
        raise InputError(
            f"rows must lie on the engine's device {device}, got {rows.device}: move them."
        )
    if rows.ndim != 2 or rows.shape[1] != forest.n_features:
        raise InputError(
            f"`X` must have {forest.n_features} features, got shape {tuple(rows.shape)}: "
            "pass the training columns."
        )
    if rows.dtype not in FLOATS:
        raise InputError(
            f"rows on a device must be floats, got {rows.dtype}: pass X.to(torch.float32)."
        )
    return rows


def _number(device: torch.device) -> int:
    return torch.zeros(0, device=device).get_device()


def require_finite(rows: Tensor) -> None:
    """Raise InputError unless all rows are finite, which waits for the device."""
    if not bool(torch.isfinite(rows).all()):
        raise InputError(
            "rows must be finite, since the source library refuses missing and infinite values, "
            "got some that are not: impute them first."
        )


def answer_of(verb: str, forest: Forest, trees: DeviceForest) -> Callable[[Tensor], Tensor] | None:
    """Return a method of `Predictor` for rows on the device, where tensors hold its answer."""
    output = forest.output
    one_target = output.classes is not None and len(output.classes) == 1
    is_plain = output.post_transform is PostTransform.IDENTITY
    flat = output.n_outputs == 1

    raw = Replayed(trees.raw)

    def column(rows: Tensor) -> Tensor:
        return raw(rows)[:, 0] if flat else raw(rows)

    def linked(link: torch.nn.Module) -> Callable[[Tensor], Tensor]:
        on_device = link.to(trees.device)
        return Replayed(lambda rows: on_device(trees.raw(rows)))

    if verb == "raw":
        return raw
    if verb == "exit_leaves":
        return Replayed(lambda rows: trees.exits(rows).T)
    if verb == "decision_function" and isolation_offset(forest) is None:
        return column
    if verb == "predict_proba" and one_target:
        return linked(Probabilities(output))
    if verb == "predict" and one_target and output.classes[0].dtype.kind in "biu":  # type: ignore[index]
        return linked(Labels(output))
    if verb == "predict" and output.classes is None and is_plain:
        return column
    return None
