"""The site: its sidebar and its API name what is there, and it builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
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


def test_the_help_of_every_command_is_a_page() -> None:
    import api_pages

    from bitvec.cli.program import COMMANDS

    text = api_pages.command_line()
    assert [*re.findall(r"^## bitvec (\w+)$", text, re.MULTILINE)] == [*COMMANDS]
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)


def test_every_tutorial_says_what_it_needs() -> None:
    import page_list

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = set(extras["optional-dependencies"])
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    names = [name for _, name, _ in page_list.groups(index)["Tutorials"]]
    for name in ("models", *names):
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        needs = re.search(r'^To follow this page: `pip install "bitvec-trees\[(.+)\]"', text, re.M)
        assert needs, name
        assert set(needs[1].split(",")) <= known


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
