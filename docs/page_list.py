"""The pages of the site, read off the lists of links in `index.md`: sidebar and `llms.txt`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
GROUP = re.compile(r"^## (.+)$", re.MULTILINE)
LINK = re.compile(r"^- \[([^\]]+)\]\((\S+)\.md\)(?:: (.*))?$", re.MULTILINE)


def groups(text: str) -> dict[str, list[tuple[str, str, str]]]:
    """Return title, name and purpose of each page that a heading lists, by heading."""
    _, *parts = GROUP.split(text)
    found = {
        heading: LINK.findall(part) for heading, part in zip(parts[::2], parts[1::2], strict=True)
    }
    return {heading: pages for heading, pages in found.items() if pages}


def with_sidebar(text: str, more: Mapping[str, list[tuple[str, str]]]) -> str:
    """Return the text of `index.md` followed by what Sphinx makes a sidebar of.

    Parameters
    ----------
    text : str
    more : mapping of str to list of (str, str)
        Title and name of pages that are made when the site is built, by heading.
    """
    trees = []
    for heading, pages in groups(text).items():
        lines = [f"{title} <{name}>" for title, name, _ in pages]
        lines += [f"{title} <{name}>" for title, name in more.get(heading, [])]
        trees.append(
            "\n".join(["```{toctree}", ":hidden:", f":caption: {heading}", "", *lines, "```"])
        )
    return "\n\n".join([text, *trees])


def llms_txt(text: str, made: Mapping[str, list[tuple[str, str]]]) -> str:
    """Return what a language model reads first: each page, in one line, as Markdown.

    The form is that of llmstxt.org: a title, a quoted summary, and lists of links.
    """
    summary = text.split("\n\n", 2)[1].replace("\n", " ")
    lines = ["# bitvec", "", f"> {summary}"]
    for heading, pages in groups(text).items():
        lines += ["", f"## {heading}", ""]
        lines += [
            f"- [{title}](_sources/{name}.md.txt)" + (f": {purpose}" if purpose else "")
            for title, name, purpose in pages
        ]
        lines += [f"- [{title}]({name}.html)" for title, name in made.get(heading, [])]
    return "\n".join(lines) + "\n"
