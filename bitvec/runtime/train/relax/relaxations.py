"""Relaxations: a gate for the tests and a map for the leaves, and which of them go together.

Every relaxation gives memberships u >= 0 with one sum of 1 per tree, which tend to the exit leaf as
gamma grows. Softmax, sparsemax and entmax of B·σ itself are none: they tend to the uniform
distribution over the leaves that share the maximum of B·σ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.relax.gates import ACTIVATIONS, SHARES, require_activation
from bitvec.runtime.train.relax.leaf_maps import LEAF_MAPS
from bitvec.runtime.train.relax.probability_leaves import are_distributions
from bitvec.runtime.train.relax.scores import SCORES

PRODUCT = "product"
PATH_GATES = (*SHARES, "kernel", "straight_through")
GATES = (*PATH_GATES, *ACTIVATIONS)
MAPS = (PRODUCT, *LEAF_MAPS)
LEGAL: dict[tuple[str, str | None], tuple[str, ...]] = {
    (PRODUCT, None): PATH_GATES,
    **{
        (name, score): gates
        for name in ("softmax", "sparsemax", "entmax15")
        for score, gates in (
            ("two_sided", ("sigmoid",)),
            ("ternary", tuple(SHARES)),
            ("ternary_per_depth", tuple(SHARES)),
        )
    },
    ("index_sparsemax", "bitvector"): (*SHARES, *ACTIVATIONS),
}
"""The gates that go with each leaf map and score. `two_sided` reads the margins themselves, and no
gate; `index_sparsemax` also takes a function that is positive for m > 0 and 0 otherwise."""
_SCORE_OF = dict(reversed(LEGAL))


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Relaxation: a gate of tests, and a map of leaf scores.

    Parameters
    ----------
    gate : str or callable
        "sigmoid", "noisy_or", "smooth_step" (exact zeros outside a band), "kernel" (the kernel of a
        Kernel Density Decision Tree), "straight_through" (hard, with the sigmoid's gradient),
        "relu" or "relu_squared"; or a function of a torch tensor of margins that is positive where
        they are and else 0.
    leaf_map : str
        "product" of the gates on the path; or "softmax", "sparsemax", "entmax15" or
        "index_sparsemax" of a score.
    score : str, optional
        "two_sided" (the default of the first three), "ternary" or "ternary_per_depth"; "bitvector"
        for "index_sparsemax", and none for "product".

    Raises
    ------
    InputError
        If these do not go together: see `LEGAL`.

    Examples
    --------
    >>> Relaxation("smooth_step")
    Relaxation(gate='smooth_step', leaf_map='product', score=None)
    >>> Relaxation(leaf_map="entmax15").score
    'two_sided'
    """

    gate: str | Callable[[Tensor], Tensor] = "sigmoid"
    leaf_map: str = PRODUCT
    score: str | None = None

    def __post_init__(self) -> None:
        _require_known("leaf_map", self.leaf_map, MAPS)
        if self.score is None:
            object.__setattr__(self, "score", _SCORE_OF[self.leaf_map])
        else:
            _require_known("score", self.score, SCORES)
        if not callable(self.gate):
            _require_known("gate", self.gate, GATES)
        _require_legal(self)

    @property
    def has_logarithms(self) -> bool:
        """Return whether log u is computed without u, so that it is finite however small u is."""
        if self.leaf_map == PRODUCT:
            return self.gate in ("sigmoid", "noisy_or")
        return self.leaf_map == "softmax"


def _require_known(name: str, value: Any, known: Any) -> None:
    if not isinstance(value, str) or value not in known:
        raise InputError(f"`{name}` must be one of {', '.join(known)}, got {value!r}: choose one.")


def _require_legal(relaxation: Relaxation) -> None:
    gate, leaf_map, score = relaxation.gate, relaxation.leaf_map, relaxation.score
    legal = LEGAL.get((leaf_map, score))
    if legal is None and score == "bitvector" and leaf_map != PRODUCT:
        raise InputError(
            f"{leaf_map} must not be taken of the bitvector score B·σ, got that: it tends to the "
            "uniform distribution over the leaves that share its maximum, so take index_sparsemax "
            f"of it, or {leaf_map} of the score two_sided or ternary."
        )
    if legal is None:
        fitting = [str(known) for name, known in LEGAL if name == leaf_map]
        raise InputError(
            f"the score of {leaf_map} must be {' or '.join(fitting)}, got {score!r}: leave `score` "
            "out."
        )
    if callable(gate):
        if leaf_map != "index_sparsemax":
            raise InputError(
                "a gate that is a function must go with index_sparsemax, whose bitvector score "
                f"needs no share in [0, 1], got {leaf_map}: name that leaf map, or another gate."
            )
        require_activation(gate)
    elif gate not in legal:
        of = "" if score is None else f" of the score {score}"
        raise InputError(
            f"the gate of {leaf_map}{of} must be {' or '.join(legal)}, got {gate!r}: choose "
            "another gate or leaf map."
        )


RELAXATIONS: dict[str, Relaxation] = {
    **{gate: Relaxation(gate) for gate in PATH_GATES},
    **{name: Relaxation(leaf_map=name) for name in LEAF_MAPS},
    **{
        f"{name}_ternary": Relaxation(leaf_map=name, score="ternary")
        for name in ("softmax", "sparsemax", "entmax15")
    },
}
"""The relaxations that have a short name: each gate with the path product, each leaf map with its
first score and the sigmoid, and those over D(2s − 1) − depth."""


def find(relaxation: object) -> Relaxation:
    """Return a relaxation, itself or by its short name.

    Raises
    ------
    InputError
        If the name is unknown.

    Examples
    --------
    >>> find("smooth_step").leaf_map
    'product'
    """
    if isinstance(relaxation, Relaxation):
        return relaxation
    if not isinstance(relaxation, str) or relaxation not in RELAXATIONS:
        raise InputError(
            f"`relaxation` must be one of {', '.join(RELAXATIONS)}, or a Relaxation, got "
            f"{relaxation!r}: choose one."
        )
    return RELAXATIONS[relaxation]


def require_relaxable(forest: Forest, relaxation: Relaxation, leaves: str) -> None:
    """Raise UnsupportedModelError if a forest has no such soft form."""
    aggregate = forest.output.aggregate
    reason = None
    if forest.leaves.linear is not None and leaves == "logits":
        reason = "have constant leaves to hold logits, got linear ones"
    elif leaves == "logits" and not (
        forest.n_outputs > 1 == len(forest.output.groups) and are_distributions(forest.leaves.v)
    ):
        reason = (
            "have leaves that are probabilities of two or more classes to hold logits, got others: "
            'pass leaves="values"'
        )
    elif forest.kernel is not None and relaxation.gate != "kernel":
        reason = (
            "have no prediction kernel, whose answers are soft already: pass "
            'relaxation="kernel", or dataclasses.replace(forest, kernel=None) to relax its crisp '
            "trees"
        )
    elif aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        reason = f"sum or average its trees, got aggregate {aggregate}"
    elif forest.n_trees == 0:
        reason = "have at least one tree, got none"
    if reason is not None:
        raise UnsupportedModelError(f"a forest that is relaxed must {reason}.")
