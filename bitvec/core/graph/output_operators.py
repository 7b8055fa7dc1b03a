"""From raw scores to predictions, probabilities and labels, as operators of a graph.

All exported graphs answer alike, with tensors only:

* `raw`, (batch, n_outputs), in the output's dtype;
* a regressor: `prediction`, (batch, n_outputs), the post-transform of `raw`;
* a classifier: `label`, (batch,) or (batch, n_groups), and `probabilities`, (batch, n_classes), or
  `probabilities_0`, `probabilities_1` ... where it has several output groups. Labels are int64,
  float, bool or string;
* on request `leaves`, int64, (batch, n_trees), the exit leaves as numbers within each tree.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import is_text
from bitvec.core.graph.operators import Graph, cast, greater
from bitvec.core.graph.transform_operators import columns, transform, transform_group
from bitvec.core.output import Output
from bitvec.errors import UnsupportedModelError


def add_answers(graph: Graph, forest: Forest, raw: str) -> None:
    """Append the outputs of the contract that this module states."""
    output = forest.output
    graph.output("raw", raw, output.dtype, ("batch", output.n_outputs))
    if output.classes is None:
        value = transform(graph, output, raw)
        graph.output("prediction", value, output.dtype, ("batch", output.n_outputs))
        return
    common = _label_type(np.concatenate(output.classes))
    labels, start = [], 0
    for group, (names, size) in enumerate(zip(output.classes, output.groups, strict=True)):
        part = columns(graph, raw, start, size, output.n_outputs)
        start += size
        probability = transform_group(graph, output, part)
        if size == 1 and names.size == 2:
            score = part if output.labels_from_raw else probability
            boundary = _boundary(output)
            above = greater(graph, score, boundary, "is_second_class", equal=output.tie_to_second)
            index = cast(graph, above, np.dtype(np.int64), "class_index_wide")
            index = graph.add("Squeeze", index, np.array([1]), name="class_index")
            one = np.ones((), output.dtype)
            first = graph.add("Sub", one, probability, name="first_probability")
            probability = graph.add("Concat", first, probability, axis=1, name="class_probability")
        else:
            score = part if output.labels_from_raw else probability
            index = graph.add(
                "ArgMax", score, axis=1, keepdims=0, select_last_index=0, name="class_index"
            )
        labels.append(graph.add("Gather", names.astype(common), index, name="class_label"))
        suffix = f"_{group}" if len(output.groups) > 1 else ""
        graph.output(
            f"probabilities{suffix}", probability, output.dtype, ("batch", int(names.size))
        )
    if len(labels) == 1:
        graph.output("label", labels[0], common, ("batch",))
        return
    wide = [graph.add("Unsqueeze", a, np.array([1]), name="class_label_wide") for a in labels]
    stacked = graph.add("Concat", *wide, axis=1, name="class_labels")
    graph.output("label", stacked, common, ("batch", len(labels)))


def _boundary(output: Output) -> Array:
    boundary = np.array(output.second_above, output.dtype)
    if float(boundary) != output.second_above:
        raise UnsupportedModelError(
            f"the boundary of the classes must be a number of {output.dtype}, got "
            f"{output.second_above}: keep the forest in float64, by version 5 of tree_ensemble or "
            "a target that has it, or ask for the form `portable`, which has `raw` only."
        )
    return boundary


def _label_type(labels: Array) -> np.dtype:
    if labels.dtype.kind in "iu":
        if labels.dtype.kind == "u" and labels.size and int(labels.max()) > np.iinfo(np.int64).max:
            raise UnsupportedModelError(
                f"class labels must fit in int64, got {int(labels.max())}: relabel the classes."
            )
        return np.dtype(np.int64)
    if labels.dtype.kind == "U":
        _require_text(labels)
    if labels.dtype.kind == "f":
        return np.dtype(np.float64) if labels.dtype.itemsize > 4 else np.dtype(np.float32)
    return labels.dtype


def _require_text(labels: Array) -> None:
    for label in labels.tolist():
        if not is_text(label):
            raise UnsupportedModelError(
                f"class labels must be text that UTF-8 can hold, got {label!a}: relabel the "
                "classes."
            )
