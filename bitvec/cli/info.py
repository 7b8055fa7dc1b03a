"""`bitvec info`: describe a forest, draw one of its trees, or print its rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bitvec.cli.given_files import open_model
from bitvec.cli.shared_options import as_command, forest_argument
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError

if TYPE_CHECKING:
    from bitvec.core.composition import Composition
    from bitvec.core.forest import Forest


@as_command("info", "Describe a forest, draw one tree, or print rules.")
@forest_argument
@click.option("--tree", "index", type=int, metavar="I", help="Draw tree I (-1 is the last).")
@click.option("--rules", is_flag=True, help="Print a rule for each leaf, of tree I or of all.")
@click.option("--merged", is_flag=True, help="Of --rules: join the leaves of a class or value.")
def command(path: Path, index: int | None, rules: bool, merged: bool, as_json: bool) -> None:
    """Describe a forest, draw one of its trees, or print its rules.

    FOREST is a file that `bitvec convert` wrote; a MODEL file is converted first. An .onnx or .ort
    file that bitvec exported in a form that cannot be converted is shown as it describes itself.

    \b
    Examples:
        bitvec info model.safetensors
        bitvec info model.ubj --tree 0
        bitvec info model.ubj --tree 0 --rules
    """
    from bitvec.core.composition import Composition

    if merged and not rules:
        raise click.UsageError("--merged must come with --rules.")
    try:
        forest = open_model(path)
    except (UnsupportedModelError, FileFormatError):
        facts = _exported(path)
        if index is not None or rules or facts is None:
            raise
        _tell(path, facts, as_json)
        return
    if isinstance(forest, Composition):
        if index is not None or rules:
            raise InputError(
                f"--tree and --rules must be left out of a composition, got {path}, of "
                f"{len(forest.members)} members: convert one of them."
            )
        _describe_composition(path, forest, as_json)
        return
    if index is not None and not -forest.n_trees <= index < forest.n_trees:
        raise InputError(f"--tree must be below {forest.n_trees}, got {index}.")
    if rules:
        chosen = range(forest.n_trees) if index is None else (index % forest.n_trees,)
        _tell_rules(forest, list(chosen), merged, as_json)
    elif index is None:
        _describe(path, forest, as_json)
    else:
        _draw(forest, index % forest.n_trees, as_json)


def _exported(path: Path) -> dict[str, Any] | None:
    """Return the facts of an exported ONNX file, or None of another file."""
    if path.is_dir():
        return None
    try:
        from bitvec.runtime.export.onnx.description import describe
    except ImportError:
        return None
    return describe(path)


def _tell(path: Path, facts: dict[str, Any], as_json: bool) -> None:
    from bitvec.cli.answer import print_json, print_lines
    from bitvec.cli.summary import size_text
    from bitvec.runtime.export.onnx.description import line

    size = path.stat().st_size
    if as_json:
        print_json({"file": str(path), "file_bytes": size, **facts})
        return
    metadata = {name: text for name, text in facts["metadata"].items() if name != "form"}
    head = (("file", f"{path} ({size_text(size)})"), ("holds", line(facts)))
    print_lines([*head, *((name.replace("_", " "), text) for name, text in metadata.items())])


def _describe(path: Path, forest: Forest, as_json: bool) -> None:
    from bitvec.cli.answer import print_json, print_lines
    from bitvec.cli.summary import lines, summary

    facts = {"file": str(path), "file_bytes": path.stat().st_size, **summary(forest)}
    if as_json:
        print_json(facts)
    else:
        print_lines(lines(facts))


def _describe_composition(path: Path, model: Composition, as_json: bool) -> None:
    from bitvec.cli.answer import print_json, print_lines
    from bitvec.cli.summary import composition_lines, composition_summary

    facts = {
        "file": str(path),
        "file_bytes": path.stat().st_size,
        **composition_summary(model),
    }
    if as_json:
        print_json(facts)
    else:
        print_lines(composition_lines(facts))


def _tell_rules(forest: Forest, trees: list[int], merged: bool, as_json: bool) -> None:
    from bitvec.cli.answer import print_json

    rules = forest.take(trees).to_rules(merged=merged)
    if as_json:
        records = [
            {
                "tree": trees[rule.tree],
                "leaves": rule.leaves,
                "rule": rule.text,
                "value": rule.value,
                "label": rule.label,
                "cover": rule.cover,
            }
            for rule in rules
        ]
        print_json({"notes": rules.notes, "rules": records})
        return
    for note in rules.notes:
        click.echo(note)
    told = None
    for rule in rules:
        if rule.tree != told:
            click.echo(f"tree {trees[rule.tree]}")
            told = rule.tree
        click.echo(f"  {rule}")


def _draw(forest: Forest, index: int, as_json: bool) -> None:
    from bitvec.cli.answer import count, print_json
    from bitvec.cli.array_text import arrays
    from bitvec.core.tree_text import draw

    tree = forest[index]
    if as_json:
        print_json({"tree": index, **_tree_record(tree)})
        return
    size = f"{count(tree.n_nodes, 'node')}, {count(tree.n_leaves, 'leaf')}"
    click.echo(f"tree {index} of {forest.n_trees}: {size}; no goes left, yes goes right\n")
    for line in draw(tree):
        click.echo(line)
    click.echo()
    for line in arrays(tree):
        click.echo(line)


def _tree_record(tree: Forest) -> dict[str, Any]:
    """Return one tree as arrays that grow with its nodes: B as intervals of leaves."""
    from bitvec.core.tree_text import output_names, questions

    B, ask = tree.bitvectors, questions(tree)
    return {
        "n_nodes": tree.n_nodes,
        "n_leaves": tree.n_leaves,
        "questions": [ask(node) for node in range(tree.n_nodes)],
        "b": tree.tests.b,
        "B": {"lo": B.lo, "mid": B.mid, "hi": B.hi},
        "v": tree.leaves.v,
        "outputs": output_names(tree),
        "leaf_output": tree.leaves.output,
    }
