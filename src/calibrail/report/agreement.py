"""How do a judge's labels beside people's look in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_Dict = Mapping[str, Any]

_RATES = {
    "prevalence": "Hallucinated",
    "coverage": "Caught",
    "fpr": "False alarms (FPR)",
}
_METHODS = {
    "judge_only": "Judge only",
    "human_only": "Human only",
    "rogan_gladen": "Rogan-Gladen",
    "prediction_powered": "Pred.-powered",
}


def print_agreement(result: _Dict, console: Console) -> None:
    """Print the agreement, the four estimates side by side, and which to trust.

    Parameters
    ----------
    result : mapping
        ``JudgedRates.to_dict()``.
    console : rich.console.Console
        Where to print; 80 columns without colours are enough.
    """
    from calibrail.report import blocks

    blocks.paragraph(console, _heading(result), style="bold")
    _agreement(console, result)
    if sentence := _asymmetry(result["agreement"]["asymmetry"]):
        blocks.paragraph(console, sentence)
    _rates(console, result)
    assumed = result["rates"].get("coverage", result["rates"]["prevalence"])
    blocks.bullets(
        console,
        "What each takes for granted",
        [
            f"{name}: {assumed[method]['assumption']} ({assumed[method]['promise']})."
            for method, name in _METHODS.items()
        ],
    )
    blocks.bullets(console, "Missing or cut off", _missing(result))
    blocks.bullets(console, "Which to trust", _trust(result))
    blocks.bullets(console, "Warnings", result["warnings"], style="bold yellow")
    blocks.next_step(console, _next(result))


def _heading(result: _Dict) -> str:
    from calibrail.evaluation.stats.phrases import count, percent
    from calibrail.report.phrases import interval

    data, shared = result["data"], result["agreement"]["agreement"]
    labels = (
        f"{count(data['n'], 'labelled answer')}: {data['n_judge']:,} by the judge, "
        f"{data['n_human']:,} by people, {data['n_both']:,} by both."
    )
    if shared["estimate"] is None:
        return f"{labels} The judge cannot be compared with people."
    return (
        f"{labels} Judge and people agree on {percent(shared['estimate'])} of those "
        f"({interval(shared)})."
    )


def _agreement(console: Console, result: _Dict) -> None:
    from calibrail.evaluation.stats.phrases import percent
    from calibrail.report import blocks, phrases

    found = result["agreement"]
    table = blocks.table("The judge, where people have labelled, too")
    for name in ("", "Value", f"{percent(result['confidence'])} interval", "Counts"):
        table.add_column(name, justify="right" if name == "Value" else "left")
    names = (
        ("sensitivity", "Finds hallucinated (sensitivity)"),
        ("specificity", "Knows faithful (specificity)"),
    )
    for key, name in names:
        share = found[key]
        span = phrases.interval(share) if share["n"] else share["reason"]
        cells = (name, phrases.share(share), span, f"{share['count']:,} of {share['n']:,}")
        table.add_row(*(blocks.cell(cell) for cell in cells))
    kappa = found["kappa"]
    cells = ("Cohen's kappa", "none", kappa["reason"] or "", "")
    if kappa["estimate"] is not None:
        span = f"{kappa['lower']:.2f} to {kappa['upper']:.2f}"
        cells = ("Cohen's kappa", f"{kappa['estimate']:.2f}", span, "agreement beyond chance")
    table.add_row(*(blocks.cell(cell) for cell in cells))
    blocks.show(console, table)


def _asymmetry(found: _Dict) -> str:
    from calibrail.evaluation.stats.phrases import count

    judge, human = found["judge_alone"], found["human_alone"]
    if found["p_value"] is None:
        return ""
    counts = (
        f"Of {count(judge + human, 'disagreement')}, {judge:,} "
        f"{'is' if judge == 1 else 'are'} called hallucinated by the judge alone and {human:,} by "
        "people alone"
    )
    test = f"exact McNemar test, p = {found['p_value']:.2g}"
    if found["direction"] == "not shown":
        return f"{counts}: no sign that the judge leans one way ({test})."
    return f"{counts}: the judge calls hallucination {found['direction']} ({test})."


def _rates(console: Console, result: _Dict) -> None:
    from rich.text import Text

    from calibrail.evaluation.stats.phrases import percent
    from calibrail.report import blocks, phrases

    table = blocks.table(f"Four estimates, with {percent(result['confidence'])} intervals")
    table.add_column("")
    for name in _METHODS.values():
        table.add_column(name)
    for rate, title in _RATES.items():
        if rate not in result["rates"]:
            continue
        estimates = result["rates"][rate]
        cells = [blocks.cell(title)]
        for method in _METHODS:
            found = estimates[method]
            lines = ["none", ""]
            if found["estimate"] is not None:
                mark = " *" if estimates["trust"]["method"] == method else ""
                lines = [f"{percent(found['estimate'])}{mark}", phrases.interval(found)]
            cells.append(Text("\n".join(lines)))
        table.add_row(*cells)
    blocks.show(console, table)


def _missing(result: _Dict) -> list[str]:
    """Return why an estimate is missing or was cut off."""
    said = []
    for rate, title in _RATES.items():
        for method, name in _METHODS.items():
            found = result["rates"].get(rate, {}).get(method)
            if found is None:
                continue
            if found["estimate"] is None:
                said.append(f"{title}, {name}: {found['reason']}.")
            elif "estimate" in found["clipped"]:
                said.append(f"{title}, {name}: the value lay outside 0 to 100% and was cut off.")
    return said


def _trust(result: _Dict) -> list[str]:
    said = []
    for rate, title in _RATES.items():
        if rate not in result["rates"]:
            continue
        trust = result["rates"][rate]["trust"]
        name = "none of them" if trust["method"] is None else _METHODS[trust["method"]]
        said.append(f"{title}: {name}{' (*)' if trust['method'] else ''}; {trust['reason']}.")
    return said


def _next(result: _Dict) -> str:
    trusts = [rate["trust"]["method"] for rate in result["rates"].values()]
    if None in trusts:
        return "Draw rows at random, have people label them, and run this again."
    needed = max(rate["prediction_powered"]["n_needed"] or 0 for rate in result["rates"].values())
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
