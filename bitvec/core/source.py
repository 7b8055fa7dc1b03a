"""Source of a forest: facts that write-back, leaf ids and explanations need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array, put_array, require
from bitvec.core.shape_annotations import Float, Int64

_OF_LEAVES, _OF_NODES = ("leaf_id", "leaf_cover"), ("node_id", "node_cover", "gain")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The source library's own numbering and statistics.

    Parameters
    ----------
    library, version : str
        Its name, as it is imported, and its version.
    model : str
        The source's class or objective, for people.
    leaf_id, node_id : int64, (n_leaves,) and (n_nodes,), optional
        The source's own ids within a tree, as its `apply` returns them.
    leaf_cover, node_cover : float64, optional
        Training weight that reached a leaf or node.
    gain : float64, (n_nodes,), optional
    metadata : dict
        JSON values, kept untouched.
    """

    library: str
    version: str
    model: str = ""
    leaf_id: Int64[Array, " n_leaves"] | None = None
    node_id: Int64[Array, " n_nodes"] | None = None
    leaf_cover: Float[Array, " n_leaves"] | None = None
    node_cover: Float[Array, " n_nodes"] | None = None
    gain: Float[Array, " n_nodes"] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("leaf_id", "node_id"):
            put_array(self, name, np.int64, (None,))
        for name in ("leaf_cover", "node_cover", "gain"):
            put_array(self, name, np.float64, (None,))

    def take(self, nodes: Array, leaves: Array) -> Source:
        """Return the source record of some nodes and leaves, in this order."""
        taken: dict[str, Any] = {}
        for names, index in ((_OF_LEAVES, leaves), (_OF_NODES, nodes)):
            for name in names:
                values = getattr(self, name)
                taken[name] = None if values is None else values[index]
        return replace(self, **taken)

    def require_sizes(self, n_nodes: int, n_leaves: int) -> None:
        """Check that arrays of nodes and leaves have a value for each."""
        for names, size in ((_OF_LEAVES, n_leaves), (_OF_NODES, n_nodes)):
            for name in names:
                values = getattr(self, name)
                require(
                    values is None or values.size == size,
                    f"`source.{name}` must have {size} values.",
                )


def retrained_source(source: Source | None) -> Source | None:
    """Return the source record of a forest whose numbers have moved.

    Ids still name the same nodes and leaves; covers and gains belong to values that have moved.
    """
    if source is None:
        return None
    origin = source.metadata.get("retrained_from", f"{source.library} {source.version}")
    metadata = {**source.metadata, "retrained_from": origin}
    return replace(source, metadata=metadata, leaf_cover=None, node_cover=None, gain=None)
