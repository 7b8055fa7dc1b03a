"""The other side of a comparison: a source model or an exported artefact, as functions of X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bitvec.arrays import Array


@dataclass(frozen=True, slots=True)
class Subject:
    """What a forest is compared with.

    Parameters
    ----------
    name, version : str
        Of the library that answers, for example "sklearn", "1.9.1".
    raw : callable
        X, (batch, n_features) in the forest's dtype, to raw scores, (batch, n_outputs), in the
        library's own dtype and through its public prediction function.
    leaf_ids : callable, optional
        X to the library's own leaf ids, (batch, n_trees); None where it exposes none.
    accepts_missing, accepts_infinite : bool
        Whether NaN and infinities may be handed to these functions.
    exact : bool
        Whether the library accumulates deterministically, so that raw scores must be equal bit for
        bit; otherwise only leaf ids are promised.
    """

    name: str
    version: str
    raw: Callable[[Array], Array]
    leaf_ids: Callable[[Array], Array] | None = None
    accepts_missing: bool = True
    accepts_infinite: bool = True
    exact: bool = True
