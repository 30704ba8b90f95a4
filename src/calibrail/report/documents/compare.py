"""What does `calibrail compare` say about several detectors?"""

from collections.abc import Sequence
from functools import partial

from calibrail.phrases import percent
from calibrail.report.blocks import (
    Block,
    Bullet,
    Bullets,
    Figure,
    Folded,
    Json,
    Section,
    Text,
    listing,
)
from calibrail.report.compare_figures import forest_svg
from calibrail.report.document import Document, Verdict
from calibrail.report.documents.calibrate_words import title
from calibrail.report.documents.compare_advice import assumptions, next_step
from calibrail.report.documents.compare_cost import cost_section
from calibrail.report.documents.compare_finding import finding, headline
from calibrail.report.documents.compare_scores import (
    all_scores,
    confidence_percent,
    on_answers_that_did_not_choose,
    paired_tests,
)
from calibrail.report.documents.compare_targets import at_same_coverage, other_targets
from calibrail.report.phrases import plain


def document(comparison: Json, cost: Json | None = None) -> Document:
    """Return what a comparison says.

    Parameters
    ----------
    comparison : mapping
        The content of ``compare.json``.
    cost : mapping, optional
        The content of ``cost.json``. Its times are measured, so only the page shows them.
    """
    detectors, winner = comparison["detectors"], comparison["winner"]
    verdict: Verdict = winner["certificate"]["verdict"] if winner["confirmed"] else ""
    lead, text = headline(comparison), plain(finding(comparison))
    rest = text.removeprefix(f"{plain(lead)}: ")
    target = ""
    if detectors:
        first = detectors[0]
        target = f"at {percent(1 - first['alpha'])} caught, guarantee {first['guarantee']}"
    return Document(
        "comparison",
        subject=target,
        headline=lead,
        verdict=verdict,
        summary=f"{rest[:1].upper()}{rest[1:]}",
        brief=text,
        blocks=(
            Text(_split(comparison)),
            _forest(comparison),
            all_scores(comparison),
            paired_tests(comparison),
            on_answers_that_did_not_choose(comparison),
            at_same_coverage(comparison),
            other_targets(comparison),
            None if cost is None else cost_section(comparison, cost),
            *_warnings(detectors),
            listing("What the claims rest on", assumptions(comparison), where="page"),
        ),
        next_step=next_step(comparison),
        reproduce=comparison["reproduce"],
        data=comparison["data"],
        footer="Every number on this page but the measured times is in compare.json; the figures "
        "are in figures/.",
    )


def _split(comparison: Json) -> str:
    """Say which answers calibrate, which choose and which confirm."""
    if not comparison["detectors"]:
        return ""
    first, halves = comparison["detectors"][0], comparison["winner"]["halves"]
    return (
        f"Same split for all: {first['n_calibration']:,} hallucinated answers set each threshold "
        f"(guarantee: {first['guarantee']}), {_classes(first['test'])} test it. To choose, "
        f"calibration answers and half of the test part serve together "
        f"({_classes(halves['choosing'])}); the other half ({_classes(halves['confirming'])}) "
        "confirms."
    )


def _classes(counts: Json) -> str:
    return f"{counts['n_hallucinated']:,} hallucinated and {counts['n_faithful']:,} faithful"


def _forest(comparison: Json) -> Section | None:
    detectors = comparison["detectors"]
    if not detectors:
        return None
    limit = "" if detectors[0]["max_fpr"] is None else "; dashed: the accepted limit"
    caption = (
        f"On the whole test part, with {confidence_percent(comparison)} intervals of each score by "
        "itself. First the faithful answers flagged at each score's own threshold (fewer is better"
        f"{limit}), then AUROC (dotted: guessing). Grey: baselines."
    )
    return Section(
        "False alarms and ranking", (Figure("forest", partial(forest_svg, comparison), caption),)
    )


def _warnings(detectors: Sequence[Json]) -> list[Block]:
    """Return warnings in a few words for a terminal, and folded by detector for the page."""
    warned = [
        (item, f"{item['name']}: {'; '.join(title(w['code']) for w in item['warnings'])}")
        for item in detectors
        if item["warnings"]
    ]
    folded = [
        Folded(
            heading,
            (Bullets(heading, [Bullet(w["message"]) for w in item["warnings"]], "warning"),),
        )
        for item, heading in warned
    ]
    return [
        Bullets("Warnings", [text for _, text in warned], "warning", where="terminal"),
        Section("Warnings", folded, where="page"),
    ]
