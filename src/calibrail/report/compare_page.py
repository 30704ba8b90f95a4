"""How does a comparison look as one self-contained page?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrail.report import compare_story
from calibrail.report.compare_figures import detectors_drawn, draw_compare
from calibrail.report.render_html import environment
from calibrail.report.svg import inline

_Dict = Mapping[str, Any]


def render_compare_html(
    comparison: _Dict, cost: _Dict | None = None, figures: Mapping[str, str] | None = None
) -> str:
    """Return a comparison as one HTML page that loads nothing and runs nothing.

    Light and dark follow the reader's preference; names and messages are escaped, and the page
    forbids scripts by its own content security policy.

    Parameters
    ----------
    comparison : mapping
        ``Comparison.to_dict()``.
    cost : mapping, optional
        The content of ``cost.json``. Its times are measured, so only the page shows them.
    figures : mapping of str to str, optional
        ``draw_compare(comparison)``, where it was drawn already.

    Returns
    -------
    str
        The page; the same input gives the same text.
    """
    from markupsafe import Markup

    detectors = [
        {**item, **{key: item["test"][key] for key in ("coverage", "fpr", "auroc", "overlap")}}
        | {"reason": None}
        for item in comparison["detectors"]
    ]
    wide = draw_compare(comparison) if figures is None else figures
    drawn = {
        name: [
            (width, Markup(inline(svg, f"{width}-{name}")))  # drawn here, names escaped by it
            for width, svg in (("wide", wide[name]), ("narrow", narrow))
        ]
        for name, narrow in draw_compare(comparison, narrow=True).items()
    }
    paired, winner = comparison["paired"], comparison["winner"]
    notes = [
        note for entry in comparison["alpha_sweep"] if (note := compare_story.sweep_note(entry))
    ]
    return environment().get_template("compare.html.j2").render(
        comparison=comparison,
        winner=winner,
        said=compare_story,
        first=detectors[0] if detectors else None,
        detectors=[*detectors, *comparison["uncalibrated"]],
        warned=[item for item in detectors if item["warnings"]],
        figures=drawn,
        shown=detectors_drawn(comparison),
        families=[
            (winner["candidate"], paired["against_best"]),
            (winner["best_baseline"], paired["against_best_baseline"]),
        ],
        sweep_notes=[note for note in notes if note],
        costs=compare_story.cost_rows(comparison, cost) if cost else [],
        rest={k: v for k, v in comparison["reproduce"].items() if k != "command"},
    )  # fmt: skip
