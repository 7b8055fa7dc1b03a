"""Estimators as plain data: what a file says of them, which no code of the library stands behind.

The converters read a live estimator and a record alike, by attribute, and tell their class by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """The class and the attributes of an object in a file.

    Parameters
    ----------
    module, kind : str
        Where the class stands in its library, and its name.
    state : dict
        The attributes: numbers, strings, arrays, lists, tuples, dicts and other records.

    Examples
    --------
    >>> Record("sklearn.tree._classes", "DecisionTreeRegressor", {"n_outputs_": 4}).n_outputs_
    4
    """

    module: str
    kind: str
    state: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        # A dunder is asked for by copy, NumPy and others, before the fields stand.
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.state[name]
        except KeyError:
            raise AttributeError(f"the {self.kind} has no `{name}`") from None


def attributes(model: Any) -> dict[str, Any]:
    """Return the attributes of a live object or a record."""
    found: dict[str, Any] = model.state if isinstance(model, Record) else vars(model)
    return found


def class_name(thing: Any) -> str:
    """Return the name of the class of a live object or a record."""
    return thing.kind if isinstance(thing, Record) else type(thing).__name__


def library_class(thing: Any) -> str:
    """Return the name of a class of scikit-learn's, or the full name of any other class."""
    module = thing.module if isinstance(thing, Record) else type(thing).__module__
    name = class_name(thing)
    # A class of another library may bear the same name.
    return name if module.partition(".")[0] == "sklearn" else f"{module}.{name}"
