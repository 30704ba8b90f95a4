"""How does a result look as one self-contained page?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.stats.phrases import number, percent
from calibrail.report import promises, story
from calibrail.report.errors_shown import error_view
from calibrail.report.figures import MOST_GROUPS
from calibrail.report.slider import embedded_json, operating_points, source_hash
from calibrail.report.untrusted import clean, short

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_Dict = Mapping[str, Any]


def render_html(
    report: _Dict,
    scores_hallucinated: NDArray[np.float64],
    scores_faithful: NDArray[np.float64],
    *,
    examples: _Dict | None = None,
) -> str:
    """Return a report as one HTML page that loads nothing.

    Light and dark follow the reader's preference; names, messages and texts are escaped and rid of
    characters that act unseen. The page's own content security policy forbids every script but the
    one that moves the slider, which it names by its hash. Without scripts the page says the same.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores_hallucinated, scores_faithful : ndarray of float64, shapes (m,) and (n,)
        Test scores per class for the figure; NaN (undefined) ones are left out.
    examples : mapping, optional
        The worst errors of the test part, ``Shown.to_dict()``.

    Returns
    -------
    str
        The page; the same input gives the same text.
    """
    from markupsafe import Markup

    from calibrail.report.pictures import draw_report, inline, marks_range

    classes = (scores_hallucinated, scores_faithful)
    figures: dict[str, dict[str, Markup]] = {}
    for size in ("wide", "narrow"):
        drawn = draw_report(report, *classes, narrow=size == "narrow")
        for figure, svg in drawn.items():
            limits = marks_range(report, figure, *classes)
            made = Markup(inline(svg, f"{figure}-{size}", limits))
            figures.setdefault(figure, {})[size] = made
    this = {
        **{key: report["test"][key] for key in ("coverage", "fpr", "auroc")},
        "name": report["score"]["name"],
        "threshold": None if report["by_group"] else report["threshold"],
        "this": True,
    }
    pages = environment()
    points = operating_points(report) if "curve" in figures else None
    script = pages.get_template("slider.js.j2").render() if points else ""
    return pages.get_template("report.html.j2").render(
        report=report,
        name=story.score_name(report),
        verdict=story.VERDICTS[report["verdict"]],
        threshold=story.threshold_sentence(report),
        next_step=story.next_step(report),
        measures=story.measures(report),
        details=story.details(report),
        assumptions=story.assumptions(report),
        detectors=[this, *report["detectors"]],
        rest={k: v for k, v in report["reproduce"].items() if k != "command"},
        figures=figures,
        points=_points(report["curve"]) if "curve" in figures else [],
        promises=promises,
        most_groups=MOST_GROUPS,
        errors=None if examples is None else _errors(examples),
        slider=Markup(embedded_json(points)) if points else None,
        threshold_in_use=bool(points and points["in_use"] is not None),
        last_point=len(points["points"]) - 1 if points else 0,
        script=Markup(script),
        script_hash=Markup(source_hash(script)) if points else "'none'",
    )  # fmt: skip


def _errors(examples: _Dict) -> dict[str, Any]:
    return {
        **examples,
        **{kind: [error_view(item) for item in examples[kind]] for kind in ("misses", "alarms")},
    }


def _points(curve: _Dict | None) -> list[dict[str, Any]]:
    """Return about a dozen operating points of the curve, one for each step of coverage."""
    if curve is None:
        return []
    found: dict[int, dict[str, Any]] = {}
    estimates = curve["coverage"]["estimate"]
    for index in range(len(estimates)):
        # The highest threshold of each step of five percentage points.
        found[int(20 * estimates[index])] = {
            "threshold": curve["thresholds"][index],
            **{
                name: {end: curve[name][end][index] for end in ("estimate", "lower", "upper")}
                for name in ("coverage", "fpr")
            },
        }
    return [found[step] for step in sorted(found, reverse=True) if step >= 8]


def environment() -> Environment:
    """Return where pages come from: everything escaped, every name known, nothing unseen."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("calibrail.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_clean,
    )
    made.filters.update(
        number=number,
        short=short,
        percent=percent,
        share=story.share,
        interval=story.interval,
        against=story.against,
        title_of=story.title,
        flat=lambda mapping: list(_flat(mapping)),
        options=_options,
        signs=lambda text: text.replace("<=", "≤").replace(">=", "≥"),
    )
    return made


def _clean(value: object) -> object:
    """Return what a template shows without characters that act unseen."""
    # What is markup already was cleaned before it was made.
    return clean(value) if type(value) is str else value


def _options(text: str) -> Markup:
    """Return escaped text in which no command line option is broken over two lines."""
    from markupsafe import Markup, escape

    option = re.compile(r"--[a-z][a-z-]*")
    return Markup(option.sub(r'<span class="option">\g<0></span>', str(escape(clean(text)))))


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of a mapping with their dotted path, lists as compact JSON."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, str):
        yield path, value
    else:
        yield path, json.dumps(value, ensure_ascii=False)
