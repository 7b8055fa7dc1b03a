"""Values that follow from an object that never changes, each worked out once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

Of = TypeVar("Of")
Found = TypeVar("Found")


def remembered(function: Callable[[Of], Found]) -> Callable[[Of], Found]:
    """Return a function of one object that is asked once in the object's life: a decorator.

    An array that it returns is made read-only, since who asks shares it. What it returns must not
    hold the object, which would never go.
    """
    kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @wraps(function)
    def remember(of: Of) -> Found:
        found = kept.get(of)
        if found is None:
            found = function(of)
            if isinstance(found, np.ndarray):
                found.flags.writeable = False
            found = kept.setdefault(of, found)
        answer: Found = found
        return answer

    return remember
