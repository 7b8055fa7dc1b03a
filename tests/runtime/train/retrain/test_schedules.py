"""Steepness and learning rates on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from bitvec.errors import InputError
from bitvec.runtime.train.retrain import schedules


@pytest.mark.parametrize("curve", ["linear", "exponential", "cosine"])
def test_every_curve_leads_from_the_first_value_to_the_last(curve):
    gamma = schedules.steepness((2.0, 32.0), curve)
    assert gamma(0.0) == pytest.approx(2.0, rel=1e-12)  # a rounding of the cosine or the power
    assert gamma(1.0) == pytest.approx(32.0, rel=1e-12)
    assert 2.0 < gamma(0.4) < gamma(0.6) < 32.0


def test_the_exponential_curve_grows_by_equal_factors():
    gamma = schedules.steepness((1.0, 16.0), "exponential")
    assert gamma(0.25) == pytest.approx(2.0, rel=1e-12)
    assert gamma(0.5) == pytest.approx(4.0, rel=1e-12)


def test_a_constant_curve_and_a_function_are_taken_as_they_are():
    assert schedules.steepness((3.0, 9.0), "constant")(0.7) == 3.0
    assert schedules.steepness(lambda part: 1 + part, "linear")(0.5) == 1.5


def test_a_function_must_stay_positive():
    gamma = schedules.steepness(lambda part: 0.5 - part, "linear")
    with pytest.raises(InputError, match=r"`gamma\(part\)` must be above 0"):
        gamma(0.5)


def test_the_rate_rises_while_it_warms_up_and_then_falls_to_zero():
    rate = schedules.rate("linear", 4, 100)
    values = [rate(step / 100) for step in range(101)]
    assert values[0] == pytest.approx(0.2)
    assert values[0] < values[1] < values[2] < values[3]
    assert values[100] == 0.0
    assert schedules.rate("constant", 0, 10)(0.9) == 1.0


@given(st.integers(1, 500), st.integers(1, 40))
def test_evaluations_are_spread_and_the_last_step_is_one(steps, evaluations):
    seen = sorted(schedules.evaluated_steps(steps, evaluations))
    assert seen[-1] == steps
    even = {part * steps // evaluations for part in range(1, evaluations + 1)} - {0}
    assert even <= set(seen)
    early = [20 * 2**k for k in range(9) if 20 * 2**k < min(even)]
    assert set(seen) == even | set(early)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.steepness((1.0, 2.0), "square"), "`gamma_schedule` must be one of"),
        (lambda: schedules.steepness((1.0,), "linear"), "`gamma` must be two numbers"),
        (lambda: schedules.rate("exponential", 0, 5), "`rate_schedule` must be cosine"),
        (lambda: schedules.rate("cosine", 5, 5), "`warmup` must be below the 5 steps"),
    ],
)
def test_bad_schedules_are_refused_in_one_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()
