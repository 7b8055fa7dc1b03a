"""The engine triton says in one sentence what it lacks."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from bitvec.core.forest import Forest
from bitvec.errors import InputError, MissingLibraryError
from bitvec.runtime.predict.predictor import compile

torch = pytest.importorskip("torch")
STUMP = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])


@pytest.mark.skipif(find_spec("triton") is not None, reason="triton is installed")
def test_a_missing_library_is_named_with_the_command_that_installs_it():
    with pytest.raises(MissingLibraryError, match=r"The engine triton needs the library triton, "):
        compile(STUMP, engine="triton")


@pytest.mark.parametrize("option", [{"kernel": "full"}, {"n_jobs": 2}])
def test_options_of_other_engines_are_refused(option):
    with pytest.raises(InputError, match="must be None for the engine triton"):
        compile(STUMP, engine="triton", **option)
