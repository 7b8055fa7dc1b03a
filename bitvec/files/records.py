"""A forest as named arrays and one JSON record: what a file holds, and what makes forests equal.

Arrays keep their bits; the record holds all that is no array, under the names of the fields.
Unpacking trusts nothing: each value is taken by name and type, and what is left over is refused.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import COLUMN_LISTS, DOMAIN_DTYPES, NULLS, Domain, Inputs
from bitvec.core.kernels import FeatureKernel
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import NodeTests
from bitvec.core.output import Aggregate, Output, PostTransform, SoftmaxSum
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.files.fields import (
    Reader,
    Record,
    Tensors,
    elements,
    label_dtype,
    pack_labels,
    plain,
    put_arrays,
    require_label_memory,
    take_arrays,
    unpack_labels,
)
from bitvec.files.map_records import pack_map, unpack_map

_ARRAYS: dict[type, tuple[str, ...]] = {
    **{
        part: tuple(field.name for field in fields(part))
        for part in (NodeTests, Bitvectors, FeatureKernel)
    },
    LinearTerms: ("leaf_ptr", "column", "weight", "constant"),
    Leaves: ("v", "output"),
    Output: ("base_score", "scale", "tree_weight", "iteration", "divisor"),
    Source: ("leaf_id", "node_id", "leaf_cover", "node_cover", "gain"),
}
"""The fields of each type that are arrays."""


def pack(forest: Forest) -> tuple[Tensors, Record]:
    """Return the arrays of a forest by name, without copying them, and its record.

    Raises
    ------
    UnsupportedModelError
        If its feature map is not one of `bitvec.core.feature_maps`, or its metadata are not JSON.
    """
    tensors: Tensors = {}
    return tensors, _pack_forest(forest, "", tensors, 0)


def unpack(tensors: Tensors, record: Record) -> Forest:
    """Build the forest again from what `pack` returned; both arguments are emptied.

    Raises
    ------
    FileFormatError
        If a value is missing, unknown or of another type.
    InvalidForestError
        If the values are no forest.
    """
    forest = _unpack_forest(record, "", tensors, 0)
    if tensors:
        raise FileFormatError(f"the unknown tensor {min(tensors)[:60]!r} must not be there.")
    return forest


def _put(tensors: Tensors, prefix: str, part: Any) -> None:
    put_arrays(tensors, prefix, part, _ARRAYS[type(part)])


def _take(tensors: Tensors, prefix: str, kind: type) -> dict[str, Array]:
    return take_arrays(tensors, prefix, kind, _ARRAYS[kind])


def _pack_forest(forest: Forest, prefix: str, tensors: Tensors, depth: int) -> Record:
    _put(tensors, f"{prefix}tests.", forest.tests)
    _put(tensors, f"{prefix}bitvectors.", forest.bitvectors)
    _put(tensors, f"{prefix}leaves.", forest.leaves)
    if forest.leaves.linear is not None:
        _put(tensors, f"{prefix}leaves.linear.", forest.leaves.linear)
    _put(tensors, f"{prefix}output.", forest.output)
    if forest.source is not None:
        _put(tensors, f"{prefix}source.", forest.source)
    for column, kernel in enumerate(forest.kernel or ()):
        if kernel is not None:
            _put(tensors, f"{prefix}kernel.{column}.", kernel)
    phi = forest.feature_map
    zero = 0.0 if forest.leaves.linear is None else forest.leaves.linear.zero_threshold
    return ({"linear_zero_threshold": zero} if zero else {}) | {
        "output": _pack_output(forest.output),
        "inputs": pack_inputs(forest.inputs),
        "linear_leaves": forest.leaves.linear is not None,
        "source": None if forest.source is None else _pack_source(forest.source),
        "kernel": None if forest.kernel is None else [k is not None for k in forest.kernel],
        "feature_map": None
        if phi is None
        else pack_map(phi, f"{prefix}feature_map.", tensors, depth + 1, _pack_forest),
    }


def _unpack_forest(record: Any, prefix: str, tensors: Tensors, depth: int) -> Forest:
    read = Reader(record, f"{prefix}forest")
    has_linear = read.take("linear_leaves", bool)
    linear = _take(tensors, f"{prefix}leaves.linear.", LinearTerms) if has_linear else None
    zero = 0.0
    if linear is not None and "linear_zero_threshold" in record:
        zero = read.take("linear_zero_threshold", float)
    source = read.take("source", dict, None)
    has_kernel = read.take("kernel", list, None)
    phi = read.take("feature_map", dict, None)
    forest = Forest(
        tests=NodeTests(**_take(tensors, f"{prefix}tests.", NodeTests)),
        bitvectors=Bitvectors(**_take(tensors, f"{prefix}bitvectors.", Bitvectors)),
        leaves=Leaves(
            **_take(tensors, f"{prefix}leaves.", Leaves),
            linear=None if linear is None else LinearTerms(**linear, zero_threshold=zero),
        ),
        output=_unpack_output(read.take("output", dict), f"{prefix}output", tensors),
        inputs=unpack_inputs(read.take("inputs", dict), f"{prefix}inputs"),
        source=None if source is None else _unpack_source(source, f"{prefix}source", tensors),
        kernel=None
        if has_kernel is None
        else tuple(
            FeatureKernel(**_take(tensors, f"{prefix}kernel.{column}.", FeatureKernel))
            if present
            else None
            for column, present in enumerate(elements(f"{prefix}kernel", has_kernel, bool))
        ),
        feature_map=None
        if phi is None
        else unpack_map(phi, f"{prefix}feature_map.", tensors, depth + 1, _unpack_forest),
    )
    read.finish()
    return forest


def _pack_output(output: Output) -> Record:
    classes = None
    if output.classes is not None:
        classes = [pack_labels(labels) for labels in output.classes]
        sizes = [(group["dtype"], len(group["labels"])) for group in classes]
        require_label_memory(sizes, UnsupportedModelError)
    later: Record = {} if output.boundary is None else {"boundary": float(output.boundary)}
    if output.softmax_sum is not SoftmaxSum.WIDE:
        later["softmax_sum"] = output.softmax_sum.value
    return later | {
        "n_outputs": output.n_outputs,
        "dtype": output.dtype.name,
        "aggregate": output.aggregate.value,
        "base_first": output.base_first,
        "post_transform": output.post_transform.value,
        "parameter": float(output.parameter),
        "classes": classes,
        "groups": list(output.groups),
        "labels_from_raw": output.labels_from_raw,
        "tie_to_second": output.tie_to_second,
    }


def _unpack_output(record: Record, where: str, tensors: Tensors) -> Output:
    read = Reader(record, where)
    arrays = _take(tensors, f"{where}.", Output)
    if "base_score" not in arrays:  # Output would make n_outputs zeros, however many are claimed
        raise FileFormatError(f"the tensor `{where}.base_score` must be there, got none.")
    classes = read.take("classes", list, None)
    boundary = read.take("boundary", float) if "boundary" in record else None
    softmax_sum = SoftmaxSum.WIDE
    if "softmax_sum" in record:
        softmax_sum = SoftmaxSum(read.take_choice("softmax_sum", tuple(SoftmaxSum)))
    output = Output(
        n_outputs=read.take_count("n_outputs"),
        dtype=np.dtype(read.take_choice("dtype", ("float32", "float64"))),
        aggregate=Aggregate(read.take_choice("aggregate", tuple(Aggregate))),
        base_first=read.take("base_first", bool),
        post_transform=PostTransform(read.take_choice("post_transform", tuple(PostTransform))),
        parameter=read.take("parameter", float),
        classes=None if classes is None else unpack_classes(classes, f"{where}.classes"),
        groups=read.take_counts("groups"),
        labels_from_raw=read.take("labels_from_raw", bool),
        tie_to_second=read.take("tie_to_second", bool),
        boundary=boundary,
        softmax_sum=softmax_sum,
        **arrays,
    )
    read.finish()
    return output


def unpack_classes(classes: list[Any], where: str) -> tuple[Array, ...]:
    """Build the labels of each group of classes again."""
    groups = []
    for record in classes:
        read = Reader(record, where)
        groups.append((label_dtype(read.take("dtype", str), where), read.take("labels", list)))
        read.finish()
    require_label_memory([(name, len(labels)) for name, labels in groups], FileFormatError)
    return tuple(unpack_labels(name, labels, where) for name, labels in groups)


def pack_inputs(inputs: Inputs) -> Record:
    """Return the record of the columns of X."""
    names, sentinel = inputs.feature_names, inputs.missing_sentinel
    later: Record = {
        name: [int(column) for column in getattr(inputs, name)]
        for name in COLUMN_LISTS
        if getattr(inputs, name)
    }
    later |= {"refuses_unseen": True} if inputs.refuses_unseen else {}
    if inputs.domains is not None:
        later["domains"] = [
            {
                "dtype": domain.dtype,
                # As texts, for JSON has no infinities.
                "ends": [repr(float(end)) for pair in domain.intervals for end in pair],
                "missing": bool(domain.missing),
                "null": domain.null,
            }
            for domain in inputs.domains
        ]
    return later | {
        "n_features": int(inputs.n_features),
        "feature_names": None
        if names is None
        else [_text(name, "inputs.feature_names") for name in names],
        "categories": None if inputs.categories is None else _pack_categories(inputs.categories),
        "missing_sentinel": None if sentinel is None else float(sentinel),
        "absent_is_missing": inputs.absent_is_missing,
    }


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UnsupportedModelError(
            f"`{where}` must be text to be saved, got a {type(value).__name__}: convert it."
        )
    return value


def _pack_categories(categories: tuple[tuple[Any, ...] | None, ...]) -> list[list[Any] | None]:
    packed: list[list[Any] | None] = []
    for column, book in enumerate(categories):
        where = f"inputs.categories[{column}]"
        values = None if book is None else [plain(value, where) for value in book]
        for value in values or ():
            if not isinstance(value, (str, int, float)):
                raise UnsupportedModelError(
                    f"`{where}` must hold strings, numbers and booleans, got {value!r}."
                )
        packed.append(values)
    return packed


def unpack_inputs(record: Record, where: str) -> Inputs:
    """Build the columns of X again."""
    read = Reader(record, where)
    names = read.take("feature_names", list, None)
    books = read.take("categories", list, None)
    inputs = Inputs(
        n_features=read.take_count("n_features"),
        feature_names=None if names is None else elements(f"{where}.feature_names", names, str),
        categories=None
        if books is None
        else tuple(
            None if book is None else elements(f"{where}.categories", book, str, int, float, bool)
            for book in books
        ),
        missing_sentinel=read.take("missing_sentinel", float, None),
        absent_is_missing=read.take("absent_is_missing", bool),
        refuses_unseen=read.take("refuses_unseen", bool) if "refuses_unseen" in record else False,
        domains=_unpack_domains(read.take("domains", list), f"{where}.domains")
        if "domains" in record
        else None,
        **{name: read.take_counts(name) for name in COLUMN_LISTS if name in record},
    )
    read.finish()
    return inputs


def _unpack_domains(records: list[Any], where: str) -> tuple[Domain, ...]:
    domains = []
    for record in elements(where, records, dict):
        read = Reader(record, where)
        texts = elements(f"{where}.ends", read.take("ends", list), str)
        try:
            ends = [float(text) for text in texts]
        except ValueError:
            raise FileFormatError(f"`{where}.ends` must hold numbers, got {texts[:4]}.") from None
        if len(ends) % 2 or any(end != end for end in ends):
            raise FileFormatError(f"`{where}.ends` must hold two numbers for each interval.")
        domains.append(
            Domain(
                read.take_choice("dtype", DOMAIN_DTYPES),
                tuple(zip(ends[::2], ends[1::2], strict=True)),
                read.take("missing", bool),
                read.take_choice("null", NULLS),
            )
        )
        read.finish()
    return tuple(domains)


def _pack_source(source: Source) -> Record:
    return {
        "library": _text(source.library, "source.library"),
        "version": _text(source.version, "source.version"),
        "model": _text(source.model, "source.model"),
        "metadata": plain(source.metadata, "source.metadata"),
    }


def _unpack_source(record: Record, where: str, tensors: Tensors) -> Source:
    read = Reader(record, where)
    try:
        metadata = plain(read.take("metadata", dict), f"{where}.metadata")
    except UnsupportedModelError as error:
        raise FileFormatError(str(error)) from None
    source = Source(
        library=read.take("library", str),
        version=read.take("version", str),
        model=read.take("model", str),
        metadata=metadata,
        **_take(tensors, f"{where}.", Source),
    )
    read.finish()
    return source
