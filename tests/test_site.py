"""The site: its sidebar and its API name what is there, and it builds without a warning."""

from __future__ import annotations

import ast
import doctest
import functools
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import bitvec

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GROUPS = ["Start here", "Tutorials", "How-to", "Concepts", "Reference", "Figures"]


@pytest.fixture(autouse=True)
def _modules_of_the_site_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))


def test_the_sidebar_has_each_page_of_the_index_under_its_heading() -> None:
    import page_list

    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [*page_list.groups(text)] == GROUPS
    shown = page_list.with_sidebar(text, {"Reference": [("Errors", "api/errors")]})
    assert shown.startswith(text)
    assert re.findall(r":caption: (.*)", shown) == GROUPS
    named = re.findall(r"^.* <(\S+)>$", shown, re.MULTILINE)
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert sorted(named) == sorted([*pages, "api/errors"])


def test_llms_txt_names_each_page_in_a_line() -> None:
    import page_list

    text = (DOCS / "index.md").read_text(encoding="utf-8")
    lines = page_list.llms_txt(text, {"Reference": [("Errors", "api/errors")]}).splitlines()
    assert lines[0] == "# bitvec"
    assert lines[2].startswith("> A trained tree is four arrays")
    assert "- [Errors](api/errors.html)" in lines
    assert sum(line.startswith("- [") for line in lines) == len([*DOCS.glob("*.md")])


def test_the_api_has_all_public_names() -> None:
    import api_pages

    modules = {page.name: page.modules for page in api_pages.PAGES}
    assert set(api_pages.names_of("bitvec", modules["bitvec"]["bitvec"])) == set(bitvec.__all__)
    for page in api_pages.PAGES:
        for module, names in page.modules.items():
            assert (ROOT / Path(*module.split("."))).with_suffix(".py").exists() or (
                ROOT / Path(*module.split(".")) / "__init__.py"
            ).exists()
            assert isinstance(names, tuple)


def test_the_api_has_what_snippets_of_pages_import() -> None:
    import api_pages

    known = [
        getattr(import_module(module), name)
        for page in api_pages.PAGES
        for module, names in page.modules.items()
        for name in api_pages.names_of(module, names)
    ]
    known += [import_module(module) for page in api_pages.PAGES for module in page.modules]
    for page in DOCS.glob("*.md"):
        for node in imports(page.read_text(encoding="utf-8")):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bitvec"):
                for name in (alias.name for alias in node.names):
                    found = getattr(import_module(str(node.module)), name)
                    assert any(found is each for each in known), (page.name, node.module, name)


def test_the_help_of_every_command_is_a_page() -> None:
    import api_pages

    from bitvec.cli.program import COMMANDS

    text = api_pages.command_line()
    assert [*re.findall(r"^## bitvec (\w+)$", text, re.MULTILINE)] == [*COMMANDS]
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)


NAMES = {"mlflow": "mlflow-skinny", "sklearn": "scikit-learn"}
"""Distributions whose package has another name."""


def imports(text: str) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports in the Python of a page, in snippets and in programs."""
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        examples = doctest.DocTestParser().get_examples(code)
        for node in ast.walk(ast.parse("".join(each.source for each in examples) or code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node


def imported(text: str) -> set[str]:
    """Return the packages that the Python of a page imports."""
    packages = set()
    for node in imports(text):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        else:
            packages.add(str(node.module).partition(".")[0])
    return {NAMES.get(package, package) for package in packages - sys.stdlib_module_names}


def brought(requirements: list[str]) -> set[str]:
    """Return the distributions that requirements name, those of the extras of bitvec among them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = set()
    for requirement in requirements:
        name, *extras = re.findall(r"[\w.-]+", re.split("[;<>=]", requirement)[0])
        found.add(name)
        if name == "bitvec-trees":
            found |= brought(project["dependencies"]) | {"bitvec"}
            for extra in extras:
                found |= brought(project["optional-dependencies"][extra])
    return found


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_says_in_a_line_what_its_snippets_import(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"`pip install ([^`A-Z]+)`", text)  # capitals stand for what a reader takes
    needs = imported(text) - brought(["bitvec-trees"])
    assert needs <= brought([each for line in lines for each in shlex.split(line)])
    if needs and ">>>" in text:
        assert re.search(r"^To follow this page: `pip install ", text, re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error."""
    for library in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(library)
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, str(DOCS), str(built)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.full
def test_links_of_the_built_site_lead_to_files_and_anchors_of_it(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for link in re.findall(r'<(?:a|img|link)\b[^>]*?\b(?:href|src)="([^"]*)"', text):
            if re.match(r"[a-z]+:", link) or link in ("", "#"):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
            if not target.exists() or (
                anchor and target in anchors and unquote(anchor) not in anchors[target]
            ):
                broken.append(f"{page.name}: {link}")
    assert broken == []


@pytest.mark.full
def test_the_built_site_has_its_pages_search_and_llms_txt(site: Path) -> None:
    for page in DOCS.glob("*.md"):
        assert (site / f"{page.stem}.html").exists()
        assert (site / "_sources" / f"{page.name}.txt").exists()
    assert (site / "searchindex.js").exists()
    assert (site / "llms.txt").read_text(encoding="utf-8").startswith("# bitvec\n")
    text = (site / "api" / "bitvec.html").read_text(encoding="utf-8")
    assert all(f'id="bitvec.{name}"' in text for name in bitvec.__all__)


CHROMIUM = "--headless --no-sandbox --disable-gpu --disable-sync --no-first-run"
CHROMIUM += " --disable-background-networking --disable-component-update --window-size=1600,1000"


class Reader(SimpleHTTPRequestHandler):
    """A server of a folder that keeps what is sent back to it."""

    told: list[str]
    done: threading.Event

    def do_POST(self) -> None:
        self.told += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.done.set()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.full
def test_pages_fit_screens_and_can_be_read_in_the_light_and_in_the_dark(
    site: Path, tmp_path: Path
) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if browser is None:
        pytest.skip("chromium is not installed")
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    asked = {"pages": pages, "widths": [390, 1440], "themes": ["light", "dark"]}
    (site / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    shutil.copyfile(Path(__file__).with_name("site_pages.html"), site / "read.html")
    told, done = [], threading.Event()
    reader = type("Told", (Reader,), {"told": told, "done": done})
    handler = functools.partial(reader, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/read.html"
        profile = f"--user-data-dir={tmp_path}"
        # A port to be asked at keeps it open, where it would end once the page is loaded.
        command = [browser, *CHROMIUM.split(), profile, "--remote-debugging-port=0", url]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            finished = done.wait(600)
            process.terminate()
        server.shutdown()
    assert finished
    assert told == []
