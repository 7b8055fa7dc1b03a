"""The text of a header, and an estimate of what it costs on the device."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bitvec.errors import InputError
from bitvec.files import atomic


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of what a header costs, counted from the forest and not measured on a device.

    Parameters
    ----------
    constant_bytes : int
        Of all tables, in flash; for an unrolled form with the thresholds that stand in its code.
        Texts (names of classes) and the code itself come on top.
    leaf_bytes : int
        Those of them that only exit leaves are read from: a program that predicts lacks them.
    stack_bytes : int
        Of the arrays on the stack, at most; registers, arguments and counters come on top.
    most_comparisons : int
        Tests of nodes for one row, at most, and with ranks those of the search in the tables.
    n_nodes, n_leaves : int
        Of all trees.
    """

    constant_bytes: int
    leaf_bytes: int
    stack_bytes: int
    most_comparisons: int
    n_nodes: int
    n_leaves: int

    @property
    def predict_bytes(self) -> int:
        """Bytes of all tables that a prediction reads."""
        return self.constant_bytes - self.leaf_bytes

    @property
    def bytes_per_node(self) -> float:
        """Constants over all nodes, leaves included."""
        return self.constant_bytes / (self.n_nodes + self.n_leaves)

    @property
    def bytes_per_inner_node(self) -> float:
        """Constants over the nodes that test; infinite if there is none."""
        return self.constant_bytes / self.n_nodes if self.n_nodes else float("inf")

    def __str__(self) -> str:
        per_inner = f", {self.bytes_per_inner_node:.1f} per inner node" if self.n_nodes else ""
        return (
            f"{self.constant_bytes:,} bytes of constants in flash "
            f"({self.bytes_per_node:.1f} per node{per_inner}), "
            f"{self.stack_bytes:,} bytes of arrays on the stack, "
            f"at most {self.most_comparisons:,} comparisons per row"
        )


@dataclass(frozen=True, slots=True)
class CSource:
    """One header of C99.

    Parameters
    ----------
    text : str
        ASCII.
    name : str
        What all its names begin with; `model_raw`, `MODEL_N_FEATURES`.
    estimate : Estimate
    """

    text: str
    name: str
    estimate: Estimate

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the header to a path that ends in `.h`, and return the path.

        Raises
        ------
        InputError
            If the path has another ending.
        OSError
            If the path cannot be written; a file that was there is then still whole.
        """
        target = Path(path)
        if target.suffix.lower() != ".h":
            raise InputError(
                f"a C header must end in .h, got {target.name!r}: rename it to "
                f"{target.with_suffix('.h').name if target.stem else 'model.h'!r}."
            )
        return atomic.write(path, self.text.encode("ascii"))
