"""Rules of the layout: names of files, first sentences and cycles.

Exceptions are listed, and a list that names one too many fails as well.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import bitvec

PACKAGE = Path(bitvec.__file__).parent
ROOT = PACKAGE.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

ROLES = {
    "__init__",
    "categories",
    "engine",  # each runs forests
    "format",
    "kernel",
    "layout",
    "open",  # a model, from a file or an object
    "oracle",
    "read",
    "sklearn",  # estimators of a learner
    "sklearn_base",
    "sklearn_forests",
    "tree",  # that a learner grows
    "trees",
    "unsupported",
    "walker",
    "write",
}
"""Names that say a module's role, so that several folders have one."""

CYCLIC: set[frozenset[str]] = {
    # DecisionMachine.load and save
    frozenset(
        {"bitvec.core.machine", "bitvec.files", "bitvec.files.machines", "bitvec.files.store"}
    ),
}
"""Groups of modules that still import each other, be it for their types alone."""

LIBRARY = re.compile(
    "catboost|lightgbm|onnx|openvino|pandas|polars|scikit|sklearn|treelite|xgboost|ydf|yggdrasil|"
    "torch[.]nn",
    re.IGNORECASE,
)
"""Names of other libraries and of their format, of which the core knows none."""

QUESTION = re.compile(r'^\s*"""(What|Which|Of|Where|How|Whether|Why|Who|When)\b', re.MULTILINE)
"""A docstring that begins with such a word."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_a_name_of_a_file_is_used_once_except_for_roles() -> None:
    # A module of the command line has the name of its command.
    count = Counter(path.stem for path in SOURCES if path.parent.name != "cli")
    assert {name for name, n in count.items() if n > 1} <= ROLES


def test_no_module_of_the_package_hides_a_public_function() -> None:
    modules = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert not modules & set(bitvec.__all__)


def test_first_sentences_begin_with_a_noun_or_a_verb() -> None:
    sources = (*SOURCES, *sorted((ROOT / "benchmarks").rglob("*.py")))
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    assert not {module_of(path) for path, text in texts.items() if QUESTION.search(text)}


def test_the_core_names_no_other_library() -> None:
    found = {
        f"{path.name}: {name}"
        for path in (PACKAGE / "core").rglob("*.py")
        for name in LIBRARY.findall(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_no_modules_import_each_other_in_a_circle() -> None:
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("bitvec", cache_dir=None)
    after = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert set(circles(after)) == CYCLIC


def circles(after: dict[str, set[str]]) -> list[frozenset[str]]:
    """Return the sets of several nodes that reach each other: Kosaraju, without recursion."""
    order: list[str] = []
    seen: set[str] = set()
    for root in after:
        stack = [] if root in seen else [(root, iter(after[root]))]
        seen.add(root)
        while stack:
            node, rest = stack[-1]
            child = next((one for one in rest if one not in seen), None)
            if child is None:
                order.append(stack.pop()[0])
            else:
                seen.add(child)
                stack.append((child, iter(after[child])))
    before: defaultdict[str, set[str]] = defaultdict(set)
    for node, children in after.items():
        for child in children:
            before[child].add(node)
    found, seen = [], set()
    for root in reversed(order):
        group, stack_of_nodes = set(), [root]
        while stack_of_nodes:
            node = stack_of_nodes.pop()
            if node not in seen:
                seen.add(node)
                group.add(node)
                stack_of_nodes += before[node]
        if len(group) > 1:
            found.append(frozenset(group))
    return found


def test_circles_are_found() -> None:
    after = {
        "a": {"b"},
        "b": {"c"},
        "c": {"a", "d"},
        "d": {"e"},
        "e": set(),
        "f": {"g"},
        "g": {"f"},
    }
    assert set(circles(after)) == {frozenset("abc"), frozenset("fg")}
