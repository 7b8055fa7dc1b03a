"""Write-back: a forest whose numbers have moved, as a file of the format that it came from."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bitvec import files
from bitvec.converters import dispatch
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.writing import WRITERS


class Back(NamedTuple):
    """The way back to a format.

    Parameters
    ----------
    name : str
        Of the format.
    suffixes : tuple of str
        Of its files.
    write : callable
        Writes a forest to a path, whole or not at all, and returns the path.
    """

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[Forest, Path], Path]

    def require(self, forest: Forest) -> None:
        """Raise what writing would raise, by writing the forest aside.

        Raises
        ------
        UnsupportedModelError
            If the format cannot hold the forest.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.write(forest, Path(folder, f"tried{self.suffixes[0]}"))


def back_to(model: Path) -> Back:
    """Return the way back to the format of a model file, or of a saved forest.

    Raises
    ------
    UnsupportedModelError
        If the format is only read.
    InputError
        If there is no such file.
    """
    if dispatch.is_forest_file(model):
        return Back("bitvec", (".safetensors",), _saved)
    source = dispatch.format_of(model)
    library = [one for one in dispatch.FORMATS if one.folder == source.folder]
    target = next((one.writes for one in library if one.writes is not None), None)
    if source.folder == "compositions":
        raise UnsupportedModelError(
            f"a model must be one forest to be written back, got {model}, which combines several "
            "behind their links: take the file of a member."
        )
    if target is None:
        raise UnsupportedModelError(
            f"a model of {source.name} cannot be written back, got {model}: save its forest with "
            f"`bitvec convert {model.name}`, and go on with that."
        )
    writer = WRITERS[target]
    return Back(source.name, writer.suffixes, writer.write)


def _saved(forest: Forest, path: Path) -> Path:
    files.save(forest, path)
    return path
