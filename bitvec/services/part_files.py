"""Predictions of many files into a folder: one output a file, in several processes, resumable.

A part is written aside, flushed and renamed, and then entered in the folder's manifest with the
digest of its input: what the manifest names is whole. A run that was killed goes on from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bitvec.distribution import version
from bitvec.errors import InputError
from bitvec.files import atomic
from bitvec.services import answer_files, hive_columns, process_copies, row_files
from bitvec.services.batch_predictor import BatchPredictor
from bitvec.services.hive_columns import Columns
from bitvec.services.input_files import State, digest, lies_in, state
from bitvec.verify.progress_bar import Advance

MANIFEST: Final = "manifest.bitvec.json"
Digests = dict[str, tuple[State, str]]
"""Digests by path, each with the state of the file that it is of."""


@dataclass(frozen=True, slots=True)
class Part:
    """One input and its output.

    Parameters
    ----------
    source : str
        Absolute path.
    target : str
        Relative to the folder.
    columns : dict
        Values of columns that stand in the names of its folders.
    """

    source: str
    target: str
    columns: Columns = field(default_factory=dict)


@dataclass(slots=True)
class Manifest:
    """Parts that are done, and what they were made with."""

    made_with: dict[str, Any]
    done: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the manifest, whole or not at all."""
        atomic.write(folder / MANIFEST, json.dumps(asdict(self), indent=1).encode())


def predict_parts(
    predict: BatchPredictor,
    files: list[tuple[Path, Path]],
    folder: Path,
    *,
    suffix: str | None = None,
    header: bool | None = None,
    n_processes: int = 1,
    resume: bool = False,
    force: bool = False,
    known: Callable[[], Digests] = dict,
    advance: Advance | None = None,
) -> int:
    """Predict files into a folder and return the number of rows, those done before included.

    Parameters
    ----------
    predict : BatchPredictor
    files : pairs of a path and its name in the folder
        As `input_files.find` returns them.
    folder : path
        Made if it does not exist.
    suffix : str, optional
        Of the outputs; by default each input's own.
    header : bool, optional
        Of text files.
    n_processes : int
        Processes, each with a predictor of its own.
    resume : bool
        Leave out what the folder's manifest says is done.
    force : bool
        Replace what an earlier run left in the folder.
    known : callable
        What `process_copies.ahead` returns of digests of the files that are worked out already.
    advance : callable, optional
        Told the fraction of the input's bytes that is done, and the rows a second.

    Raises
    ------
    InputError
        If two files would have one output, or a file lies in the folder; or the folder holds an
        earlier run and neither `resume` nor `force` is given, or what it was made with, or an input
        that is done, has changed; or a process was killed.
    """
    made_with = {
        "bitvec": version(),
        "model": predict.digest,
        "outputs": list(predict.outputs),
        "keep": list(predict.keep),
        "drop": list(predict.drop),
        "suffix": suffix,
        "header": header,
    }
    targets = [str(name if suffix is None else name.with_suffix(suffix)) for _, name in files]
    columns = hive_columns.of_targets(targets, predict.model.inputs, predict.keep)
    parts = [
        Part(str(path.absolute()), target, own)
        for (path, _), target, own in zip(files, targets, columns, strict=True)
    ]
    _require_apart(parts, folder)
    manifest = _manifest(folder, made_with, resume=resume, force=force)
    size = {part.target: Path(part.source).stat().st_size for part in parts}
    whole, done = sum(size.values()) or 1, 0
    n_rows, start = 0, time.monotonic()
    todo = []
    for part in parts:
        entry = manifest.done.get(part.target)
        if entry is None or not _is_whole(folder / part.target, entry):
            todo.append(part)
            continue
        if entry["source"] != part.source or entry["sha256"] != digest(part.source):
            raise InputError(
                f"{part.source} must be as it was when {part.target} was made of it, got another "
                "file: run again with --force, which makes all parts anew."
            )
        n_rows, done = n_rows + entry["rows"], done + size[part.target]
    before = n_rows
    if todo:
        manifest.save(folder)  # so that a run can go on which was stopped before its first part

    def begin() -> None:
        if advance is not None:
            advance(done / whole)

    for part, entry in _made(predict, todo, folder, header, n_processes, known, begin):
        manifest.done[part.target] = entry
        manifest.save(folder)
        n_rows, done = n_rows + entry["rows"], done + size[part.target]
        if advance is not None:
            rate = (n_rows - before) / max(time.monotonic() - start, 1e-9)
            advance(done / whole, f"predicting, {rate:,.0f} rows a second")
    return n_rows


def _is_whole(target: Path, entry: dict[str, Any]) -> bool:
    """Return whether a part is still there as it was written."""
    return target.is_file() and target.stat().st_size == entry.get("bytes", target.stat().st_size)


def _require_apart(parts: list[Part], folder: Path) -> None:
    read = {Path(part.source).resolve() for part in parts}
    sources: dict[str, str] = {}
    for part in parts:
        if part.target in sources:
            raise InputError(
                f"the files must have different outputs, got {part.target} of "
                f"{sources[part.target]} and of {part.source}: predict them into two folders."
            )
        sources[part.target] = part.source
        if lies_in(Path(part.source), folder):
            raise InputError(
                f"the files must lie outside the folder of answers, got {part.source}: "
                "name another folder."
            )
        if (folder / part.target).resolve() in read:  # by a link
            raise InputError(f"{folder / part.target} must not be one of the files that are read.")


def _manifest(folder: Path, made_with: dict[str, Any], *, resume: bool, force: bool) -> Manifest:
    path = folder / MANIFEST
    if not path.exists():
        if folder.exists() and any(folder.iterdir()) and not force:
            raise InputError(f"{folder} must be new or empty, got files: name another, or --force.")
        folder.mkdir(parents=True, exist_ok=True)
        return Manifest(made_with)
    if force:
        path.unlink()
        return Manifest(made_with)
    held = _read(path)
    if not held.done:  # that run made nothing
        return Manifest(made_with)
    if not resume:
        raise InputError(
            f"{folder} holds an earlier run: go on with it by --resume, or replace it by --force."
        )
    changed = [name for name, value in made_with.items() if held.made_with.get(name) != value]
    if changed:
        raise InputError(
            f"a run that goes on must have what it began with, got another {', '.join(changed)}: "
            "run it as before, or anew with --force."
        )
    return held


def _read(path: Path) -> Manifest:
    try:
        held = Manifest(**json.loads(path.read_text(encoding="utf-8")))
        for entry in held.done.values():
            if not {"source", "sha256"} <= entry.keys() or int(entry["rows"]) < 0:
                raise ValueError(entry)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path} must be a manifest of an earlier run, got a damaged file: begin anew with "
            "--force."
        ) from error
    return held


def _made(
    predict: BatchPredictor,
    parts: list[Part],
    folder: Path,
    header: bool | None,
    n_processes: int,
    known: Callable[[], Digests],
    begin: Callable[[], None],
) -> Iterable[tuple[Part, dict[str, Any]]]:
    """Yield parts as they are done, with what the manifest says of them.

    `begin` is called once the processes are started, which what starts threads must wait for.
    """
    if n_processes == 1 or len(parts) < 2:
        for part in parts:
            yield part, predict_part(predict, part, str(folder), header)
        return
    started = process_copies.context(predict.get_ready)
    digests = known()
    try:
        with process_copies.pool(min(n_processes, len(parts)), started) as pool:
            running = {
                pool.submit(
                    predict_part, predict, part, str(folder), header, digests.get(part.source)
                ): part
                for part in parts
            }
            begin()
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for one in finished:
                    yield running.pop(one), one.result()
    except BrokenProcessPool:
        raise InputError(
            "the processes must run to their end, got one that was killed (by the system, if "
            "memory ran out): the parts that are done are kept; go on by --resume."
        ) from None


def predict_part(
    predict: BatchPredictor,
    part: Part,
    folder: str,
    header: bool | None,
    known: tuple[State, str] | None = None,
) -> dict[str, Any]:
    """Predict one file, and return what the manifest says of it.

    A `known` digest is taken if the file is still in the state that it is of.
    """
    source, target = Path(part.source), Path(folder) / part.target
    target.parent.mkdir(parents=True, exist_ok=True)
    inputs = predict.model.inputs
    batches = row_files.batches(source, inputs, header=header, keep=predict.keep)
    batches = (hive_columns.added(batch, part.columns) for batch in batches)
    before = state(source)
    try:
        n_rows = answer_files.save(target, map(predict, batches))
    except InputError as error:
        if str(source) in str(error):
            raise
        raise InputError(f"in {source}: {error}") from error
    read = known[1] if known is not None and known[0] == before else digest(part.source)
    if state(source) != before:
        target.unlink()
        raise InputError(f"{source} must not change while it is read, got a change: run again.")
    size = target.stat().st_size
    return {"source": part.source, "sha256": read, "rows": n_rows, "bytes": size}
