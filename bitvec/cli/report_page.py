"""Pages that report on a forest: one file of HTML that needs no network and no script."""

from __future__ import annotations

import base64
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import bitvec
from bitvec.cli.bench_run import drawn_rows
from bitvec.cli.default_explanations import explainer, importances, most_rows
from bitvec.cli.report_scores import Rows, Table, score
from bitvec.cli.summary import lines, size_text
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.plain_text import number, plain
from bitvec.core.tree_text import column_name, leaf_text, questions
from bitvec.distribution import version
from bitvec.errors import BitvecError, MissingLibraryError, UnsupportedModelError
from bitvec.runtime.export.exports import export
from bitvec.runtime.export.onnx_targets import TARGETS
from bitvec.runtime.predict.predictor import Predictor
from bitvec.verify.certificates import Certificate
from bitvec.verify.timing import seconds

MOST_COLUMNS, MOST_NODES = 100, 3000
BATCHES = (1, 100, 10_000)
SECONDS = 0.2
"""Seconds for which a batch is timed."""

STYLE = """
:root { color-scheme: light dark;
  --ink: #1f2933; --pale: #d5dde5; --back: #ffffff; --link: #0b5cad }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --pale: #3c4650; --back: #14181c; --link: #79b8ff }
  img { background: #ffffff }
}
body { color: var(--ink); background: var(--back); font: 15px/1.5 system-ui, sans-serif;
  max-width: 62rem; margin: 0 auto; padding: 1rem }
h1, h2 { line-height: 1.2; overflow-wrap: anywhere }
a { color: var(--link) }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--pale);
  vertical-align: top; overflow-wrap: anywhere }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
img { max-width: 100%; height: auto }
details { margin-left: 1rem } details.tree { margin-left: 0 }
summary { cursor: pointer; overflow-wrap: anywhere }
.leaf { margin-left: 2rem; overflow-wrap: anywhere }
"""


def page(
    forest: Forest,
    facts: dict[str, Any],
    *,
    certificate: Certificate | None,
    X: Array | None = None,
    y: Array | None = None,
    advance: Callable[[float], None] | None = None,
) -> str:
    """Return the page.

    Parameters
    ----------
    forest : Forest
    facts : dict
        What `bitvec info` says of it, and of its file.
    certificate : Certificate, optional
        That of the conversion, if it was made.
    X : (batch, n_features), optional
        Rows in the forest's dtype.
    y : (batch,), optional
        Their labels or targets.
    advance : callable, optional
        Told the fraction of the work that is done.
    """
    predictor = bitvec.compile(forest, n_jobs=1)
    rows = X if X is not None and len(X) else drawn_rows(forest, max(BATCHES))
    sections: list[tuple[str, Callable[[], str]]] = [
        ("Model", lambda: _pairs(lines(facts))),
        ("Certificate", lambda: _certificate(certificate)),
    ]
    if X is not None and y is not None and len(X):
        sections.append(("Scores", lambda: _scores(predictor, X, y)))
    sections += [
        ("Columns", lambda: _columns(forest)),
        ("Explanation", lambda: _explanation(forest, X)),
        ("Speed and size", lambda: _speed(predictor, rows, facts)),
        ("Exports", lambda: _exports(forest)),
        ("Trees", lambda: _trees(forest)),
    ]
    body = []
    for at, (title, made) in enumerate(sections):
        body.append(f'<h2 id="{_anchor(title)}">{title}</h2>\n{made()}')
        if advance is not None:
            advance((at + 1) / len(sections))
    name = escape(plain(str(Path(facts["file"]).name)))
    links = " · ".join(f'<a href="#{_anchor(title)}">{title}</a>' for title, _ in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n"
        f"<p>{links}</p>\n" + "\n".join(body) + f"\n<p>Made by bitvec {version()}.</p>\n</body>\n"
        "</html>\n"
    )


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return _table((("", ""), [(label, value) for label, value in pairs]))


def _table(table: Table) -> str:
    heads, rows = table
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "\n".join(
        "<tr>" + "".join(_cell(at, text) for at, text in enumerate(row)) + "</tr>" for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    return f'<div class="wide"><table>{top}<tbody>\n{body}\n</tbody></table></div>'


def _cell(at: int, text: str) -> str:
    is_number = at > 0 and text[:1].isdigit() and " to " not in text and len(text) < 16
    kind = ' class="number"' if is_number else ""
    return f"<td{kind}>{escape(plain(text))}</td>"


def _certificate(certificate: Certificate | None) -> str:
    if certificate is None:
        return (
            "<p>Not made: the file does not hold the model that it was converted from. "
            "<code>bitvec certify</code> compares the two.</p>"
        )
    first, *others = certificate.summary().splitlines()
    items = "".join(f"<li>{escape(plain(line))}</li>" for line in others)
    return f"<p><strong>{escape(plain(first))}</strong></p><ul>{items}</ul>"


def _scores(predictor: Predictor, X: Array, y: Array) -> str:
    found = score(predictor, X, y)
    if found is None:
        return "<p>Not scored: the forest has several targets.</p>"
    parts = [f"<p>{len(X):,} rows.</p>", _pairs(found.overall)]
    if found.calibration is not None:
        parts += ["<h3>Calibration of the predicted class</h3>", _table(found.calibration)]
    if found.slices:
        parts += ["<h3>Slices that are predicted worst</h3>", _table(found.slices)]
    return "\n".join(parts)


def _columns(forest: Forest) -> str:
    """Return the columns that are read: their thresholds or categories, and their uses."""
    tests = forest.tests
    uses = np.bincount(tests.column, minlength=forest.n_columns)
    order = [int(j) for j in np.argsort(-uses, kind="stable") if uses[j]]
    of_node = tests.feature
    rows: Rows = []
    for column in order[:MOST_COLUMNS]:
        b = np.unique(tests.b[(of_node == column)])
        book = None if forest.feature_map is not None else forest.inputs.book(column)
        if book is not None:
            shown = ", ".join(plain(str(label))[:30] for label in book[:8])
            kind = f"{len(book)} categories: {shown}" + (", …" if len(book) > 8 else "")
        elif b.size:
            kind = f"{b.size:,} thresholds, {number(b[0])} to {number(b[-1])}"
            if b.size == 1:
                kind = f"1 threshold, {number(b[0])}"
        else:
            kind = "in sums of columns"
        rows.append((column_name(forest, column), f"{uses[column]:,}", kind))
    note = f"<p>{len(order):,} of {forest.n_columns:,} columns are read.</p>"
    if len(order) > MOST_COLUMNS:
        note += f"<p>The {MOST_COLUMNS} most used are shown.</p>"
    return note + _table((("column", "nodes", "holds"), rows))


def _explanation(forest: Forest, X: Array | None) -> str:
    """Return pictures of importances, and of Shapley values where there are rows."""
    try:
        from bitvec.plots.attributions import draw_bars, draw_beeswarm
    except MissingLibraryError as error:
        return f"<p>{escape(str(error))}</p>"
    parts = []
    try:
        found, label = importances(forest)
        bars = draw_bars(found, forest, label=label)
        parts.append(_picture(bars, f"Importances of columns: {label}"))
    except UnsupportedModelError as error:
        parts.append(f"<p>{escape(plain(str(error)))}</p>")
    if X is not None and len(X):
        try:
            rows = X[np.random.default_rng(0).permutation(len(X))[: most_rows(forest)]]
            made = explainer(forest, rows)
            sampled = "" if made.is_exact else ", sampled"
            text = f"Shapley values of {len(rows):,} rows{sampled}"
            parts.append(_picture(draw_beeswarm(made, rows), text))
        except BitvecError as error:
            parts.append(f"<p>{escape(plain(str(error)))}</p>")
    return "\n".join(parts)


def _picture(figure: Any, text: str) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    data = base64.b64encode(stream.getvalue()).decode()
    shown = escape(text, quote=True)
    return f'<p>{shown}</p><img alt="{shown}" src="data:image/png;base64,{data}">'


def _speed(predictor: Predictor, rows: Array, facts: dict[str, Any]) -> str:
    found: Rows = [("file", size_text(facts["file_bytes"]), "")]
    rows = rows[np.arange(max(len(rows), *BATCHES)) % len(rows)]
    for n in BATCHES:
        each = float(np.median(seconds(predictor.predict, rows, n, SECONDS))) / n
        rate = f"{1 / each:,.0f} rows a second"
        found.append(
            (f"predict, {n:,} row{'s' * (n > 1)} a call", f"{each * 1e6:.3g} µs a row", rate)
        )
    return (
        _table((("", "", ""), found))
        + f"<p>On one thread of this machine, engine {escape(predictor.engine.name)}.</p>"
    )


def _exports(forest: Forest) -> str:
    """Return what the forest can be exported to: each is tried, and its size told."""
    with tempfile.TemporaryDirectory() as folder:
        found = [
            (name, *_tried(forest, Path(folder) / file, options))
            for name, file, options in _targets()
        ]
    held = [row for row in found if row[1]]
    refused: Rows = [(name, why) for name, size, why in found if not size]
    parts = [_table((("written as", "size", ""), [(name, size, "") for name, size, _ in held]))]
    if refused:
        parts += ["<h3>Not possible</h3>", _table((("target", "why"), refused))]
    return "\n".join(parts)


def _targets() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name in TARGETS:
        yield f"ONNX for {name}", f"{name}.onnx", {"target": name}
    yield "C header", "model.h", {}
    yield "torch.export program", "model.pt2", {}
    for dialect in ("duckdb", "sqlite", "postgres", "spark", "bigquery"):
        yield f"SQL of {dialect}", f"{dialect}.sql", {"dialect": dialect}
    for library, suffix in (
        ("xgboost", "ubj"), ("lightgbm", "txt"), ("treelite", "tl"), ("sklearn", "skops"),
    ):  # fmt: skip
        yield f"file of {library}", f"model.{suffix}", {"to": library}


def _tried(forest: Forest, path: Path, options: dict[str, Any]) -> tuple[str, str]:
    try:
        export(forest, path, **options)
    except (BitvecError, ImportError) as error:
        return "", plain(str(error))
    size = path.stat().st_size
    path.unlink()
    return size_text(size), ""


def _trees(forest: Forest) -> str:
    """Return the first trees as nested parts that open and close."""
    parts: list[str] = []
    nodes = 0
    for index, tree in enumerate(forest):
        nodes += tree.n_nodes
        if nodes > MOST_NODES and parts:
            parts.append(f"<p>{forest.n_trees - index:,} trees more are not shown.</p>")
            break
        if tree.n_nodes > MOST_NODES:
            parts.append(f"<p>Tree {index} has {tree.n_nodes:,} nodes: too many to be shown.</p>")
            break
        opened = " open" if index == 0 else ""
        head = f"tree {index}: {tree.n_leaves:,} leaves"
        parts.append(
            f'<details class="tree"{opened}><summary>{head}</summary>{_tree(tree)}</details>'
        )
    return "<p>Yes goes right.</p>" + "\n".join(parts)


def _tree(tree: Forest) -> str:
    left, right = structure.children(tree.bitvectors)
    ask, pieces = questions(tree), []
    todo: list[tuple[int, str] | str] = [(0 if tree.n_nodes else ~0, "")]
    depth = 0
    while todo:
        at = todo.pop()
        if isinstance(at, str):
            pieces.append(at)
            depth -= 1
            continue
        child, answer = at
        if child < 0:
            text = escape(plain(leaf_text(tree, ~child)))
            pieces.append(f'<div class="leaf">{answer}leaf {~child}: {text}</div>')
            continue
        opened = " open" if depth < 3 else ""
        text = escape(plain(ask(child)))
        pieces.append(f"<details{opened}><summary>{answer}{text}</summary>")
        depth += 1
        todo += ["</details>", (int(right[child]), "yes: "), (int(left[child]), "no: ")]
    return "".join(pieces)
