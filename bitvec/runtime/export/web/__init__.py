"""A page for the browser: a form, files of rows and paths through trees, with no server behind."""

from bitvec.runtime.export.web.pages import write

__all__ = ["write"]
