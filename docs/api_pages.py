"""Pages of the API: the public names of each room, in Markdown that autodoc fills."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parent.parent
FOLDER = "api"
"""Folder of the pages, beside `conf.py`; git does not keep it."""
WIDTH = 84
"""Letters in a line of the help of commands."""
METADATA = (
    "get_metadata_routing",
    *(f"set_{verb}_request" for verb in ("fit", "predict", "predict_proba", "score", "apply")),
)
"""Methods that scikit-learn adds to estimators, and explains itself."""


@dataclass(frozen=True)
class Page:
    """A page of the API.

    Parameters
    ----------
    title, name, about : str
    modules : dict of str to tuple of str
        Public names by module; none given: all of its `__all__`.
    inherited : str
        Classes whose methods are not repeated in those that inherit from them.
    """

    title: str
    name: str
    about: str
    modules: dict[str, tuple[str, ...]]
    inherited: str = ""


PAGES = (
    Page(
        "API: bitvec",
        "bitvec",
        "`import bitvec` makes these names reachable. Each is loaded when it is first used.",
        {"bitvec": ()},
    ),
    Page(
        "API: results",
        "results",
        "Objects that the functions of `bitvec` return, and what they can do.",
        {
            "bitvec.runtime.predict.predictor": ("Predictor",),
            "bitvec.explanations.explainer": ("Explainer",),
            "bitvec.runtime.train.retrain": ("RetrainResult", "History", "Evaluation"),
            "bitvec.runtime.train.update": ("UpdateResult",),
            "bitvec.runtime.train.calibration.calibration_result": ("CalibrationResult",),
            "bitvec.compression.budget": ("Budget",),
            "bitvec.compression.compress_result": ("CompressResult",),
            "bitvec.compression.front": ("Front", "Point"),
            "bitvec.runtime.train.update.update_result": ("Trial",),
            "bitvec.runtime.train.update.moved_parts": ("Moved",),
            "bitvec.differences.forest_diff": ("Diff",),
            "bitvec.core.composition": ("Composition",),
        },
    ),
    Page(
        "API: learners",
        "learners",
        "Estimators of scikit-learn's interface, in `bitvec.learners`.",
        {"bitvec.learners": ()},
        inherited="BaseEstimator,ClassifierMixin,RegressorMixin",
    ),
    Page(
        "API: trees of the papers",
        "native",
        "Trees as plain arrays in the symbols of their papers, in `bitvec.converters.native`.",
        {"bitvec.converters.native": ()},
    ),
    Page(
        "API: explanations",
        "explanations",
        "Covers, importances, dependence and changes, beside [`bitvec.explain`](../explain.md).",
        {
            "bitvec.explanations.covers": ("with_cover",),
            "bitvec.explanations.importances": ("split_importances",),
            "bitvec.explanations.dependence": ("partial_dependence", "PartialDependence"),
            "bitvec.explanations.changes": ("smallest_changes", "Change", "nearest_rows"),
        },
    ),
    Page(
        "API: plots",
        "plots",
        "Functions that return a matplotlib figure.",
        {
            "bitvec.plots.forests": ("draw_matrices", "draw_path", "draw_boundaries"),
            "bitvec.plots.attributions": (
                "draw_beeswarm",
                "draw_bars",
                "draw_waterfall",
                "draw_dependence",
                "draw_partial_dependence",
            ),
            "bitvec.plots.distributions": ("draw_distributions",),
            "bitvec.plots.annealing": ("draw_annealing", "draw_posterior"),
            "bitvec.plots.oblique_trees": ("draw_tree", "draw_weights"),
            "bitvec.plots.polytope_nodes": ("draw_polytopes",),
        },
    ),
    Page(
        "API: training in torch",
        "relax",
        "Soft forests and machines behind [`bitvec.to_torch`](../relaxations.md).",
        {
            "bitvec.runtime.train.relax": (),
            "bitvec.runtime.train.relax.soft_machine": ("SoftMachine",),
            "bitvec.runtime.train.relax.torch_map": ("TorchMap",),
        },
    ),
    Page(
        "API: parts of a forest",
        "core",
        "The fields of a [`Forest`](bitvec.md), for those who build or change one, and functions "
        "of [decision machines](../decision-machines.md).",
        {
            "bitvec.core.node_tests": ("NodeTests",),
            "bitvec.core.structure": ("Bitvectors",),
            "bitvec.core.leaves": ("Leaves",),
            "bitvec.core.output": ("Output", "Aggregate"),
            "bitvec.core.inputs": ("Inputs",),
            "bitvec.core.source": ("Source",),
            "bitvec.core.feature_maps": ("KeyTables", "StackedForest"),
            "bitvec.core.kernels": ("FeatureKernel",),
            "bitvec.core.machine": ("from_forest", "to_forest", "exit_leaves", "on_grid"),
        },
    ),
    Page(
        "API: exports and services",
        "services",
        "Headers of C, rows as bins, oracles that certificates ask, layouts for GPUs, models of "
        "MLflow and pools of Ray.",
        {
            "bitvec.runtime.export.c": ("to_c", "CSource", "Estimate"),
            "bitvec.runtime.export.binned_rows": ("Bins", "through"),
            "bitvec.certification": ("oracle_of",),
            "bitvec.runtime.export.c.compiled": ("oracle_of",),
            "bitvec.runtime.predict.gpu.code_layout": ("lay_out_codes",),
            "bitvec.services.mlflow": ("save_model", "log_model", "load_model"),
            "bitvec.services.ray": ("actor_pool",),
        },
    ),
    Page(
        "API: errors",
        "errors",
        "What bitvec raises on purpose, in `bitvec.errors`: each is a [`BitvecError`](bitvec.md).",
        {
            "bitvec.errors": (
                "FileFormatError",
                "InputError",
                "InvalidForestError",
                "MissingLibraryError",
                "UnsupportedModelError",
            )
        },
    ),
)


def text(page: Page) -> str:
    """Return a page as Markdown."""
    blocks = [
        directive(page, m, n) for m, names in page.modules.items() for n in names_of(m, names)
    ]
    body = "\n".join(blocks)
    return f"# {page.title}\n\n{page.about}\n\n```{{eval-rst}}\n{body}```\n"


def names_of(module: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, or all that the module offers."""
    return names or tuple(import_module(module).__all__)


def directive(page: Page, module: str, name: str) -> str:
    """Return what autodoc is told of one name; an estimator has the methods of its bases too."""
    found: Any = getattr(import_module(module), name)
    lines = [f".. auto{kind(found)}:: {module}.{name}"]
    if page.inherited and inspect.isclass(found):
        lines.append(f"   :inherited-members: {page.inherited}")
        lines.append(f"   :exclude-members: {', '.join(METADATA)}")
    return "\n".join(lines) + "\n\n"


def kind(found: Any) -> str:
    """Return the directive of autodoc without its `auto`."""
    if inspect.isclass(found):
        return "exception" if issubclass(found, Exception) else "class"
    return "function" if callable(found) else "data"


def command_line() -> str:
    """Return the help of each command, as `bitvec COMMAND --help` prints it, in Markdown."""
    from bitvec.cli.program import COMMANDS, program

    parent = click.Context(
        program, info_name="bitvec", terminal_width=WIDTH, **program.context_settings
    )
    parts = ["# Command line", "Options have the names of Python's parameters."]
    for name in ("", *COMMANDS):
        command = program.get_command(parent, name) if name else program
        assert command is not None
        inner = {"parent": parent, "info_name": name, "terminal_width": WIDTH}
        context = click.Context(command, **inner) if name else parent
        parts += [f"## bitvec {name}".rstrip(), f"```text\n{command.get_help(context)}\n```"]
    return "\n\n".join(parts) + "\n"


def made() -> dict[str, list[tuple[str, str]]]:
    """Return title and name of the pages that are written when the site is built, by heading."""
    pages = [(page.title, f"{FOLDER}/{page.name}") for page in PAGES]
    command_line, changelog = f"{FOLDER}/command-line", f"{FOLDER}/changelog"
    return {"Reference": [("Command line", command_line), *pages, ("Changelog", changelog)]}


def write(folder: Path) -> None:
    """Write the pages, where they have changed, so that a second build is fast."""
    texts = {page.name: text(page) for page in PAGES}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    texts["changelog"] = changelog.replace("](docs/", "](../")
    texts["command-line"] = command_line()
    folder.mkdir(exist_ok=True)
    for name, content in texts.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
