"""The site: `make docs` builds it of these pages, the package's docstrings and its own tables.

Pages are Markdown that also reads well where code is hosted. Two things are therefore made here and
not written in them: the sidebar, of the lists of links in `index.md`, and the pages of the API, of
the names that `api_pages.py` lists. `llms.txt` is made of the same lists.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import api_pages  # noqa: E402
import notebook_files  # noqa: E402
import page_list  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx.addnodes import pending_xref  # noqa: E402

import bitvec  # noqa: E402

project = "bitvec"
author = "the authors of bitvec"
release = version = bitvec.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_static"]
source_suffix = {".md": "markdown"}
smartquotes_action = "D"  # dashes between a parameter and its text; quotes belong to code
default_role = "code"  # docstrings write `names` so

# ---- pages ------------------------------------------------------------------------------------
myst_heading_anchors = 4  # links as `page.md#heading`, as code hosts make them
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # shell lines that are no Python

# ---- docstrings -------------------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # names that share a text share it on the page, too
napoleon_use_admonition_for_examples = False
python_maximum_signature_line_length = 76
add_module_names = False
toc_object_entries_show_parents = "hide"

# ---- looks ------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"bitvec {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = True
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b5cad",
        "color-brand-content": "#0b5cad",
        "color-code-background": "#f4f6f8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7cb7ff",
        "color-brand-content": "#7cb7ff",
        "color-code-background": "#0d1117",
    },
}
pygments_style = "a11y-high-contrast-light"  # at least 4.5 to 1 on its ground
pygments_dark_style = "github-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def _write_pages(app: Any) -> None:
    api_pages.write(HERE / api_pages.FOLDER)
    notebook_files.write(HERE / notebook_files.FOLDER)


def _add_sidebar(app: Any, name: str, source: list[str]) -> None:
    if name == "index":
        source[0] = page_list.with_sidebar(source[0], api_pages.made())


def _fit_to_the_site(app: Any, name: str, source: list[str]) -> None:
    """Lead links of the README to the page in its place, and end snippets with their last line.

    The empty line before the end of a fence is there for the tests, which read pages as doctests.
    """
    text = re.sub(r"\]\(\.\./README\.md(#[^)]*)?\)", "](index.md)", source[0])
    source[0] = text.replace("\n\n```\n", "\n```\n")


def _link_notebooks(app: Any, name: str, source: list[str]) -> None:
    """Offer the notebook of each example, which is made with the site, beside its script."""
    if name == "examples":
        beside = r"\g<0> ([notebook](notebooks/\1.ipynb))"
        source[0] = re.sub(r"`examples/(\w+)\.py`", beside, source[0])


def _unlink_dimensions(app: Any, doctree: nodes.document) -> None:
    """Leave names of dimensions, of arguments and of values in annotations without a link.

    Sphinx takes `n_features` of `Float[Array, "batch n_features"]` for a name in the package.
    """
    for link in list(doctree.findall(pending_xref)):
        name = link.get("reftarget", "").rpartition(".")[2]
        is_type = link.get("refdomain") == "py" and link.get("reftype") in ("class", "obj", "data")
        if is_type and not name[:1].isupper():
            link.replace_self(link.children)


def _mark_line_drawings(app: Any, doctree: nodes.document) -> None:
    """Give drawings without raster parts, which hold scales of colours, a class for the dark."""
    for image in doctree.findall(nodes.image):
        source = HERE / image["uri"]
        if source.suffix == ".svg" and "<image" not in source.read_text(encoding="utf-8"):
            image["classes"].append("lines")


def _write_llms_txt(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        text = (HERE / "index.md").read_text(encoding="utf-8")
        listed = page_list.llms_txt(text, api_pages.made())
        (Path(app.outdir) / "llms.txt").write_text(listed, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx what is made here."""
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _add_sidebar)
    app.connect("source-read", _fit_to_the_site)
    app.connect("source-read", _link_notebooks)
    app.connect("doctree-read", _unlink_dimensions)
    app.connect("doctree-read", _mark_line_drawings)
    app.connect("build-finished", _write_llms_txt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
