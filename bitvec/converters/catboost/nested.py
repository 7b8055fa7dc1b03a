"""Nested trees, taken apart while their JSON is read.

A million objects within each other take long to build and to walk. Here each object of a tree is
put into flat lists as soon as the reader closes it, and gives way to the number of its place.
"""

from __future__ import annotations

import marshal
from typing import Any, Final

LEAF: Final = frozenset({"value", "weight"})
NODE: Final = frozenset({"split", "left", "right"})
"""The members of the objects of a tree."""


class At(int):
    """Place of a node in the lists, or `~leaf`; no JSON value is of this type."""

    __slots__ = ()


class Nested:
    """The nodes and leaves that a JSON text holds, in the order in which they end.

    Parameters of a node are what its object held: `left` and `right` are of type `At` where they
    are nodes or leaves themselves. Equal splits are one object.
    """

    __slots__ = ("left", "right", "split", "splits", "value", "weight")

    def __init__(self) -> None:
        self.left: list[Any] = []
        self.right: list[Any] = []
        self.split: list[Any] = []
        self.value: list[Any] = []
        self.weight: list[Any] = []
        self.splits: dict[bytes, Any] = {}

    def closed(self, members: dict[str, Any]) -> Any:
        """Take an object of the JSON text, and return what is to stand in its place.

        An object with other members than a node, a leaf or a split has stays as it is.
        """
        if "split_type" in members:
            # Unlike equality, these bytes tell True from 1.
            return self.splits.setdefault(marshal.dumps(members, 2), members)
        if "value" in members:
            if len(members) - ("weight" in members) != 1:
                return members
            self.value.append(members["value"])
            self.weight.append(members.get("weight"))
            return At(-len(self.value))
        if len(members) == 3 and "split" in members and "left" in members and "right" in members:
            self.left.append(members["left"])
            self.right.append(members["right"])
            self.split.append(members["split"])
            return At(len(self.split) - 1)
        return members
