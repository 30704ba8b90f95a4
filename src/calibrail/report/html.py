"""Page, slider, svg, notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from calibrail.errors import MissingExtraError
from calibrail.formatting import count, number
from calibrail.report import document as parts
from calibrail.report.documents import build_document
from calibrail.report.figures.plot import COLOURS
from calibrail.report.figures.scores import embedded_json, source_hash
from calibrail.report.markdown import render_comment
from calibrail.report.messages import message
from calibrail.report.text import JOINT, clean, last_part, leaves, short, tile_line

if TYPE_CHECKING:
    from jinja2 import Environment


_CORNER: Final = r"(-?[\d.]+) (-?[\d.]+)"


def figure_files(document: parts.Document) -> dict[str, str]:
    """Return every figure of a document as a file that stands alone, by its name.

    There is none where what draws them is not installed; the page says so.
    """
    blocks = (item for item in parts.all_blocks(document.blocks) if isinstance(item, parts.Figure))
    try:
        return {block.name: standing_alone(block.svg()) for block in blocks}
    except MissingExtraError:
        return {}


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
    unused = r'\s*<style.*?</style>| font-family: [^;"]*;| transform="rotate\(-0 [^"]*"'
    svg = re.sub(unused, "", svg, flags=re.DOTALL)
    svg = re.sub(r" ?\n *(?=[LQCz])", " ", svg)
    if limits is not None and "data-place=" not in svg:
        # matplotlib draws the axes' background first: from its lower left corner right, and up.
        patches = re.findall(f'd="M {" L ".join([_CORNER] * 5)} z', svg)
        left, bottom, right, _, _, top, *_ = map(float, patches[1])
        place = " ".join(map(repr, (left, right, bottom, top, *limits)))
        svg = svg.replace("<svg ", f'<svg data-place="{place}" ', 1)
    svg, bare = re.sub(r">\s+<", "><", svg), r"<g>((?:[^<]|<(?!/?g\b))*)</g>"
    while (flat := re.sub(bare, r"\1", svg)) != svg:
        svg = flat
    svg = re.sub(r' ([xy])="(-?\d+\.\d)\d*"', r' \1="\2"', svg)
    svg = re.sub(r' d="(M [-\d. \nMLQCz]+)"', _shortened, svg)
    marks = (
        '<g class="moving" aria-hidden="true"><path d=""/>'
        '<circle class="spot" r="4" visibility="hidden"/></g>'
    )
    return svg if limits is None else svg.replace("</svg>", f"{marks}</svg>", 1)


def _shortened(path: re.Match[str]) -> str:
    """Return a path of matplotlib's in steps of a tenth of a point, which no screen shows."""
    steps, at, start, last = "", (0, 0), (0, 0), ""
    for command, numbers in re.findall(r"([MLQCz])([^MLQCz]*)", path[1]):
        tenths = [round(10.0 * float(number)) for number in numbers.split()]
        points = list(zip(tenths[::2], tenths[1::2], strict=True))
        # What follows a move or a line is a line where nothing else is said.
        steps += " " if command == "L" and last in "ML" else command.lower()
        steps += " ".join(f"{(x - at[0]) / 10:g} {(y - at[1]) / 10:g}" for x, y in points)
        at, last = (points[-1] if points else start), command
        start = at if command == "M" else start
    steps = re.sub(r"\b0\.", ".", steps).replace(" -", "-")
    return f' d="{steps}"'


def standing_alone(svg: str) -> str:
    """Return a figure as a file that stands alone, dark on white.

    Parameters
    ----------
    svg : str
        As ``Figure.svg`` returns it: its first attribute is the view box.
    """
    for variable, colour in (*COLOURS.values(), ("var(--ground)", "#ffffff")):
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


def render_page(document: parts.Document) -> str:
    """Return a document as one HTML page that loads nothing.

    Light and dark follow the reader's preference; names, messages and texts are escaped and rid of
    characters that act unseen. The page's own content security policy forbids every script but
    those that move a slider and sort tables, which it names by their hashes. Without scripts the
    page says the same.

    Parameters
    ----------
    document : Document
        From ``report.documents``.

    Returns
    -------
    str
        The page; the same document gives the same text.
    """
    document = document.shown_on("page")
    pages = _environment()
    blocks = list(parts.all_blocks(document.blocks))
    sliders = [block for block in blocks if isinstance(block, parts.Slider)]
    needed = {
        "slider.js.j2": bool(sliders),
        "sort.js.j2": any(isinstance(block, parts.Table) and block.sortable for block in blocks),
    }
    scripts = [pages.get_template(name).render() for name, is_needed in needed.items() if is_needed]
    page = pages.get_template("page.html.j2").render(
        page=document,
        points=Markup(embedded_json(sliders[0].points)) if sliders else None,
        scripts=[Markup(script) for script in scripts],
        script_hashes=Markup(" ".join(map(source_hash, scripts)) or "'none'"),
    )
    # Each style that figures repeat stands on the page once.
    names: dict[str, str] = {}
    page = re.sub(
        r' style="([^"]*)"',
        lambda style: f' class="{names.setdefault(style[1], f"f{len(names)}")}"',
        page,
    )
    rules = "".join(f"\n.{name} {{ {style} }}" for style, name in names.items())
    return page.replace("</style>", f"{rules}\n</style>", 1)


@cache
def _environment() -> Environment:
    """Return where pages come from: everything escaped, every name known, nothing unseen."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("calibrail.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        # What is markup already was cleaned before it was made.
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.filters.update(
        short=short,
        last_part=last_part,
        flat=lambda mapping: list(_flat(mapping)),
        joints=_joints,
        parted=_parted,
        options=_options,
        signs=_signs,
        answers=lambda n: count(n, "answer"),
    )
    environment.globals["svg"] = _svg
    return environment


def _svg(figure: parts.Figure, size: str) -> Markup:
    """Return a figure for one width; its names were escaped when it was drawn."""
    try:
        svg = figure.svg(size == "narrow")
    except MissingExtraError as error:
        return Markup("<p>{}</p>").format(clean(str(error)))
    return Markup(inline(svg, f"{figure.name}-{size}", figure.limits))


def _parted(leaves: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], ...]:
    """Return what every reader asks of the data, and the rest."""
    top = message("data.first")
    return [(top[k], v) for k, v in leaves if k in top], [x for x in leaves if x[0] not in top]


def _joints(text: str) -> Markup:
    """Return an escaped name that breaks at its joints, and within a word only if that is long."""
    words = [
        Markup('<span class="long">{}</span>').format(word)
        if re.search(r"\S{20}", word)
        else escape(word)
        for word in JOINT.split(clean(text))
    ]
    return Markup("<wbr>").join(words)


def _options(text: str) -> Markup:
    """Return escaped text: no option with a short value breaks, and code stands in no backticks."""
    option = r"(?<![\w-])--?[a-z][a-z-]*(?: [^\s`-][^\s`]{0,15}(?=[\s`]|$))?"
    whole = re.sub(option, r'<span class="option">\g<0></span>', str(escape(clean(text))))
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", whole))


def _signs(text: str) -> str:
    """Return what was asked with the sign that a keyboard lacks."""
    return re.sub(r"^([<>])= (?=\d)", lambda sign: "≤ " if sign[1] == "<" else "≥ ", text)


def _flat(mapping: object) -> Iterator[tuple[str, str]]:
    """Yield the leaves that hold anything with their dotted path, lists as compact JSON."""
    for path, value in leaves(mapping):
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, float):
            yield path, number(value, 6)
        elif value is not None and value != []:
            counts = path.startswith("n_") and type(value) is int
            yield path, f"{value:,}" if counts else json.dumps(value, ensure_ascii=False)


#: Characters of a line.
_LINE: Final = 220

#: Pixels of a frame, which a reader may pull larger; a longer page scrolls.
_TALL: Final = 420

#: What a short page leaves out: pictures, what is folded, and texts of the data.
_LEFT_OUT: Final = (parts.Figure, parts.Slider, parts.Folded, parts.AnswerCard)


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
    document = build_document(name, *content)
    headline = short(document.headline or document.brief or document.title, _LINE)
    subject = short(document.subject, 80)
    named = f" ({subject})" if subject and subject not in headline else ""
    lead = () if document.summary else document.lead
    said = (
        f"{kind}: {headline}{named}",
        short(document.rule, _LINE),
        short("; ".join(filter(None, map(tile_line, document.tiles))), _LINE),
        short(document.summary, 2 * _LINE),
        *(short(f"{item.title}: {item.text}", _LINE) for item in lead),
    )
    return "\n  ".join(filter(None, said))


def frame(kind: str, name: str, content: tuple[Any, ...]) -> str:
    """Return a result as a short page in a frame that runs no script and reaches nothing.

    The parameters are those of `lines`. The page is rendered as every page is; the frame keeps its
    style from the notebook's.
    """
    document = build_document(name, *content)
    brief: dict[str, Any] = {"reproduce": {}, "data": {}, "notes": (), "footer": ""}
    page = render_page(replace(document, blocks=_short(document.blocks), **brief))
    start = Markup('<iframe sandbox="" title="{}" srcdoc="{}" ').format(kind, escape(page))
    style = "width: 100%; border: 1px solid #8884; border-radius: 4px; resize: vertical"
    return f'{start}style="height: {_TALL}px; {style}"></iframe>'


def comment(name: str, content: tuple[Any, ...]) -> str:
    """Return a result as Markdown that a comment holds; the parameters are those of `lines`."""
    return render_comment(build_document(name, *content))


def _short(blocks: Iterable[parts.Block | None]) -> list[parts.Block]:
    """Return the blocks that a short page shows."""
    return [
        replace(block, blocks=_short(block.blocks)) if isinstance(block, parts.Section) else block
        for block in blocks
        if block is not None and not isinstance(block, _LEFT_OUT)
    ]


def render_badge(verdict: str, told: str) -> str:
    """Return a badge for a README as an SVG file: calibrail, and what is told of a guardrail."""
    return _environment().get_template("badge.svg.j2").render(verdict=verdict, told=told)
