"""What does `calibrail agree` say about a judge's labels beside people's?"""

from collections.abc import Iterator, Sequence
from typing import Final

from calibrail.phrases import count, percent
from calibrail.report.blocks import (
    Bullet,
    Bullets,
    Cell,
    Column,
    Json,
    Section,
    Table,
    Text,
    texts,
)
from calibrail.report.document import Document
from calibrail.report.phrases import bounds, count_of, interval, share

_RATES: Final = {
    "prevalence": "Hallucinated",
    "coverage": "Caught",
    "fpr": "False alarms (FPR)",
}
_METHODS: Final = {
    "judge_only": "Judge only",
    "human_only": "Human only",
    "rogan_gladen": "Rogan-Gladen",
    "prediction_powered": "Pred.-powered",
}


def document(result: Json) -> Document:
    """Return the agreement, the four estimates side by side, and which to trust.

    Parameters
    ----------
    result : mapping
        What ``calibrail agree --json`` prints.
    """
    title = "What each takes for granted"
    assumed = result["rates"].get("coverage", result["rates"]["prevalence"])
    return Document(
        "agreement of",
        subject="judge and people",
        headline=_headline(result),
        blocks=(
            _agreement(result),
            _rates(result),
            Bullets(
                title,
                [
                    f"{name}: {assumed[method]['assumption']} ({assumed[method]['promise']})."
                    for method, name in _METHODS.items()
                ],
            ),
            Bullets("Missing or cut off", list(_missing(result))),
            Bullets("Which to trust", list(_trust(result))),
        ),
        warnings=[Bullet(text) for text in result["warnings"]],
        next_step=_next_step(result),
        data=result["data"],
        footer="Every number on this page is in what --json prints.",
    )


def _headline(result: Json) -> str:
    data, agreement = result["data"], result["agreement"]["agreement"]
    labels = (
        f"{count(data['n'], 'labelled answer')}: {data['n_judge']:,} by the judge, "
        f"{data['n_human']:,} by people, {data['n_both']:,} by both."
    )
    if agreement["estimate"] is None:
        return f"{labels} The judge cannot be compared with people."
    return (
        f"{labels} Judge and people agree on {percent(agreement['estimate'])} of those "
        f"({interval(agreement)})."
    )


def _agreement(result: Json) -> Section:
    """Show how far the judge agrees with people, and which way it leans."""
    agreement = result["agreement"]
    rows = []
    for key, name in (
        ("sensitivity", "Finds hallucinated (sensitivity)"),
        ("specificity", "Knows faithful (specificity)"),
    ):
        rate = agreement[key]
        span = interval(rate) if rate["n"] else rate["reason"]
        rows.append((name, share(rate), span, count_of(rate)))
    kappa = agreement["kappa"]
    if kappa["estimate"] is None:
        rows.append(("Cohen's kappa", "none", kappa["reason"] or "", ""))
    else:
        value = f"{kappa['estimate']:.2f}"
        rows.append(("Cohen's kappa", value, bounds(kappa, 2), "agreement beyond chance"))
    columns = (
        Column("Measure", brief=""),
        Column("Value", "right"),
        Column(f"{percent(result['confidence'])} interval"),
        Column("Counts"),
    )
    title = "The judge, where people have labelled, too"
    return Section(title, (Table(title, columns, rows), Text(_leaning(agreement["asymmetry"]))))


def _leaning(asymmetry: Json) -> str:
    """Say whether the judge calls hallucination more or less often than people do."""
    judge, human = asymmetry["judge_alone"], asymmetry["human_alone"]
    if asymmetry["p_value"] is None:
        return ""
    counts = (
        f"Of {count(judge + human, 'disagreement')}, {judge:,} "
        f"{'is' if judge == 1 else 'are'} called hallucinated by the judge alone and {human:,} by "
        "people alone"
    )
    test = f"exact McNemar test, p = {asymmetry['p_value']:.2g}"
    if asymmetry["direction"] == "not shown":
        return f"{counts}: no sign that the judge leans one way ({test})."
    return f"{counts}: the judge calls hallucination {asymmetry['direction']} ({test})."


def _rates(result: Json) -> Section:
    title = f"Four estimates, with {percent(result['confidence'])} intervals"
    rows: list[Sequence[Cell | str]] = []
    for rate, name in _known_rates(result):
        cells = []
        for method in _METHODS:
            value = rate[method]
            if value["estimate"] is None:
                cells.append(Cell("none"))
                continue
            mark = " *" if rate["trust"]["method"] == method else ""
            cells.append(Cell(f"{percent(value['estimate'])}{mark}", interval(value)))
        rows.append((name, *cells))
    columns = (Column("Rate", brief=""), *texts(*_METHODS.values()))
    return Section(title, (Table(title, columns, rows, two_lines=True),))


def _known_rates(result: Json) -> Iterator[tuple[Json, str]]:
    for rate, name in _RATES.items():
        if rate in result["rates"]:
            yield result["rates"][rate], name


def _missing(result: Json) -> Iterator[str]:
    """Yield why an estimate is missing or was cut off."""
    for rate, title in _known_rates(result):
        for method, name in _METHODS.items():
            value = rate[method]
            if value["estimate"] is None:
                yield f"{title}, {name}: {value['reason']}."
            elif "estimate" in value["clipped"]:
                yield f"{title}, {name}: the value lay outside 0 to 100% and was cut off."


def _trust(result: Json) -> Iterator[str]:
    for rate, title in _known_rates(result):
        trust = rate["trust"]
        name = "none of them" if trust["method"] is None else f"{_METHODS[trust['method']]} (*)"
        yield f"{title}: {name}; {trust['reason']}."


def _next_step(result: Json) -> str:
    rates = result["rates"].values()
    if any(rate["trust"]["method"] is None for rate in rates):
        return "Draw rows at random, have people label them, and run this again."
    needed = max(rate["prediction_powered"]["n_needed"] or 0 for rate in rates)
    if needed:
        return (
            f"For the corrected estimate have about {needed:,} rows in all labelled by people, "
            "drawn at random."
        )
    if result["flag"] is None:
        return "Name what flags answers (--guardrail, or --score-column) to get its rates, too."
    return (
        "These intervals describe; a verdict needs exact ones: calibrail certify on human labels "
        "alone."
    )
