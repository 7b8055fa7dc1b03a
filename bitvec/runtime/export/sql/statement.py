"""A forest as one SELECT: a step that reads the columns, steps that add trees, and the answers.

With two trees in a step it is

    WITH model_x AS (SELECT t.id, CAST(t.age AS REAL) AS model_x0, ... FROM rows AS t),
    model_1 AS (SELECT id, model_x0, ..., 0.0 + CASE WHEN model_x0 >= 30.5 THEN 0.25 ... END + ...
                AS model_s0 FROM model_x),
    ...
    SELECT id, model_s0 AS model_raw, ... FROM model_9

Steps keep expressions shallow. Sums run in the order of the trees, in the dtype of the forest's
output where the dialect has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import FLOAT64, floats, key_of
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import outputs_of
from bitvec.core.links import GROUPED
from bitvec.core.output import Aggregate, Output
from bitvec.core.transforms import transform
from bitvec.distribution import version
from bitvec.errors import InputError
from bitvec.runtime.export.sql.column_conditions import conditions_of, reading
from bitvec.runtime.export.sql.dialects import (
    DIALECTS as DIALECTS,
)
from bitvec.runtime.export.sql.dialects import Dialect, comment, dialect_of, require_columns
from bitvec.runtime.export.sql.link_steps import extreme, link_steps, unsupported_link
from bitvec.runtime.export.sql.tree_cases import TreeCases
from bitvec.runtime.export.sql.unsupported import require_names, require_sql, require_texts

TREES: Final = 100
"""Trees that a step adds."""
OUTPUTS: Final = ("raw", "prediction", "probabilities", "label", "leaves")


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """Options of a statement; see `bitvec.export`."""

    dialect: str
    table: str = "rows"
    key: tuple[str, ...] = ()
    categories: Literal["codes", "texts"] = "codes"
    outputs: tuple[str, ...] | None = None
    leaves: bool = False
    name: str = "model"


def to_sql(forest: Forest, options: SqlOptions) -> str:
    """Return a forest as a statement of SQL.

    Raises
    ------
    UnsupportedModelError
        If SQL cannot hold the forest.
    InputError
        If an option is out of place.
    """
    dialect = dialect_of(options.dialect)
    require_sql(forest)
    require_texts(forest, options.categories)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,20}", str(options.name)):
        raise InputError(
            "`name` must begin with a letter and hold small letters, digits and underscores, 21 at "
            f"most, got {options.name!r}."
        )
    require_names(forest, dialect, options.name, options.table, options.key)
    writer = _Statement(forest, dialect, options)
    return writer.text(_asked(forest, dialect, options))


def _asked(forest: Forest, dialect: Dialect, options: SqlOptions) -> tuple[str, ...]:
    """Return the outputs in order; by default all but leaves, without those that SQL lacks."""
    output = forest.output
    given = outputs_of(options.outputs)
    known = {"raw", "leaves", *(("probabilities", "label") if output.classes else ("prediction",))}
    if given is None:
        lacks = unsupported_link(dialect, output) is not None
        hidden = {"probabilities", "prediction", *(() if output.labels_from_raw else ("label",))}
        chosen = known - {"leaves"} - (hidden if lacks else set())
    else:
        chosen = set(given)
    if chosen - known:
        raise InputError(
            f"`outputs` must be among {', '.join(sorted(known))}, got "
            f"{', '.join(sorted(chosen - known))}."
        )
    if options.leaves:
        chosen |= {"leaves"}
    return tuple(one for one in OUTPUTS if one in chosen)


class _Statement:
    def __init__(self, forest: Forest, dialect: Dialect, options: SqlOptions) -> None:
        self.forest, self.dialect, self.options = forest, dialect, options
        self.keys = [dialect.quoted(key) for key in options.key]
        self.steps: list[str] = []
        self.last = ""

    def named(self, what: str) -> str:
        """Return a name of the statement's own."""
        return f"{self.options.name}_{what}"

    def number(self, value: Any) -> str:
        """Return a literal of the dtype of scores."""
        dtype, text = self.forest.output.dtype, self.dialect.number(float(value))
        return self.dialect.cast(text, dtype) if dtype == np.float32 else text

    def step(self, columns: list[str], source: str | None = None) -> None:
        """Add a step that selects columns from the one before it."""
        require_columns(self.dialect, len(columns))
        name = self.named(str(len(self.steps)))
        listed = ",\n  ".join(columns) or f"0 AS {self.named('none')}"
        where = source or self.last
        how = self.dialect.materialized
        self.steps.append(f"{name} AS {how}(\n  SELECT\n  {listed}\n  FROM {where}\n)")
        self.last = name

    def text(self, asked: tuple[str, ...]) -> str:
        forest, dialect = self.forest, self.dialect
        conditions = conditions_of(forest)
        cases = TreeCases(dialect, forest, conditions, lambda column: self.named(f"x{column}"))
        columns = sorted(cases.columns(range(forest.n_trees)))
        texts = self.options.categories == "texts"
        read = [
            f"{reading(dialect, forest, conditions, column, texts=texts)} "
            f"AS {self.named(f'x{column}')}"
            for column in columns
        ]
        table = f"{dialect.quoted(self.options.table)} AS t"
        keys = [f"t.{key} AS {key}" for key in self.keys]
        self.step([*keys, *read], table)
        sums, leaves = self._trees(cases, "leaves" in asked)
        answers = self._answers(asked, sums, leaves)
        facts = self._facts(asked, columns)
        finals = [*self.keys, *(f"{text} AS {self.named(name)}" for name, text in answers)]
        head = [comment(facts), *self._words()]
        body = ",\n".join(self.steps)
        listed = ",\n  ".join(finals)
        return "\n".join([*head, f"WITH {body}\nSELECT\n  {listed}\nFROM {self.last};\n"])

    def _trees(self, cases: TreeCases, wants_leaves: bool) -> tuple[list[str], list[str]]:
        """Add the steps of the trees; return the names of raw scores and of leaves."""
        forest = self.forest
        output, n = forest.output, forest.n_trees
        is_extreme = output.aggregate in (Aggregate.MIN, Aggregate.MAX)
        terms = _leaf_terms(forest)
        start = output.base_score if output.base_first else np.zeros(forest.n_outputs)
        sums = [] if is_extreme else [self.number(value) for value in start]
        leaves: list[str] = []
        ptr = forest.bitvectors.leaf_ptr
        for first in range(0, n, TREES):
            trees = range(first, min(first + TREES, n))
            later = sorted(cases.columns(range(trees.stop, n)))
            parts = [[one] for one in sums] or [[] for _ in range(forest.n_outputs)]
            new = []
            for tree in trees:
                own = slice(int(ptr[tree]), int(ptr[tree + 1]))
                for k in range(forest.n_outputs):
                    values = terms(tree, k)
                    if values is not None:
                        literals = [self.dialect.number(float(value)) for value in values]
                        text = cases.text(tree, literals)
                        is_single = output.dtype == np.float32
                        parts[k].append(
                            self.dialect.cast(text, output.dtype) if is_single else text
                        )
                if wants_leaves:
                    name = self.named(f"leaf_{tree}")
                    numbers = [str(leaf) for leaf in range(own.stop - own.start)]
                    new.append((name, cases.text(tree, numbers)))
            names = [self.named(f"s{k}") for k in range(forest.n_outputs)]
            if is_extreme:
                function = (
                    self.dialect.least
                    if output.aggregate is Aggregate.MIN
                    else self.dialect.greatest
                )
                totals = [extreme(function, part) for part in parts]
            else:
                totals = [" + ".join(part) for part in parts]
            kept = [*self.keys, *(self.named(f"x{column}") for column in later), *leaves]
            made = [*zip(names, totals, strict=True), *new]
            self.step([*kept, *(f"{text} AS {name}" for name, text in made)])
            leaves += [name for name, _ in new]
            sums = list(names)
        return self._finished(sums, leaves), leaves

    def _finished(self, sums: list[str], leaves: list[str]) -> list[str]:
        """Add the step that divides, scales and adds the base score; see `Output.finish`."""
        output, dialect, finals = self.forest.output, self.dialect, []
        dtype = output.dtype
        for k, name in enumerate(sums):
            text = name
            if output.aggregate is Aggregate.MEAN:
                divisor = self.forest.n_trees if output.divisor is None else output.divisor[k]
                text = f"({text} / {self.number(divisor)})"
                # Spark divides in 64 bits.
                text = dialect.cast(text, dtype) if dtype == np.float32 else text
            if output.scale is not None:
                text = f"({text} * {self.number(output.scale[k])})"
            if not output.base_first:
                base = output.base_score[k]
                is_wide = output.base_score.dtype != dtype
                wide = dialect.cast(text, FLOAT64) if is_wide else text
                added = dialect.number(float(base)) if is_wide else self.number(base)
                text = f"{wide} + {added}"
                text = dialect.cast(text, dtype) if is_wide else text
            finals.append((self.named(f"r{k}"), text))
        kept = [*self.keys, *leaves]
        self.step([*kept, *(f"{text} AS {name}" for name, text in finals)])
        return [name for name, _ in finals]

    def _answers(
        self, asked: tuple[str, ...], raw: list[str], leaves: list[str]
    ) -> list[tuple[str, str]]:
        """Add the steps of the post-transform; return the names of answers and their texts."""
        output = self.forest.output
        answers: list[tuple[str, str]] = []
        if "raw" in asked:
            answers += _numbered("raw", raw)
        kept = [*self.keys, *leaves, *raw]
        values = raw
        decided = _decided_by_raw(output)
        if {"probabilities", "prediction"} & set(asked) or ("label" in asked and not decided):
            steps, values = link_steps(self.dialect, output, raw, self.options.name)
            for new in steps:
                self.step([*kept, *(f"{text} AS {name}" for name, text in new.items())])
                kept += new
        if "prediction" in asked:
            answers += _numbered("prediction", values)
        if "probabilities" in asked:
            texts = []
            for part, labels in _groups(output, values):
                if len(part) == 1 and labels.size == 2:
                    texts.append(f"{self.number(1)} - {part[0]}")
                texts += part
            answers += [(f"probability_{k}", text) for k, text in enumerate(texts)]
        if "label" in asked:
            answers += _numbered("label", self._labels(raw if decided else values, kept))
        return [*answers, *((name.removeprefix(f"{self.options.name}_"), name) for name in leaves)]

    def _labels(self, values: list[str], kept: list[str]) -> list[str]:
        """Return an expression for the label of each group, as `class_labels` chooses it."""
        output, dialect = self.forest.output, self.dialect
        groups = list(_groups(output, values))
        tops = {}
        for at, (part, labels) in enumerate(groups):
            if not (len(part) == 1 and labels.size == 2):
                tops[at] = self.named(f"best{at}")
        if tops:
            new = [
                f"{extreme(dialect.greatest, groups[at][0])} AS {name}" for at, name in tops.items()
            ]
            self.step([*kept, *new])
        texts = []
        for at, (part, labels) in enumerate(groups):
            names = [dialect.literal(label) for label in labels.tolist()]
            if at not in tops:
                test = f"{part[0]} {self._second(output)}"
                texts.append(f"CASE WHEN {test} THEN {names[1]} ELSE {names[0]} END")
            elif len(part) == 1:
                texts.append(names[0])
            else:
                whens = [
                    f"WHEN {value} = {tops[at]} THEN {label}"
                    for value, label in zip(part, names, strict=True)
                ]
                texts.append(f"CASE {' '.join(whens)} END")
        return texts

    def _second(self, output: Output) -> str:
        """Return the comparison of a raw score that chooses the second of two classes."""
        if output.labels_from_raw:
            return f"{'>=' if output.tie_to_second else '>'} {self.number(output.second_above)}"
        turn = _turning_point(output)
        return "IS NULL" if turn is None else f">= {self.number(turn)}"

    def _facts(self, asked: tuple[str, ...], columns: list[int]) -> dict[str, Any]:
        forest, output = self.forest, self.forest.output
        names = forest.inputs.feature_names
        classes = output.classes
        return {
            "version": version(),
            "dialect": self.dialect.name,
            "name": self.options.name,
            "table": self.options.table,
            "key": list(self.options.key),
            "features": list(names or (f"x{k}" for k in range(forest.n_features))),
            "reads": columns,
            "input_dtype": str(forest.dtype),
            "categories": self.options.categories,
            "outputs": list(asked),
            "score_dtype": str(output.dtype),
            "n_trees": forest.n_trees,
            "n_outputs": forest.n_outputs,
            "groups": output.groups,
            "classes": None if classes is None else [labels.tolist() for labels in classes],
            "exact": self.dialect.holds(output.dtype),
        }

    def _words(self) -> list[str]:
        """Return sentences for a reader, as comments."""
        lines = []
        if not self.dialect.executed:
            lines.append(f"-- not run: bitvec's tests run no {self.dialect.name}")
        if not self.dialect.holds(self.forest.output.dtype):
            lines.append(
                f"-- {self.dialect.name} has no 32-bit floats: raw scores are within rounding of "
                "the forest's, which are added in float32"
            )
        return lines


def _numbered(name: str, texts: list[str]) -> list[tuple[str, str]]:
    if len(texts) == 1:
        return [(name, texts[0])]
    return [(f"{name}_{k}", text) for k, text in enumerate(texts)]


def _groups(output: Output, values: list[str]) -> Any:
    assert output.classes is not None
    start = 0
    for labels, size in zip(output.classes, output.groups, strict=True):
        yield values[start : start + size], labels
        start += size


def _leaf_terms(forest: Forest) -> Callable[[int, int], Array | None]:
    """Return the function that gives what a tree's leaves add to an output, None if nothing."""
    leaves, output, ptr = forest.leaves, forest.output, forest.bitvectors.leaf_ptr
    v = leaves.v.astype(output.dtype, copy=False)
    is_extreme = output.aggregate in (Aggregate.MIN, Aggregate.MAX)
    if output.tree_weight is not None and not is_extreme:
        with np.errstate(over="ignore"):
            v = np.repeat(output.tree_weight, np.diff(ptr))[:, None] * v

    def terms(tree: int, k: int) -> Array | None:
        own = slice(int(ptr[tree]), int(ptr[tree + 1]))
        if leaves.output is None:
            return v[own, k]
        adds = leaves.output[own] == k
        if not adds.any() and not is_extreme:
            return None
        return np.where(adds, v[own, 0], v.dtype.type(0))

    return terms


def _decided_by_raw(output: Output) -> bool:
    """Return whether labels follow from raw scores without an exponential."""
    if output.classes is None:
        return True
    single = all(
        size == 1 and labels.size == 2
        for size, labels in zip(output.groups, output.classes, strict=True)
    )
    return output.labels_from_raw or (single and output.post_transform not in GROUPED)


def _turning_point(output: Output) -> Any:
    """Return the smallest raw score whose transformed value exceeds the boundary, None if none.

    The post-transforms of one output rise, so that a bisection over the floats finds it, by the
    literal post-transform.
    """
    top = key_of(np.inf, output.dtype)
    low, high = -top, top + 1
    while low < high:
        middle = (low + high) // 2
        x = floats(np.full((1, output.n_outputs), middle), output.dtype)
        if transform(output, x)[0, 0] > output.second_above:
            high = middle
        else:
            low = middle + 1
    if low > top:
        return None
    return floats(np.array(low), output.dtype)[()]
