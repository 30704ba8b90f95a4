"""Certify."""

import shlex
from collections.abc import Iterator

from calibrail.formatting import count, percent
from calibrail.report.document import (
    Bullet,
    Document,
    Json,
    Section,
    Table,
    Text,
    Tile,
    section,
    texts,
)
from calibrail.report.documents import label, measures, sentence_messages
from calibrail.report.documents.calibrate_messages import (
    STATE_LIMIT,
    VERDICTS,
    by_sentence,
    label_anew,
)
from calibrail.report.documents.data import known_as_copies
from calibrail.report.text import group_label, interval, plain, share, share_with_bounds


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
        return label.label_document(certificate, guardrail=guardrail)
    coverage, verdict = certificate["coverage"], certificate["verdict"]
    lines, trims = measures.rates(certificate, certificate), by_sentence(certificate)
    more = measures.left_whole(certificate) if trims else ()
    joint, blocked = certificate["confidence"], ""
    in_short = f"{sentence_messages.in_short(certificate)} " if trims else ""
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
        return sentence_messages.STATE_KEPT
    if not trims and certificate["max_fpr"] is None:
        return STATE_LIMIT
    once = bool(certificate.get("n_set_aside"))
    anew = (
        sentence_messages.label_anew(certificate) if trims else label_anew(certificate, once=once)
    )
    return anew or (
        "The requirement lies too close to what the guardrail does for more examples to settle it; "
        f"ask for less ({limits})."
    )


def withheld(freshness: str) -> str:
    """Say why there is no certificate on answers that may have set the threshold."""
    if freshness == "calibration data":
        return (
            "The bounds would do, but this is the data that the guardrail was calibrated on, "
            "and a certificate needs answers that neither it nor its report has seen."
        )
    return (
        "The bounds would do, but it cannot be told whether these rows set the threshold: they "
        "have neither texts nor ids that the calibration had too, and what they hold does not tell "
        "them apart. Give every row its id, the same in both files, or say that they are new "
        "(--fresh)."
    )


#: What a verdict on such answers rests on.
DECLARED = (
    "The answers are taken as new because --fresh says so: the rows do not tell whether they set "
    "the threshold."
)


def certify_warnings(certificate: Json, *, same_file: bool, policy: str) -> Iterator[str]:
    """Say what weakens a certificate.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --json`` prints.
    same_file : bool
        Whether the data is the file that the guardrail was calibrated on.
    policy : str
        What the guardrail does with answers without a score.
    """
    if n := certificate["n_seen_before"]:
        yield (
            f"left out, since the threshold was set by them: {count(n, 'answer')}; certify on data "
            "that the calibration has not seen"
        )
    if same_file:
        yield (
            "this is the very file that the guardrail was calibrated on: its test half has "
            "been looked at, and its faithful answers share questions with the calibration "
            "half; a certificate needs fresh data"
        )
    copies = certificate["copies"]
    if copies["n"]:
        yield (
            f"{count(copies['n'], 'answer')} were taken for copies ("
            f"{count(copies['n_groups'], 'group')} of up to {copies['largest']:,}; "
            f"{known_as_copies(copies)}): one of each class counts, unless --assume-independent "
            "counts all of them"
        )
    if n := certificate["n_set_aside"]:
        yield (
            f"{count(n, 'answer')} did not count: another answer of the same group (a question, a "
            "source, copies of an answer) and class did, and answers of one group are not "
            "independent"
        )
    trims = by_sentence(certificate)
    if n := certificate["n_errors"]:
        fate = f"not passed{', so as freed, and keep nothing' if trims else ''}"
        yield f"the detector failed on {count(n, 'answer')}, which count as {fate}"
    if n := certificate["n_undefined"]:
        without = f"{count(n, 'answer')} without a score"
        if trims:
            sentences = count(certificate["n_undefined_sentences"], "sentence")
            without = f"{sentences} without a score, in {count(n, 'answer')}"
        yield f"{without}; the guardrail's policy is {policy}"
    # Groups may be rejected although the verdict about all answers together is not.
    rows = certificate["by_group"]["rows"] if certificate["by_group"] else ()
    rejected = [group_label(row["group"]) for row in rows if row["verdict"] == "rejected"]
    if rejected and certificate["verdict"] != "rejected":
        names = ", ".join(rejected)
        yield f"the verdict is about all answers together; rejected by itself: {names}"
