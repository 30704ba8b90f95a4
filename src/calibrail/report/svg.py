"""How does a drawn figure fit into a page, and into a file of its own?"""

import re
from typing import Final

from calibrail.report.blocks import Figure
from calibrail.report.document import Document, all_blocks
from calibrail.report.plot import COLOURS

_CORNER: Final = r"(-?[\d.]+) (-?[\d.]+)"


def figure_files(document: Document) -> dict[str, str]:
    """Return every figure of a document as a file that stands alone, by its name."""
    return {
        block.name: standing_alone(block.svg())
        for block in all_blocks(document.blocks)
        if isinstance(block, Figure)
    }


def inline(svg: str, name: str, limits: tuple[float, float, float, float] | None = None) -> str:
    """Return a figure as a page can hold it beside others.

    Ids that nothing refers to are dropped and the others made the figure's own, as is its style
    sheet, which would hold for the whole page.

    Parameters
    ----------
    svg : str
        As ``Figure.svg`` returns it.
    name : str
        Distinct among the page's figures.
    limits : tuple of 4 floats, optional
        What the axes span: left, right, bottom, top. Then the figure gets marks that a script may
        move, and says where they may stand.
    """
    referred = set(re.findall(r"#([\w-]+)", svg))

    def renamed(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in referred else ""

    svg = re.sub(r' id="([^"]*)"', renamed, svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"\s*<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r" ?\n *(?=[LQCz])", " ", svg)
    return svg if limits is None else _movable(svg, limits)


def standing_alone(svg: str) -> str:
    """Return a figure as a file that stands alone, dark on white.

    Parameters
    ----------
    svg : str
        As ``Figure.svg`` returns it: its first attribute is the view box.
    """
    for variable, colour in COLOURS.values():
        svg = svg.replace(variable, colour)
    _, box, rest = svg.split('"', 2)
    left, top, width, height = map(float, box.split())
    x, y, size = left - 6, top - 6, f'width="{width + 12:g}" height="{height + 12:g}"'
    label, content = rest.split(">", 1)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="{x:g} {y:g} {width + 12:g} {height + 12:g}"{label} {size} '
        "font-family=\"'DejaVu Sans', Arial, sans-serif\">\n"
        f'<rect x="{x:g}" y="{y:g}" {size} fill="#ffffff"/>{content}'
    )


def _movable(svg: str, limits: tuple[float, float, float, float]) -> str:
    """Add the marks, and the pixels and values at the corners of the axes."""
    # matplotlib draws the axes' background first: from its lower left corner to the right, and up.
    patches = re.findall(f'd="M {" L ".join([_CORNER] * 5)} z', svg)
    if len(patches) < 2:
        raise ValueError("matplotlib drew a figure without axes")
    left, bottom, right, _, _, top, *_ = map(float, patches[1])
    place = " ".join(map(repr, (left, right, bottom, top, *limits)))
    svg = svg.replace("<svg ", f'<svg data-place="{place}" ', 1)
    marks = (
        '<g class="moving" aria-hidden="true"><path class="spread" d=""/>'
        '<path class="level" d=""/><circle class="spot" r="5"/></g>'
    )
    return svg.replace("</svg>", f"{marks}</svg>", 1)
