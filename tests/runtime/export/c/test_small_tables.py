"""Tables of few bytes: multiples of powers of two, full rows of S, complete trees, all exact."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitvec.compression.joint_trees import full_rows, in_float32, whole_weights
from bitvec.compression.storage import on_grid
from bitvec.core import reference
from bitvec.core.inputs import Inputs
from bitvec.core.output import Output
from bitvec.runtime.export.c import to_c
from bitvec.runtime.export.c.c99 import SMALL, smallest
from bitvec.runtime.export.c.multiples import LARGEST, multiples, numbers
from bitvec.runtime.train.joint import CompleteTrees


@settings(max_examples=200)
@given(
    st.lists(st.integers(-3000, 3000), min_size=1, max_size=20),
    st.integers(-40, 40),
    st.sampled_from([np.float32, np.float64]),
)
def test_multiples_are_the_numbers(whole, power, dtype):
    values = np.ldexp(np.array(whole, dtype), power)
    found = multiples(values)
    assert found is not None
    assert np.log2(found.step) == np.round(np.log2(found.step))
    again = dtype(found.first) + found.steps.astype(dtype)
    assert np.array_equal(again * dtype(found.step), values)
    assert found.steps.max(initial=0) <= LARGEST


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.5, -0.0],
        [np.inf, 1.0],
        [np.nan],
        [1.0, 2.0**-20],
        [2.0**30, 1.0],
        [1e-40],
    ],
    ids=str,
)
def test_other_numbers_stay_as_they_are(values):
    values = np.array(values, np.float32)
    assert multiples(values) is None
    assert numbers(values).whole is None


def trees(seed, *, full=True):
    """Return complete trees of rows of S in float32, and rows with all kinds of numbers."""
    random = np.random.default_rng(seed)
    n_trees, n_columns = 3, 4
    S = random.normal(size=(n_trees * 3, n_columns))
    S[random.random(S.shape) < 0.3] = 0
    made = CompleteTrees(
        n_trees, S, random.normal(size=n_trees * 3), random.normal(size=(n_trees * 4, 2)),
        random.normal(size=2),
    )  # fmt: skip
    output = Output(2, np.dtype(np.float64))
    whole = whole_weights(made)
    forest = (
        full_rows(whole, output, Inputs(n_columns))
        if full
        else whole.to_forest(output, Inputs(n_columns))
    )
    X = random.normal(size=(12, n_columns)).astype(np.float32)
    X[:4].ravel()[::5] = [np.nan, np.inf, -np.inf, 0.0]
    return on_grid(in_float32(forest), 8), X


def axis(seed):
    """Return complete trees of one column a node, thresholds and leaves on grids."""
    random = np.random.default_rng(seed)
    S = np.eye(3)[random.integers(0, 3, 14)]
    made = CompleteTrees(
        2,
        S,
        np.round(random.normal(size=14) * 8) / 8 + 0.0,
        random.normal(size=(16, 1)),
        np.zeros(1),
    )
    forest = made.to_forest(Output(1, np.dtype(np.float64)), Inputs(3))
    X = (np.round(random.normal(size=(12, 3)) * 16) / 16).astype(np.float32)
    X[0] = np.nan
    return on_grid(in_float32(forest), 8), X


def checked(run, case_of, same_bits, drawn, *flags):
    cases = [
        case_of(forest, X, name=f"m{i}_{j}", form=form, thresholds=thresholds)
        for i, (forest, X) in enumerate(drawn)
        for j, (form, thresholds) in enumerate(SMALL)
        if bool(np.all(forest.tests.is_one_hot)) or (form, thresholds) == SMALL[0]
    ]
    for case, (leaves, raw) in zip(cases, run(cases, *flags), strict=True):
        assert np.array_equal(leaves, reference.exit_leaves(case.forest, case.X))
        assert same_bits(raw, reference.raw(case.forest, case.X))


DRAWN = [trees(0), trees(1, full=False), axis(2), axis(3)]


def test_forests_of_few_bytes_answer_as_the_reference(gcc, case_of, same_bits):
    checked(gcc, case_of, same_bits, DRAWN, "-std=c99", "-O2")


def test_they_do_so_on_cortex_m(cortex_m, case_of, same_bits):
    checked(cortex_m, case_of, same_bits, DRAWN, "-std=gnu11", "-O2", "-ffp-contract=fast")


def test_whole_weights_route_as_the_rounded_rows_do():
    random = np.random.default_rng(0)
    S, b = random.normal(size=(3, 5)), random.normal(size=3)
    found = whole_weights(CompleteTrees(1, S, b, np.zeros((4, 1)), np.zeros(1)))
    assert np.array_equal(found.S, np.round(found.S))
    assert np.abs(found.S).max() == 127
    factor = 127 / np.abs(S).max(axis=1)
    assert np.abs(found.S - S * factor[:, None]).max() <= 0.5
    assert np.abs(found.b - b * factor).max() <= np.ptp(b * factor) / 2**15


def test_full_rows_take_a_byte_a_weight():
    full, some = (trees(5, full=each)[0] for each in (True, False))
    assert to_c(full).estimate.predict_bytes < to_c(some).estimate.predict_bytes


def test_levels_of_mixed_ways_in_tables_apart_read_their_columns(gcc, case_of, same_bits):
    # Columns in few bits stood in a table that was read as if they had eight.
    forest, X = axis(4)
    right = np.arange(forest.n_nodes) % 2 == 0
    forest = replace(forest, tests=replace(forest.tests, missing_right=right))
    ((leaves, _),) = gcc([case_of(forest, X, form="levels")], "-std=c99")
    assert np.array_equal(leaves, reference.exit_leaves(forest, X))


@pytest.mark.parametrize("number", range(len(DRAWN)))
def test_the_bytes_are_those_of_the_object_file(tmp_path, number):
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip("gcc is not installed")
    forest, _ = DRAWN[number]
    options, estimate = smallest(forest)
    source = to_c(forest, **options)
    assert source.estimate == estimate
    source.save(tmp_path / "model.h")
    one = "void one(const model_input *x, model_score *raw)"
    program = f'#include "model.h"\n{one};\n{one} {{ model_raw(x, raw); }}\n'
    (tmp_path / "main.c").write_text(program)
    command = ["gcc", "-std=c99", "-Os", "-c", "-o", "main.o", "main.c"]
    subprocess.run(command, check=True, cwd=tmp_path)
    listed = subprocess.run(
        ["nm", "-S", "main.o"], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    stored = re.findall(r"^\w+ (\w+) r model_", listed, re.MULTILINE)
    folded = estimate.predict_bytes - sum(int(size, 16) for size in stored)
    # Of constants for each output a compiler may make code.
    assert 0 <= folded <= forest.output.base_score.nbytes


def test_no_other_form_is_smaller():
    for forest, _ in DRAWN:
        sizes = []
        for form, thresholds in itertools.chain(SMALL):
            if np.all(forest.tests.is_one_hot) or (form, thresholds) == SMALL[0]:
                made = to_c(forest, form=form, thresholds=thresholds)
                sizes.append(made.estimate.predict_bytes)
        assert smallest(forest)[1].predict_bytes == min(sizes)
