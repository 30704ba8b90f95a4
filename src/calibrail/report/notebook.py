"""What of a document does a notebook show among other cells, and what does a comment?"""

import re
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from markupsafe import Markup, escape

from calibrail.report.blocks import Block, Card, Figure, Folded, Section, Slider
from calibrail.report.document import Document
from calibrail.report.render_html import render_page
from calibrail.report.render_markdown import render_comment
from calibrail.report.sanitize import short

#: Characters of a line.
_LINE: Final = 220

#: About how many pixels a part of a page takes, by its tag, and each further line of its text.
_PIXELS: Final = {
    **{"h1": 60, "h2": 70, "h3": 50, "strong": 70, "pre": 70, "p": 36, "li": 36},
    **{'dl class="tiles"': 120, "dt": 28, "tr": 52, "footer": 110},
}
_PART: Final = re.compile(rf'(?<!"tile">)<({"|".join(_PIXELS)})[ >]')
_LINE_PIXELS: Final = 26
_LINE_CHARACTERS: Final = 75
#: The tallest frame; a longer page scrolls.
_TALLEST: Final = 560

#: What a short page leaves out: pictures, what is folded, and texts of the data.
_LEFT_OUT: Final = (Figure, Slider, Folded, Card)


def lines(kind: str, name: str, content: tuple[Any, ...]) -> str:
    """Return a result in a few lines: its headline, its first numbers, what they mean.

    Parameters
    ----------
    kind : str
        What the object is called.
    name : str
        The module of ``report/documents`` that makes its document.
    content : tuple
        What that takes.
    """
    document = _document(name, content)
    headline = short(document.headline or document.brief or document.title, _LINE)
    subject = short(document.subject, 80)
    named = f" ({subject})" if subject and subject not in headline else ""
    tiles = (
        f"{tile.name} {tile.value}" + (f" ({tile.interval})" if tile.interval else "")
        for tile in document.tiles
    )
    said = (
        f"{kind}: {headline}{named}",
        short("; ".join(tiles), _LINE),
        short(document.summary, _LINE),
        *(short(f"{item.title}: {item.text}", _LINE) for item in document.lead),
    )
    return "\n  ".join(filter(None, said))


def frame(kind: str, name: str, content: tuple[Any, ...]) -> str:
    """Return a result as a short page in a frame that runs no script and reaches nothing.

    The parameters are those of `lines`. The page is rendered as every page is; the frame keeps its
    style from the notebook's.
    """
    document = _document(name, content)
    page = render_page(
        replace(
            document, blocks=_short(document.blocks), reproduce={}, data={}, notes=(), footer=""
        )
    )
    start = Markup('<iframe sandbox="" title="{}" srcdoc="{}" ').format(kind, escape(page))
    style = "width: 100%; border: 1px solid #8884; border-radius: 4px; resize: vertical"
    return f'{start}style="height: {_height(page)}px; {style}"></iframe>'


def _height(page: str) -> int:
    """Return about how many pixels tall a page is: no script may measure it."""
    _, *parts = _PART.split(page.partition("<main")[2])
    tall = 0
    for tag, content in zip(parts[::2], parts[1::2], strict=True):
        lines = len(re.sub(r"<[^>]*>", "", content)) // _LINE_CHARACTERS
        tall += _PIXELS[tag] + _LINE_PIXELS * lines
    return min(_TALLEST, tall)


def comment(name: str, content: tuple[Any, ...]) -> str:
    """Return a result as Markdown that a comment holds; the parameters are those of `lines`."""
    return render_comment(_document(name, content))


def _document(name: str, content: tuple[Any, ...]) -> Document:
    document: Document = import_module(f"calibrail.report.documents.{name}").document(*content)
    return document


def _short(blocks: Iterable[Block | None]) -> list[Block]:
    """Return the blocks that a short page shows."""
    return [
        replace(block, blocks=_short(block.blocks)) if isinstance(block, Section) else block
        for block in blocks
        if block is not None and not isinstance(block, _LEFT_OUT)
    ]
