"""Conditions of nodes as expressions of C: few distinct ones, each with operands of its nodes.

The expressions keep the conventions of `bitvec.core.node_tests`: right is 1, and a comparison with
NaN is false, so that a missing value goes left by `v > b` and right by `!(v <= b)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Bool, Float, Int
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import narrow_floats, narrow_integers, number
from bitvec.runtime.export.c.multiples import numbers
from bitvec.runtime.export.ranks import Ranks

COMPARE, EQUAL, SET, ROW, RANK = "compare", "equal", "set", "row", "rank"
_NAN = int(MissingRule.NAN)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that some nodes share.

    Parameters
    ----------
    family : str
        COMPARE and EQUAL read a value and a threshold; SET a value and a number of a set; ROW all
        of x and a number of a row of S; RANK a rank and an operand.
    or_equal, missing_right, other_right : bool
    rule, code_rule : int
    """

    family: str
    or_equal: bool = False
    rule: int = _NAN
    missing_right: bool = False
    code_rule: int = 0
    other_right: bool = False

    @property
    def reads_threshold(self) -> bool:
        """Return whether it has a threshold of its own."""
        return self.family in (COMPARE, EQUAL)

    def expression(self, value: str, threshold: str, operand: str) -> str:
        """Return an expression that is 1 where a row goes right.

        Parameters
        ----------
        value, threshold, operand : str
            Expressions of what the condition reads; `threshold` only if it reads one, and
            `operand` if not.
        """
        if self.family == RANK:
            return f"{value} > {operand}"
        if self.family == ROW:
            flags = f"{self.or_equal:d}, {self.rule}, {self.missing_right:d}"
            return f"@row_goes_right(x, {operand}, {flags})"
        if self.family == SET:
            inside = f"@in_set({value}, {operand}, {self.code_rule}, {self.other_right:d})"
            return f"@is_missing({value}, {self.rule}) ? {self.missing_right:d} : {inside}"
        above, below = (">=", "<") if self.or_equal else (">", "<=")
        holds = f"{value} {'==' if self.family == EQUAL else above} {threshold}"
        if self.rule != _NAN:
            return f"@is_missing({value}, {self.rule}) ? {self.missing_right:d} : {holds}"
        if not self.missing_right:
            return holds
        if self.family == EQUAL:  # NaN equals nothing, so its way is said
            return f"{value} != {value} || {holds}"
        return f"!({value} {below} {threshold})"


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of all nodes of a forest, in its order.

    Parameters
    ----------
    distinct : tuple of Condition
    which : int64, (n_nodes,)
        The condition of each node.
    column : int64, (n_nodes,)
        Of x, or of the ranks at a RANK condition; 0 at a ROW condition.
    operand : int64, (n_nodes,)
        The number of a set, row or rank; of another node, that of its distinct threshold.
    threshold : F, (n_nodes,)
    thresholds : F, (n_thresholds,)
        The distinct thresholds.
    sets, rows : int64
        The nodes whose sets and rows of S are numbered, in order.
    """

    distinct: tuple[Condition, ...]
    which: Int[Array, " n_nodes"]
    column: Int[Array, " n_nodes"]
    operand: Int[Array, " n_nodes"]
    threshold: Float[Array, " n_nodes"]
    thresholds: Float[Array, " n_thresholds"]
    sets: Int[Array, " n_sets"]
    rows: Int[Array, " n_wide_rows"]

    @property
    def families(self) -> set[str]:
        """The families that occur."""
        return {condition.family for condition in self.distinct}


def is_row(forest: Forest) -> Bool[Array, " n_nodes"]:
    """Return whether a node sums several columns, or one with a weight."""
    return (forest.tests.kind == Kind.MARGIN) & ~forest.tests.is_one_hot


def conditions_of(forest: Forest, ranks: Ranks | None, reads: np.dtype) -> Conditions:
    """Sort the nodes of a forest by what they ask; thresholds are of the dtype `reads` of x."""
    tests = forest.tests
    wide, sets = is_row(forest), tests.kind == Kind.SET
    equal = tests.kind == Kind.EQUAL
    compares = ~(wide | sets | equal)
    rule = tests.missing_rules(forest.inputs.missing_sentinel)
    ranked = compares if ranks is not None else np.zeros(forest.n_nodes, bool)
    family = np.select([ranked, wide, sets, equal], [RANK, ROW, SET, EQUAL], COMPARE)
    is_set, is_ranked = family == SET, family == RANK
    keys = np.stack(
        [
            np.select([is_ranked, is_set, equal], [0, 1, 2], 3) + wide,
            np.isin(family, (COMPARE, ROW)) & (tests.relation == Relation.GREATER_EQUAL),
            np.where(is_ranked, _NAN, rule),
            ~is_ranked & tests.missing_right,
            np.where(is_set, tests.code_rule, 0),
            is_set & tests.other_right,
        ],
        axis=1,
    )
    _, first, number_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    rank_of_key = np.argsort(np.argsort(first))  # conditions are numbered as nodes meet them
    which = rank_of_key[number_of.reshape(-1)].astype(np.int64)
    distinct = [
        Condition(
            str(family[node]),
            bool(keys[node, 1]),
            int(keys[node, 2]),
            bool(keys[node, 3]),
            int(keys[node, 4]),
            bool(keys[node, 5]),
        )
        for node in np.sort(first)
    ]
    own = ~(ranked | wide | sets)
    thresholds, place = _distinct_values(tests.b[own].astype(reads))
    operand = np.zeros(forest.n_nodes, np.int64)
    operand[own] = place
    B = forest.bitvectors
    order = tree_paths.preorder(B)
    rows = order[wide[order]]  # in preorder, as tables of nodes stand
    operand[rows] = np.arange(rows.size)
    operand[sets] = np.arange(int(sets.sum()))
    column = np.maximum(tests.feature.astype(np.int64), 0)
    if ranks is not None:
        column[ranked], operand[ranked] = ranks.channel, ranks.operand
    return Conditions(
        tuple(distinct),
        which,
        column,
        operand,
        tests.b.astype(reads),
        thresholds,
        np.flatnonzero(sets),
        rows,
    )


def _distinct_values(values: Float[Array, " n"]) -> tuple[Array, Array]:
    """Return the distinct values, by their bits, and where each value stands among them."""
    bits, place = np.unique(values.view(f"u{values.itemsize}"), return_inverse=True)
    return bits.view(values.dtype), place


def add_conditions(header: Header, forest: Forest, conditions: Conditions) -> None:
    """Append the tables and functions that conditions need, except those of one node."""
    sentinel = forest.inputs.missing_sentinel
    if any(q.rule != _NAN or q.family in (SET, ROW) for q in conditions.distinct):
        header.code(
            _IS_MISSING,
            zero=number(ZERO_THRESHOLD, forest.dtype),
            or_sentinel=""
            if sentinel is None
            else f" || (rule == 2 && v == {number(sentinel, forest.dtype)})",
        )
    if SET in conditions.families:
        _add_sets(header, forest, conditions.sets)
    if ROW in conditions.families:
        _add_rows(header, forest, conditions.rows)


_IS_MISSING = """
/* Whether a value is missing: NaN; by rule 1 also zero; by rule 2 also the forest's sentinel. */
static inline int @is_missing(const @input v, const int rule)
{
    return v != v || (rule == 1 && v >= -$zero && v <= $zero)$or_sentinel;
}
"""


def _add_sets(header: Header, forest: Forest, nodes: Array) -> None:
    tests = forest.tests.take(nodes)
    header.table("set_first", narrow_integers(tests.set_ptr), "first word of each set of codes")
    words = tests.set_words if tests.set_words.size else np.zeros(1, np.uint32)
    header.table("set_words", words, "bit c % 32 of word c / 32: code c goes right")
    header.code(_IN_SET)


_IN_SET = """
/* Whether a code is in a set, `other` if it is outside its range. By code rule 0 it must be whole,
   by 1 it is truncated toward zero, by 2 rounded down. */
static inline int @in_set(const @input v, const uint32_t set, const int code_rule, const int other)
{
    const uint32_t first = @set_first[set];
    const uint32_t size = 32U * ((uint32_t)@set_first[set + 1U] - first);
    uint32_t code;
    if (!(v > (@input)-1 && v < (@input)size)) {
        return other;
    }
    code = (uint32_t)v;
    if (code >= size || (code_rule == 0 && v != (@input)code) || (code_rule == 2 && v < 0)) {
        return other;
    }
    return (int)((@set_words[first + code / 32U] >> (code % 32U)) & 1U);
}
"""


def _add_rows(header: Header, forest: Forest, nodes: Array) -> None:
    """Append the rows of S of some nodes, one each."""
    tests = forest.tests.take(nodes)
    counts = np.diff(tests.row_ptr)
    first, last, column = "@row_first[row]", "@row_first[row + 1U]", "@entry_column[k]"
    if np.all(counts == counts[0]):
        first, last = f"row * {counts[0]}U", f"first + {counts[0]}U"
    else:
        header.table("row_first", narrow_integers(tests.row_ptr), "first entry of each row of S")
    threshold, weight = numbers(tests.b), numbers(tests.weight)
    threshold.add(header, "row_threshold", "threshold of each row of S")
    if tests.column.size:
        within = np.arange(tests.column.size) - np.repeat(tests.row_ptr[:-1], counts)
        if np.array_equal(within, tests.column):
            column = "k - first"
        else:
            header.table("entry_column", narrow_integers(tests.column), "column of each entry")
        weight.add(header, "entry_weight", "weight of each entry")
    substituted = indicated = ""
    if tests.substitute is not None and not np.all(np.isnan(tests.substitute)):
        header.table(
            "entry_substitute",
            narrow_floats(tests.substitute),
            "what a missing value of each entry counts as; NaN if there is nothing",
        )
        substituted = _SUBSTITUTE
    if tests.indicator is not None and np.any(tests.indicator >= 0):
        header.table(
            "entry_code",
            narrow_integers(tests.indicator.astype(np.int64) + 1),
            "1 more than the code that an entry compares with; 0 if it reads the value",
        )
        indicated = _INDICATOR
    entry = _ENTRY if tests.column.size else "            (void)x;\n            (void)rule;\n"
    values = {
        "substitute": substituted,
        "indicator": indicated,
        "column": column,
        "weight": weight.reading("@entry_weight[k]", "@input"),
    }
    entry = header.filled(entry, **values)
    threshold_of = threshold.reading("@row_threshold[row]", "@input")
    header.code(_ROW_GOES_RIGHT, entry=entry, b=threshold_of, first=first, last=last)


_SUBSTITUTE = """
        if (missing && @entry_substitute[k] == @entry_substitute[k]) {
            v = (@input)@entry_substitute[k];
            missing = 0;
        }"""
_INDICATOR = """
        if (@entry_code[k] != 0) {
            v = (double)v == (double)(@entry_code[k] - 1U) ? (@input)1 : (@input)0;
        }"""
_ENTRY = """        @input v = x[$column];
        int missing = @is_missing(v, rule);$substitute
        if (missing) {
            return missing_right;
        }$indicator
        v = @input_product($weight, v);
        z = k == first ? v : z + v;
"""
_ROW_GOES_RIGHT = """
/* A product that no compiler joins with the sum around it: a fused one rounds once, not twice. */
static inline @input @input_product(const @input a, const @input b)
{
    volatile @input product = a * b;
    return product;
}

/* Compare a row of S times x with its threshold; the sum runs in the order of the entries. */
static inline int @row_goes_right(
    const @input *x, const uint32_t row,
    const int or_equal, const int rule, const int missing_right)
{
    const @input b = $b;
    const uint32_t first = $first;
    const uint32_t last = $last;
    @input z = 0;
    uint32_t k;
    for (k = first; k < last; k++) {
$entry    }
    if (z != z) {
        return missing_right;
    }
    return or_equal ? z >= b : z > b;
}
"""
