"""How does a document look as one self-contained page?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from calibrail.phrases import count, number
from calibrail.report.blocks import Figure, Slider, Table
from calibrail.report.document import Document, all_blocks
from calibrail.report.phrases import JOINT
from calibrail.report.sanitize import clean, short
from calibrail.report.slider import embedded_json, source_hash
from calibrail.report.svg import inline

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(document: Document) -> str:
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
    blocks = list(all_blocks(document.blocks))
    sliders = [block for block in blocks if isinstance(block, Slider)]
    needed = {
        "slider.js.j2": bool(sliders),
        "sort.js.j2": any(isinstance(block, Table) and block.sortable for block in blocks),
    }
    scripts = [pages.get_template(name).render() for name, is_needed in needed.items() if is_needed]
    return pages.get_template("page.html.j2").render(
        page=document,
        points=Markup(embedded_json(sliders[0].points)) if sliders else None,
        scripts=[Markup(script) for script in scripts],
        script_hashes=Markup(" ".join(map(source_hash, scripts)) or "'none'"),
    )


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
        finalize=_clean,
    )
    environment.filters.update(
        short=short,
        flat=lambda mapping: list(_flat(mapping)),
        joints=_joints,
        parted=_parted,
        options=_options,
        signs=_signs,
        answers=lambda n: count(n, "answer"),
    )
    environment.globals["svg"] = _svg
    return environment


def _clean(value: object) -> object:
    """Return what a template shows without characters that act unseen."""
    # What is markup already was cleaned before it was made.
    return clean(value) if type(value) is str else value


def _svg(figure: Figure, size: str) -> Markup:
    """Return a figure for one width; its names were escaped when it was drawn."""
    return Markup(inline(figure.svg(size == "narrow"), f"{figure.name}-{size}", figure.limits))


def _parted(leaves: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], ...]:
    """Return what every reader asks of the data, and the rest."""
    first = ("source", "format", "sha256", "n", "n_examples", "n_hallucinated")
    return tuple([leaf for leaf in leaves if (leaf[0] in first) is top] for top in (True, False))


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
    """Return escaped text in which no command line option is broken over two lines."""
    option = re.compile(r"--[a-z][a-z-]*")
    return Markup(option.sub(r'<span class="option">\g<0></span>', str(escape(clean(text)))))


def _signs(text: str) -> str:
    """Return what was asked with the sign that a keyboard lacks."""
    return re.sub(r"^([<>])= (?=\d)", lambda sign: "≤ " if sign[1] == "<" else "≥ ", text)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves that hold anything with their dotted path, lists as compact JSON."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, str):
        yield path, value
    elif isinstance(value, float):
        yield path, number(value, 6)
    elif value is not None and value != []:
        yield path, json.dumps(value, ensure_ascii=False)
