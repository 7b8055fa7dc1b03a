"""Parameters and fitted attributes of estimators, each stated once: type, default and text."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from typing import Any, Literal, TypeVar, dataclass_transform

WIDTH = 96
_OWN = "_stated_parameters"
_SECTION = re.compile(r"\n\n(?=[A-Z]\w*\n-{3,}\n)")
T = TypeVar("T")


def parameter(text: str, *, default: Any = dataclasses.MISSING, kw_only: bool = True) -> Any:
    """State a parameter of an estimator; without a default it has the inherited one, if any."""
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"text": text})


def attribute(text: str, *, init: Literal[False] = False) -> Any:
    """State an attribute that `fit` sets; without a text, one that only a base class has."""
    return dataclasses.field(init=init, metadata={"text": text})


@dataclass_transform(
    eq_default=False, kw_only_default=True, field_specifiers=(parameter, attribute)
)
def estimator(cls: type[T]) -> type[T]:
    """Make a class a dataclass of its and its bases' parameters, and list them in its docstring.

    A subclass states what differs: `depth = 10` for another default, `depth = parameter("...")` for
    another text, and a type only where it is another one. Where several bases state a parameter,
    the first of them in the method resolution order counts, as for methods; of plain dataclasses it
    would be the last.

    Examples
    --------
    >>> @estimator
    ... class Tree:
    ...     '''A tree.'''
    ...
    ...     depth: int = parameter("Most levels.", default=6)
    >>> @estimator
    ... class Stump(Tree):
    ...     '''A tree of one node.'''
    ...
    ...     depth = 1
    >>> print(Stump.__doc__)
    A tree of one node.
    <BLANKLINE>
    Parameters
    ----------
    depth : int, default 1
        Most levels.
    >>> Stump().depth, Tree(depth=2).depth
    (1, 2)
    """
    types = dict(inspect.get_annotations(cls))
    known: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        known |= vars(base).get(_OWN, {})
    own = {name: vars(cls)[name] for name in [*types, *known] if name in vars(cls)}
    stated = {name: _completed(value, known.get(name)) for name, value in own.items()}
    cls.__annotations__ = {name: field.type for name, field in known.items()} | types
    for name, field in (known | stated).items():
        setattr(cls, name, _completed(field, None))
    dataclasses.dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    setattr(cls, _OWN, {name: fields[name] for name in stated})
    # Its own parameters come first; attributes stand in the order of the bases.
    order = dict.fromkeys(name for base in cls.__mro__ for name in vars(base).get(_OWN, {}))
    listed = {
        "Parameters": [fields[name] for name in order if fields[name].init],
        "Attributes": [one for one in fields.values() if not one.init and one.metadata["text"]],
    }
    cls.__doc__ = _documented(inspect.cleandoc(cls.__doc__ or ""), listed)
    return cls


def _completed(value: Any, known: dataclasses.Field[Any] | None) -> dataclasses.Field[Any]:
    """Return a new field of a field, or of another default of a known one."""
    stated: Any = value if isinstance(value, dataclasses.Field) else known
    default = stated.default if stated is value else value
    if default is dataclasses.MISSING and known is not None:
        default = known.default
    return dataclasses.field(
        default=default, init=stated.init, kw_only=stated.kw_only, metadata=stated.metadata
    )


def _documented(doc: str, listed: dict[str, list[dataclasses.Field[Any]]]) -> str:
    """Return a docstring with sections of parameters and attributes before its first section."""
    head, *rest = _SECTION.split(doc, maxsplit=1)
    sections = [
        "\n".join([title, "-" * len(title), *map(_entry, entries)])
        for title, entries in listed.items()
        if entries
    ]
    return "\n\n".join([head, *sections, *rest])


def _entry(field: dataclasses.Field[Any]) -> str:
    kind = re.sub(r"Literal\[(.*?)\]", r"{\1}", str(field.type))
    if field.default is not dataclasses.MISSING:
        kind = f"{kind}, default {field.default!r}"
    text = textwrap.fill(
        field.metadata["text"],
        WIDTH,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{field.name} : {kind}\n{text}"
