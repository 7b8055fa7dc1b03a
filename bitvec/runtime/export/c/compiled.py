"""A header compiled for this machine, as an engine and as the other side of a certificate.

It needs a C compiler and nothing else. The header's code is compiled and run: hand in none that
comes from a stranger.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Int32
from bitvec.errors import BitvecError, FileFormatError, InputError
from bitvec.files import atomic
from bitvec.runtime.export.c.estimate import CSource
from bitvec.verify import child_environment
from bitvec.verify.oracle import Oracle

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O2")
_FACTS = (
    "input",
    "score",
    "leaf",
    "features",
    "outputs",
    "trees",
    "targets",
    "probabilities",
    "finite",
)
_BINS: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}
_FLOATS: dict[int, np.dtype[Any]] = {4: np.dtype(np.float32), 8: np.dtype(np.float64)}


class MissingCompilerError(BitvecError, OSError):
    """A C compiler is needed and none is installed."""

    def __init__(self, looked_for: tuple[str, ...]) -> None:
        super().__init__(
            f"compiling a header needs a C compiler, got none of {', '.join(looked_for)} on the "
            "path: install one, for example with `apt install gcc` or `xcode-select --install`."
        )


def find_compiler(compiler: str | None = None) -> str:
    """Return the path of a C compiler: the one that is named, or the first that there is.

    Raises
    ------
    MissingCompilerError
    """
    names = COMPILERS if compiler is None else (compiler,)
    path = child_environment.absolute(os.environ.get("PATH", os.defpath))
    here = [] if str(Path.cwd()) in path.split(os.pathsep) else [Path.cwd()]
    for name in names:
        found = shutil.which(name, path=path)
        # Windows looks in the current folder first, whatever the path says.
        if found and (Path(name).name != name or Path(found).absolute().parent not in here):
            return str(Path(found).absolute())
    raise MissingCompilerError(names)


class CompiledHeader:
    """A forest's header, compiled into a library of this machine; an `Engine`.

    Parameters
    ----------
    header : CSource or path
        What `to_c` returned, or where it was saved.
    compiler : str, optional
        The first of `COMPILERS` that is installed if not given.
    flags : tuple of str
        Handed to the compiler.

    Raises
    ------
    MissingCompilerError
        If there is no compiler.
    FileFormatError
        If the file is none of bitvec's headers, or cannot be compiled.
    """

    def __init__(
        self,
        header: CSource | str | os.PathLike[str],
        *,
        compiler: str | None = None,
        flags: tuple[str, ...] = FLAGS,
    ) -> None:
        self.compiler = find_compiler(compiler)
        text = header.text if isinstance(header, CSource) else _read(header)
        self._library = _compiled(text, _name_of(text), self.compiler, flags)
        facts = (ctypes.c_uint32 * len(_FACTS))()
        self._library.Batch_facts(facts)
        self.facts = dict(zip(_FACTS, facts, strict=True))
        self.input_dtype = (_BINS | _FLOATS)[self.facts["input"]]
        self._score = _FLOATS[self.facts["score"]]

    @property
    def name(self) -> str:
        """The engine's name."""
        return "c"

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.facts["features"]

    def info(self) -> dict[str, Any]:
        """Return the compiler."""
        return {"compiler": self.compiler}

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores, in the dtype of the forest's output."""
        return self._answer("raw", X, self.facts["outputs"], self._score, out)

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return the exit leaf of every row in every tree, as leaf numbers within the tree."""
        dtype = np.dtype(f"u{self.facts['leaf']}")
        found = self._answer("leaves", X, self.facts["trees"], dtype, None)
        if out is None:
            return found.astype(np.int32)
        out[...] = found
        return out

    def predict(self, X: Float[Array, "batch n_features"]) -> Array:
        """Return a regressor's predictions, (batch, n_outputs), or class indices, uint16."""
        n_targets = self.facts["targets"]
        if n_targets:
            return self._answer("predict", X, n_targets, np.dtype(np.uint16), None)
        return self._answer("predict", X, self.facts["outputs"], self._score, None)

    def probabilities(
        self, X: Float[Array, "batch n_features"]
    ) -> Float[Array, "batch n_probabilities"]:
        """Return the probabilities of a classifier, those of all targets side by side.

        Raises
        ------
        InputError
            If the forest is no classifier.
        """
        if not self.facts["targets"]:
            raise InputError("`probabilities` needs the header of a classifier: use `predict`.")
        return self._answer("probabilities", X, self.facts["probabilities"], self._score, None)

    def scores(self, X: Float[Array, "batch n_features"]) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores after the post-transform, (batch, n_outputs)."""
        return self._answer("scores", X, self.facts["outputs"], self._score, None)

    def _answer(self, what: str, X: Array, width: int, dtype: np.dtype, out: Array | None) -> Array:
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise InputError(
                f"`X` must have shape (batch, {self.n_features}), got {X.shape}: "
                "pass the training columns."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.ascontiguousarray(X, self.input_dtype)
        found = np.empty((len(X), width), dtype)
        function = getattr(self._library, f"Batch_{what}")
        function(ctypes.c_size_t(len(X)), X.ctypes.data_as(_VOID), found.ctypes.data_as(_VOID))
        if out is None:
            return found
        out[...] = found
        return out


_VOID = ctypes.c_void_p


def oracle_of(
    header: CSource | str | os.PathLike[str],
    *,
    classes: tuple[Array, ...] | None = None,
    compiler: str | None = None,
    flags: tuple[str, ...] = FLAGS,
) -> Oracle:
    """Return a compiled header as the oracle of a certificate.

    Parameters
    ----------
    header : CSource or path
        Its code is compiled and run.
    classes : tuple of arrays, optional
        The labels of a classifier (`forest.output.classes`): a header holds indices. Without them,
        labels are not compared.
    """
    compiled = CompiledHeader(header, compiler=compiler, flags=flags)
    is_classifier = compiled.facts["targets"] > 0

    def labels(X: Array) -> Array:
        assert classes is not None
        index = compiled.predict(X)
        columns = [names[index[:, group]] for group, names in enumerate(classes)]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def values(X: Array) -> Array:
        found = compiled.predict(X)
        return found[:, 0] if found.shape[1] == 1 else found

    untold = is_classifier and classes is None
    note = "the header holds indices of classes, and no labels were given to compare them with"
    return Oracle(
        name="c",
        version=_version(compiled.compiler),
        raw=compiled.raw,
        leaf_ids=compiled.exit_leaves,
        ids="leaf number",
        predict=None if untold else labels if is_classifier else values,
        scores=compiled.scores if is_classifier else None,
        accepts_missing=compiled.input_dtype.kind == "f" and not compiled.facts["finite"],
        input_dtype=compiled.input_dtype if compiled.input_dtype.kind == "f" else None,
        n_trees=compiled.facts["trees"],
        n_features=compiled.n_features,
        n_outputs=compiled.facts["outputs"],
        notes=(note,) if untold else (),
    )


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return f"{lines[0]}, {' '.join(FLAGS)}" if lines else Path(compiler).name


def _read(path: str | os.PathLike[str]) -> str:
    if not Path(path).is_file():
        raise FileNotFoundError(f"{os.fspath(path)} must be a C header, got no file there.")
    return Path(path).read_text("ascii", "replace")


def _name_of(text: str) -> str:
    found = re.search(r"^#define ([A-Z][A-Z0-9_]*)_N_FEATURES \d+$", text, re.MULTILINE)
    if found is None:
        raise FileFormatError("the header must be one of bitvec's: write it with `to_c`.")
    return found[1].lower()


def _compiled(text: str, name: str, compiler: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Compile a header into a library and load it; a loaded library needs its file no more."""
    # Windows keeps the file of a loaded library; what is left there is the system's to clear.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        batch = _BATCH.replace("@@", f"{name.upper()}_").replace("@", f"{name}_")
        for file, content in (("header.h", text), ("batch.c", batch)):
            with atomic.one_sentence(place / file, "written"):
                (place / file).write_text(content, "ascii")
        library = place / ("batch.dll" if os.name == "nt" else "batch.so")
        shared = ("-shared",) if os.name == "nt" else ("-shared", "-fPIC")
        command = [compiler, *flags, *shared, "-o", str(library), str(place / "batch.c"), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = next((line for line in done.stderr.splitlines() if "error" in line), "")
            raise FileFormatError(
                f"the header must be one that {Path(compiler).name} compiles, got: "
                f"{(reason or done.stderr.strip())[:300]}"
            )
        return ctypes.CDLL(str(library))


_BATCH = """
#include "header.h"
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif
#ifndef @@N_TARGETS
#define @@N_TARGETS 0
#define @@N_PROBABILITIES 0
#define LABEL @score
#define N_PREDICTIONS @@N_OUTPUTS
#else
#define LABEL uint16_t
#define N_PREDICTIONS @@N_TARGETS
#endif

EXPORT void Batch_facts(uint32_t *fact)
{
    fact[0] = sizeof(@input);
    fact[1] = sizeof(@score);
    fact[2] = sizeof(@leaf);
    fact[3] = @@N_FEATURES;
    fact[4] = @@N_OUTPUTS;
    fact[5] = @@N_TREES;
    fact[6] = @@N_TARGETS;
    fact[7] = @@N_PROBABILITIES;
#ifdef @@FINITE
    fact[8] = 1;
#endif
}

#define FOR_EACH_ROW(call) \\
    size_t i; \\
    for (i = 0; i < n; i++) { \\
        call; \\
    }

EXPORT void Batch_raw(size_t n, const @input *X, @score *out)
{
    FOR_EACH_ROW(@raw(X + i * @@N_FEATURES, out + i * @@N_OUTPUTS))
}

EXPORT void Batch_leaves(size_t n, const @input *X, @leaf *out)
{
    FOR_EACH_ROW(@leaves(X + i * @@N_FEATURES, out + i * @@N_TREES))
}

EXPORT void Batch_scores(size_t n, const @input *X, @score *out)
{
    FOR_EACH_ROW(@raw(X + i * @@N_FEATURES, out + i * @@N_OUTPUTS);
                 @transform(out + i * @@N_OUTPUTS))
}

EXPORT void Batch_predict(size_t n, const @input *X, LABEL *out)
{
    FOR_EACH_ROW(@predict(X + i * @@N_FEATURES, out + i * N_PREDICTIONS))
}

#if @@N_TARGETS > 0
EXPORT void Batch_probabilities(size_t n, const @input *X, @score *out)
{
    FOR_EACH_ROW(@probabilities(X + i * @@N_FEATURES, out + i * @@N_PROBABILITIES))
}
#endif
"""
"""Functions with a capital letter: no name of a header has one."""
