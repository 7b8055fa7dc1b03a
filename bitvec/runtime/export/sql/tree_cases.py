"""Trees as CASE expressions, whose nesting grows with the logarithm of their leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bitvec.core import structure
from bitvec.core.float_keys import FLOAT64
from bitvec.core.forest import Forest
from bitvec.core.key_intervals import complement
from bitvec.runtime.export.sql.column_conditions import Conditions, condition
from bitvec.runtime.export.sql.dialects import Dialect


class TreeCases:
    """Writer of the trees of one forest.

    A node whose smaller subtree is asked for by WHEN goes on with the larger one behind it, so that
    a CASE is a list of conditions, nested only in smaller subtrees: SQLite refuses expressions that
    are nested deeply.

    Parameters
    ----------
    name : callable
        A column to the expression that reads it.
    """

    def __init__(
        self,
        dialect: Dialect,
        forest: Forest,
        conditions: Conditions,
        name: Callable[[int], str],
    ) -> None:
        self._forest, B = forest, forest.bitvectors
        self._left, self._right = (side.tolist() for side in structure.children(B))
        goes_right = (B.hi - B.mid <= B.mid - B.lo).tolist()
        feature = forest.tests.feature.tolist()
        self._light = []
        for node, values in enumerate(conditions.right):
            asked = values if goes_right[node] else complement(values, FLOAT64)
            text = condition(dialect, name(feature[node]), asked)
            left, right = self._left[node], self._right[node]
            sides = (right, left) if goes_right[node] else (left, right)
            self._light.append((text, *sides))

    def columns(self, trees: range) -> set[int]:
        """Return the columns that some trees read."""
        ptr = self._forest.bitvectors.node_ptr
        part = self._forest.tests.feature[ptr[trees.start] : ptr[trees.stop]]
        return set(np.unique(part).tolist())

    def text(self, tree: int, leaf_texts: list[str]) -> str:
        """Return one tree as an expression, given what stands at each of its leaves."""
        B = self._forest.bitvectors
        first = int(B.leaf_ptr[tree])
        root = ~first if len(leaf_texts) == 1 else int(B.node_ptr[tree])

        def written(child: Any) -> str:
            if child < 0:
                return leaf_texts[~child - first]
            whens = []
            while child >= 0:
                asked, light, heavy = self._light[child]
                whens.append(f"WHEN {asked} THEN {written(light)}")
                child = heavy
            return f"CASE {' '.join(whens)} ELSE {leaf_texts[~child - first]} END"

        return written(root)
