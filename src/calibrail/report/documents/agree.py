"""What does `calibrail agree` say about a judge's labels beside people's?"""

import shlex
from collections.abc import Iterator
from typing import Final

from calibrail.phrases import count, percent
from calibrail.report import blocks as parts
from calibrail.report.blocks import Json
from calibrail.report.document import Document
from calibrail.report.documents.part_words import part_note
from calibrail.report.phrases import bounds, count_of, estimate, interval, share

_RATES: Final = {"prevalence": "Hallucinated", "coverage": "Caught", "fpr": "False alarms (FPR)"}
_JUDGED: Final = {
    "sensitivity": "Finds hallucinated (sensitivity)",
    "specificity": "Knows faithful (specificity)",
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
    return Document(
        "agreement of",
        subject="judge and people",
        headline=_headline(result),
        blocks=(_agreement(result), *_estimates(result)),
        warnings=[parts.Bullet(text) for text in result["warnings"]],
        notes=part_note(result["data"].get("part")),
        next_step=_next_step(result),
        data=result["data"],
    )


def _headline(result: Json) -> str:
    data, agreed = result["data"], result["agreement"]["agreement"]
    labels = (
        f"{count(data['n'], 'labelled answer')}: {data['n_judge']:,} by the judge, "
        f"{data['n_human']:,} by people, {data['n_both']:,} by both."
    )
    if agreed["estimate"] is None:
        return f"{labels} The judge cannot be compared with people."
    return f"{labels} Judge and people agree on {share(agreed)} of those ({interval(agreed)})."


def _agreement(result: Json) -> parts.Section:
    """Show how far the judge agrees with people, and which way it leans."""
    agreement = result["agreement"]
    rows = []
    for key, name in _JUDGED.items():
        rate = agreement[key]
        span = interval(rate) if rate["n"] else rate["reason"]
        rows.append((name, share(rate), span, count_of(rate)))
    kappa = agreement["kappa"]
    span, beyond = kappa["reason"] or "", ""
    if kappa["estimate"] is not None:
        span, beyond = bounds(kappa, 2), "agreement beyond chance"
    rows.append(("Cohen's kappa", estimate(kappa, 2), span, beyond))
    heads = parts.texts(f"{percent(result['confidence'])} interval", "Counts")
    columns = (parts.Column("Measure", brief=""), parts.Column("Value", "right"), *heads)
    title = "The judge, where people have labelled, too"
    return parts.section(
        title, parts.Table(title, columns, rows), parts.Text(_leaning(agreement["asymmetry"]))
    )


def _leaning(asymmetry: Json) -> str:
    """Say whether the judge calls hallucination more or less often than people do."""
    if asymmetry["p_value"] is None:
        return ""
    judge, human = asymmetry["judge_alone"], asymmetry["human_alone"]
    leans = f"the judge calls hallucination {asymmetry['direction']}"
    if asymmetry["direction"] == "not shown":
        leans = "no sign that the judge leans one way"
    return (
        f"Of {count(judge + human, 'disagreement')}, {judge:,} {'is' if judge == 1 else 'are'} "
        f"called hallucinated by the judge alone and {human:,} by people alone: {leans} "
        f"(exact McNemar test, p = {asymmetry['p_value']:.2g})."
    )


def _estimates(result: Json) -> Iterator[parts.Block]:
    """Yield the four estimates of each rate, what they assume and lack, and which to trust."""
    rows: list[parts.Row] = []
    missing, trusted = [], []
    for key, rate in result["rates"].items():
        title, trust, cells = _RATES[key], rate["trust"], []
        for method, name in _METHODS.items():
            value = rate[method]
            mark = " *" if trust["method"] == method and value["estimate"] is not None else ""
            cells.append(parts.Cell(f"{share(value)}{mark}", interval(value)))
            if value["estimate"] is None:
                missing.append(f"{title}, {name}: {value['reason']}.")
            elif "estimate" in value["clipped"]:
                cut_off = "the value lay outside 0 to 100% and was cut off"
                missing.append(f"{title}, {name}: {cut_off}.")
        rows.append((title, *cells))
        best = "none of them" if trust["method"] is None else f"{_METHODS[trust['method']]} (*)"
        trusted.append(f"{title}: {best}; {trust['reason']}.")
    title = f"Four estimates, with {percent(result['confidence'])} intervals"
    columns = (parts.Column("Rate", brief=""), *parts.texts(*_METHODS.values()))
    yield parts.section(title, parts.Table(title, columns, rows, two_lines=True))
    assumed = result["rates"].get("coverage", result["rates"]["prevalence"])
    yield parts.Bullets(
        "What each takes for granted",
        [
            f"{name}: {assumed[method]['assumption']} ({assumed[method]['promise']})."
            for method, name in _METHODS.items()
        ],
    )
    yield parts.Bullets("Missing or cut off", missing)
    yield parts.Bullets("Which to trust", trusted)


def _next_step(result: Json) -> str:
    if any(rate["trust"]["method"] is None for rate in result["rates"].values()):
        return "Draw rows at random, have people label them, and run this again."
    if result["flag"] is None:
        return "Name what flags answers (--guardrail, or --score-column) to get its rates, too."
    command = "calibrail certify on human labels alone"
    if "guardrail" in result["flag"]:
        column = shlex.quote(result["columns"]["human"])
        command += f", e.g. calibrail certify GUARDRAIL DATA --label-column {column} --max-fpr 0.2"
    return f"These intervals describe; a verdict needs exact ones: {command}."
