"""What names a compiled kernel: the digest of every source that it may be made from."""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import pkgutil
import shutil
import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import ANY

import numba
import numpy as np
import pytest

from bitvec.runtime.predict import cpu
from bitvec.runtime.predict.cpu import compiling


def test_a_change_in_any_module_of_the_package_changes_the_digest(tmp_path, monkeypatch):
    folder = Path(compiling.__file__).parent
    sources = sorted(path.relative_to(folder) for path in folder.rglob("*.py"))
    prefix = f"{cpu.__name__}."
    modules = {module.name for module in pkgutil.walk_packages(cpu.__path__, prefix)}
    named = {prefix + ".".join(source.with_suffix("").parts) for source in sources}
    assert modules | {cpu.__name__} == {name.removesuffix(".__init__") for name in named}
    for source in sources:
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).write_bytes((folder / source).read_bytes())
    shipped = compiling.digest()
    monkeypatch.setattr(compiling, "HERE", tmp_path)

    def digest() -> str:
        compiling._digest.cache_clear()
        return compiling.digest(tmp_path)

    before = digest()
    assert before == shipped
    seen = {before}
    for source in sources:
        content = (tmp_path / source).read_bytes()
        (tmp_path / source).write_bytes(content + b"#")
        assert digest() not in seen, source
        seen.add(digest())
        (tmp_path / source).write_bytes(content)
    assert digest() == before
    (tmp_path / sources[-1]).rename(tmp_path / "moved.py")
    assert digest() not in seen


def twice(x):
    return 2 * x


def made() -> compiling.Kernel:
    function = types.FunctionType(twice.__code__, twice.__globals__, "twice")
    function.__qualname__ = "twice"
    return compiling.Kernel(function)


def is_from_cache(kernel: compiling.Kernel) -> bool:
    return sum(kernel.compiled.stats.cache_hits.values()) == 1


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "random": lambda content: np.random.default_rng(0).bytes(len(content)),
    "one bit": lambda content: content[:-400] + bytes([content[-400] ^ 1]) + content[-399:],
    "a pickle": lambda content: pickle.dumps("other"),
    "longer": lambda content: content + b"\0",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_compiled_anew_and_replaced(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    first = made()
    assert first(21.0) == 42
    assert not is_from_cache(first)
    kept = made()
    assert kept(21.0) == 42
    assert is_from_cache(kept)
    files = list(tmp_path.rglob("*.nbc"))
    assert files
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    again = made()
    assert again(21.0) == 42
    assert not is_from_cache(again)
    replaced = made()
    assert replaced(21.0) == 42
    assert is_from_cache(replaced)


def test_what_is_compiled_while_sources_change_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "thrice_in_a_file.py"
    source.write_text("def thrice(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = compiling.Kernel(importlib.import_module(source.stem).thrice)
    assert kernel(2.0) == 6
    kept = [*(tmp_path / "cache").rglob("*.nbc")]
    assert len(kept) == 1
    source.write_text(source.read_text() + "# of the next version\n")
    assert kernel(2) == 6
    source.unlink()
    assert kernel(np.float32(2)) == 6
    assert [*(tmp_path / "cache").rglob("*.nbc")] == kept


def plus(k: int) -> compiling.Kernel:
    def add(x):
        return x + k

    return compiling.Kernel(add)


def test_closures_that_other_processes_compiled_are_not_taken_for_each_other(tmp_path):
    script = tmp_path / "variants.py"
    script.write_text(
        """
import sys
import numba
from bitvec.runtime.predict.cpu import compiling

def plus(k):
    @compiling.inner
    def more(x):
        return x + k
    @compiling.kernel
    def add(x):
        return more(x) if x else k
    return add

numbers = [*map(int, sys.argv[1:])]
kernels = {k: plus(k) for k in numbers}
for k in numbers:
    call, address = kernels[k].version((numba.int64,))
    print(call(1), address)
"""
    )

    def run(*numbers: int) -> list[list[int]]:
        variables = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
        command = [sys.executable, str(script), *map(str, numbers)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return [[*map(int, line.split())] for line in done.stdout.splitlines()]

    assert [*run(10), *run(20)] == [[11, ANY], [21, ANY]]
    answers = run(10, 20, 10, 20)
    assert [answer for answer, _ in answers] == [11, 21, 11, 21]
    first, second, again, last = (address for _, address in answers)
    assert first == again != second == last
    assert len([*tmp_path.rglob("*.nbc")]) == 2


def test_a_closure_over_what_cannot_be_told_apart_is_refused():
    held = object()
    with pytest.raises(TypeError, match="a closure must hold"):
        compiling.inner(lambda: held)


def test_versions_that_are_written_at_once_are_not_taken_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    written = compiling._KeyedFiles._dump

    def while_others_write(self, data):
        """Write another version before the first is, as another process may."""
        monkeypatch.setattr(compiling._KeyedFiles, "_dump", written)
        assert plus(2)(1) == 3
        assert plus(1)(1.0) == 2
        return written(self, data)

    monkeypatch.setattr(compiling._KeyedFiles, "_dump", while_others_write)
    assert plus(1)(1) == 2
    for k, x in ((1, 1), (2, 1), (1, 1.0)):
        kernel = plus(k)
        assert kernel(x) == x + k
        assert is_from_cache(kernel)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_cache_that_cannot_be_written_stops_no_kernel(tmp_path, monkeypatch, failure):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel = made()

    def refuse(self, path):
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(compiling.IndexDataCacheFile, "_open_for_write", refuse)
    said: list[str] = []
    monkeypatch.setattr(compiling, "_warn_once", said.append)
    assert kernel(21.0) == 42
    message = "The next run compiles kernels again, as the cache is not written"
    assert said[-1].startswith(f"{message}: [Errno {failure}]")


def test_a_cache_whose_folder_is_gone_stops_no_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    kernel = made()
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    (tmp_path / "cache").write_bytes(b"")
    assert kernel(21.0) == 42


PREDICT = """
import numpy as np
import bitvec
from bitvec.core.forest import Forest

stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
print(bitvec.compile(stump, engine="numba", kernel="onerow").predict([[0.0, 9], [1.0, 9]]).tolist())
"""


def test_a_process_that_loads_its_kernels_imports_none_of_what_compiles_them():
    needless = {"numba.np.arraymath", "numba.np.arrayobj", "bitvec.converters"}
    told = f"{PREDICT}import sys; print({needless} & {{*sys.modules}})"
    for _ in range(2):  # the first may compile
        run = subprocess.run(
            [sys.executable, "-c", told], check=True, capture_output=True, text=True
        )
    assert run.stdout == "[10.0, 20.0]\nset()\n"


@pytest.mark.full
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_predictions_go_on_with_a_damaged_cache(tmp_path, damage):
    def predict() -> str:
        asked = [sys.executable, "-c", PREDICT]
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        return subprocess.run(asked, env=env, check=True, capture_output=True, text=True).stdout

    before = predict()
    assert before == "[10.0, 20.0]\n"
    files = list(tmp_path.rglob("*.nbc"))
    assert files
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    assert predict() == before
