"""Finished families of candidates in a folder, so that a run that was killed goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np

from bitvec.compression.booster_family import BoosterRecipe
from bitvec.compression.boosters import Setting
from bitvec.compression.candidate_recipes import Candidate, Recipe
from bitvec.compression.families import ForestRecipe, TreeRecipe
from bitvec.compression.joint_trees import TrainedRecipe
from bitvec.compression.problem import Problem
from bitvec.compression.storage import Storage
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError, InputError
from bitvec.files import atomic, load, save
from bitvec.files.records import pack

RUN = "run.json"
RECIPES: Final[dict[str, Any]] = {
    "booster": BoosterRecipe,
    "forest": ForestRecipe,
    "tree": TreeRecipe,
    "trained": TrainedRecipe,
}
PARTS: Final[dict[str, Any]] = {"setting": Setting, "storage": Storage}
"""Fields of recipes that are records themselves."""


@dataclass(frozen=True, slots=True)
class KeptPoints:
    """A folder of finished families; each has a list in JSON, written after its forests.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    def load(self, name: str) -> list[Candidate] | None:
        """Return the candidates of a family, None where it is not finished.

        Raises
        ------
        FileFormatError
            If a file is damaged.
        """
        listed = self.folder / f"{name}.json"
        if not listed.exists():
            return None
        with _whole(listed):
            return [
                Candidate(
                    str(one["recipe"]),
                    self._forest(one["file"]),
                    float(one["loss"]),
                    recipe_of(one["again"]),
                )
                for one in _read(listed, list)
            ]

    def _forest(self, name: str) -> Forest:
        found = load(self.folder / Path(name).name)
        if not isinstance(found, Forest):
            raise FileFormatError(f"{name} holds no forest.")
        return found

    def save(self, name: str, candidates: list[Candidate]) -> None:
        """Keep the candidates of a family that is finished."""
        records = []
        for number, one in enumerate(candidates):
            file = f"{name}-{number}.safetensors"
            save(one.forest, self.folder / file)
            records.append(
                {
                    "recipe": one.recipe,
                    "file": file,
                    "loss": repr(one.loss),
                    "again": record_of(one.again),
                }
            )
        atomic.write(self.folder / f"{name}.json", json.dumps(records).encode())


def record_of(recipe: Recipe | None) -> dict[str, Any] | None:
    """Return a recipe as plain values."""
    if recipe is None:
        return None
    kind = next(name for name, made in RECIPES.items() if isinstance(recipe, made))
    return {"kind": kind, **asdict(recipe)}  # type: ignore[call-overload] # it is a dataclass


def recipe_of(record: dict[str, Any] | None) -> Recipe | None:
    """Return the recipe that `record_of` gave as plain values."""
    if record is None:
        return None
    given = {name: PARTS[name](**v) if name in PARTS else v for name, v in record.items()}
    found: Recipe = RECIPES[given.pop("kind")](**given)
    return found


def kept_in(path: str | os.PathLike[str], problem: Problem, options: Any) -> KeptPoints:
    """Return the folder of a run, made if it is not there.

    Raises
    ------
    InputError
        If it belongs to other rows, another model or other options, or holds something else.
    FileFormatError
        If its file is damaged.
    """
    folder, digest = Path(path), _digest(problem, options)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"`checkpoint` must be a folder, got the file {folder}.")
    run = folder / RUN
    if run.exists():
        with _whole(run):
            kept = _read(run, dict)["digest"]
        if kept != digest:
            raise InputError(
                f"{folder} must be the checkpoint of this very compression, got one of other rows, "
                "another model or other options: remove it to start anew, or name another folder."
            )
        return KeptPoints(folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"`checkpoint` must be an empty folder or one of this run, got {folder}.")
    if not folder.exists() and not folder.parent.is_dir():
        raise InputError(f"the folder of `checkpoint` must exist: create {folder.parent} first.")
    folder.mkdir(exist_ok=True)
    atomic.write(run, json.dumps({"digest": digest}).encode())
    return KeptPoints(folder)


def _read(path: Path, kind: type) -> Any:
    found = json.loads(path.read_text("utf-8"))
    if not isinstance(found, kind):
        raise FileFormatError(f"it holds a {type(found).__name__}.")
    return found


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Raise FileFormatError where reading a file of the run fails within, for any reason."""
    try:
        yield
    except Exception as error:  # a damaged record may break anything that reads it
        why = str(error).rstrip(".") or type(error).__name__
        why = f"it lacks {why}" if isinstance(error, KeyError) else why
        raise FileFormatError(
            f"{path} must be a whole file of a checkpoint, got a damaged one ({why}): delete "
            f"{path.parent} to compress anew, or pass another `checkpoint`."
        ) from None


def _digest(problem: Problem, options: Any) -> str:
    tensors, record = pack(problem.forest)
    sums = blake2b(digest_size=16)
    keeps = None if problem.monotone is None else problem.monotone.signs.tolist()
    sums.update(json.dumps([record, repr(options), keeps], sort_keys=True).encode())
    arrays = [tensors[name] for name in sorted(tensors)]
    for data in (problem.fit, problem.held_out):
        arrays += [data.X, data.target, data.weight]
    for array in arrays:
        sums.update(f"{array.dtype}{array.shape}".encode())
        sums.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
    return sums.hexdigest()
