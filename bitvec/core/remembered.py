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

    Arrays that it returns, alone or in a tuple, are made read-only, since who asks shares them.
    What it returns must not hold the object, which would never go.
    """
    kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @wraps(function)
    def remember(of: Of) -> Found:
        found = kept.get(of)
        if found is None:
            found = function(of)
            for part in found if isinstance(found, tuple) else (found,):
                if isinstance(part, np.ndarray):
                    part.flags.writeable = False
            found = kept.setdefault(of, found)
        answer: Found = found
        return answer

    return remember
