"""How does a result look as one self-contained page?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.wording import number, percent
from calibrail.report import promises, story

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_Dict = Mapping[str, Any]


def render_html(
    report: _Dict,
    scores_hallucinated: NDArray[np.float64],
    scores_faithful: NDArray[np.float64],
) -> str:
    """Return a report as one HTML page that loads nothing and runs nothing.

    Light and dark follow the reader's preference; names and messages are escaped, and the page
    forbids scripts by its own content security policy.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores_hallucinated, scores_faithful : ndarray of float64, shapes (m,) and (n,)
        Test scores per class for the figure; NaN (undefined) ones are left out.

    Returns
    -------
    str
        The page; the same input gives the same text.
    """
    from markupsafe import Markup

    from calibrail.report.figures import distributions_svg

    figure = distributions_svg(
        scores_hallucinated, scores_faithful, report["threshold"], str(report["score"]["name"])
    )
    this = {
        **{key: report["test"][key] for key in ("coverage", "fpr", "auroc")},
        "name": report["score"]["name"],
        "threshold": None if report["by_group"] else report["threshold"],
        "this": True,
    }
    return _environment().get_template("report.html.j2").render(
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
        figure=Markup(figure),
        curve=Markup(_curve(report)),
        points=_points(report["curve"]),
        promises=promises,
    )  # fmt: skip


def _curve(report: _Dict) -> str:
    from calibrail.report.figures import curve_svg

    test = report["test"]
    if report["curve"] is None or None in (test["fpr"]["estimate"], test["coverage"]["estimate"]):
        return ""
    return curve_svg(report["curve"], test, report["max_fpr"])


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


def render_compare_html(comparison: _Dict) -> str:
    """Return a comparison as one HTML page: finding, intervals of the FPR, table, warnings.

    Parameters
    ----------
    comparison : mapping
        ``Comparison.to_dict()``.
    """
    from markupsafe import Markup

    from calibrail.report.figures import intervals_svg

    detectors = [
        {**item, **{key: item["test"][key] for key in ("coverage", "fpr", "auroc")}, "reason": None}
        for item in comparison["detectors"]
    ]
    first = detectors[0] if detectors else None
    drawn = [*detectors, *({**row, "baseline": True} for row in comparison["baselines"])]
    return _environment().get_template("compare.html.j2").render(
        comparison=comparison,
        first=first,
        detectors=[*detectors, *comparison["uncalibrated"]],
        warned=[item for item in detectors if item["warnings"]],
        rest={k: v for k, v in comparison["reproduce"].items() if k != "command"},
        figure=Markup(intervals_svg(drawn, first["max_fpr"] if first else None)),
    )  # fmt: skip


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("calibrail.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        number=number,
        percent=percent,
        share=story.share,
        interval=story.interval,
        against=story.against,
        title_of=story.title,
        flat=lambda mapping: list(_flat(mapping)),
        options=_options,
        signs=lambda text: text.replace("<=", "≤").replace(">=", "≥"),
    )
    return environment


def _options(text: str) -> Markup:
    """Return escaped text in which no command line option is broken over two lines."""
    from markupsafe import Markup, escape

    option = re.compile(r"--[a-z][a-z-]*")
    return Markup(option.sub(r'<span class="option">\g<0></span>', str(escape(text))))


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of a mapping with their dotted path, lists as compact JSON."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, str):
        yield path, value
    else:
        yield path, json.dumps(value, ensure_ascii=False)
