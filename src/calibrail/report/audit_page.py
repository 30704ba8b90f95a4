"""How does an audit look as one self-contained page?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrail.evaluation.audit.wording import COMPONENTS, called, third
from calibrail.evaluation.stats.phrases import count
from calibrail.report.phrases import plain
from calibrail.report.render_html import _flat, _options, environment

_Dict = Mapping[str, Any]

#: What each verdict on a feature means, in a cell.
VERDICTS: Mapping[str, str] = {
    "explains": "explains it",
    "explains most": "explains most of it",
    "explains part": "explains part of it",
    "does not explain": "does not explain it",
    "cannot tell": "the data cannot tell",
    "nothing to explain": "nothing to explain",
    "is the score": "is the score itself",
}

#: What answers can share, and how it is said.
SHARED: Mapping[str, str] = {
    "question": "Distinct questions",
    "answer": "Distinct answers",
    "whole": "Distinct wholes (question, contexts and answer)",
}

#: What near-duplicates can lie apart in.
ACROSS: Mapping[str, str] = {
    "label": "with the other label",
    "group": "in another group",
    "split": "on another side of the split",
}


def render_audit_html(audit: _Dict, figures: Mapping[str, str]) -> str:
    """Return an audit as one HTML page that loads nothing and runs nothing.

    Parameters
    ----------
    audit : mapping
        ``Audit.to_dict()``.
    figures : mapping of str to str
        ``draw_audit(audit)``.

    Returns
    -------
    str
        The page; the same audit gives the same text. Names from the data are escaped, and
        characters that would turn the direction of the text are replaced.
    """
    from markupsafe import Markup

    pages = environment()
    pages.filters.update(
        plain=plain,
        estimate=estimate,
        interval=interval,
        flat=lambda mapping: [(plain(key), plain(item)) for key, item in _flat(mapping)],
        options=lambda text: _options(plain(text)),
        first=lambda text: plain(text)[:1].upper() + plain(text)[1:],
        p_value=p_value,
    )
    conclusions = audit["conclusions"]
    return pages.get_template("audit.html.j2").render(
        audit=audit,
        names=", ".join(plain(item["name"]) for item in audit["detectors"]),
        lead=conclusions[:1],
        more=conclusions[1:],
        figures={name: Markup(svg) for name, svg in figures.items()},
        rest={k: v for k, v in audit["reproduce"].items() if k != "command"},
        verdicts=VERDICTS,
        shared=SHARED,
        across=ACROSS,
        components=COMPONENTS,
        called=called,
        third=third,
        count=count,
    )  # fmt: skip


def estimate(value: _Dict, digits: int = 3) -> str:
    """Return a measure's estimate, or a word where there is none."""
    return "none" if value["estimate"] is None else f"{value['estimate']:.{digits}f}"


def interval(value: _Dict, digits: int = 3) -> str:
    """Return a measure's interval; nothing where there is none."""
    if value["lower"] is None or value["upper"] is None:
        return ""
    return f"{value['lower']:.{digits}f} to {value['upper']:.{digits}f}"


def p_value(value: float | None) -> str:
    """Return a p-value with two digits.

    >>> p_value(0.0312), p_value(3e-9)
    ('0.031', '< 0.001')
    """
    if value is None:
        return "none"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"
