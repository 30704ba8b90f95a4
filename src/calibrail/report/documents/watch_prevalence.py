"""What does a watch say of the share of hallucinated answers, and what does each way rest on?"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from calibrail.report import blocks as parts
from calibrail.report import watch_figures as figures
from calibrail.report.blocks import Json
from calibrail.report.documents import watch_words as words
from calibrail.report.phrases import interval, plain

#: The ways to tell it.
_NAMES: Final[Mapping[str, str]] = {
    "flags": "From flags alone",
    "labels": "From labels",
    "judge": "With a judge",
}

_RESTS_ON: Final = {"flags": "within_class_scores", "labels": "audited", "judge": "judge"}


def section(status: Json) -> parts.Section:
    """Return the share of hallucinated answers in each way that tells it, over time, too."""
    prevalence = status["prevalence"]
    title = "How many hallucinations are there?"
    rows = [
        (
            parts.Cell(_NAMES[name], style="strong" if name == prevalence["method"] else ""),
            interval(prevalence[name]),
            _basis(prevalence[name], _RESTS_ON[name]),
        )
        for name in _NAMES
        if prevalence.get(name)
    ]
    return parts.section(
        title,
        parts.Table(title, (*parts.texts("How"), *parts.texts("Share", "What it rests on")), rows),
        *(parts.Text(text) for text in _notes(prevalence)),
        parts.Figure(
            "prevalence",
            partial(figures.prevalence_svg, status),
            "Bounds of the share of hallucinated answers in each period.",
        )
        if prevalence["periods"]
        else None,
    )


def _basis(way: Json, code: str) -> str:
    """Say what a way rests on; why it tells nothing; and what a judge has saved."""
    if reason := way.get("reason"):
        return f"nothing follows: {words.REASONS.get(reason, plain(reason))}"
    if "saved" not in way:
        return words.ASSUMPTIONS[code]
    saved = way["saved"]
    spared = (
        "how many labels it saves cannot be told"
        if saved is None
        else f"people alone would have to label {saved:,} more answers for an interval as narrow"
        if saved
        else "it saves no label: people's alone give an interval as narrow"
    )
    return f"{words.ASSUMPTIONS[code]}; {spared}"


def _notes(prevalence: Json) -> Iterator[str]:
    """Yield what else is to be known of a way's interval."""
    for name in _NAMES:
        for code in (prevalence.get(name) or {}).get("notes", ()):
            yield words.NOTES.get(code, plain(code))
