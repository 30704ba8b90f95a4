"""Its reasons and warnings."""

from typing import Final

from calibrail.formatting import count, percent
from calibrail.guardrail.decision_rule import TEARS
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report.document import Json
from calibrail.report.documents.calibrate_messages import (
    MOST_NEW,
    MOST_TIMES,
    TOO_CLOSE,
    whatever_the_unit,
)
from calibrail.report.text import interval, share

#: Why an answer that would lose sentences goes to a person instead, by its code.
REVIEWS: Final[dict[str, str]] = {
    **{str(code): words for code, words in TEARS.items()},
    "undefined": "a sentence has no score (--undefined review)",
}

#: What to do where no share was set that must be kept.
STATE_KEPT = (
    "Say how much of what is supported you want to keep, e.g. --min-kept 0.7, to get a verdict: "
    "removing everything frees every answer, too."
)


def in_short(measured: Json) -> str:
    """Return what removing sentences does, in one sentence of plain words.

    Parameters
    ----------
    measured : mapping
        ``test`` of a report, or a certificate.
    """
    freed, kept, emptied = (measured[key] for key in ("freed", "kept_supported", "emptied"))
    parts = ["No answer that counts is hallucinated"]
    if freed["estimate"] is not None:
        parts = [
            f"In {share(freed)} of hallucinated answers every unsupported sentence is removed "
            f"({interval(freed)})"
        ]
    if kept["estimate"] is not None:
        parts.append(f"{share(kept)} of supported sentences are kept")
    parts.append(f"{share(emptied)} of answers are emptied")
    if measured["reviewed"]["count"]:
        parts.append(f"{share(measured['reviewed'])} go to review")
    if (failed := measured.get("failed")) and failed["count"]:
        parts.append(
            f"on {share(failed)} the detector failed (they count as freed and keep nothing)"
        )
    return f"{'; '.join(parts)}."


def reviewed_for(counts: Json) -> str:
    """Say why answers go to review; empty where none do."""
    why = [f"{words} ({counts[code]:,})" for code, words in REVIEWS.items() if counts[code]]
    return f"Why answers go to review: {'; '.join(why)}." if why else ""


def needed_auroc(report: Json) -> str:
    """Say how well a score would have to rank sentences; empty where that is not known."""
    needed, area = report["sentences"].get("needed_auroc"), report["test"]["auroc"]["estimate"]
    if needed is None or area is None:
        return ""
    first, *others = (
        ("half" if row["kept"] == 0.5 else percent(row["kept"]), f"about {row['auroc']:.2f}")
        for row in needed["rows"]
    )
    text = f"{first[0]} of what is supported is kept from an AUROC by sentence of {first[1]} on"
    text += "".join(f", {kept} of it from {at} on" for kept, at in others)
    answers = f"{needed['unsupported']:.1f} unsupported sentences in a hallucinated one"
    return (
        f"As a guide, at this target and on answers like these ({answers}): {text}; "
        f"this score has {area:.2f}. (Normal scores, independent of each other.)"
    )


def next_step(report: Json) -> str:
    """Say what to do now."""
    verdict, certificate = report["verdict"], report["certificate"]
    if step := whatever_the_unit(report):
        return step
    min_kept = report["requirement"].get("min_kept")
    if verdict == "rejected":
        return (
            "Accept more misses (--alpha), or keep less (--min-kept); or use a score that ranks "
            "sentences better: give further ones by --score, and the table compares what they keep."
        )
    if min_kept is None:
        return STATE_KEPT
    short = certificate["coverage"]["lower"] < report["min_coverage"]
    if report["guarantee"] not in OF_THIS_THRESHOLD and short:
        return (
            "Calibrate again with --guarantee pac, which certifies what is freed by construction; "
            "or require less with --min-coverage."
        )
    return label_anew(certificate) or TOO_CLOSE


def label_anew(certificate: Json) -> str:
    """Say how many new answers would settle an inconclusive verdict; empty where none would."""
    needed = certificate["needed"]
    if None in needed.values() or not any(needed.values()):
        return ""
    sizes = {
        "hallucinated": ("hallucinated answer", certificate["coverage"]["n"]),
        "faithful": ("faithful answer", certificate["fpr"]["n"]),
        "answers": ("answer of either kind", certificate["kept"]["n"]),
    }
    wanted = []
    for name, n in needed.items():
        called, seen = sizes[name]
        if n > max(MOST_TIMES * seen, MOST_NEW):
            return ""
        if n:
            plural = called.replace("answer", "answers", 1)
            wanted.append(count(seen + n, called, plural))
    return (
        f"Certify on about {' and '.join(wanted)} that are new and marked: at the rates seen that "
        "settles it. (Looking at these again with some more is a second chance.)"
    )


def assumptions(report: Json) -> list[str]:
    """Return what the promise and the intervals rest on."""
    policy = report["undefined"]["policy"]
    lost = {
        "flag": "is removed",
        "review": "sends its answer to review",
        "pass": "is never removed",
    }[policy]
    return [
        "The hallucinated answers to come are like those of the calibration part "
        f"(n = {report['n_calibration']:,}), in exchangeable order. Another model, retriever, "
        "topic or language needs its own calibration: the promise breaks under such a shift.",
        "It is about what is removed, not about what is left over: a rule that removes every "
        "sentence keeps it, whatever the score. What is kept is measured beside it, and certified "
        "by --min-kept.",
        "The marks are right and complete: a sentence that nobody marked counts as supported.",
        "A sentence is scored from the question, the contexts and the answer up to there; nothing "
        "depends on what follows. So a stream can stop at the first sentence that would be "
        "removed, under the same threshold.",
        "Some sentences cannot be removed without tearing the answer (a reference to what is "
        "gone, half of a quotation). Such answers go to review, release nothing, and count as "
        "keeping nothing.",
        f"A sentence without a score {lost} (--undefined {policy}).",
        f"Intervals hold at the {percent(report['confidence'])} level each, not all together. "
        "Shares of answers have exact bounds (Clopper-Pearson), what is kept a bound by betting "
        "(Waudby-Smith and Ramdas): both hold at any number of answers. The verdict is wrong with "
        f"a probability of at most {percent(1.0 - report['certificate']['confidence'])}.",
    ]
