"""Growth in an update: old leaves refreshed, new trees behind them or alone, joined as a blend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float64
from bitvec.core.source import retrained_source
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.grow.appended_trees import NewTree, appended, kept
from bitvec.runtime.train.grow.column_bins import Bins
from bitvec.runtime.train.grow.faded_trees import faded
from bitvec.runtime.train.grow.newton_rounds import Growth, Rows, constant, rounds
from bitvec.runtime.train.grow.refreshed_leaves import refreshed
from bitvec.runtime.train.relax.aggregation import divisor
from bitvec.runtime.train.retrain.leaf_design import LeafDesign
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.training_data import Data
from bitvec.runtime.train.update import anchored_leaves
from bitvec.runtime.train.update.forest_blend import Member, Start, Stop
from bitvec.runtime.train.update.update_run import Run

ROUNDS, PATIENCE = 60, 2
"""Rounds at most, by default; stops in a row that are no better, after which there are no more."""
LEAST = 4
"""Leaves of new trees at least, which are of the size of the old ones within bounds."""
Share = Float64[Array, " n_rounds_and_one"]
"""Weights of the old leaves of a member, and of each of its rounds."""


def most_rounds(grow: Any) -> int:
    """Return how many rounds of trees an update may add for each member, 0 for none."""
    if isinstance(grow, (bool, np.bool_)):
        return ROUNDS if grow else 0
    return options.whole("grow", grow)


def require_growable(forest: Forest, trainable: Iterable[str]) -> None:
    """Refuse a forest that no tree can be added to, and leaves that may not move.

    Raises
    ------
    UnsupportedModelError, InputError
    """
    if "v" not in tuple(trainable):
        raise InputError(
            f"`trainable` must name v where a forest may grow, got {trainable!r}: old leaves are "
            "scaled as new trees come."
        )
    if forest.output.aggregate is not Aggregate.SUM or forest.feature_map is not None:
        got = "a feature map" if forest.feature_map is not None else f"a {forest.output.aggregate}"
        raise UnsupportedModelError(
            "a forest that grows must be a sum of trees that read X itself, as boosters are, got "
            f"{got}: leave `grow` out, or fit the model anew."
        )


@dataclass(frozen=True, eq=False)
class Scene:
    """Rows that members are fitted to, and behind them those that only judge, of weight 0."""

    data: Data
    rows: Rows
    n_judged: int
    reached: Callable[[], LeafDesign]
    started: dict[Start, tuple[Array, Array, Array]] = field(default_factory=dict)

    @property
    def table(self) -> LeafDesign:
        """The old leaves that rows reach."""
        return self.reached()


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A blend as one forest.

    Parameters
    ----------
    forest : Forest
    drop : bool, (n_old_trees,)
        Which old trees it lacks.
    blend : tuple of (Member, Share)
        What it is made of, with weights.
    """

    forest: Forest
    drop: Array
    blend: tuple[tuple[Member, Share], ...]


@dataclass(frozen=True, eq=False)
class Growing:
    """Growth of one forest.

    Parameters
    ----------
    most : int
        Rounds.
    sign : int8, (n_features,)
        How raw scores go along each column.
    """

    forest: Forest
    goal: Objective
    mixes: tuple[Any, ...]
    held_out: Data
    sign: Array
    most: int
    seed: int
    deadline: float

    @classmethod
    def of(cls, run: Run, signs: Array | None, most: int, deadline: float) -> Growing:
        """Return the growth of an update whose rows are read."""
        sign = np.zeros(run.forest.n_features, np.int8) if signs is None else signs
        rows = run.rows
        return cls(
            run.forest, run.objective, rows.mixes, rows.held_out, sign, most, run.seed, deadline
        )  # fmt: skip

    @cached_property
    def bins(self) -> Bins:
        """Bins of the widest mix."""
        return Bins.of(self.forest, self.mixes[0].fit.X)

    @cached_property
    def vectors(self) -> bool:
        """True if a tree adds to all outputs."""
        return self.forest.leaves.output is None

    def leaves(self, most: int) -> int:
        """Return how many leaves new trees have: as many as old ones, within bounds."""
        sizes = np.diff(self.forest.bitvectors.leaf_ptr)
        return int(np.clip(sizes.max(initial=LEAST), LEAST, most))

    @cached_property
    def scene(self) -> Scene:
        """The new rows, with those that judge."""
        return self._scene(self.mixes[-1].fit, self.held_out)

    def _whole_scene(self, mix: int) -> Scene:
        """Return all rows of a mix; those of `scene`, read already, where they are the same."""
        every, seen = self.mixes[mix].every, self.scene.data
        if not np.array_equal(every.X, seen.X, equal_nan=True):
            return self._scene(every, None)
        rows = replace(self.scene.rows, weight=every.weight)
        return Scene(every, rows, 0, self.scene.reached)

    def _scene(self, fit: Data, judged: Data | None) -> Scene:
        data, n = fit, 0
        if judged is not None:
            n = len(judged)
            data = Data(
                np.concatenate([fit.X, judged.X]),
                np.concatenate([fit.target, judged.target]),
                np.concatenate([fit.weight, np.zeros(n)]),
            )
        columns = self.bins.columns(data.X, self.sign)
        reached = cache(lambda: anchored_leaves.table(self.forest, data))
        return Scene(data, Rows(columns, data.target, data.weight), n, reached)

    def member(
        self,
        start: Start,
        mix: int,
        growth: Growth | None,
        stops: Sequence[int],
        score_of: Callable[[Array], float],
    ) -> Member:
        """Return what becomes of a start, judged at stops, as long as these help and time is left.

        Parameters
        ----------
        stops : sequence of int
            After how many rounds, rising.
        score_of : callable
            From raw scores of the rows held out.
        """
        began = time.monotonic()
        is_new = mix == len(self.mixes) - 1
        scene = self.scene if is_new else self._scene(self.mixes[mix].fit, self.held_out)
        v, raw, shift = self._started(scene, start)
        grown: Iterator[list[NewTree]] = iter(())
        if growth is not None:
            grown = self._rounds(scene, start, mix, growth, raw, shift)
        made: list[list[NewTree]] = []
        found: list[Stop] = []
        for stop in stops:
            is_late = False
            while len(made) < stop and not is_late:
                made.append(next(grown))
                is_late = time.monotonic() > self.deadline
            held = raw[-scene.n_judged :].copy()
            found.append(Stop(len(made), score_of(held), held))
            best = int(np.argmax([one.score for one in found]))
            if is_late or len(found) - best > PATIENCE:
                break
        return Member(start, mix, growth, v, tuple(made), tuple(found), time.monotonic() - began)

    def _started(self, scene: Scene, start: Start) -> tuple[Array, Array, Array]:
        """Return old leaves, raw scores of the rows, and what of these is in no tree."""
        if start not in scene.started:
            scene.started[start] = self._computed_start(scene, start)
        v, raw, shift = scene.started[start]
        return v, raw.copy(), shift

    def _computed_start(self, scene: Scene, start: Start) -> tuple[Array, Array, Array]:
        base = self.forest.output.base_score.astype(np.float64)
        old = self.forest.leaves.v.astype(np.float64)
        if start.alone:
            raw = np.tile(base, (len(scene.data), 1))
            shift = constant(self.goal, raw, scene.rows)
            return np.zeros_like(old), raw + shift, shift
        if start.pull is None:
            return old, scene.table.raw(old) + base, np.zeros_like(base)
        data = scene.data
        old, raw = refreshed(
            self.forest, scene.table, self.goal, data.target, data.weight, start.pull
        )
        return old, raw, np.zeros_like(base)

    def _rounds(
        self, scene: Scene, start: Start, mix: int, growth: Growth, raw: Array, shift: Array
    ) -> Iterator[list[NewTree]]:
        """Yield rounds, whose rows and columns are drawn in another way for each start and mix."""
        seed = (self.seed, mix, int(start.alone), int(start.pull is None))
        return rounds(
            self.goal, scene.rows, raw, growth, vectors=self.vectors, seed=seed, shift=shift
        )

    def refitted(self, grown: Grown) -> Grown | None:
        """Return the same blend, fitted to all rows; None where time is over before."""
        again = []
        scenes = cache(self._whole_scene)
        for member, share in grown.blend:
            if time.monotonic() > self.deadline:
                return None
            scene = scenes(member.mix)
            v, raw, shift = self._started(scene, member.start)
            made: tuple[list[NewTree], ...] = ()
            if member.growth is not None and member.rounds:
                rounds_ = self._rounds(scene, member.start, member.mix, member.growth, raw, shift)
                made = tuple(next(rounds_) for _ in member.rounds)
            again.append((replace(member, v=v, rounds=made), share))
        return self.joined(again, scenes(len(self.mixes) - 1))

    def joined(self, blend: list[tuple[Member, Share]], scene: Scene) -> Grown:
        """Return a blend as one forest, without old trees that have faded on some rows."""
        forest, v = self.forest, np.zeros(self.forest.leaves.v.shape)
        for member, share in blend:
            v += share[0] * member.v
        with np.errstate(over="ignore"):  # what overflows is rejected by the choice
            leaves = replace(forest.leaves, v=v.astype(forest.leaves.v.dtype))
        forest = replace(forest, leaves=leaves, source=retrained_source(forest.source))
        by = divisor(forest)
        trees = [
            _changed(tree, weight * by, 0 * by)
            for member, share in blend
            for weight, trees in zip(share[1:], member.rounds, strict=True)
            for tree in trees
        ]
        drop = np.zeros(forest.n_trees, bool)
        if trees:
            drop, lacks = faded(forest, scene.table if np.any(v) else None, v)
            a_round = 1 if self.vectors else forest.n_outputs
            first = [_changed(tree, np.ones_like(by), lacks * by) for tree in trees[:a_round]]
            trees = first + trees[a_round:]
        forest = appended(kept(forest, np.flatnonzero(~drop)), trees, self.bins)
        return Grown(forest, drop, tuple(blend))


def _changed(tree: NewTree, factor: Array, shift: Array) -> NewTree:
    """Return a tree whose leaves are multiplied, and shifted, by numbers of their output."""
    at = slice(None) if tree.output < 0 else [tree.output]
    return replace(tree, value=factor[at] * tree.value + shift[at])
