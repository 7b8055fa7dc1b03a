"""A header as it grows: parts of code, and tables whose bytes are counted."""

from __future__ import annotations

import re
from string import Template

import numpy as np

from bitvec.core.arrays import Array
from bitvec.runtime.export.c.literals import C_TYPES, comment, number

_LINE = 98


class Header:
    """The parts of a header whose names all begin with one name.

    In a part of code `@word` stands for `name_word`, `@@WORD` for `NAME_WORD`, and `$word` for a
    value that is handed in.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.constant_bytes = 0
        self.leaf_bytes = 0
        self._parts: list[str | tuple[str, Array, str]] = []

    @property
    def text(self) -> str:
        """All parts so far."""
        parts = (part if isinstance(part, str) else self._table(*part) for part in self._parts)
        return "\n".join(parts)

    @property
    def has_double(self) -> bool:
        """Return whether a table or a line of code has numbers of 64 bits."""
        return any(
            "double" in part if isinstance(part, str) else part[1].dtype == np.float64
            for part in self._parts
        )

    def code(self, template: str, **values: object) -> None:
        """Append code."""
        self.plain(self.filled(template, **values))

    def filled(self, template: str, **values: object) -> str:
        """Return code with its names and values."""
        code = Template(template).substitute(values) if values else template
        code = re.sub(r"@@(\w+)", rf"{self.name.upper()}_\1", code)
        return re.sub(r"@(\w+)", rf"{self.name}_\1", code)

    def plain(self, part: str) -> None:
        """Append text as it stands."""
        self._parts.append(part.strip("\n") + "\n")

    def table(self, name: str, values: Array, meaning: str, *, of_leaves: bool = False) -> None:
        """Append an array of constants, `name_...`, in its own dtype.

        Parameters
        ----------
        values : float32, float64, uint8, uint16 or uint32, (n,) with n >= 1
        meaning : str
            What stands in it, for a comment.
        of_leaves : bool
            Whether only the numbers of exit leaves are read from it, and no prediction.
        """
        self.constant_bytes += values.nbytes
        self.leaf_bytes += values.nbytes * of_leaves
        self._parts.append((name, values, meaning))  # written out where the text is wanted

    def _table(self, name: str, values: Array, meaning: str) -> str:
        lines, line = [], " "
        for value in values.tolist():
            word = f" {number(value, values.dtype)},"
            if len(line) + len(word) > _LINE:
                lines.append(line)
                line = " "
            line += word
        lines.append(line.rstrip(","))
        kind = C_TYPES[values.dtype]
        return (
            f"/* {comment(meaning)} */\n"
            f"static const {kind} {self.name}_{name}[{values.size}] = {{\n"
            + "\n".join(lines).replace("  ", "    ", 1 if len(lines) == 1 else len(lines))
            + "\n};\n"
        )
