"""The facts about a forest, as a record and as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bitvec.cli.answer import count
from bitvec.core import tree_paths
from bitvec.core.composition import Composition
from bitvec.core.feature_maps import Concatenate
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind, MissingRule
from bitvec.core.plain_text import number
from bitvec.core.tree_text import column_name

CURVES = {"Logistic": "sigmoid", "Interpolated": "isotonic", "Elementwise": "functions"}
"""Names of curves behind a member's answer."""
MAX_LISTED = 8
"""Features and classes that a line names."""


def summary(forest: Forest) -> dict[str, Any]:
    """Return the facts about a forest as a record of numbers, texts and lists."""
    output, source = forest.output, forest.source
    depth = tree_paths.tree_depth(forest.bitvectors)
    leaves = np.diff(forest.bitvectors.leaf_ptr)
    return {
        "trees": forest.n_trees,
        "nodes": forest.n_nodes,
        "leaves": forest.n_leaves,
        "leaves_of_largest_tree": int(leaves.max(initial=0)),
        "depth_max": int(depth.max(initial=0)),
        "depth_mean": float(depth.mean()) if depth.size else 0.0,
        "node_kinds": node_kinds(forest),
        "dtype": str(forest.dtype),
        "features": forest.n_features,
        "feature_names": forest.inputs.feature_names,
        "feature_map": None if forest.feature_map is None else _map_name(forest.feature_map),
        "categorical_features": [
            j
            for j in range(forest.n_features)
            if forest.inputs.book(j) is not None or j in forest.inputs.category_hashes
        ],
        "feature_uses": _feature_uses(forest),
        "missing": _missing(forest),
        "outputs": forest.n_outputs,
        "leaf_values": _leaf_values(forest),
        "classes": None if output.classes is None else [c.tolist() for c in output.classes],
        "aggregate": str(output.aggregate),
        "accumulated_in": str(output.dtype),
        "base_score": output.base_score,
        "post_transform": str(output.post_transform),
        "soft_prediction": forest.kernel is not None,
        "source": None
        if source is None
        else {"library": source.library, "version": source.version, "model": source.model},
    }


def composition_summary(model: Composition) -> dict[str, Any]:
    """Return the facts about a composition, and those about each of its members."""
    return {
        "kind": model.kind,
        "combined": str(model.combined),
        "trees": model.n_trees,
        "features": model.n_features,
        "feature_names": model.inputs.feature_names,
        "outputs": model.n_outputs,
        "classes": None if model.classes is None else model.classes.tolist(),
        "weights": model.weights,
        "members": [
            {
                "asked": str(member.asked),
                "columns": member.columns,
                "curves": [CURVES[type(curve).__name__] for curve in member.curves],
                **(
                    composition_summary(member.model)
                    if isinstance(member.model, Composition)
                    else summary(member.model)
                ),
            }
            for member in model.members
        ],
    }


def composition_lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and value of each fact about a composition, for a person."""
    yield "file", f"{facts['file']} ({size_text(facts['file_bytes'])})"
    yield "holds", f"composition of {count(len(facts['members']), 'member')}, from {facts['kind']}"
    yield "combined", facts["combined"].replace("_", " ")
    if facts["weights"] is not None:
        yield "weights", ", ".join(map(number, facts["weights"]))
    yield "trees", f"{facts['trees']:,}"
    yield "features", f"{facts['features']:,}"
    labels = facts["classes"]
    if labels is not None:
        yield "classes", f"{len(labels):,}: {_listed([str(c) for c in labels], len(labels))}"
    for at, member in enumerate(facts["members"][:MAX_LISTED]):
        source = member.get("source")
        name = member["kind"] if "kind" in member else source and source["model"]
        curves = f", {' and '.join(dict.fromkeys(member['curves']))}" if member["curves"] else ""
        read = member["columns"]
        columns = "" if read is None else f" of {count(len(read), 'column')}"
        trees = count(member["trees"], "tree")
        yield f"member {at}", f"{name or 'forest'}, {trees}{columns}: {member['asked']}{curves}"
    if len(facts["members"]) > MAX_LISTED:
        yield "", f"and {len(facts['members']) - MAX_LISTED:,} more"


def _map_name(feature_map: FeatureMap) -> str:
    """Return the class of a map, and of those that it joins, each once."""
    name = type(feature_map).__name__
    if not isinstance(feature_map, Concatenate):
        return name
    return f"{name} of {', '.join(dict.fromkeys(map(_map_name, feature_map.maps)))}"


def node_kinds(forest: Forest) -> dict[str, int]:
    """Return how many nodes there are of each kind that occurs."""
    tests = forest.tests
    margin = tests.kind == Kind.MARGIN
    one_hot = tests.is_one_hot
    soft_row = tests.activation == Activation.SOFTPLUS
    polytope = np.zeros(tests.n_nodes, bool)
    polytope[np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))[soft_row]] = True
    kinds = {
        "axis-aligned": margin & one_hot,
        "oblique": margin & ~one_hot & ~polytope,
        "polytope": margin & polytope,
        "set of categories": tests.kind == Kind.SET,
        "equality": tests.kind == Kind.EQUAL,
        "kernel": tests.kind == Kind.KERNEL,
    }
    return {name: int(which.sum()) for name, which in kinds.items() if which.any()}


def _feature_uses(forest: Forest) -> list[dict[str, Any]]:
    """Return the columns that S reads and in how many entries, the most used first."""
    uses = np.bincount(forest.tests.column)
    order = np.argsort(-uses, kind="stable")
    return [
        {"column": int(j), "name": column_name(forest, int(j)), "entries": int(uses[j])}
        for j in order[: np.count_nonzero(uses)]
    ]


def _missing(forest: Forest) -> dict[str, Any]:
    rules = np.bincount(forest.tests.missing_rule, minlength=len(MissingRule))
    names = {
        MissingRule.NAN: "nan",
        MissingRule.NAN_OR_ZERO: "nan or zero",
        MissingRule.NAN_OR_SENTINEL: "nan or sentinel",
    }
    right = int(forest.tests.missing_right.sum())
    return {
        "goes_left": forest.n_nodes - right,
        "goes_right": right,
        "rules": {names[rule]: int(rules[rule]) for rule in MissingRule if rules[rule]},
        "sentinel": forest.inputs.missing_sentinel,
    }


def _leaf_values(forest: Forest) -> str:
    if forest.leaves.linear is not None:
        return "linear"
    if forest.leaves.output is not None:
        return "one output each"
    return "numbers" if forest.n_outputs == 1 else "vectors"


def lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and value of each fact, for a person."""
    yield "file", f"{facts['file']} ({size_text(facts['file_bytes'])})"
    source = facts["source"]
    if source is not None:
        yield (
            "from",
            " ".join(filter(None, (source["library"], source["version"], source["model"]))),
        )
    yield "trees", f"{facts['trees']:,}"
    yield "nodes", f"{facts['nodes']:,}" + _kinds_text(facts["node_kinds"])
    yield (
        "leaves",
        f"{facts['leaves']:,}, at most {facts['leaves_of_largest_tree']:,} in a tree; "
        f"{facts['leaf_values']}",
    )
    yield "depth", f"at most {facts['depth_max']}, {number(facts['depth_mean'])} on average"
    uses = facts["feature_uses"]
    yield "features", f"{facts['features']:,}, compared in {facts['dtype']}; {len(uses):,} used"
    if facts["feature_map"] is not None:
        yield "feature map", facts["feature_map"]
    if facts["categorical_features"]:
        yield "categorical", count(len(facts["categorical_features"]), "feature")
    if uses:
        yield (
            "most used",
            _listed([f"{use['name']} ({use['entries']:,})" for use in uses], len(uses)),
        )
    yield "missing", _missing_text(facts["missing"])
    yield "outputs", f"{facts['outputs']:,}"
    for group, labels in enumerate(facts["classes"] or ()):
        label = "classes" if len(facts["classes"]) == 1 else f"classes {group}"
        yield label, f"{len(labels):,}: {_listed([str(c) for c in labels], len(labels))}"
    base = facts["base_score"]
    yield "aggregate", f"{facts['aggregate']} of the trees, in {facts['accumulated_in']}"
    yield "base score", _listed([number(x) for x in base], len(base))
    yield "then", facts["post_transform"]
    if facts["soft_prediction"]:
        yield "prediction", "soft, by the kernel of its features"


def _kinds_text(kinds: Mapping[str, int]) -> str:
    if len(kinds) == 1:
        return f", all {next(iter(kinds))}"
    return ": " + ", ".join(f"{n:,} {name}" for name, n in kinds.items()) if kinds else ""


def _missing_text(missing: Mapping[str, Any]) -> str:
    left, right = missing["goes_left"], missing["goes_right"]
    text = f"goes left at {left:,} and right at {right:,} nodes"
    special = [rule for rule in missing["rules"] if rule != "nan"]
    sentinel = "" if missing["sentinel"] is None else f" {number(missing['sentinel'])}"
    return text + "".join(f"; {rule}{sentinel if 'sentinel' in rule else ''}" for rule in special)


def _listed(texts: list[str], total: int) -> str:
    shown = ", ".join(texts[:MAX_LISTED])
    return shown if total <= MAX_LISTED else f"{shown}, and {total - MAX_LISTED:,} more"


def size_text(n_bytes: int) -> str:
    """Return a file size for a person.

    >>> size_text(512), size_text(2_500_000)
    ('512 bytes', '2.5 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"
