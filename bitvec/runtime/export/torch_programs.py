"""Forests and torch modules as programs of torch.export, which torch alone loads and runs."""

from __future__ import annotations

import copy
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bitvec.converters.torch_program.format import FACTS
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError, MissingLibraryError, UnsupportedModelError
from bitvec.files import atomic

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.export.torch_programs")

import torch
import torch._inductor
from torch import Tensor, nn

from bitvec.runtime.predict.torch.call_modes import SCALAR, compiled_ahead
from bitvec.runtime.predict.torch.hard_forest import HardForest
from bitvec.runtime.predict.torch.hard_links import Labels, Probabilities

if TYPE_CHECKING:
    from bitvec.runtime.train.relax.module import SoftForest

_ASKS_FOR_CHECKS: Final = 'getenv("AOTI_RUNTIME_CHECK_INPUTS")'
"""In the code of AOTInductor, on which it depends whether a program checks its rows."""
_ANY_BATCH: Final = {"aot_inductor.check_lowerbound": False}
"""Options by which those checks let pass a batch of 0 rows or 1."""


class _Answers(nn.Module):
    """All answers of a forest that tensor operations hold, by name."""

    def __init__(self, forest: Forest, form: str) -> None:
        super().__init__()
        self.hard = HardForest(forest, form=form)
        self.links = nn.ModuleDict()
        if forest.output.classes is not None and len(forest.output.classes) == 1:
            for name, link in (("probabilities", Probabilities), ("label", Labels)):
                try:
                    self.links[name] = link(forest.output)
                except UnsupportedModelError:
                    continue

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        leaf = self.hard.exits(x)
        assert self.hard.sums is not None
        raw = self.hard.sums(leaf, x)
        answers = {"raw": raw, "leaves": (leaf - self.hard.first_leaf).T}
        return answers | {name: link(raw) for name, link in self.links.items()}


@dataclass(frozen=True, eq=False)
class Graph:
    """A module with what a program of it tells: names of outputs, features and classes, a dtype."""

    module: nn.Module
    facts: dict[str, Any]

    def exported(self, batch: int | None = None) -> torch.export.ExportedProgram:
        """Return the program of one row, of up to `batch` rows, or of any number for None."""
        n_rows = 1 if batch == 1 else 2
        dtype = getattr(torch, self.facts["dtype"])
        x = torch.zeros((n_rows, self.facts["n_features"]), dtype=dtype)
        shapes = None if batch == 1 else ({0: torch.export.Dim("batch", max=batch)},)
        return torch.export.export(self.module, (x,), dynamic_shapes=shapes)


class _Named(nn.Module):
    """The one answer of a module, as a dict."""

    def __init__(self, module: nn.Module, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {self.name: self.module(x)}


def graph_of(
    forest: Forest | HardForest | SoftForest, *, form: str = "auto", scatters: bool = False
) -> Graph:
    """Return all answers of a forest as one module: rows (batch, n_features) to a dict.

    These are `raw`, `leaves` and, of a classifier of one target, `probabilities` if its link is
    held, and `label`, as in `HardForest`; `scatters` as of `HardSums`. A module of `to_torch` has
    its own answer and form.

    Raises
    ------
    UnsupportedModelError
        If tensor operations do not hold the forest.
    """
    if not isinstance(forest, Forest):
        return _of_module(forest)
    module = _Answers(forest, form).eval()
    assert module.hard.sums is not None
    module.hard.sums.scatters = scatters
    classes, names = module.hard.classes, forest.inputs.feature_names
    return Graph(
        module,
        {
            "n_features": forest.n_features,
            "feature_names": None if names is None else list(names),
            "dtype": str(forest.dtype),
            "outputs": ["raw", "leaves", *module.links],
            "classes": None if classes is None else classes.tolist(),
        },
    )


def _of_module(module: HardForest | SoftForest) -> Graph:
    given: Any = module if isinstance(module, HardForest) else module.forest
    output = module.output if isinstance(module, HardForest) else "raw"
    facts: dict[str, Any] = {
        "n_features": given.n_features,
        "dtype": str(module.dtype).removeprefix("torch."),
        "outputs": [output],
    }
    alone = copy.deepcopy(module).cpu().requires_grad_(False).eval()
    return Graph(_Named(alone, output).eval(), facts)


def save(forest: Forest | HardForest | SoftForest, path: Path, *, compiled: bool = False) -> Path:
    """Write a .pt2 file of any batch, of the answers of `graph_of`.

    An extra file, `bitvec.json`, names features and classes. With `compiled`, AOTInductor compiles
    the program for this machine's processor: `torch._inductor.aoti_load_package(path)` runs it, and
    so does C++ by libtorch; both raise RuntimeError for rows of another dtype or width, or that are
    not contiguous.

    Raises
    ------
    UnsupportedModelError
        If tensor operations do not hold the forest.
    BitvecError
        If the program cannot be compiled here, for want of a C++ compiler for example.
    """
    graph = graph_of(forest)
    if compiled:
        with compiled_ahead():
            program = graph.exported()
        is_hard = isinstance(forest, Forest | HardForest)
        return _compiled(program, path, graph.facts, SCALAR if is_hard else {})
    program = graph.exported()
    stream = io.BytesIO()
    torch.export.save(program, stream, extra_files={FACTS: json.dumps(graph.facts)})
    return atomic.write(path, stream.getvalue())


def _compiled(
    program: torch.export.ExportedProgram,
    path: Path,
    facts: dict[str, Any],
    options: dict[str, Any],
) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "model.pt2")
        try:
            with _checking_rows():
                torch._inductor.aoti_compile_and_package(
                    program, package_path=str(package), inductor_configs=_ANY_BATCH | options
                )
        except Exception as error:  # torch wraps what a compiler says in errors of many kinds
            reason = (str(error).strip().splitlines() or ["nothing said"])[0]
            raise BitvecError(
                "a program must be compiled by a C++ compiler that torch finds, got "
                f"{type(error).__name__} ({reason[:200]}): install g++ or clang++, or leave out "
                "`compiled`."
            ) from error
        return atomic.write(path, _told(package, facts, uses_vectors=not options))


@contextmanager
def _checking_rows() -> Iterator[None]:
    """Have programs that are compiled in this block check dtype, width and strides of their rows.

    torch writes these checks into every program, to run where an environment variable asks for
    them. Without them rows that lie otherwise in memory than those of the export are misread.
    """
    from torch._inductor import codecache  # torch's own: only what is compiled depends on it

    compiler: Any = codecache.AotCodeCompiler
    compiled = compiler.compile

    def checked(graph: Any, code: str, *args: Any, **options: Any) -> Any:
        if code.count(_ASKS_FOR_CHECKS) != 1:
            raise BitvecError(f"torch {torch.__version__} writes no checks of rows")
        return compiled(graph, code.replace(_ASKS_FOR_CHECKS, '"1"'), *args, **options)

    compiler.compile = checked
    try:
        yield
    finally:
        compiler.compile = compiled


def _told(package: Path, facts: dict[str, Any], *, uses_vectors: bool) -> bytes:
    """Return a package with facts; where no vectors are used, torch must not warn of their kind."""
    made = io.BytesIO()
    with zipfile.ZipFile(package) as given, zipfile.ZipFile(made, "w") as archive:
        for entry in given.infolist():
            data = given.read(entry)
            if entry.filename.endswith("_metadata.json") and not uses_vectors:
                told = json.loads(data)
                told.pop("AOTI_CPU_ISA", None)
                data = json.dumps(told).encode()
            archive.writestr(entry, data)
        top = given.namelist()[0].partition("/")[0]
        archive.writestr(f"{top}/extra/{FACTS}", json.dumps(facts))
    return made.getvalue()
