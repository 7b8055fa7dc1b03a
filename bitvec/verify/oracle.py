"""The other side of a comparison: a source model or an exported artefact, as functions of X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.core.shape_annotations import Float, Int
from bitvec.errors import InputError
from bitvec.verify.source_trees import SourceTrees


class LeafValues(NamedTuple):
    """Leaf vectors of a model, in any order; leaves of no row may be among them.

    `tree` and `id`, (n,), name a leaf as the oracle's leaf ids do; `v`, (n, width), is what the
    forest's `leaves.v` should hold there, before tree weights.
    """

    tree: Int[Array, " n"]
    id: Int[Array, " n"]
    v: Float[Array, "n width"]


@dataclass(frozen=True, slots=True)
class FrameAnswers:
    """A model's answers to data frames, which it is handed as they are.

    Parameters
    ----------
    raw : callable
        A frame to raw scores, (batch, n_outputs) or (batch,); what a library does not take raises
        an exception of any kind.
    leaf_ids, labels : callable, optional
        The same for leaf ids, (batch, n_trees), and a classifier's labels.
    truths : tuple of int
        Columns that hold truth values in a frame.
    feature_names : tuple of str, optional
        Of an exported file that states them: by which its columns are told, as the forest's.
    notes : tuple of str
        What a reader of the certificate must know about these answers, in sentences.
    """

    raw: Callable[[Any], Array]
    leaf_ids: Callable[[Any], Array] | None = None
    labels: Callable[[Any], Array] | None = None
    truths: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Oracle:
    """Reference that a forest is compared with.

    Parameters
    ----------
    name, version : str
        Of the library that answers, for example "sklearn", "1.9.1".
    raw : callable
        X, (batch, n_features) in the forest's dtype, to raw scores, (batch, n_outputs), in the
        library's own dtype and through its public prediction function.
    leaf_ids : callable, optional
        X to leaf ids, (batch, n_trees); None where the library exposes none.
    ids : "source" or "leaf number"
        What these ids are: those of the library that the forest was converted from, as in
        `source.leaf_id`, or numbers of leaves within their trees, from left to right.
    accepts_missing, accepts_infinite : bool
        Whether NaN and infinities may be handed to these functions.
    exact : bool
        Whether the library accumulates deterministically, so that raw scores must be equal bit for
        bit; otherwise only leaf ids are promised.
    predict : callable, optional
        X to what the library's own `predict` returns: a classifier's labels, (batch,) or
        (batch, n_groups); a regressor's values, (batch,) or (batch, n_outputs).
    scores : callable, optional
        X to a classifier's raw scores after its post-transform, (batch, n_outputs): probabilities,
        of a group of one output that of the second class. Where this or `predict` is `raw`, the
        same function, it is asked once.
    leaf_values : callable, optional
        Called without arguments; returns what the model stores at its leaves.
    trees : callable, optional
        Called without arguments; returns the library's own trees, node by node, for a proof.
    written : callable, optional
        Instead of `trees`, of a file that a forest was exported to: its leaves hold what the
        forest's were written as. None if the file states no trees.
    score_ulps : int, optional
        How many ulps its predictions may lie from those of equal raw scores, where its
        post-transform approximates; a note says why. By default what libraries of mathematics
        explain.
    input_dtype : numpy dtype, optional
        In which the model reads rows, where that is narrower than the forest's.
    n_trees, n_features, n_outputs : int, optional
        Of the model, so that another one is told before it is asked anything.
    rounds_columns : bool
        Whether it adds up a feature map in an order of its own, so that rows whose margins lie
        within rounding of a threshold may exit elsewhere.
    copied_leaves : bool
        Whether several leaves of the forest may stand for one of the model's, where what comes
        before its trees was folded into them; their ids are then not one to one.
    of_frame : FrameAnswers, optional
        The same model's answers to data frames.
    inputs : Inputs, optional
        Its columns, whose names and code books the forest's must equal.
    notes : tuple of str
        What a reader of the certificate must know about these answers, in sentences.
    """

    name: str
    version: str
    raw: Callable[[Array], Array]
    leaf_ids: Callable[[Array], Array] | None = None
    ids: Literal["source", "leaf number"] = "leaf number"
    accepts_missing: bool = True
    accepts_infinite: bool = True
    exact: bool = True
    predict: Callable[[Array], Array] | None = None
    scores: Callable[[Array], Array] | None = None
    leaf_values: Callable[[], LeafValues] | None = None
    trees: Callable[[], SourceTrees] | None = None
    written: Callable[[], SourceTrees | None] | None = None
    score_ulps: int | None = None
    input_dtype: np.dtype | None = None
    n_trees: int | None = None
    n_features: int | None = None
    n_outputs: int | None = None
    rounds_columns: bool = False
    copied_leaves: bool = False
    of_frame: FrameAnswers | None = None
    inputs: Inputs | None = None
    feature_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def require_columns(X: Array, n_features: int) -> None:
    """Check that rows have the columns of the training, before a library reads past them.

    Raises
    ------
    InputError
    """
    if X.ndim != 2 or X.shape[1] != n_features:
        raise InputError(
            f"`X` must have {n_features} features, got shape {X.shape}: pass the training columns."
        )
