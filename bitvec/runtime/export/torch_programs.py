"""Forests as programs of torch.export, which torch alone loads and runs."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bitvec.converters.torch_program.format import FACTS
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError, MissingLibraryError, UnsupportedModelError
from bitvec.files import atomic

if find_spec("torch") is None:
    raise MissingLibraryError("torch", "torch", "bitvec.runtime.export.torch_programs")

import torch
import torch._inductor
from torch import Tensor, nn

from bitvec.runtime.predict.torch.hard_forest import HardForest
from bitvec.runtime.predict.torch.hard_links import Labels, Probabilities


class _Answers(nn.Module):
    """All answers of a forest that tensor operations hold, by name."""

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.hard = HardForest(forest)
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


def save(forest: Forest, path: Path, *, compiled: bool = False) -> Path:
    """Write a .pt2 file of any batch: rows (batch, n_features) to a dict of answers.

    These are `raw`, `leaves` and, of a classifier of one target, `probabilities` if its link is
    held, and `label`, as in `HardForest`. An extra file, `bitvec.json`, names features and classes.

    With `compiled`, AOTInductor compiles the program for this machine's processor:
    `torch._inductor.aoti_load_package(path)` runs it, and so does C++ by libtorch.

    Raises
    ------
    UnsupportedModelError
        If tensor operations do not hold the forest.
    BitvecError
        If the program cannot be compiled here, for want of a C++ compiler for example.
    """
    module = _Answers(forest).eval()
    x = torch.zeros((2, forest.n_features), dtype=module.hard.dtype)
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (x,), dynamic_shapes=({0: batch},))
    classes = module.hard.classes
    names = forest.inputs.feature_names
    facts = {
        "n_features": forest.n_features,
        "feature_names": None if names is None else list(names),
        "dtype": str(forest.dtype),
        "outputs": ["raw", "leaves", *module.links],
        "classes": None if classes is None else classes.tolist(),
    }
    if compiled:
        return _compiled(program, path, facts)
    stream = io.BytesIO()
    torch.export.save(program, stream, extra_files={FACTS: json.dumps(facts)})
    return atomic.write(path, stream.getvalue())


def _compiled(program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any]) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "model.pt2")
        try:
            torch._inductor.aoti_compile_and_package(program, package_path=str(package))
        except Exception as error:  # torch wraps what a compiler says in errors of many kinds
            reason = (str(error).strip().splitlines() or ["nothing said"])[0]
            raise BitvecError(
                "a program must be compiled by a C++ compiler that torch finds, got "
                f"{type(error).__name__} ({reason[:200]}): install g++ or clang++, or leave out "
                "`compiled`."
            ) from error
        with zipfile.ZipFile(package) as archive:
            top = archive.namelist()[0].partition("/")[0]
        with zipfile.ZipFile(package, "a") as archive:
            archive.writestr(f"{top}/extra/{FACTS}", json.dumps(facts))
        return atomic.write(path, package.read_bytes())
