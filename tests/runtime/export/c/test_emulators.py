"""The same bits on other processors, in emulators: 64-bit ARM, and bare Cortex-M3, M4 and M7."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, OBLIQUE, SET, forests_with_rows

from bitvec.core import reference
from bitvec.runtime.export.c.ranks import compared


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
