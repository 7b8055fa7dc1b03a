"""Base of the estimators of oblique forests: parameters, rows, starts, teachers."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
import torch

from bitvec.converters.dispatch import convert_forest
from bitvec.core import options, transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.output import Output
from bitvec.errors import InputError, UnsupportedModelError, needs
from bitvec.learners.held_out import held_out
from bitvec.learners.oblique.candidates_fit import ObliqueFit, Problem, fit_candidates
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.sizes import (
    require_finite_sum,
    require_moderate_columns,
)
from bitvec.learners.sklearn_base import (
    NativeEstimator,
    require_rows,
    row_weights,
    validation_rows,
)
from bitvec.runtime.train.joint import (
    CompleteTrees,
    JointRecipe,
    boosted,
    completed,
    soft_scores,
    with_boosted_leaves,
)
from bitvec.runtime.train.joint.complete_trees import DEEPEST, levels
from bitvec.runtime.train.joint.teacher_rows import Teacher
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.retrain.selection import Evaluation
from bitvec.runtime.train.retrain.training_data import Data

with needs("scikit-learn", "sklearn", "ObliqueForestClassifier"):
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.frozen import FrozenEstimator
    from sklearn.utils.validation import check_is_fitted, has_fit_parameter
    from threadpoolctl import threadpool_limits

DEPTH = 5
"""Levels of the trees where neither `depth` nor a start says otherwise."""
F64 = np.dtype(np.float64)


@estimator
class ObliqueForestEstimator(NativeEstimator):
    """Base of the classifier and the regressor."""

    soft_forest_: SoftForest | None = attribute(
        "The trees that answer softly as a torch module, to export or to train on; None unless "
        '`answers` is "soft".'
    )
    result_: ObliqueFit = attribute(
        "Candidates, their losses on the rows held out, what was chosen, and the history."
    )
    n_estimators: int = parameter(
        "Trees, each with one vector a leaf; of a `start` that is given, as many as it has.",
        default=32,
    )
    depth: int | None = parameter(
        "Levels of each tree, all of which are complete: 2 ** depth leaves. By default 5, or the "
        "levels of the deepest tree of a `start`.",
        default=None,
    )
    columns: int | Literal["fixed"] | None = parameter(
        'Most columns that a node reads, by default all of them. With "fixed" nodes keep the one '
        "column of their start, and thresholds and leaves move: trees stay axis-aligned.",
        default=None,
    )
    teacher: Any = parameter(
        'Unfitted estimator whose answers are learned beside the labels: "booster" for '
        "scikit-learn's histogram boosting, tuned here, None for labels alone. Rows held out "
        "choose between both.",
        default="booster",
    )
    start: Any = parameter(
        "Booster or random forest to begin with, in place of boosting here: an unfitted estimator, "
        "which is fitted first, a fitted one, or a Forest. A fitted one must not have seen rows "
        "that are chosen by; `sklearn.frozen.FrozenEstimator` keeps it fitted in clones.",
        default=None,
    )
    validation: float | tuple[Any, ...] = parameter(
        "Share of the rows, and of each class, to hold out and choose by; or rows to choose by, "
        "(X, y) or (X, y, sample_weight), and none are held out.",
        default=0.2,
    )
    refit: bool = parameter(
        "Whether what was chosen is trained once more on all rows, to the same step.", default=True
    )
    steps: int = parameter(
        "Steps of the training on labels; two thirds of them on teacher rows.", default=1500
    )
    batch_size: int = parameter("Rows of a step.", default=256)
    answers: Literal["hard", "soft"] = parameter(
        'What predictions are of: "hard" trees, `forest_`; or "soft" ones, `soft_forest_`, which '
        "are trained beside them at a steepness of at most 12 and may be better, which "
        "`result_.losses` tells, but are no exact forest: all nodes are computed for every row.",
        default="hard",
    )
    n_jobs = parameter("Threads of the fit and of predictions, 1 if not given, all cores if −1.")
    verbose = parameter("Print the evaluations of hard forests on standard error.")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the forest.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
            Finite numbers.
        y : (n_rows,), or (n_rows, n_outputs) for a regressor
        sample_weight : (n_rows,), optional
            What the loss of each row counts. A row of weight 0 counts as not there.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If y, weights or a parameter is out of place.
        UnsupportedModelError
            If `start` cannot be converted, or its trees are no complete trees of the depth.
        ValueError
            If X or y is what scikit-learn's checks refuse, NaN for one.

        Warns
        -----
        UserWarning
            If there are too few rows to hold any out: the boosted start is then kept.
        """
        X = self._fitted_rows(X, y)
        target = self._target(y)
        require_rows(X, target)
        weight = row_weights(X, sample_weight)
        require_finite_sum(weight)
        require_moderate_columns("X", X)
        counted = np.flatnonzero(weight)
        data = Data(X[counted], target[counted], weight[counted])
        seed = self._seed()
        recipe = self._recipe(seed)
        refit = options.flag("refit", self.refit)
        options.among("answers", self.answers, ("hard", "soft"))
        with threadpool_limits(self._threads()):
            data, chosen_by, is_own = self._split(data, seed)
            output = self._output()
            problem = Problem(
                output,
                Inputs(X.shape[1]),
                self._starting(output, recipe.seed, weighted=sample_weight is not None),
                recipe,
                self._teacher(weighted=sample_weight is not None),
                seed,
                _printed if self.verbose else None,
                soft=self.answers == "soft",
            )
            result = fit_candidates(problem, data, chosen_by, refit=refit and is_own)
        self.result_ = self._finished(result)
        self._hold_forest(self.result_.forest)
        self.soft_forest_ = None
        if self.result_.soft is not None:
            inputs = self.forest_.inputs
            scaled = self.result_.soft.to_forest(self.forest_.output, inputs)
            self.soft_forest_ = SoftForest.from_forest(scaled, dtype=torch.float64)
        return self

    @property
    def _beside_forest(self) -> str | None:
        return "that answers softly" if self.soft_forest_ is not None else None

    def predict(self, X: Any) -> Array:
        """Return the label of each row, or its value, or values: (n_rows,) or (n_rows, n_outputs).

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
        """
        raw = self._soft_raw(X)
        if raw is None:
            return super().predict(X)
        return transforms.predictions(self.forest_.output, raw)

    def _soft_raw(self, X: Any) -> Array | None:
        """Return soft raw scores where predictions are soft."""
        rows = self._rows(X)
        if self.soft_forest_ is None:
            return None
        assert self.result_.soft is not None
        return soft_scores(self.result_.soft, rows)

    @abstractmethod
    def _target(self, y: Any, *, more: bool = False) -> Array:
        """Return class numbers, or standardised values, in two axes; `more`: not those of fit."""

    @abstractmethod
    def _output(self) -> Output:
        """Return what raw scores are."""

    @abstractmethod
    def _own_leaves(self, forest: Forest, trees: CompleteTrees) -> CompleteTrees | None:
        """Return a start's trees, leaves in units of the fit; None where they hold no scores."""

    @abstractmethod
    def _finished(self, result: ObliqueFit) -> ObliqueFit:
        """Return the result in the units of y."""

    def _recipe(self, seed: int) -> JointRecipe:
        columns = self.columns
        if columns is not None and columns != "fixed":
            columns = options.whole("columns", columns)
        return JointRecipe(
            steps=options.whole("steps", self.steps),
            batch_size=options.whole("batch_size", self.batch_size),
            columns=columns,
            seed=seed,
        )

    def _split(self, data: Data, seed: int) -> tuple[Data, Data | None, bool]:
        """Return rows to train on, rows to choose by, and whether these were held out."""
        given: Any = self.validation
        if isinstance(given, (tuple, list)) and len(given) in (2, 3):
            X, y, *weight = given
            X = validation_rows(self, X)
            target = self._target(y, more=True)
            require_rows(X, target)
            return data, Data(X, target, row_weights(X, weight[0] if weight else None)), False
        if not isinstance(given, (float, np.floating)) or not 0 < given < 1:
            raise InputError(
                "`validation` must be a share above 0 and below 1, (X, y) or "
                f"(X, y, sample_weight), got {given!r}: pass one of them."
            )
        codes = data.target[:, 0] if self._is_classifier else None
        drawn = held_out(len(data), float(given), np.random.default_rng(seed), codes)
        if not drawn.any():
            warnings.warn(
                f"a share of {given} of {len(data)} rows is too little to choose by: the boosted "
                "start is kept. Pass more rows or a larger `validation`.",
                UserWarning,
                stacklevel=3,
            )
            return data, None, False
        rest = data.take(np.flatnonzero(~drawn))
        return rest, data.take(np.flatnonzero(drawn)), True

    def _teacher(self, *, weighted: bool) -> Teacher | Literal["booster"] | None:
        given = self.teacher
        if given is None:
            return None
        if isinstance(given, str):
            options.among("teacher", given, ("booster",))
            return "booster" if self._output().n_outputs == 1 or self._is_classifier else None
        needed = "predict_proba" if self._is_classifier else "predict"
        if not hasattr(given, "fit") or not hasattr(given, needed):
            raise InputError(
                f'`teacher` must be "booster", None or an estimator with fit and {needed}, got '
                f"{given!r}."
            )
        takes = has_fit_parameter(given, "sample_weight")
        if weighted and not takes:
            raise InputError(
                f"`sample_weight` must be left out with a {type(given).__name__} as the teacher, "
                "whose `fit` does not take it."
            )
        n_classes = self.classes_.size if self._is_classifier else 0
        return Teacher(given, n_classes, weighted=takes)

    def _starting(
        self, output: Output, seed: int, *, weighted: bool
    ) -> Callable[[Data], CompleteTrees]:
        """Return what makes the start of rows."""
        depth = None if self.depth is None else options.whole("depth", self.depth)
        if depth is not None and depth > DEEPEST:
            raise InputError(f"`depth` must be at most {DEEPEST}, got {depth}.")
        n_trees = options.whole("n_estimators", self.n_estimators)
        own = _one_hot(output)
        if self.start is None:
            return lambda data: boosted(
                data.X,
                own(data.target),
                data.weight,
                output,
                n_trees=n_trees,
                depth=depth or DEPTH,
                seed=seed,
            )

        def begun(data: Data) -> CompleteTrees:
            forest = self._started(data, weighted=weighted)
            levels = depth or _levels(forest)
            trees = completed(forest, levels, data.X, seed)
            kept = self._own_leaves(forest, trees)
            if kept is not None:
                return kept
            return with_boosted_leaves(trees, data.X, own(data.target), data.weight, output)

        return begun

    def _started(self, data: Data, *, weighted: bool) -> Forest:
        """Return the forest of `start`, fitted on rows where it was not."""
        model = self.start
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "get_params") and not _is_fitted(model):
            y = data.target[:, 0] if data.target.shape[1] == 1 else data.target
            given = {"sample_weight": data.weight} if weighted else {}
            model = clone(model).fit(data.X, self._told(y), **given)
        forest = model if isinstance(model, Forest) else convert_forest(model)
        if forest.n_features != self.n_features_in_:
            raise InputError(
                f"`start` must read the {self.n_features_in_} columns of X, got a forest of "
                f"{forest.n_features}."
            )
        return forest

    def _told(self, y: Array) -> Array:
        """Return what a start is fitted to."""
        return y


def _one_hot(output: Output) -> Callable[[Array], Array]:
    if output.classes is None:
        return lambda target: target
    n = len(output.classes[0])
    return lambda target: np.eye(n)[target[:, 0]]


def _levels(forest: Forest) -> int:
    """Return the levels of the deepest tree."""
    found = levels(forest)
    if found > DEEPEST:
        raise UnsupportedModelError(
            f"`start` must have trees of at most {DEEPEST} levels, got more: grow shallower ones, "
            "since a complete tree of so many levels has more leaves than rows."
        )
    return max(found, 1)


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _printed(evaluation: Evaluation) -> None:
    """Print an evaluation on standard error."""
    line = (
        f"step {evaluation.step} of {evaluation.steps}: score {evaluation.score:.6g}, training "
        f"loss {evaluation.loss:.6g}{', kept' if evaluation.accepted else ''}"
    )
    print(line, file=sys.stderr, flush=True)
