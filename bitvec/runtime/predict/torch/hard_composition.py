"""A composition of forests as a torch module: answers of its members, averaged in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.composition import Asked, Combined, Composition, Member
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.predict.torch.hard_forest import HardForest


class HardComposition(nn.Module):
    """Averages of hard forests: soft voting and bagging.

    Probabilities, (batch, n_classes), or a regressor's predictions, (batch,), for rows (batch,
    n_features) of the widest dtype among the members. Sums run in the members' order, as the
    source's do; members whose links have exponentials are within a few ulps of it.

    Raises
    ------
    UnsupportedModelError
        If a member bends its answers by curves, as calibration does, or is a composition itself.
    """

    def __init__(self, composition: Composition, *, device: Any = None) -> None:
        super().__init__()
        for member in composition.members:
            _require_plain(member)
        self.members = nn.ModuleList(
            HardForest(
                member.model,  # type: ignore[arg-type] # a Forest, as was required
                output="probabilities" if member.asked == Asked.PROBABILITIES else "raw",
                device=device,
            )
            for member in composition.members
        )
        self.columns = [member.columns for member in composition.members]
        self.outputs = [member.outputs for member in composition.members]
        self.n_outputs = composition.n_outputs
        self.classifies = composition.classes is not None
        self.in_order = composition.combined != Combined.AVERAGE
        weights = composition.weights
        self.weights = None if weights is None else weights.astype(np.float64).tolist()
        # As NumPy adds them, in the dtype of the answer.
        self.total = len(self.members) if weights is None else float(weights.sum(dtype=np.float64))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of rows."""
        kinds = [member.dtype for member in self.members]
        return torch.float64 if torch.float64 in kinds else torch.float32

    def forward(self, x: Tensor) -> Tensor:
        """Return the answers for rows.

        Raises
        ------
        InputError
            If rows have another dtype.
        """
        if x.dtype != self.dtype:
            raise InputError(f"rows must be {self.dtype}, got {x.dtype}: pass x.to({self.dtype}).")
        total: Tensor | None = None
        parts = [self._part(at, x) for at in range(len(self.members))]
        wide = self.weights is not None or (self.classifies and self.in_order)
        wide |= any(part.dtype == torch.float64 for part in parts)
        for at, part in enumerate(parts):
            part = part.to(torch.float64) if wide else part
            part = part if self.weights is None else part * self.weights[at]
            total = part if total is None else total + part
        assert total is not None
        return total / self.total

    def _part(self, at: int, x: Tensor) -> Tensor:
        columns, outputs = self.columns[at], self.outputs[at]
        member: Any = self.members[at]
        own = x if columns is None else x[:, list(columns)]
        part: Tensor = member(own.to(member.dtype))
        if not self.classifies:
            return part[:, 0]
        if outputs is None or part.shape[1] == self.n_outputs:
            return part
        whole = torch.zeros((x.shape[0], self.n_outputs), dtype=part.dtype, device=x.device)
        whole[:, list(outputs)] = part
        return whole


def _require_plain(member: Member) -> None:
    model = member.model
    bends = "curves of calibration or of a target" if member.curves else ""
    if not isinstance(model, Forest):
        bends = "a composition within it"
    elif member.asked == Asked.PREDICTION and (
        model.output.post_transform is not PostTransform.IDENTITY
    ):
        bends = f"a member's link {model.output.post_transform}"
    if bends:
        raise UnsupportedModelError(
            f"a composition in torch must average forests as they are, got {bends}: make modules "
            "of its forests, `composition.forests`, or predict with bitvec.compile."
        )
