"""The table of ONNX runtimes says what bitvec's files need to know of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.export_target import ALL_FORMS, STANDARD, TREES
from bitvec.runtime.export.onnx_targets import TARGETS, find, require_reads, require_runs

PORTABLE = {"Add", "Cast", "Clip", "MatMul", "Relu"}


@pytest.mark.parametrize("name", TARGETS)
def test_an_entry_is_complete_and_agrees_with_itself(name):
    target = find(name)
    assert target.name == name
    assert target.forms
    assert set(target.forms) <= set(ALL_FORMS)
    assert target.source
    assert target.settings.endswith(".")
    assert ("tree_ensemble" in target.forms) == bool(target.ml_opset)
    plain = target.float32_only
    assert target.opset >= (13 if plain else 18)  # Split with num_outputs and BitwiseAnd
    assert target.ml_opset in (0, 5)
    if target.runs is None:
        assert not target.wrong
        return
    assert target.runs <= STANDARD
    assert target.ml_opset == 0
    assert target.opset == (13 if plain else 18)
    if "portable" in target.forms:
        assert target.runs >= (PORTABLE - {"Cast"} if plain else PORTABLE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.opset = 1


def test_an_unknown_target_is_refused_by_name():
    with pytest.raises(InputError, match=r"one of onnxruntime, .* onnx2torch, got 'rknn'"):
        find("rknn")
    with pytest.raises(InputError, match=r"got \['openvino'\]"):
        find(["openvino"])


@pytest.mark.parametrize("name", TARGETS)
def test_rows_of_a_dtype_that_a_target_does_not_read_are_refused(name):
    target = find(name)
    require_reads(target, None)
    require_reads(target, np.dtype(np.float32))
    for dtype, read in ((np.float16, target.float16), (np.float64, target.float64)):
        if read:
            require_reads(target, np.dtype(dtype))
        else:
            with pytest.raises(UnsupportedModelError, match=f"for {name} must read X of a dtype"):
                require_reads(target, np.dtype(dtype))


@pytest.mark.parametrize("name", TARGETS)
def test_what_must_be_set_fits_the_form(name):
    target = find(name)
    for form in target.forms:
        told = target.settings_of(form)
        assert told.startswith(target.settings)
        assert ("one thread" in told) == (form == "tree_ensemble")


def test_onnxruntime_runs_whatever_bitvec_writes():
    require_runs(find("onnxruntime"), STANDARD | TREES | {"AnyOther"})


@pytest.mark.parametrize("name", [name for name in TARGETS if TARGETS[name].runs is not None])
def test_operators_that_a_target_does_not_run_are_named(name):
    target = find(name)
    require_runs(target, target.runs)
    require_runs(target, [])
    with pytest.raises(UnsupportedModelError, match=rf"{name} must hold .* got TreeEnsemble\."):
        require_runs(target, ["Add", "TreeEnsemble"])


def test_operators_that_a_target_answers_wrongly_are_named_with_their_answer():
    with pytest.raises(UnsupportedModelError, match=r"Greater \(a comparison with NaN is true\)"):
        require_runs(find("openvino"), ["Greater", "Less"])
    require_runs(find("openvino"), ["Less", "LessOrEqual", "Cast"])
