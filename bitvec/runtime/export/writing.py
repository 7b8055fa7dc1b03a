"""A forest as a file of another library or runtime: one writer for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bitvec.converters.format import Target
from bitvec.core.forest import Forest
from bitvec.core.machine import DecisionMachine
from bitvec.errors import InputError
from bitvec.runtime.export.onnx_files import OnnxOptions, machine_model, onnx_model, soft_model
from bitvec.runtime.export.onnx_targets import find

if TYPE_CHECKING:
    from bitvec.runtime.train.relax.module import SoftForest


@dataclass(frozen=True, slots=True)
class Writer:
    """Suffixes of a target's files, and the function that writes them."""

    suffixes: tuple[str, ...]
    write: Callable[[Forest, Path], Path]


def to_onnx(model: Forest | DecisionMachine | SoftForest, path: Path, options: OnnxOptions) -> Path:
    """Write an .onnx file, or an .ort file of onnxruntime's own format."""
    from bitvec.runtime.export.onnx.files import save

    if path.suffix == ".ort" and options.target is not None and not find(options.target).ort:
        raise InputError(
            f"a file for {options.target} must end in .onnx, got {path.name}: it does not read "
            "onnxruntime's own format."
        )
    if isinstance(model, Forest):
        made = onnx_model(model, options)
    elif isinstance(model, DecisionMachine):
        made = machine_model(model, options)
    else:
        made = soft_model(model, options)
    return save(made, path)


def _converter(library: str) -> Callable[[Forest, Path], Path]:
    """Return a writer that calls the library's converter, imported when it is used."""

    def write(forest: Forest, path: Path) -> Path:
        written: Path = import_module(f"bitvec.converters.{library}.write").save(forest, path)
        return written

    return write


def _to_onnx(forest: Forest, path: Path) -> Path:
    return to_onnx(forest, path, OnnxOptions())


def _to_c(forest: Forest, path: Path) -> Path:
    from bitvec.runtime.export.c import to_c

    return to_c(forest).save(path)


def _to_torch(forest: Forest, path: Path) -> Path:
    from bitvec.runtime.export.torch_programs import save

    return save(forest, path)


def _to_executorch(forest: Forest, path: Path) -> Path:
    from bitvec.runtime.export.executorch_programs import save

    return save(forest, path)


def _to_litert(forest: Forest, path: Path) -> Path:
    from bitvec.runtime.export.litert_programs import save

    return save(forest, path)


def _to_sql(forest: Forest, path: Path) -> Path:
    raise InputError(
        "SQL must be written in a `dialect`, got none: name one of duckdb, sqlite, postgres, spark "
        "and bigquery."
    )


WRITERS: Final[dict[Target, Writer]] = {
    "onnx": Writer((".onnx", ".ort"), _to_onnx),
    "xgboost": Writer((".ubj", ".json"), _converter("xgboost")),
    "lightgbm": Writer((".txt",), _converter("lightgbm")),
    "treelite": Writer((".tl",), _converter("treelite")),
    "sklearn": Writer((".skops",), _converter("sklearn")),
    "c": Writer((".h",), _to_c),
    "torch": Writer((".pt2",), _to_torch),
    "executorch": Writer((".pte",), _to_executorch),
    "litert": Writer((".tflite",), _to_litert),
    "sql": Writer((".sql",), _to_sql),
}
SUFFIXES: Final = tuple(suffix for writer in WRITERS.values() for suffix in writer.suffixes)


def target_of(path: Path, to: Target | None) -> Target:
    """Return the target that is named, or else the one whose files end as the path does.

    Raises
    ------
    InputError
        If there is no such target, or the path does not end as its files do.
    """
    named = next((target for target in WRITERS if target == to), None)
    if to is not None and named is None:
        raise InputError(
            f'`to` must be one of {", ".join(WRITERS)}, got {to!r}: choose one, or "web" or '
            '"triton" for a directory.'
        )
    suffix = path.suffix.lower()
    if named is None:
        for target, writer in WRITERS.items():
            if suffix in writer.suffixes:
                return target
        raise InputError(f"the path must end in one of {', '.join(SUFFIXES)}, got {path}.")
    if suffix not in WRITERS[named].suffixes:
        wanted = " or ".join(WRITERS[named].suffixes)
        raise InputError(f"a file for {named} must end in {wanted}, got {path}: rename it.")
    return named
