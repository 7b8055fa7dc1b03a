"""Facts of a forest that a page needs besides its trees: features, start values and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Label
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.core.output import Output

Json = dict[str, Any]


def forest_facts(forest: Forest) -> Json:
    """Return what the page shows beside its title, trees and files."""
    return {
        "source": source_text(forest),
        "dtype": forest.dtype.name,
        "output_dtype": forest.output.dtype.name,
        "sentinel": forest.inputs.missing_sentinel,
        "has_names": forest.inputs.feature_names is not None,
        "features": features(forest),
        "groups": groups(forest.output),
        "leaf_names": output_names(forest.output),
    }


def source_text(forest: Forest) -> str | None:
    """Return the source library for people, such as "sklearn 1.9.1"."""
    source = forest.source
    return None if source is None else f"{source.library} {source.version}".strip()


def features(forest: Forest) -> list[Json]:
    """Return for each feature its name, categories, start value, and whether a tree reads it."""
    inputs = forest.inputs
    read = np.zeros(forest.n_features, bool)
    read[forest.tests.column] = True
    if forest.leaves.linear is not None:
        read[forest.leaves.linear.column] = True
    starts = start_values(forest)
    names = inputs.feature_names or tuple(f"x{at}" for at in range(forest.n_features))
    books = inputs.categories or (None,) * forest.n_features
    return [
        {
            "name": names[at],
            "labels": None
            if (book := books[at]) is None
            else [label_facts(label, at in inputs.hashed) for label in book],
            "hashed": at in inputs.hashed,
            "used": bool(read[at]),
            "start": starts[at],
        }
        for at in range(forest.n_features)
    ]


def label_facts(label: Label, hashed: bool = False) -> Json:
    """Return a category's text, and its kind: text, number, truth, or hash of an unknown text.

    >>> label_facts(2.5), label_facts(7, hashed=True)
    ({'text': '2.5', 'kind': 'number'}, {'text': 'hash 7', 'kind': 'hash'})
    """
    if isinstance(label, str):
        return {"text": label, "kind": "text"}
    if hashed:
        return {"text": f"hash {label}", "kind": "hash"}
    return {"text": str(label), "kind": "truth" if isinstance(label, bool) else "number"}


def start_values(forest: Forest) -> list[str]:
    """Return for each feature the median of its thresholds in four digits, 0 if it has none.

    A feature that is only summed with others has, for a threshold z = b, where that plane is
    nearest to 0.
    """
    tests = forest.tests
    compares = (tests.kind != Kind.SET) & (tests.feature >= 0) & np.isfinite(tests.b)
    own = _by_feature(forest, tests.feature[compares], tests.b[compares])
    summed = _by_feature(forest, *_nearest_points(tests))
    return [_start(a if a.size else b) for a, b in zip(own, summed, strict=True)]


def _by_feature(forest: Forest, feature: Array, values: Array) -> list[Array]:
    order = np.argsort(feature, kind="stable")
    ends = np.searchsorted(feature[order], np.arange(1, forest.n_features))
    return np.split(values[order], ends)


def _nearest_points(tests: NodeTests) -> tuple[Array, Array]:
    """Return columns, and where w·x = b is nearest to 0 there: b·w/|w|², of nodes with one row."""
    node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    plane = ((tests.feature < 0) & (np.diff(tests.node_ptr) == 1))[node]
    row = np.repeat(np.arange(node.size), np.diff(tests.row_ptr))
    w = tests.weight.astype(np.float64)
    with np.errstate(all="ignore"):
        point = tests.b.astype(np.float64)[node][row] * w
        point /= np.bincount(row, w * w, minlength=node.size)[row]
    used = plane[row] & np.isfinite(point) & (w != 0)
    if tests.indicator is not None:
        used &= tests.indicator < 0
    return tests.column[used], point[used]


def _start(thresholds: Array) -> str:
    if not thresholds.size:
        return "0"
    middle = np.sort(thresholds)[thresholds.size // 2]
    return f"{float(middle):.4g}"


def groups(output: Output) -> list[Json] | None:
    """Return for each output group its ONNX output and its classes; None of a regressor."""
    if output.classes is None:
        return None
    several = len(output.groups) > 1
    return [
        {
            "output": f"probabilities_{group}" if several else "probabilities",
            "classes": [str(label) for label in labels],
        }
        for group, labels in enumerate(output.classes)
    ]


def output_names(output: Output) -> list[str]:
    """Return a name for each output of the leaves: a class where it has one, else its number."""
    if output.classes is None:
        return [str(at) for at in range(output.n_outputs)]
    names = []
    for group, (labels, size) in enumerate(zip(output.classes, output.groups, strict=True)):
        target = f"target {group} class " if len(output.groups) > 1 else ""
        names += [f"{target}{label}" for label in (labels[-1:] if size == 1 else labels)]
    return names
