"""What do labels say so far about a frozen guardrail, and how many more will it take?"""

from functools import partial
from math import exp
from typing import Final

from calibrail.phrases import count, number, percent
from calibrail.report import blocks as parts
from calibrail.report.blocks import Json
from calibrail.report.document import Document
from calibrail.report.documents import label_ahead as ahead
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate_words import VERDICTS
from calibrail.report.labels_figure import BETS, intervals_svg, wealth_svg
from calibrail.report.phrases import bounds, capital, count_of, estimate, interval, plain, share

#: What each bet that is won, or neither, says.
_SHOWN: Final = {
    "coverage_shown": "it is shown that enough is caught ({})",
    "coverage_refuted": "it is shown that too little is caught",
    "coverage_open": "it is open whether enough is caught",
    "fpr_shown": "it is shown that false alarms are few enough ({})",
    "fpr_refuted": "it is shown that false alarms are too many",
    "fpr_open": "it is open whether false alarms are few enough",
}


def document(certificate: Json, *, guardrail: str = "the guardrail") -> Document:
    """Return the verdict so far, what it rests on, and what is still to do.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --labels --json`` prints.
    guardrail : str
        What the guardrail is called.
    """
    verdict, found = certificate["verdict"], certificate["sequential"]
    ends = _ends(found)
    lines = _rates(certificate)
    return Document(
        "certificate of",
        subject=guardrail,
        headline=verdict.capitalize(),
        verdict=verdict,
        summary=f"{VERDICTS[verdict]} {certificate['reason']}",
        tiles=(
            _tile("Caught", lines[0], ends.get("coverage")),
            _tile("False alarms", lines[1], ends.get("fpr")),
            parts.Tile("Labelled", f"{found['labelled']:,}", ahead.more(certificate)),
        ),
        blocks=(
            parts.section(
                "On the labels so far",
                measures.rates_figure(certificate, certificate),
                measures.table("On the labels so far", lines, certificate["confidence"]),
                parts.Text(_how_sure(certificate)),
                parts.Text(ahead.foreseen(certificate), "strong"),
            ),
            _bets(found),
            _course(certificate),
            _agreement(found),
            _labels(found),
        ),
        warnings=[parts.Bullet(text) for text in certificate["warnings"]],
        next_step=ahead.next_step(certificate),
        data=certificate["data"],
    )


def reason(found: Json, labels: Json) -> str:
    """Say why the verdict is what it is.

    Parameters
    ----------
    found : mapping
        A ``SequentialCertificate``.
    labels : mapping
        How many answers have which final label.
    """
    ends = _ends(found)
    sides = [_SHOWN[code].format(ends.get(code.split("_")[0])) for code in found["reasons"]]
    text = f"{capital(sides[0])}; {sides[1]}."
    if found["decided"] is not None:
        text += f" The verdict fell with the {_ordinal(found['decided']['labelled'])} label."
    if n := labels["unsure"]:
        text += (
            f" {count(n, 'unsure answer counts', 'unsure answers count')} against either verdict."
        )
    return text


def warnings(certificate: Json) -> list[str]:
    """Say what weakens a verdict from labels, or holds it up."""
    found, texts = certificate["sequential"], []
    held = found["held_up"]
    if held["final"]:
        why = [
            count(held["open"], "answer without its label", "answers without their labels"),
            count(held["disagreements"], "disagreement"),
        ]
        named = " and ".join(
            text for text, n in zip(why, (held["open"], held["disagreements"]), strict=True) if n
        )
        texts.append(
            f"{count(held['final'], 'label does', 'labels do')} not count yet: answers count in "
            f"the order they were drawn, and before {'it' if held['final'] == 1 else 'them'} "
            f"{'is' if held['open'] + held['disagreements'] == 1 else 'are'} {named}; label what "
            "is open (calibrail label), or settle (--settle)"
        )
    if n := found["n_skipped"]:
        texts.append(
            f"{count(n, 'answer')} {'was' if n == 1 else 'were'} skipped and "
            f"{'waits' if n == 1 else 'wait'} for a label"
        )
    share_unsure = found["n_unsure"] / max(1, found["labelled"])
    if share_unsure > 0.05:
        texts.append(
            f"{percent(share_unsure)} of the labels are unsure, and count against either verdict: "
            "say in the instructions what counts as hallucinated, and settle what can be"
        )
    kappa = (found["agreement"] or {}).get("kappa") or {}
    if kappa.get("upper") is not None and kappa["upper"] < 0.6:
        texts.append(
            f"two annotators agree little beyond chance (kappa {estimate(kappa)}, "
            f"{bounds(kappa)}): the verdict is about labels that another person would not give"
        )
    if found["withheld"] and found["verdict"] == "inconclusive":
        texts.append(
            "these answers were looked at before, so nothing will be certified on them, however "
            "labelling goes on; they may still show that the guardrail is rejected"
        )
    if n := certificate["n_undefined"]:
        texts.append(f"the guardrail gave {count(n, 'answer')} no score")
    return texts


def _ends(found: Json) -> dict[str, str]:
    """Return what is shown of each rate that a bet has shown to keep what was asked."""
    ends = {
        "coverage": f"at least {percent(found['coverage_at_least'])}",
        "fpr": f"at most {percent(found['fpr_at_most'])}",
    }
    return {name: end for name, end in ends.items() if f"{name}_shown" in found["reasons"]}


def _tile(name: str, line: measures.Line, end: str | None) -> parts.Tile:
    """Return a rate with what is shown of it, or with its interval while nothing is."""
    return parts.Tile(name, line[1], f"shown: {end}" if end else line[2], line[3])


def _rates(certificate: Json) -> list[measures.Line]:
    """Return both rates; weighted, they are other numbers than the counts beside them."""
    ends, lines = _ends(certificate["sequential"]), []
    for name, line in zip(
        ("coverage", "fpr"), measures.rates(certificate, certificate), strict=True
    ):
        counts = line[4]
        if certificate[name]["method"] == "betting":
            counts = f"weighted; {count_of(certificate[name])} labelled"
        if end := ends.get(name):
            counts += f"; shown: {end}"
        lines.append((*line[:4], counts))
    return lines


def _ordinal(n: int) -> str:
    tens = n % 100 // 10 == 1
    return f"{n:,}{'th' if tens else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def _how_sure(certificate: Json) -> str:
    method = certificate["coverage"]["method"]
    if _ends(certificate["sequential"]):
        shown = (
            ' "Certified" needs one end of each, which reaches less far by itself than the two '
            "ends together: what is shown holds with the same confidence, at all times, too."
        )
    else:
        shown = ""
    weighted = (
        " Labels weigh by the probability with which they were drawn; ends are rounded outwards to "
        "whole percents."
        if method == "betting"
        else ""
    )
    sure = certificate["confidence"]
    return (
        f"The intervals are confidence sequences: each holds with {percent(sure)}, at all times "
        "together, however often one looks. A wrong verdict of either kind ever falls with a "
        f"probability of at most {percent(1.0 - sure)}.{shown}{weighted}"
    )


def _bets(found: Json) -> parts.Section:
    """Show what each bet has won, beside what it has to win."""
    rows: list[parts.Row] = []
    for name, (meaning, _, good) in BETS.items():
        won, goal = found["log_wealth"][name], found["kept_at" if good else "broken_at"]
        verdict = "certified needs both" if good else "rejected needs one"
        rows.append((meaning, _wealth(won), f"{exp(goal):,.0f}", verdict))
    title = "Bets on what the labels show"
    columns = (
        parts.Column("A bet that"),
        *parts.numbers("Has won", "Has to win"),
        parts.Column("For"),
    )
    text = (
        "Each bet begins with 1 and can grow only by chance where what it is on is not so: to win "
        "w-fold then has a probability of at most 1 in w, at any time. What counts is the most won "
        "so far."
    )
    return parts.section(title, parts.Table(title, columns, rows), parts.note(text))


def _wealth(log_wealth: float) -> str:
    return "> 10^9" if log_wealth > 20.72 else number(exp(log_wealth), 3)


def _course(certificate: Json) -> parts.Section | None:
    found = certificate["sequential"]
    course = found["course"]
    if len(course["labelled"]) < 2:
        return None
    return parts.section(
        "Over the labels",
        parts.Figure(
            "wealth",
            partial(wealth_svg, course, found),
            "What the four bets have won at most (logarithmic). Dotted: what they have to win, "
            "green for certified, red for rejected.",
        ),
        parts.Figure(
            "intervals",
            partial(intervals_svg, course, certificate),
            "Estimates and confidence sequences of both rates. Dashed: what was asked.",
        ),
        where="page",
    )


def _agreement(found: Json) -> parts.Section | None:
    """Show how far two people agree who labelled the same answers."""
    both = found["agreement"]
    if both is None:
        return None
    title = "Two annotators on the same answers"
    agreed, kappa = both["agreed"], both["kappa"]
    said = (
        f"{estimate(kappa)} ({bounds(kappa)})"
        if kappa["estimate"] is not None
        else f"none ({plain(kappa['reason'])})"
    )
    facts = [
        ("Answers", f"{both['n']:,}"),
        ("Same label", f"{share(agreed)} ({interval(agreed)})" if agreed["n"] else "none"),
        ("Cohen's kappa", said),
        ("Either unsure", f"{both['unsure']:,}"),
        ("Disagreements open", f"{both['open']:,}"),
        ("Settled", f"{both['settled']:,}"),
        ("Settled by one of the two", f"{both['settled_by_one_of_them']:,}"),
    ]
    columns = (parts.Column("Measure"), parts.Column("Value", "right"))
    return parts.section(title, parts.Table(title, columns, facts))


def _labels(found: Json) -> parts.Section:
    """Show what was drawn and what became of it."""
    title, labels = "How it was labelled", found["labels"]
    design = found["drawing"]["design"]
    how = {"uniform": "every answer drawn", "active": "by a guess, with known probabilities"}
    facts = [
        ("Drawn", f"{found['n_drawn']:,}"),
        ("Final labels", f"{sum(labels.values()):,}"),
        *((capital(name), f"{labels[name]:,}") for name in ("hallucinated", "faithful", "unsure")),
        ("Skipped", f"{found['n_skipped']:,}"),
        ("Taken back", f"{found['n_undone']:,}"),
        ("Not counted yet", f"{found['held_up']['final']:,}"),
        ("Annotators", f"{len(found['annotators']):,}"),
        ("Drawing", f"{design}: {how[design]}"),
        ("Seed", str(found["seed"])),
    ]
    columns = (parts.Column("What"), parts.Column("", "right"))
    return parts.section(title, parts.Table(title, columns, facts))
