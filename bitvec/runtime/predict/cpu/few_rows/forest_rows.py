"""A forest made ready for few rows: its layout for each dtype of X, and a call for each verb."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.runtime.predict.cpu.choice import Choice
from bitvec.runtime.predict.cpu.few_rows import (
    binned_batches,
    costs,
    masks,
    row_answers,
    row_scores,
    set_rows,
)
from bitvec.runtime.predict.cpu.few_rows.binned_batches import run_batch
from bitvec.runtime.predict.cpu.few_rows.call_header import Header
from bitvec.runtime.predict.cpu.few_rows.calls import Call, Prepared, ScoresCall
from bitvec.runtime.predict.cpu.few_rows.direct_walks import DirectWalks
from bitvec.runtime.predict.cpu.few_rows.lone_tree import fill_answers
from bitvec.runtime.predict.cpu.few_rows.masks import Masks
from bitvec.runtime.predict.cpu.few_rows.path_walks import PathWalks
from bitvec.runtime.predict.cpu.few_rows.walks import Walks
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.protocol import TreeKernel
from bitvec.runtime.predict.cpu.traversal import paths, single
from bitvec.runtime.predict.isolation_scores import isolation_offset
from bitvec.runtime.predict.subnormals import SUBNORMAL

ROOM: Final = 1 << 16
"""Bytes of the stack that a call may take."""
SMALL_BATCH: Final = 256
"""Rows up to which a block fills so few registers that another kernel may be the faster one."""
AT_ONCE: Final = 64
"""Rows at most that walk through the trees together."""

EVERY: Final = 1 << 62
MOST_ANSWERS: Final = 1 << 26
"""Bytes of the answers of a lone tree's leaves."""

BatchLayout = DirectWalks | PathWalks
Layout = BatchLayout | Masks | Walks
BATCHES: Final[dict[str, type[BatchLayout]]] = {"single": DirectWalks, "paths": PathWalks}
"""Layouts that answer batches in place of the kernel of a name."""


def unsupported_reason(forest: Forest) -> str | None:
    """Return why few rows of a forest have no call of their own, in a few words, or None."""
    output = forest.output
    if forest.kernel is not None or forest.feature_map is not None:
        return "it is soft or has a feature map"
    if output.aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        return "its trees are not summed"
    if forest.leaves.linear is not None:
        return "its leaves are linear in x"
    if forest.n_leaves > np.iinfo(np.int32).max:
        return "it has too many leaves"
    reason = set_rows.unsupported_reason(forest)
    return None if reason is None or paths.unsupported_reason(forest) is None else reason


class FewRows:
    """A forest packed for few rows, for each dtype of X when it is first asked for.

    Parameters
    ----------
    forest : Forest
        One that `unsupported_reason` does not refuse.
    batch : tuple of Choice
        What runs smaller and larger batches, against which the costs are held.
    trees_of : callable
        Returns the forest packed for the kernel of a name, and holds it.
    always : bool
        Whether no number of rows is too large.
    n_threads : int
        For many rows.
    """

    def __init__(
        self,
        forest: Forest,
        batch: tuple[Choice, Choice],
        trees_of: Callable[[str], TreeKernel],
        *,
        always: bool = False,
        n_threads: int = 1,
    ) -> None:
        self._forest, self._batch, self._always = forest, batch, always
        self._trees_of = trees_of
        self._n_threads = n_threads
        self._layouts: dict[np.dtype, Layout] = {}
        self._for_batches: dict[tuple[type[BatchLayout], np.dtype], BatchLayout] = {}
        self._packing = threading.RLock()

    def call(self, verb: str, *, finite: bool = False) -> Call | None:
        """Return what answers a method of `Predictor` to few rows, or None if nothing does.

        With `finite`, rows that hold NaN, an infinity or what the forest's dtype does not hold are
        left to others.
        """
        answer = answer_of(self._forest, verb)
        if answer is None:
            return None

        def prepare(dtype: np.dtype) -> Prepared:
            fields = answer.fields()
            if fields is None:
                return Prepared(None, 0)
            layout = self.layout(dtype)
            fields = self._fields(layout, dtype, fields, answer.n_bytes, finite)
            header = Header(**fields | {"find_rows": 0})
            if header["room_bytes"] > ROOM:
                return Prepared(None, 0)
            answers = self._answers(header) if "find_rows" in fields else None
            if answers is None:
                return Prepared(header, self.most_rows(layout), layout.cycles + costs.ROW)
            cycles = costs.block_cycles(self._forest)
            return Prepared(Header(**fields, answers=answers), EVERY, cycles)

        more = None
        for chosen, most in zip(reversed(self._batch), (EVERY, SMALL_BATCH), strict=True):
            is_told = verb not in row_scores.LEAVES or chosen.name in BATCHES
            if is_told and not self._always:
                more = self._batch_call(answer, chosen, most, finite=finite, then=more)
        kind = answer.width, answer.dtype
        bound = None if self._may_take_every else costs.MOST
        return Call(prepare, self._most, *kind, self._n_threads, then=more, bound=bound)

    def _batch_call(
        self, answer: Answer, chosen: Choice, most: int, *, finite: bool, then: Call | None
    ) -> Call:
        """Return what answers rows by a kernel for batches."""
        kind, n_threads = (answer.width, answer.dtype), self._n_threads
        walks, cycles = BATCHES.get(chosen.name), max(chosen.cycles, 1.0)

        def prepare(dtype: np.dtype) -> Prepared:
            fields = answer.fields()
            if fields is None:
                return Prepared(None, most)
            if walks is not None:
                layout = self._packed(walks, dtype)
                fields = self._fields(layout, dtype, fields, answer.n_bytes, finite)
                header = Header(**fields | {"find_rows": 0})
                return Prepared(header if header["room_bytes"] <= ROOM else None, most, cycles)
            batch = binned_batches.fields_of(self._trees_of(chosen.name), dtype, self._forest)
            if batch is None:
                return Prepared(None, most)
            general = self._general_fields(dtype, answer.n_bytes, finite)
            return Prepared(Header(**general | fields | batch), most, cycles)

        if walks is not None:
            return Call(prepare, lambda dtype: most, *kind, n_threads, then=then)
        return Call(prepare, lambda dtype: most, *kind, n_threads, run_batch, then, strided=True)

    def info(self) -> dict[str, Any]:
        """Return how few rows of float32 are run, and up to how many."""
        dtype = np.dtype(np.float32)
        most = self._most(dtype)
        return {"layout": self.layout(dtype).name, "most_rows": "all" if most == EVERY else most}

    @property
    def _may_take_every(self) -> bool:
        """Return whether a layout may be one for any number of rows, which making it would tell."""
        is_batch = all(choice.name in BATCHES for choice in self._batch)
        return self._always or is_batch or self._forest.n_trees <= 1

    def _most(self, dtype: np.dtype) -> int:
        layout = self.layout(dtype)
        return EVERY if "find_rows" in layout.fields else self.most_rows(layout)

    def layout(self, dtype: np.dtype) -> Layout:
        """Return the forest packed for few rows of X of a dtype."""
        with self._packing:
            if dtype not in self._layouts:
                self._layouts[dtype] = self._chosen(dtype)
            return self._layouts[dtype]

    def most_rows(self, layout: Layout) -> int:
        """Return up to how many rows a call costs less than a kernel for batches."""
        is_batch = all(BATCHES.get(choice.name) is type(layout) for choice in self._batch)
        every = self._always or is_batch
        return EVERY if every else costs.most_rows(layout.cycles, *self._batch)

    def _chosen(self, dtype: np.dtype) -> Layout:
        forest = self._forest
        if set_rows.unsupported_reason(forest) is not None:
            return self._packed(PathWalks, dtype)
        walks, direct = costs.walk_cycles(forest), math.inf
        if single.unsupported_reason(forest) is None:
            direct = 0.0 if forest.n_trees == 1 else costs.direct_cycles(forest)
        least = min(walks, direct)
        if masks.unsupported_reason(forest) is None and masks.least_cycles(forest, dtype) < least:
            side_by_side = Masks(forest, dtype)
            if side_by_side.cycles <= least:
                return side_by_side
        if direct < walks:
            return self._packed(DirectWalks, dtype)
        return Walks(forest, dtype, leaf_vectors.pack(forest))

    def _packed(self, kind: type[BatchLayout], dtype: np.dtype) -> BatchLayout:
        """Return the forest packed for any number of rows, made when it is asked for first."""
        with self._packing:
            if (kind, dtype) not in self._for_batches:
                self._for_batches[kind, dtype] = kind(self._forest, dtype)
            return self._for_batches[kind, dtype]

    def _answers(self, header: Header) -> np.ndarray | None:
        """Return the answers of a lone tree's leaves, None where they are not made beforehand."""
        out_bytes, n_leaves = header["out_bytes"], self._forest.n_leaves
        if out_bytes % 4 or n_leaves * out_bytes > MOST_ANSWERS:
            return None
        answers = np.empty(n_leaves * out_bytes, np.uint8)
        return answers if fill_answers(header.address, n_leaves, answers) == n_leaves else None

    def _fields(
        self, layout: Layout, dtype: np.dtype, fields: dict[str, Any], out_bytes: int, finite: bool
    ) -> dict[str, Any]:
        forest, output = self._forest, self._forest.output
        keys_bytes = -(-layout.keys_bytes // 64) * 64
        leaves_bytes = -(-layout.leaves_bytes // 64) * 64
        scores = "answer" not in fields
        if scores:
            sums = leaf_vectors.pack(forest)
            fields = row_scores.fields_of(forest, sums, layout.has_vectors) | fields
        scores_bytes = output.dtype.itemsize * output.n_outputs
        room_bytes = -(-(keys_bytes + leaves_bytes + scores_bytes) // 64) * 64
        at_once = min(AT_ONCE, ROOM // room_bytes) if "walk" in layout.fields else 1
        own = layout.fields
        if finite and isinstance(layout, DirectWalks):
            own = layout.finite_fields
        return dict(
            **own,
            **fields,
            **self._general_fields(dtype, out_bytes, finite),
            leaves_at=keys_bytes,
            scores_at=keys_bytes + leaves_bytes,
            room_bytes=room_bytes,
            rows_at_once=max(at_once, 1),
            wants_vectors=scores and layout.has_vectors,
            leaf_ptr=forest.bitvectors.leaf_ptr,
        )

    def _general_fields(self, dtype: np.dtype, out_bytes: int, finite: bool) -> dict[str, Any]:
        narrows = self._forest.dtype.itemsize < dtype.itemsize
        return {
            "n_features": self._forest.n_features,
            "finite": finite,
            "largest": np.array([np.finfo(np.float32).max if narrows else np.inf], np.float64),
            "subnormal": np.array([SUBNORMAL]),
            "out_bytes": out_bytes,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one row: its width, dtype, and the fields that make it of scores.

    The width is None if it is one value.
    The fields are made when they are needed, as functions are compiled for them; they are None
    where the answer is left to others.
    """

    width: int | None
    dtype: np.dtype
    fields: Callable[[], dict[str, Any] | None]

    @property
    def n_bytes(self) -> int:
        """Bytes of the answer to a row."""
        return self.dtype.itemsize * (1 if self.width is None else self.width)


def answer_of(forest: Forest, verb: str) -> Answer | None:
    """Return the answer that a method of `Predictor` gives, None of one that has no call here."""
    output, offset = forest.output, isolation_offset(forest)
    scores = output.n_outputs
    lone = None if scores == 1 else scores
    if verb in row_scores.LEAVES:
        kind = np.dtype(np.int32 if verb == "exit_leaves" else np.int64)
        return Answer(forest.n_trees, kind, partial(row_scores.leaf_fields, forest, verb))
    if offset is not None and verb in ("decision_function", "score_samples"):
        less = offset if verb == "decision_function" else np.nan
        make = partial(row_answers.fields_of, output, row_answers.fill_isolation, offset=less)
        return Answer(None, output.dtype, make)
    if verb == "predict_proba" and output.classes is not None:
        sizes = zip(output.groups, output.classes, strict=True)
        width = sum(max(size, labels.size) for size, labels in sizes)
        make = partial(row_answers.fields_of, output, row_answers.fill_columns)
        return Answer(width, output.dtype, make)
    if verb == "predict" and output.classes is not None:
        kind = np.result_type(*(each.dtype for each in output.classes))
        labels = np.concatenate([each.astype(kind) for each in output.classes])
        make = partial(row_answers.fields_of, output, row_answers.fill_labels, labels=labels)
        n_targets = len(output.classes)
        return Answer(None if n_targets == 1 else n_targets, kind, make)
    if verb == "raw" or verb == "decision_function":
        return Answer(scores if verb == "raw" else lone, output.dtype, dict)
    if verb == "scores" or verb == "predict":
        make = partial(row_answers.fields_of, output, None)
        return Answer(scores if verb == "scores" else lone, output.dtype, make)
    return None


def fill_of_scores(forest: Forest, verb: str, n_threads: int) -> ScoresCall | None:
    """Return what fills the answers to rows of raw scores, or None if nothing does."""
    answer, dtype = answer_of(forest, verb), forest.output.dtype
    return None if answer is None else ScoresCall(answer.fields, dtype, answer.n_bytes, n_threads)
