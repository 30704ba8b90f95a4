"""How does a result look at the end of a notebook's cell, at a prompt, or in a comment?"""

from importlib import import_module
from typing import Any, ClassVar


class Shown:
    """Gives a result a short ``repr``, a short page and Markdown, from its command's document.

    A result knows the name of its document, never the document: the rooms below ``report`` stay
    below it.
    """

    __slots__ = ()

    #: The module of ``report/documents`` that says what this is.
    shown_as: ClassVar[str]

    def shown(self) -> tuple[Any, ...]:
        """Return what the document is made from."""
        return (self.to_dict(),)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        """Return a few lines, the verdict first."""
        lines: str = _notebook().lines(type(self).__name__, self.shown_as, self.shown())
        return lines

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it: a short page, in a frame of its own."""
        page: str = _notebook().frame(type(self).__name__, self.shown_as, self.shown())
        return page

    def markdown(self) -> str:
        """Return the result as Markdown that a comment on a pull request holds: ``--markdown``."""
        text: str = _notebook().comment(self.shown_as, self.shown())
        return text


def _notebook() -> Any:
    return import_module("calibrail.report.notebook")
