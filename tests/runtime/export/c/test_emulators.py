"""The same bits on other processors, in emulators: 64-bit ARM, and bare Cortex-M3, M4 and M7."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from strategies import AXIS, EQUAL, OBLIQUE, SET, forests_with_rows

import bitvec
from bitvec.core import reference
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.c.levels import require_levels
from bitvec.runtime.export.ranks import compared


def fills_levels(forest):
    try:
        require_levels(forest)
    except UnsupportedModelError:
        return False
    return True


@pytest.fixture
def check(case_of, same_bits):
    def check(run, drawn, *flags):
        cases = [
            case_of(
                forest,
                X,
                name=f"model_{i}",
                thresholds="ranks" if i % 2 and compared(forest).any() else "exact",
            )
            for i, (forest, X) in enumerate(drawn)
        ]
        cases += [
            case_of(forest, X, name=f"levels_{i}", form="levels")
            for i, (forest, X) in enumerate(drawn)
            if fills_levels(forest)
        ]
        for case, (leaves, raw) in zip(cases, run(cases, *flags), strict=True):
            assert np.array_equal(leaves, reference.exit_leaves(case.forest, case.X))
            assert same_bits(raw, reference.raw(case.forest, case.X))

    return check


DRAWN = st.lists(
    forests_with_rows(kinds=(AXIS, OBLIQUE, SET, EQUAL), max_leaves=20), min_size=6, max_size=6
)
NO_SHRINKING = (Phase.explicit, Phase.generate)
"""A failure would run the emulator for minutes; the same forest fails in the other tests first."""


@settings(max_examples=4, phases=NO_SHRINKING)
@given(DRAWN)
def test_64_bit_arm_answers_as_the_reference(aarch64, check, drawn):
    # GNU C lets the compiler fuse a product with a sum behind it, which 64-bit ARM can.
    check(aarch64, drawn, "-std=gnu11", "-O2", "-ffp-contract=fast")


@settings(max_examples=4, phases=NO_SHRINKING)
@given(DRAWN)
def test_cortex_m_answers_as_the_reference(cortex_m, check, drawn):
    check(cortex_m, drawn, "-std=gnu11", "-O2", "-ffp-contract=fast")


@pytest.fixture(scope="module")
def fitted():
    """Forests of libraries with rows, some of which have missing values."""
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    X, y = load_digits(return_X_y=True)
    X, y = X[:600].astype(np.float32), y[:600]
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    models = (
        RandomForestClassifier(5, max_depth=5, random_state=0),
        xgboost.XGBClassifier(n_estimators=2, max_depth=4),
        lightgbm.LGBMClassifier(n_estimators=2, num_leaves=7, max_depth=4, verbose=-1),
    )
    return [(bitvec.convert(model.fit(X, y)), X[:40]) for model in models]


def test_cortex_m_answers_models_of_libraries_in_every_form(cortex_m, fitted, case_of, same_bits):
    options = ({}, {"form": "levels"}, {"form": "levels", "finite": True}, {"thresholds": "ranks"})
    cases = [
        case_of(forest, np.nan_to_num(X) if "finite" in option else X, name=f"m{i}_{j}", **option)
        for i, (forest, X) in enumerate(fitted)
        for j, option in enumerate(options)
    ]
    for case, (leaves, raw) in zip(cases, cortex_m(cases, "-std=c99", "-Os"), strict=True):
        X = case.X.astype(case.forest.dtype)
        assert np.array_equal(leaves, reference.exit_leaves(case.forest, X))
        assert same_bits(raw, reference.raw(case.forest, X))
