"""Choice of the YDF engine that answers `model.predict`, and its rule for missing values.

`predict` takes the first engine that fits a model; the slow one must be asked for. They route every
row alike that misses nothing, and differ in two ways otherwise.

* The slow engine, and `predict_leaves`, send a missing value where the node says (`na_value`), and
  put an oblique node's own replacements for it.
* A fast engine puts a missing category's most frequent value, and a missing truth value's. It puts
  the mean of a missing number if that leads where all nodes say; otherwise it keeps NaN, which goes
  where the node says, but never right at an oblique node.

No fast engine fits a model where the first of these leads elsewhere than the nodes say. Nodes below
an oblique one are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from bitvec.converters.ydf.conditions import Conditions, ConditionType
from bitvec.converters.ydf.data_spec import Columns
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float32
from bitvec.errors import UnsupportedModelError

QUICK_SCORER_LEAVES: Final = 64
QUICK_SCORER_TREES: Final = 65535
"""The most that QuickScorer takes."""


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """Rule of the default engine for missing values.

    Parameters
    ----------
    right : bool, (n_nodes,)
    substitute : float32, (n_terms,)
        What an oblique node reads for one, NaN if it goes to the node's side.
    as_leaves : bool
        Whether `predict_leaves` sends them to the same leaves.
    """

    right: Bool[Array, " n_nodes"]
    substitute: Float32[Array, " n_terms"]
    as_leaves: bool


def missing_of(
    conditions: Conditions, columns: Columns, below_oblique: Bool[Array, " n_nodes"]
) -> Missing:
    """Return where the default engine sends missing values.

    Raises
    ------
    UnsupportedModelError
        If no fast engine fits, so that `predict` fails.
    """
    test, na = conditions.test, conditions.na_value
    oblique = test == ConditionType.OBLIQUE
    imputed = _imputed(conditions, columns)
    checked = ~below_oblique & ~oblique
    number = (test == ConditionType.HIGHER) | (test == ConditionType.DISCRETIZED_HIGHER)
    other = conditions.is_set | (test == ConditionType.TRUE_VALUE)
    if np.any((imputed != na)[checked & other]):
        raise UnsupportedModelError(
            "missing categories and truth values must go where the most frequent value goes, got "
            "nodes where they do not: `model.predict` refuses such a model, "
            "train it with missing_value_policy='GLOBAL_IMPUTATION'."
        )
    means = not np.any((imputed != na)[checked & number])
    right = np.where(other | (number & means), imputed, na)
    right[test == ConditionType.NA] = True
    right[oblique] = False
    mean = columns.stand_in[conditions.term_column]
    substitute = mean if means else np.full(mean.size, np.nan, np.float32)
    as_slow = np.where(oblique, False, na)
    as_slow[test == ConditionType.NA] = True
    bare = np.isnan(conditions.replacement)
    same_terms = np.array_equal(substitute, conditions.replacement, equal_nan=True)
    to_right = na & oblique & _any_of(bare, conditions)
    as_leaves = np.array_equal(right, as_slow) and same_terms and not np.any(to_right)
    return Missing(right, substitute, as_leaves)


def _imputed(conditions: Conditions, columns: Columns) -> Bool[Array, " n_nodes"]:
    """Return the outcome for the value that stands in for a missing one."""
    column = conditions.column
    outcome: Array = columns.stand_in[column] >= conditions.threshold
    truth = conditions.test == ConditionType.TRUE_VALUE
    outcome[truth] = columns.mostly_true[column[truth]]
    at = column[conditions.is_set]
    first = np.cumsum(columns.n_codes[at]) - columns.n_codes[at]
    outcome[conditions.is_set] = conditions.member[first + columns.most_frequent[at]] != 0
    return outcome


def _any_of(terms: Bool[Array, " n_terms"], conditions: Conditions) -> Bool[Array, " n_nodes"]:
    total = np.concatenate([[0], np.cumsum(terms)])
    found: Array = total[conditions.term_ptr[1:]] > total[conditions.term_ptr[:-1]]
    return found


def takes_quick_scorer(conditions: Conditions, n_leaves: Array, n_outputs: int) -> bool:
    """Return whether boosted trees are answered by QuickScorer, which adds trees to the base score.

    The generic engine adds the base score to the sum of the trees.
    """
    plain = ~np.isin(conditions.test, (ConditionType.NA, ConditionType.OBLIQUE))
    return (
        n_outputs == 1
        and bool(np.all(plain))
        and n_leaves.size <= QUICK_SCORER_TREES
        and bool(np.all(n_leaves <= QUICK_SCORER_LEAVES))
    )
