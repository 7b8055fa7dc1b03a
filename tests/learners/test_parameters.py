"""Parameters of estimators: stated once, listed for users, kept by clones and pickles."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import bitvec.learners
from bitvec.learners.parameters import attribute, estimator, parameter

ESTIMATORS = [
    getattr(bitvec.learners, name) for name in bitvec.learners.__all__ if not name.islower()
]


def listed(cls: type, section: str) -> dict[str, str]:
    """Return the names and types of a section of a docstring."""
    text = (cls.__doc__ or "").partition(f"{section}\n{'-' * len(section)}\n")[2]
    text = re.split(r"\n\n(?=[A-Z]\w+\n---)", text)[0]
    return dict(re.findall(r"^(\w+) : (.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_all_parameters_are_listed_with_their_defaults(cls: type) -> None:
    signature = inspect.signature(cls).parameters
    shown = listed(cls, "Parameters")
    assert set(shown) == set(signature) == set(cls().get_params())
    for name, one in signature.items():
        assert shown[name].endswith(f", default {one.default!r}")
        assert cls().get_params()[name] is one.default


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_clones_and_pickles_keep_parameters_as_they_are(cls: type) -> None:
    marks = {name: np.array([1.0]) for name in inspect.signature(cls).parameters}
    made = cls(**marks)
    assert all(getattr(made, name) is mark for name, mark in marks.items())
    assert vars(made) == marks
    assert clone(cls()).get_params() == cls().get_params()
    assert pickle.loads(pickle.dumps(cls())).get_params() == cls().get_params()


@estimator
class Base:
    """Base."""

    depth: int = parameter("Levels.", default=3)
    width: int | None = parameter("Columns.", default=None)
    tree_: Any = attribute("Tree.")


@estimator
class Wide(Base):
    """Base of what is wide."""

    width = 7


@estimator
class Task(Base):
    """Base of a task."""

    depth = parameter("Levels of a task.")


@estimator
class Both(Task, Wide):
    """A task of what is wide.

    Notes
    -----
    Kept.
    """

    tree_ = attribute("")


def test_the_first_base_that_states_a_parameter_counts() -> None:
    assert (Both().depth, Both().width) == (3, 7)
    assert Both.__doc__ == (
        "A task of what is wide.\n\n"
        "Parameters\n----------\n"
        "depth : int, default 3\n    Levels of a task.\n"
        "width : int | None, default 7\n    Columns.\n\n"
        "Notes\n-----\nKept."
    )


def test_attributes_are_no_parameters_and_are_not_there_before_they_are_set() -> None:
    assert listed(Base, "Attributes") == {"tree_": "Any"}
    assert not hasattr(Both(), "tree_")
    with pytest.raises(TypeError, match="tree_"):
        Base(tree_=None)  # type: ignore[call-arg]
