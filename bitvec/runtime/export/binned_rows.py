"""Bins of a forest's columns: small whole numbers that go through every tree as the values do.

A channel is a column with one rule and one direction for missing values. The bin of a value is
the number of its channel's thresholds that it passes, and 0 or a larger number where it is
missing, so that a node compares small numbers: exact in 8 bits, and in float16 up to 1024.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import ZERO_THRESHOLD, MissingRule, axis_aligned
from bitvec.core.shape_annotations import Float, UInt
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.files import atomic
from bitvec.runtime.export.ranks import Ranks, compared, ranks
from bitvec.verify.oracle import Oracle

_FORMAT: Final = "bitvec bins 1"


@dataclass(frozen=True, slots=True)
class Bins:
    """The table that makes bins of rows.

    Parameters
    ----------
    ranks : Ranks
        The channels and their thresholds.
    n_features : int
        Columns of the rows that it reads.
    sentinel : float, optional
        The number that is missing where a channel's rule says so.
    """

    ranks: Ranks
    n_features: int
    sentinel: float | None

    def of(self, X: Float[Array, "batch n_features"]) -> UInt[Array, "batch n_channels"]:
        """Return the bins of rows, uint8 or uint16.

        >>> from bitvec.core.forest import Forest
        >>> stump = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [10, 20])
        >>> bins_of(stump).of(np.array([[0.5], [0.6]])).tolist()
        [[0], [1]]
        """
        found, r = np.empty((len(X), self.ranks.n_channels), self.ranks.dtype), self.ranks
        # Thresholds stay in the forest's dtype: to it a row is cast, as everywhere.
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.asarray(X).astype(r.cuts.dtype)
        for k in range(r.n_channels):
            x, cuts = X[:, r.column[k]], r.cuts[r.cut_ptr[k] : r.cut_ptr[k + 1]]
            passed = np.searchsorted(cuts, x, side="right" if r.or_equal else "left")
            missing = np.isnan(x)
            if r.rule[k] == MissingRule.NAN_OR_ZERO:
                missing |= np.abs(x) <= x.dtype.type(ZERO_THRESHOLD)
            if r.rule[k] == MissingRule.NAN_OR_SENTINEL:
                missing |= x == self.sentinel
            found[:, k] = np.where(missing, self._of_missing(k), passed)
        return found

    def _of_missing(self, channel: int) -> int:
        """Return the bin of a missing value: above all others, or 0."""
        size = int(np.diff(self.ranks.cut_ptr)[channel])
        return size + 1 if self.ranks.missing_right[channel] else 0

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as JSON: thresholds in hexadecimals, which keep their bits."""
        r = self.ranks
        channels = [
            {
                "column": int(r.column[k]),
                "rule": MissingRule(int(r.rule[k])).name.lower(),
                "missing": self._of_missing(k),
                "thresholds": [float(t).hex() for t in r.cuts[r.cut_ptr[k] : r.cut_ptr[k + 1]]],
            }
            for k in range(r.n_channels)
        ]
        facts = {
            "format": _FORMAT,
            "n_features": self.n_features,
            "compares": r.cuts.dtype.name,
            "bins": r.dtype.name,
            "passes": ">=" if r.or_equal else ">",
            "sentinel": self.sentinel,
            "channels": channels,
        }
        return atomic.write(path, json.dumps(facts, indent=1).encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Bins:
        """Read a table that `save` wrote.

        Raises
        ------
        FileFormatError
            If the file is none.
        """
        try:
            return _read(json.loads(Path(path).read_text("utf-8")))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise FileFormatError(
                f"{os.fspath(path)} must be a table of bins, got another file: export the model "
                'with input="bins" again.'
            ) from error


def _read(facts: dict[str, Any]) -> Bins:
    if facts["format"] != _FORMAT:
        raise ValueError
    dtype, channels = np.dtype(facts["compares"]), facts["channels"]
    kind = np.dtype(facts["bins"])
    cuts = [[float.fromhex(t) for t in channel["thresholds"]] for channel in channels]
    column = np.array([channel["column"] for channel in channels], np.int64)
    n_features = int(facts["n_features"])
    known = dtype in (np.float32, np.float64) and kind in (np.uint8, np.uint16)
    rising = all(np.all(np.diff(part) > 0) and len(part) < np.iinfo(kind).max for part in cuts)
    if not known or not rising or column.min() < 0 or column.max() >= n_features:
        raise ValueError
    found = Ranks(
        column=column,
        rule=np.array([MissingRule[c["rule"].upper()] for c in channels], np.int64),
        missing_right=np.array([c["missing"] > 0 for c in channels]),
        cut_ptr=np.concatenate([[0], np.cumsum([len(part) for part in cuts])]).astype(np.int64),
        cuts=np.concatenate(cuts).astype(dtype),
        or_equal={">": False, ">=": True}[facts["passes"]],
        dtype=kind,
        channel=np.zeros(0, np.int64),
        operand=np.zeros(0, np.int64),
    )
    sentinel = facts["sentinel"]
    return Bins(found, n_features, None if sentinel is None else float(sentinel))


def bins_of(forest: Forest) -> Bins:
    """Return the table that makes bins of a forest's rows.

    Raises
    ------
    UnsupportedModelError
        If a node does not compare one column, or a column has more than 65,534 thresholds.
    """
    others = int((~compared(forest)).sum())
    linear = forest.leaves.linear is not None
    found = None if others or linear else ranks(forest)
    if found is None:
        got = f"{others} others" if others else "leaves that are linear in x" if linear else "none"
        raise UnsupportedModelError(
            f"rows of bins need nodes that compare one column, and constant leaves, got {got}: "
            "leave `input` out."
        )
    return Bins(found, forest.n_features, forest.inputs.missing_sentinel)


def binned_forest(forest: Forest, bins: Bins) -> Forest:
    """Return the forest that reads the bins of rows, as float32, and reaches the same leaves."""
    r = bins.ranks
    names = forest.inputs.feature_names
    inputs = Inputs(
        r.n_channels,
        feature_names=None if names is None else _distinct([names[k] for k in r.column]),
    )
    # Halves are no bins, and rounded down to whole numbers they are thresholds of whole bins.
    tests = axis_aligned(r.channel, r.operand.astype(np.float32) + np.float32(0.5))
    return replace(forest, tests=tests, inputs=inputs, source=None)


def through(bins: Bins, oracle: Oracle) -> Oracle:
    """Return an oracle that reads rows, of one that reads their bins.

    Parameters
    ----------
    bins : Bins
        Made of the forest with which it is compared.
    oracle : Oracle
        Of a file that was exported with `input="bins"`.
    """

    def reading(answer: Callable[[Array], Array] | None) -> Callable[[Array], Array] | None:
        return None if answer is None else lambda X: answer(bins.of(X))

    return replace(
        oracle,
        raw=lambda X: oracle.raw(bins.of(X)),
        leaf_ids=reading(oracle.leaf_ids),
        predict=reading(oracle.predict),
        scores=reading(oracle.scores),
        accepts_missing=True,
        accepts_infinite=True,
        trees=None,
        written=None,
        input_dtype=None,
        n_features=bins.n_features,
        notes=(*oracle.notes, "rows were made bins by the table beside the file"),
    )


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Return names of which a repeated one has its number behind it."""
    return tuple(
        name if names[:k].count(name) == 0 else f"{name} ({names[:k].count(name) + 1})"
        for k, name in enumerate(names)
    )
