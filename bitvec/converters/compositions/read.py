"""Conversion of ensembles whose members are forests, each behind its own link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.converters import dispatch
from bitvec.converters.attribute_records import Record, class_name, library_class
from bitvec.converters.catboost.oracle import is_x86
from bitvec.converters.sklearn.skops_schema import read
from bitvec.converters.sklearn.unsupported import classes_of, labels_of
from bitvec.core.composition import (
    STEPS,
    Asked,
    Combined,
    Composition,
    Curve,
    Elementwise,
    Interpolated,
    Logistic,
    Member,
)
from bitvec.core.forest import Forest
from bitvec.core.inputs import Domain, Inputs
from bitvec.errors import UnsupportedModelError
from bitvec.files.sound import sound


class Source(NamedTuple):
    """A member as the source holds it: its model, and the columns of X that it reads."""

    model: Any
    columns: tuple[int, ...] | None = None


def convert(model: Any, *, dtypes: Any = None) -> Composition:
    """Convert an ensemble of forests.

    Parameters
    ----------
    model : VotingClassifier, VotingRegressor, CalibratedClassifierCV, TransformedTargetRegressor, \
BaggingClassifier or BaggingRegressor, or path of a .skops file of one
        Fitted; its members anything that `bitvec.convert` takes, in a file scikit-learn's.
    dtypes : str, dtype or mapping, optional
        Of what pipelines among the members are handed.

    Raises
    ------
    UnsupportedModelError
        If it, or a member, is combined in a way that cannot be kept exactly.
    """
    if isinstance(model, str | PathLike):
        path = Path(model)
        with sound(path.name, "hold an ensemble as scikit-learn leaves it"):
            return convert(read(path), dtypes=dtypes)
    kind = library_class(model)
    result: Composition = _COMPOSED[kind](model, _Members(model, dtypes))
    return replace(result, kind=kind)


def sources(model: Any) -> list[Source]:
    """Return the members of an ensemble, in the order of its composition.

    Raises
    ------
    UnsupportedModelError
        If it is not fitted.
    """
    kind = library_class(model)
    attribute = "calibrated_classifiers_" if kind.startswith("Calibrated") else "estimators_"
    attribute = "regressor_" if kind.startswith("Transformed") else attribute
    held = getattr(model, attribute, None)
    if held is None:
        raise refused(model, f"it is not fitted, for it has no `{attribute}`; call fit first")
    if attribute == "regressor_":
        return [Source(held)]
    if attribute == "calibrated_classifiers_":
        return [Source(calibrated.estimator) for calibrated in held]
    if not kind.startswith("Bagging"):
        return [Source(member) for member in held]
    n = model.n_features_in_
    every = list(range(n))
    columns = [np.asarray(part, np.int64).tolist() for part in model.estimators_features_]
    return [
        Source(member, None if own == every else tuple(own))
        for member, own in zip(held, columns, strict=True)
    ]


def refused(model: Any, why: str) -> UnsupportedModelError:
    """Return the error for an ensemble that cannot be composed."""
    return UnsupportedModelError(f"the {class_name(model)} cannot be converted exactly: {why}.")


class _Members:
    """The members of an ensemble, converted."""

    def __init__(self, model: Any, dtypes: Any) -> None:
        self.owner, self.sources = model, sources(model)
        self.models = [self._converted(number, dtypes) for number in range(len(self.sources))]

    def _converted(self, number: int, dtypes: Any) -> Forest | Composition:
        source = self.sources[number].model
        given = dtypes if dispatch.format_of(source).takes_dtypes else None
        try:
            model = dispatch.convert(source, dtypes=given)
        except UnsupportedModelError as error:
            raise refused(
                self.owner, f"member {number} is refused: {str(error).rstrip('.')}"
            ) from None
        library = None if isinstance(model, Composition) else model.source and model.source.library
        if library == "catboost" and not is_x86():
            raise refused(
                self.owner,
                f"member {number} is of CatBoost, whose exponentials are known to the last bit on "
                "x86 only; convert it alone",
            )
        is_whole = self.sources[number].columns is None
        return _named(model, self.names) if is_whole and self.names is not None else model

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns that the ensemble was fitted on, if they have distinct ones."""
        given = getattr(self.owner, "feature_names_in_", None)
        names = () if given is None else tuple(map(str, given))
        return names if names and len(set(names)) == len(names) else None

    def inputs(self) -> Inputs:
        """Return the columns of X."""
        n = getattr(self.owner, "n_features_in_", None)
        first = self.models[0].inputs
        if self.sources[0].columns is None and n in (None, first.n_features):
            alike = all(model.inputs.n_features == first.n_features for model in self.models)
            if alike:
                return _shared([model.inputs for model in self.models])
        if n is None:
            raise refused(self.owner, "its members read different columns")
        return Inputs(int(n), self.names)

    def each(self, asked: Callable[[Any], Asked], **more: Any) -> list[Member]:
        """Return the members, each asked as its source is."""
        return [
            Member(model, asked(source.model), columns=source.columns, **more)
            for source, model in zip(self.sources, self.models, strict=True)
        ]


def _named(model: Forest | Composition, names: tuple[str, ...]) -> Forest | Composition:
    """Return a member that was fitted on an array with the names of the ensemble's columns."""
    inputs = model.inputs
    if inputs.feature_names is not None or inputs.n_features != len(names):
        return model
    inputs = replace(inputs, feature_names=names)
    if isinstance(model, Forest):
        return replace(model, inputs=inputs)
    members = tuple(
        member if member.columns is not None else replace(member, model=_named(member.model, names))
        for member in model.members
    )
    return replace(model, members=members, inputs=inputs)


def _shared(inputs: list[Inputs]) -> Inputs:
    """Return the columns of members, each as one reads it that does not drop it, texts first."""
    first = inputs[0]
    if all(one.domains is None for one in inputs):
        return first
    domains, books = [], []
    for at in range(first.n_features):
        reading = [one for one in inputs if not one.domains or one.domains[at].dtype != "dropped"]
        of_texts = [one for one in reading if one.book(at) is not None]
        chosen = [*of_texts, *(one for one in reading if one.domains), *inputs][0]
        domains.append(chosen.domains[at] if chosen.domains else Domain("any"))
        books.append(chosen.book(at))
    floats = [one.dtype for one in domains if one.dtype.startswith("float")]
    if floats:  # a table of numbers has one dtype
        others = ("text", "dropped")
        domains = [one if one.dtype in others else replace(one, dtype=floats[0]) for one in domains]
    return replace(first, categories=tuple(books) if any(books) else None, domains=tuple(domains))


def _probabilities(_: Any) -> Asked:
    return Asked.PROBABILITIES


def _prediction(_: Any) -> Asked:
    return Asked.PREDICTION


def _response(model: Any) -> Asked:
    """Return what calibration reads: decision_function where the member has it."""
    last = _last(model)
    is_record = isinstance(last, Record)
    has = library_class(last) in _DECIDE if is_record else hasattr(last, "decision_function")
    return Asked.RAW if has else Asked.PROBABILITIES


def _last(model: Any) -> Any:
    """Return what a record, which has no properties, answers by; a live model as it is."""
    while isinstance(model, Record) and library_class(model) in ("Pipeline", "FrozenEstimator"):
        is_pipeline = library_class(model) == "Pipeline"
        model = model.steps[-1][1] if is_pipeline else model.estimator
    return model


def _voting(model: Any, members: _Members) -> Composition:
    weights = getattr(model, "weights", None)
    if weights is not None:
        pairs = zip(model.estimators, weights, strict=True)
        weights = np.asarray([weight for (_, member), weight in pairs if member != "drop"])
        if not weights.sum():
            raise refused(model, "its weights add up to 0, so that it has no average")
    if library_class(model) == "VotingRegressor":
        found, classes = members.each(_prediction), None
        _require_one_target(model, members)
    else:
        if model.voting != "soft":
            raise refused(model, "hard voting counts labels; set voting='soft'")
        found, classes = members.each(_probabilities), classes_of(model)
    return Composition(
        tuple(found), Combined.AVERAGE, members.inputs(), classes=classes, weights=weights
    )


def _bagging(model: Any, members: _Members) -> Composition:
    if model.n_estimators != len(members.models):
        raise refused(model, f"it has {len(members.models)} members, not {model.n_estimators}")
    if model.n_jobs not in (None, 1):
        raise refused(
            model,
            "its sums are split among jobs; set n_jobs=None, which it may have when it answers",
        )
    classes = None
    if library_class(model) == "BaggingRegressor":
        found = members.each(_prediction)
        _require_one_target(model, members)
    else:
        classes = classes_of(model)
        found = [
            replace(member, outputs=tuple(np.asarray(_last(source.model).classes_).tolist()))
            for member, source in zip(members.each(_probabilities), members.sources, strict=True)
        ]
    return Composition(tuple(found), Combined.MEAN_IN_ORDER, members.inputs(), classes=classes)


def _calibrated(model: Any, members: _Members) -> Composition:
    classes = classes_of(model)
    found = []
    for calibrated, member, source in zip(
        model.calibrated_classifiers_, members.each(_response), members.sources, strict=True
    ):
        curves = tuple(_curve(model, one) for one in calibrated.calibrators)
        own = labels_of(_last(source.model).classes_)
        outputs = tuple(np.searchsorted(classes, own).tolist())
        if len(curves) != (1 if classes.size == 2 else own.size):
            raise refused(model, f"it has {len(curves)} calibrators for {own.size} classes")
        found.append(replace(member, outputs=outputs, curves=curves))
    return Composition(tuple(found), Combined.MEAN_IN_ORDER, members.inputs(), classes=classes)


def _curve(model: Any, calibrator: Any) -> Curve:
    kind = class_name(calibrator)
    if kind == "_SigmoidCalibration":
        a, b = np.asarray(calibrator.a_), np.asarray(calibrator.b_)
        if a.dtype != np.float64 or b.dtype != np.float64:
            raise refused(model, f"its sigmoid is of {a.dtype}")
        return Logistic(float(a), float(b))
    if kind != "IsotonicRegression" or calibrator.out_of_bounds != "clip":
        raise refused(model, f"it calibrates by {kind}, not by sigmoid or isotonic")
    x, y = (np.asarray(getattr(calibrator, name)) for name in ("X_thresholds_", "y_thresholds_"))
    if x.dtype != np.float64 or y.dtype != np.float64:
        raise refused(
            model, f"its isotonic calibrator is of {x.dtype}, as its members' answers are"
        )
    return Interpolated(x, y)


def _transformed_target(model: Any, members: _Members) -> Composition:
    _require_one_target(model, members)
    if getattr(model, "_training_dim", 1) != 1:
        raise refused(model, "its target was a table of one column; fit it to y of one axis")
    curve = Elementwise(tuple(_inverse(model, model.transformer_, members)))
    found = members.each(_prediction, curves=(curve,))
    return Composition(tuple(found), Combined.ALONE, members.inputs())


def _inverse(model: Any, transformer: Any, members: _Members) -> list[tuple[str, float | None]]:
    kind = library_class(transformer)
    if kind == "FunctionTransformer":
        function = transformer.inverse_func
        if getattr(transformer, "inv_kw_args", None):
            raise refused(model, "its inverse function has arguments of its own, `inv_kw_args`")
        if function is None:
            return []
        if isinstance(function, Record) and function.module == "numpy":
            function = STEPS.get(function.kind)
        name = next((name for name, known in STEPS.items() if known is function), None)
        if name is None:
            known = ", ".join(name for name in STEPS)
            raise refused(model, f"its inverse function must be one of NumPy's {known}")
        return [(name, None)]
    steps = _SCALERS.get(kind)
    if steps is None:
        raise refused(
            model, f"its transformer is a {kind}, whose inverse is not among functions and scalers"
        )
    if any(isinstance(m, Composition) or m.output.dtype != np.float64 for m in members.models):
        raise refused(model, "its scaler rounds answers in float32; pass an inverse function")
    result: list[tuple[str, float | None]] = []
    for name, attribute, option in steps:
        if getattr(transformer, option, True):
            value = np.asarray(getattr(transformer, attribute), np.float64)
            if value.shape != (1,):
                raise refused(model, "it must have one target")
            result.append((name, float(value[0])))
    return result


_SCALERS: Final = {
    "StandardScaler": (("multiply", "scale_", "with_std"), ("add", "mean_", "with_mean")),
    "MinMaxScaler": (("subtract", "min_", ""), ("divide", "scale_", "")),
    "MaxAbsScaler": (("multiply", "scale_", ""),),
    "RobustScaler": (("multiply", "scale_", "with_scaling"), ("add", "center_", "with_centering")),
}
"""Steps of inverse transforms: the attribute of each, and the option that leaves it out."""


_DECIDE: Final = (
    "GradientBoostingClassifier",
    "HistGradientBoostingClassifier",
    "AdaBoostClassifier",
)
"""Classifiers of trees that have a `decision_function`; a record has attributes alone."""


def _require_one_target(model: Any, members: _Members) -> None:
    for member in members.models:
        one = member.n_outputs == 1 and not (
            member.classes if isinstance(member, Composition) else member.output.classes
        )
        if not one:
            raise refused(model, "its members must be regressors of one target")


_COMPOSED: Final[dict[str, Callable[[Any, _Members], Composition]]] = {
    "VotingClassifier": _voting,
    "VotingRegressor": _voting,
    "CalibratedClassifierCV": _calibrated,
    "TransformedTargetRegressor": _transformed_target,
    "BaggingClassifier": _bagging,
    "BaggingRegressor": _bagging,
}
