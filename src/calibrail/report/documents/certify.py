"""What does `calibrail certify` say about a guardrail on fresh labels?"""

import shlex

from calibrail.phrases import count, percent
from calibrail.report.blocks import Bullet, Json, Section, Table, Text, Tile, section, texts
from calibrail.report.document import Document
from calibrail.report.documents import label, measures, trim_findings
from calibrail.report.documents.calibrate_words import STATE_LIMIT, VERDICTS, label_anew
from calibrail.report.documents.unit_words import by_sentence
from calibrail.report.phrases import group_label, interval, plain, share, share_with_bounds


def document(certificate: Json, *, guardrail: str = "the guardrail") -> Document:
    """Return the verdict with its exact bounds.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --json`` prints.
    guardrail : str
        What the guardrail is called.
    """
    if certificate.get("sequential"):
        return label.document(certificate, guardrail=guardrail)
    coverage, verdict = certificate["coverage"], certificate["verdict"]
    lines, trims = measures.rates(certificate, certificate), by_sentence(certificate)
    more = measures.left_whole(certificate) if trims else ()
    joint, blocked = certificate["confidence"], ""
    in_short = f"{trim_findings.in_short(certificate)} " if trims else ""
    if flagged := certificate.get("blocked"):
        rate = f"{share(flagged)} ({interval(flagged)})"
        blocked = f"Faithful answers flagged, not merely reviewed: {rate}."
    risks = measures.table("The risks", measures.risk_lines(certificate.get("risks") or ()), joint)
    return Document(
        "certificate of",
        subject=guardrail,
        headline=verdict.capitalize(),
        verdict=verdict,
        summary=f"{in_short}{VERDICTS[verdict]} {certificate['reason']}",
        tiles=tuple(measures.tiles(lines))
        if trims
        else (Tile("Caught", *lines[0][1:4]), Tile("False alarms", *lines[1][1:4])),
        blocks=(
            section(
                "On the held-out data",
                measures.rates_figure(certificate, certificate),
                measures.table("On the held-out data", [*lines, *more], coverage["confidence"]),
                Text(_intervals(joint, trims=trims)),
                Text(measures.flips(certificate)),
                Text(blocked),
                Text(_read_with(certificate.get("reading") or {})),
            ),
            section("The risks", risks),
            _groups(certificate["by_group"]) if certificate.get("by_group") else None,
        ),
        warnings=[Bullet(text) for text in certificate.get("warnings", ())],
        next_step=_next_step(certificate),
        data=certificate.get("data") or {},
    )


def _intervals(confidence: float, *, trims: bool) -> str:
    """Say what the intervals rest on, and what the verdict does."""
    if trims:
        return (
            "Shares of answers have exact intervals (Clopper-Pearson), what is kept one by betting "
            "(Waudby-Smith and Ramdas), which holds at any number of answers. The verdict is wrong "
            f"with a probability of at most {percent(1.0 - confidence)}."
        )
    return (
        f"The intervals are exact (Clopper-Pearson) and hold together with {percent(confidence)} "
        "confidence. Certified needs two of their ends, so each of these is taken at that "
        "confidence by itself."
    )


def _read_with(reading: Json) -> str:
    """Say with which options the data was read, those of the guardrail's own data among them."""
    options = reading.get("options")
    return f"The data was read with {plain(shlex.join(options))}." if options else ""


def _groups(by_group: Json) -> Section:
    """Show bounds and verdict of every group."""
    title = f"By {plain(by_group['column'])}"
    trims = any(row.get("kept") for row in by_group["rows"])
    rows = [
        (
            group_label(row["group"]),
            share_with_bounds(row["coverage"]),
            share_with_bounds(row["fpr"]),
            share_with_bounds(row["kept"]) if trims else "",
            str(row["verdict"]),
            _needed(row["needed"]) if row["verdict"] == "inconclusive" else "",
        )
        for row in by_group["rows"]
    ]
    corrected = (
        f"Corrected for {count(len(rows), 'group')}: with {percent(by_group['confidence'])} "
        "confidence no verdict among them is wrong."
    )
    rates = ("Freed", "Touched") if trims else ("Caught", "False alarms")
    columns = texts("Group", *rates, "Kept", "Verdict", "More needed")
    return section(title, Table(title, columns, rows), Text(corrected))


def _needed(needed: Json) -> str:
    return ", ".join(
        f"{'?' if n is None else format(n, ',')} {label}" for label, n in needed.items() if n != 0
    )


def _next_step(certificate: Json) -> str:
    trims = by_sentence(certificate)
    limits = "--min-coverage, --min-kept" if trims else "--min-coverage, --max-fpr"
    if certificate["verdict"] == "certified":
        return (
            "Put this guardrail to use on answers from the same source: calibrail check GUARDRAIL "
            "TRACES -o decisions.jsonl"
        )
    if certificate["verdict"] == "rejected":
        return (
            "Do not rely on this guardrail for what was asked; try another detector, or ask for "
            f"less ({limits})."
        )
    if certificate.get("freshness") == "calibration data":
        return "Certify on labelled answers that the calibration has not seen."
    if certificate.get("freshness") == "unknown" and not any(certificate["needed"].values()):
        return "Give every row an id or its texts, or say that the answers are new (--fresh)."
    if trims and certificate["min_kept"] is None:
        return trim_findings.STATE_KEPT
    if not trims and certificate["max_fpr"] is None:
        return STATE_LIMIT
    once = bool(certificate.get("n_set_aside"))
    anew = trim_findings.label_anew(certificate) if trims else label_anew(certificate, once=once)
    return anew or (
        "The requirement lies too close to what the guardrail does for more examples to settle it; "
        f"ask for less ({limits})."
    )
