"""What the site asks for beside mkdocs.yml: links out of docs/, wide pages, and examples of docstrings as code."""

import posixpath
import re

import griffe

REPOSITORY = "https://github.com/hfxling/hfxling/blob/main"


def on_page_markdown(markdown: str, page, **_) -> str:
    """A page whose links to files that are no pages of the site lead to the repository; mkdocs calls this.

    A page in no section has nothing in the column of its section's pages: it takes that room for itself.
    """
    if page.parent is None:
        page.meta["hide"] = ["navigation"]
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def replaced(match: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        is_outside = not target.startswith("docs/") or target.endswith((".ipynb", ".py", ".yaml"))
        return f"]({REPOSITORY}/{target})" if is_outside else match[0]

    return re.sub(r"\]\((?![a-z]+:|#)([^)#\s]+)\)", replaced, markdown)


class Examples(griffe.Extension):
    """Has "Example:" of a docstring read as "Examples:", which alone is shown as code."""

    def on_object(self, *, obj: griffe.Object, **_) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
