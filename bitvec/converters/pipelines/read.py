"""Conversion of scikit-learn's pipelines: the trees at the end, over the columns at the beginning.

The steps are read as data, live or from a .skops file; nothing of them is run, but selectors say
themselves which columns they choose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.converters import dispatch
from bitvec.converters.attribute_records import Record, class_name, library_class
from bitvec.converters.pipelines.derived_columns import Block, Derived, Step, Walk
from bitvec.converters.pipelines.fold import folded, raw_columns
from bitvec.converters.pipelines.format import HOLDERS
from bitvec.converters.pipelines.linear_maps import LinearMap, linear_map
from bitvec.converters.pipelines.nested_steps import follow
from bitvec.converters.pipelines.operations import (
    DOUBLE,
    SINGLE,
    Encode,
    Replace,
    Require,
    Within,
)
from bitvec.converters.pipelines.wavering import libraries
from bitvec.converters.sklearn.skops_schema import read
from bitvec.converters.sklearn.unsupported import kind_of, library_version
from bitvec.core.arrays import Array
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest
from bitvec.core.inputs import Domain
from bitvec.core.node_tests import ZERO_THRESHOLD, MissingRule
from bitvec.core.shape_annotations import Bool
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.files.sound import sound

Dtypes = str | np.dtype | type | Mapping[Any, Any] | None

_MARKS: Final = ("refuses_missing", "refuses_infinite")
"""Metadata of a model that refuses NaN, or infinities, in its own columns."""


class Parts(NamedTuple):
    """A pipeline taken apart: its steps before the last, and the model at its end."""

    steps: list[Step]
    last: Any
    whole: Step


def convert(
    model: Any, *, dtypes: Dtypes = None, allow_rounding: bool = False
) -> Forest | Composition:
    """Convert a fitted pipeline whose last step is a model of trees.

    Parameters
    ----------
    model : Pipeline, or path of a .skops file of one
        Or a search over it, whose best estimator counts, or a FrozenEstimator of it.
    dtypes : str, dtype or mapping, optional
        Of the columns that the pipeline is handed: "float64", which stands for whole numbers too,
        or "float32", of all or by name, as `X.dtypes` of a data frame says it. The arithmetic of
        the steps depends on it. float64 if not given.
    allow_rounding : bool
        Whether PCA and TruncatedSVD become a feature map, whose sums round in another order.

    Returns
    -------
    Forest, or Composition where the model at the end is one
        Over the raw columns; `inputs.domains` says what they may hold.

    Raises
    ------
    UnsupportedModelError
        If a step cannot be folded exactly, which is named with its place.
    """
    if isinstance(model, str | PathLike):
        path = Path(model)
        with sound(path.name, "hold a pipeline as scikit-learn leaves it"):
            return convert(read(path), dtypes=dtypes, allow_rounding=allow_rounding)
    model = chosen(model)
    if not is_pipeline(model):
        return _trees(model)
    parts = parts_of(model)
    trees, dtype = _trees(parts.last), number_dtype(dtypes)
    first = _first_fitted([*(step.model for step in parts.steps), parts.last])
    n_features = _width(first, parts.whole)
    names = _names(first, n_features)

    linear = linear_map(parts.steps, n_features) if allow_rounding else None
    if linear is not None and dtype != DOUBLE:
        raise InputError("`dtypes` must be float64 where rounding is allowed, got float32.")

    def over_raw_columns(forest: Forest) -> Forest:
        if linear is not None:
            return linear.under(_of_mapped(forest, linear, model, parts), names)
        walk = Walk(_version(model), forest.inputs.absent_is_missing)
        block = Block(tuple(Derived(at, dtype) for at in range(n_features)))
        for step in parts.steps:
            block = follow(step, block, walk)
        return _over_raw_columns(forest, block, walk, parts, names, dtype, n_features)

    if isinstance(trees, Forest):
        return over_raw_columns(trees)
    if any(member.columns is not None for member in trees.members):
        raise parts.whole.refuse("its model has members that read some of the columns only")
    return trees.with_forests(over_raw_columns)


def _of_mapped(forest: Forest, linear: LinearMap, model: Any, parts: Parts) -> Forest:
    """Return the forest over the columns of a linear map, in float64."""
    walk = Walk(_version(model), forest.inputs.absent_is_missing)
    finite = Require(DOUBLE, nan=False, infinite=False)
    block = Block(tuple(Derived(at, DOUBLE).then(finite) for at in range(len(linear.b))))
    for step in linear.after:
        block = follow(step, block, walk)
    return _over_raw_columns(forest, block, walk, parts, None, DOUBLE, len(linear.b))


def chosen(model: Any) -> Any:
    """Return the estimator that a search chose, or that is frozen; a model itself otherwise.

    Raises
    ------
    UnsupportedModelError
        If the search did not fit it.
    """
    while library_class(model) in HOLDERS:
        attribute = HOLDERS[class_name(model)]
        inner = getattr(model, attribute, None)
        if inner is None:
            raise UnsupportedModelError(
                f"a {class_name(model)} must hold the model in `{attribute}`, got none: call fit "
                "first, with refit=True, or convert the model itself."
            )
        model = inner
    return model


def is_pipeline(model: Any) -> bool:
    """Return whether a model is a Pipeline, or a subclass of one, which is refused.

    Raises
    ------
    UnsupportedModelError
        If it chooses or weighs the answers of others, as a tuned threshold does.
    """
    if isinstance(model, Record) or dispatch.format_of(model).folder != "pipelines":
        return class_name(model) == "Pipeline"
    if not any(cls.__name__ in ("Pipeline", "FeatureUnion") for cls in type(model).__mro__):
        kind_of(model)  # which refuses it with what to do
    return True


def _trees(last: Any) -> Forest | Composition:
    """Return the forest of the model at the end, or the composition of several."""
    trees = dispatch.convert(last)
    forests = trees.forests if isinstance(trees, Composition) else (trees,)
    if any(f.inputs.hashed or f.inputs.decimals or f.inputs.category_hashes for f in forests):
        raise UnsupportedModelError(
            "the model at the end of a pipeline must read numbers, got one that reads texts by "
            "their hashes: encode them in a step, or convert the model alone."
        )
    return trees


def parts_of(model: Any) -> Parts:
    """Take a pipeline apart, and pipelines at its end too.

    Raises
    ------
    UnsupportedModelError
        If it is a subclass, or has no model at its end.
    """
    whole, steps, place = Step(model, ""), [], ""
    while library_class(model := chosen(model)) == "Pipeline":
        own = getattr(model, "steps", None)
        if not isinstance(own, list) or not own:
            raise whole.refuse("it has no steps")
        prefix = f"{place} > " if place else ""
        steps += [Step(step, prefix + name) for name, step in own[:-1]]
        place, model = prefix + own[-1][0], own[-1][1]
    if not place:
        raise UnsupportedModelError(
            f"a pipeline must be scikit-learn's own Pipeline, got {class_name(model)}, a subclass "
            "perhaps, which may do more: build a Pipeline of its steps."
        )
    if model is None or isinstance(model, str):
        raise Step(model, place).refuse("a model of trees must be the last step")
    return Parts(steps, model, Step(whole.model, ""))


def number_dtype(dtypes: Dtypes) -> np.dtype:
    """Return the one float dtype that columns of numbers are handed over in.

    Raises
    ------
    InputError
        If there are two, or another one.
    """
    if dtypes is None:
        return DOUBLE
    items = getattr(dtypes, "items", None)
    given = [kind for _, kind in items()] if callable(items) else [dtypes]
    found = {_float_dtype(kind) for kind in given} - {None}
    if len(found) > 1:
        raise InputError(
            "`dtypes` must be float64 (or whole numbers), or float32, for all columns of numbers, "
            "got both: the arithmetic of a step depends on the columns beside; convert the frame's "
            "columns to one dtype."
        )
    return found.pop() or DOUBLE if found else DOUBLE


def _float_dtype(kind: Any) -> np.dtype | None:
    """Return float32 or float64, None for a dtype of texts."""
    name = getattr(kind, "__name__", None) or getattr(kind, "name", None) or str(kind)
    name = str(name).lower()
    if re.fullmatch(r"object|str|string.*|category|categorical.*|enum.*|utf8|text", name):
        return None
    if re.fullmatch(r"u?int\d*|bool(ean)?", name):
        return DOUBLE
    if name == "float":
        return DOUBLE
    if name not in (SINGLE.name, DOUBLE.name):
        raise InputError(
            f"`dtypes` must be float64, float32, whole numbers or texts, got {kind!r}: pass what "
            "the pipeline is handed, such as X.dtypes."
        )
    return np.dtype(name)


def _version(model: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", library_version(model))[:2])


def _first_fitted(models: list[Any]) -> Any:
    """Return the first model that says on how many columns it was fitted, within others too."""
    for model in models:
        if getattr(model, "n_features_in_", None) is not None:
            return model
        inner = getattr(model, "steps", None) or getattr(model, "transformer_list", None) or []
        found = _first_fitted([one for _, one in inner if not isinstance(one, str)])
        if found is not None:
            return found
    return None


def _width(first: Any, whole: Step) -> int:
    width = getattr(first, "n_features_in_", None)
    if width is None:
        raise whole.refuse("no step says how many columns it was fitted on; call fit first")
    return int(width)


def _names(first: Any, n_features: int) -> tuple[str, ...] | None:
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        return None
    found = tuple(str(name) for name in np.asarray(names).ravel())
    return found if len(found) == n_features == len(set(found)) else None


def _over_raw_columns(
    forest: Forest,
    block: Block,
    walk: Walk,
    parts: Parts,
    names: tuple[str, ...] | None,
    dtype: np.dtype,
    n_features: int,
) -> Forest:
    whole = parts.whole
    source = forest.source
    is_unmarked = source is None or _MARKS[1] not in source.metadata
    bags_trees = forest.source is not None and forest.source.model.startswith("Bagging")
    if bags_trees and (is_unmarked or block.is_sparse):
        raise whole.refuse("its Bagging reads a sparse matrix, or some columns not at all")
    if len(block.columns) != forest.n_features:
        raise whole.refuse(
            f"its steps make {len(block.columns)} columns and its model reads {forest.n_features}"
        )
    if (
        forest.leaves.linear is not None
        or forest.feature_map is not None
        or forest.kernel is not None
        or np.any(forest.tests.feature < 0)
    ):
        raise whole.refuse("its model has nodes or leaves that compute with several columns")
    plain = not walk.checked and not any(column.operations for column in block.columns)
    for column, domain in zip(block.columns, forest.inputs.domains or (), strict=False):
        if domain.dtype in (SINGLE.name, DOUBLE.name) and domain.dtype != column.values.name:
            raise whole.refuse(
                f"its model has pipelines within, which compute in {domain.dtype} here, and is "
                f"given {column.values.name}"
            )
    told = tells_zeros(forest) & block.is_sparse
    columns = [_at_the_trees(forest, block, walk, at, told[at]) for at in range(forest.n_features)]
    inputs = forest.inputs
    if plain and not block.is_sparse and inputs.categories is None and inputs.domains is None:
        return _chosen(forest, [column.raw for column in columns], n_features, names)
    raw = raw_columns([*walk.checked, *columns], n_features, dtype, whole)
    result = folded(forest, columns, raw, names, whole)
    source = result.source
    if source is not None:
        metadata = {key: value for key, value in source.metadata.items() if key not in _MARKS}
        steps = [f"{step.place} ({class_name(step.model)})" for step in parts.steps]
        metadata |= {"steps": steps, "scikit_learn": library_version(whole.model)}
        metadata |= libraries() if walk.libraries else {}
        result = replace(result, source=replace(source, metadata=metadata))
    return result


def _at_the_trees(
    forest: Forest, block: Block, walk: Walk, at: int, tells_zero: np.bool_
) -> Derived:
    """Return a column as the trees read it: checked, cast, and by codes of its categories."""
    column = block.columns[at]
    own = column.values
    metadata = {} if forest.source is None else forest.source.metadata
    missing, infinite = (metadata.get(mark) is not True for mark in _MARKS)
    missing &= infinite or not block.is_sparse  # such trees take NaN in dense rows alone
    if block.is_sparse and walk.absent_is_missing and not column.is_marked:
        column = column.then(Replace(0.0, np.nan, own, own))
    if tells_zero:
        column = column.then(Replace(-ZERO_THRESHOLD, below_zero(own), own, own))
    if column.operations or block.is_sparse or not (missing and infinite):
        column = column.then(Require(own, nan=missing, infinite=True))
    book = forest.inputs.book(at)
    if book is not None:
        numbers = np.arange(len(book), dtype=np.float64)
        column = column.then(Encode((*book, np.nan), np.append(numbers, np.nan), -1.0, own, DOUBLE))
        own = DOUBLE
        column = replace(column, dtype=DOUBLE)
    if forest.inputs.domains is not None and not forest.inputs.domains[at].is_everything:
        column = column.then(Within(own, forest.inputs.domains[at]))
    column = replace(column, dtype=own).to(forest.dtype)
    if not infinite:
        column = column.then(Require(forest.dtype, nan=True, infinite=False))
    return column


def tells_zeros(forest: Forest) -> Bool[Array, " n_features"]:
    """Return the columns where LightGBM takes -1e-35 for 0 in dense rows, but not in sparse ones.

    Where 0 is missing it does in both.
    """
    tells = np.zeros(forest.n_features, np.bool_)
    if forest.source is not None and forest.source.library == "lightgbm":
        tells[:] = True
        is_missing = forest.tests.missing_rule == MissingRule.NAN_OR_ZERO
        tells[forest.tests.feature[is_missing]] = False
    return tells


def below_zero(dtype: np.dtype) -> float:
    """Return the greatest number below what LightGBM takes for 0."""
    return float(np.nextafter(dtype.type(-ZERO_THRESHOLD), dtype.type(-np.inf)))


def _chosen(
    forest: Forest, raw: list[int], n_features: int, names: tuple[str, ...] | None
) -> Forest:
    """Return the forest over columns that were only chosen, from among others perhaps."""
    column = np.array(raw, np.int32)[forest.tests.column]
    tests = replace(forest.tests, column=column)
    chosen = {*raw}
    domains = tuple(Domain("any" if at in chosen else "dropped") for at in range(n_features))
    inputs = replace(
        forest.inputs,
        n_features=n_features,
        feature_names=names,
        categories=None,
        domains=domains if len(chosen) < n_features else None,
    )
    return replace(forest, tests=tests, inputs=inputs)
