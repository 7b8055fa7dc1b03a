"""A C++ program of thirty lines runs a compiled .pt2 file by libtorch, and gives the same bits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bitvec

torch = pytest.importorskip("torch")
xgboost = pytest.importorskip("xgboost")

COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
SOURCE = Path(__file__).with_name("run_package.cpp")


def built(folder: Path) -> Path:
    """Return the program, built against the libtorch of this environment."""
    home, target = Path(torch.__file__).parent, folder / "run_package"
    includes = [f"-I{home / 'include' / part}" for part in ("", "torch/csrc/api/include")]
    libraries = [f"-L{home / 'lib'}", f"-Wl,-rpath,{home / 'lib'}", "-Wl,--no-as-needed"]
    libraries += ["-ltorch", "-ltorch_cpu", "-lc10"]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    command = [COMPILER, "-std=c++20", "-O1", abi, SOURCE, "-o", target, *includes, *libraries]
    subprocess.run(command, check=True)
    return target


@pytest.mark.full
@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_a_program_in_cpp_gives_the_bits_of_the_forest(tmp_path):
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    X[::7, 20] = np.nan
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(X, y)
    forest = bitvec.convert(model)
    package = bitvec.export(forest, tmp_path / "model.pt2", compiled=True)
    X.tofile(tmp_path / "rows.f32")
    asked = [built(tmp_path), package, tmp_path / "rows.f32", str(X.shape[1])]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    scores = np.array([float.fromhex(line) for line in done.stdout.split()])
    assert np.array_equal(scores, bitvec.compile(forest).raw(X)[:, 0])
    assert subprocess.run(asked[:2], capture_output=True, check=False).returncode == 2
