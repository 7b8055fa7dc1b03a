"""Losses of stumps: impurity, or minus the likelihood, directly or by EM.

All take γ · margin of blocks of rows and return one loss for each restart and node, a mean over the
node's weight. A loss is shared by all stumps of a level and knows nothing of what their nodes ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bitvec.learners.growth.level import Batch
from bitvec.learners.growth.targets import SoftTarget, sums_by_side

E_STEP_EVERY = 10
"""Gradient steps on the splits between two E-steps."""


class StumpLoss(Protocol):
    """A loss of all stumps of a level."""

    def before(self, step: int, steep: Callable[[], tuple[Tensor, Batch]]) -> None:
        """Prepare a step; `steep` computes γ · margin of all rows of the level."""

    def __call__(self, steep: Tensor, batch: Batch) -> Tensor:
        """Return the loss of each restart and node.

        Parameters
        ----------
        steep : (n_restarts, n_blocks, block)
            γ · margin.

        Returns
        -------
        (n_restarts, n_nodes)
        """


class Impurity:
    """The impurity of both sides, rows counted by how far they go there.

    Of labels: Σ_l (N_l / N) H(π_l), with π the soft class shares; least where the side tells most
    about the label (mutual information, as the CPT paper asks). Of values: the squared error
    about the soft means. π and means are those of the rows at hand and differentiated through.
    """

    def __init__(self, target: SoftTarget) -> None:
        self.target = target

    def before(self, step: int, steep: Callable[[], tuple[Tensor, Batch]]) -> None:
        """Nothing is to prepare."""

    def __call__(self, steep: Tensor, batch: Batch) -> Tensor:
        """Return the mean impurity."""
        sums = _sums(steep.sigmoid(), batch)
        return self.target.impurity(sums).sum(0)


class Likelihood:
    """−ln Σ_l p(y | l) μ_l(x), with leaves refreshed from the rows of each step.

    The gradient is that of the EM bound at the current point, so no E-step is needed.
    """

    def __init__(self, target: SoftTarget) -> None:
        self.target = target

    def before(self, step: int, steep: Callable[[], tuple[Tensor, Batch]]) -> None:
        """Nothing is to prepare."""

    def __call__(self, steep: Tensor, batch: Batch) -> Tensor:
        """Return minus the mean log-likelihood."""
        with torch.no_grad():
            sums = _sums(steep.sigmoid(), batch)
            density = self.target.log_density(sums, batch.node, batch.rows)
        return batch.by_node(-log_likelihood(density, steep))


class EM:
    """Expectation maximisation: the splits climb Σ h ln μ for the h of the last E-step.

    Notes
    -----
    As in Hehn, Kooij and Hamprecht, 2020. An E-step over all rows is made every
    `E_STEP_EVERY` steps: h_l = p(y | l) μ_l / Σ, and the leaves in closed form from h. Of class
    shares that is π_lk = Σ 1[y = k] h_l / Σ h_l. The first leaves take h = μ.
    """

    def __init__(self, target: SoftTarget) -> None:
        self.target = target
        self.right: Tensor | None = None  # h of the right leaf, (n_restarts, n_rows)
        self.sums: Tensor | None = None  # what the leaves were taken from

    @torch.no_grad()
    def before(self, step: int, steep: Callable[[], tuple[Tensor, Batch]]) -> None:
        """Make an E-step, and the leaves' M-step, every `E_STEP_EVERY` steps."""
        if step % E_STEP_EVERY:
            return
        steepness, everything = steep()
        if self.sums is None:
            self.sums = _sums(steepness.sigmoid(), everything)
        density = self.target.log_density(self.sums, everything.node, everything.rows)
        h = responsibility(density, steepness)
        self.sums = _sums(h, everything)
        filled = everything.weight > 0
        self.right = h.new_empty((len(h), int(everything.rows.max()) + 1))
        self.right[:, everything.rows[filled]] = h[:, filled]

    def __call__(self, steep: Tensor, batch: Batch) -> Tensor:
        """Return minus the mean of Σ_l h_l ln μ_l."""
        assert self.right is not None
        h = self.right[:, batch.rows]
        return batch.by_node(-split_bound(steep, 1 - h, h))


def log_likelihood(density: Tensor, steep: Tensor) -> Tensor:
    """Return ln Σ_l p(y | l) μ_l of each row, from ln p of both sides and γ · margin."""
    return torch.logaddexp(density[0] + logsigmoid(-steep), density[1] + logsigmoid(steep))


def responsibility(density: Tensor, steep: Tensor) -> Tensor:
    """Return h of the right leaf: p(y | right) s / (p(y | left)(1 − s) + p(y | right) s)."""
    return torch.sigmoid(steep + density[1] - density[0])


class _SplitBound(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, steep: Tensor, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(steep, left, right)
        return right * logsigmoid(steep) + left * logsigmoid(-steep)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        steep, left, right = ctx.saved_tensors
        return gradients[0] * (right - steep.sigmoid() * (right + left)), None, None


def split_bound(steep: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return R ln s + L ln(1 − s) of each row, with s = σ(steep).

    Its gradient in γ m is R − s (R + L), in closed form: a node's M-step is a logistic regression
    with the soft target R / (R + L) and the weight R + L.

    Examples
    --------
    >>> steep = torch.tensor([0.0], requires_grad=True)
    >>> split_bound(steep, torch.tensor([1.0]), torch.tensor([3.0])).backward()
    >>> steep.grad.tolist()
    [1.0]
    """
    result: Tensor = _SplitBound.apply(steep, left, right)  # type: ignore[no-untyped-call]
    return result


LOSSES: dict[str, Callable[[SoftTarget], StumpLoss]] = {
    "likelihood": Likelihood,
    "em": EM,
    "information": Impurity,
    "variance": Impurity,
}
"""By name; "information" is the impurity of labels and "variance" that of values."""


def _sums(right: Tensor, batch: Batch) -> Tensor:
    return sums_by_side(right, batch.weight, batch.statistics, batch.node, batch.n_nodes)
