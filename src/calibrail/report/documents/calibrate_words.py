"""How are verdicts and warnings said in a few words, and what follows from them?"""

from typing import Final

from calibrail.phrases import count, percent
from calibrail.report.blocks import Json
from calibrail.report.documents import commands
from calibrail.report.documents.calibrate_findings import alike, looked_before
from calibrail.settings.promise import OF_THIS_THRESHOLD

#: What each verdict means, for a reader who has never seen one.
VERDICTS: Final = {
    "certified": "The data shows that the detector meets what was asked.",
    "rejected": "The data shows that the detector does not meet what was asked.",
    "inconclusive": "The data neither shows that the detector meets what was asked nor that it "
    "does not.",
}

#: Warnings in a few words, where there is no room for the message and the code does not say it.
_TITLES: Final = {
    "reversed_direction": "the score runs the wrong way",
    "flags_everything": "the threshold flags everything",
    "baseline_beats_detector": "a baseline beats it",
    "not_shown_to_beat_baseline": "not shown to beat every baseline",
    "near_duplicates": "near-duplicates across the split",
    "coverage_outside_band": "caught share outside its expected range",
    "paper_rank_undercovers": "the paper's rank catches too few",
    "clustered": "each group counts once",
    "assumed_independent": "answers of one group taken as independent",
    "undefined_scores": "some scores are undefined",
}

#: Advice to label asks for at most this many times the answers of a class, or so many.
MOST_TIMES: Final = 20
MOST_NEW: Final = 2_000

#: What to do where no such number of new answers settles it.
TOO_CLOSE: Final = (
    "At the rates seen no number of answers that could be labelled settles it: the requirement "
    "lies too close to what the detector does. Change the detector or the requirement."
)

#: What to do where no limit of false alarms was given.
STATE_LIMIT: Final = "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."


def title(code: str) -> str:
    """Return a warning in a few words."""
    return _TITLES.get(code, code.replace("_", " "))


def how_sure(report: Json, of_this: str) -> str:
    """Say on what level a promise holds: on average, or for one threshold, which is named."""
    guarantee = report["guarantee"]
    if guarantee not in OF_THIS_THRESHOLD:
        return f"on average over calibration draws (guarantee: {guarantee})"
    which = "each" if report["by_group"] else of_this
    if guarantee == "anytime":
        which += " and all that come of more calibration answers"
    confidence = percent(1.0 - (report["delta"] or 0.0))
    return f"with {confidence} confidence {which} (guarantee: {guarantee})"


def whatever_the_unit(report: Json) -> str:
    """Say what to do where it does not matter what is flagged; empty where it does."""
    if report["verdict"] == "certified":
        return "Freeze exactly this detector with: calibrail export RUN -o guardrail.json"
    # A report holds its reason in words.
    why, looks = report["reason"] or "", report.get("looks")
    if looks and why.startswith(looked_before(looks)):
        return (
            "Freeze this detector (calibrail export RUN -o guardrail.json) and certify it on new "
            "labelled answers alone (calibrail certify guardrail.json NEW)."
        )
    n_alike = report["data"].get("n_alike", 0)
    if n_alike and why.startswith(alike(n_alike)):
        return "Give every row its id (--id-column), or copies a common group (--group-column)."
    return ""


def next_step(report: Json) -> str:
    """Say what to do now."""
    codes = {item["code"] for item in report["warnings"]}
    if step := whatever_the_unit(report):
        return step
    if "reversed_direction" in codes:
        if report["score"]["name"] == "column":
            again = commands.turned(report)
            return (
                "Check what a higher value of the column means (--higher), and calibrate again"
                f"{f', e.g. {again}' if again else '.'}"
            )
        return (
            f"Use another detector for such answers; compare some: {commands.for_several(report)}"
        )
    if report["verdict"] == "rejected":
        return (
            "Accept more misses (--alpha) or more false alarms (--max-fpr), or try other scores on "
            f"the same split: {commands.for_several(report)}"
        )
    if report["risks"]:
        return "Certify the guardrail on more answers that are new, or ask for less (--risk)."
    if report["max_fpr"] is None:
        return STATE_LIMIT
    caught, required = report["certificate"]["coverage"]["lower"], report["min_coverage"]
    loose = report["guarantee"] not in OF_THIS_THRESHOLD and caught < required
    if loose and report["by_group"] and required >= 1.0 - report["alpha"] - 1e-12:
        # It aims at what is required: more labels do not change that.
        return "Calibrate again with --guarantee pac, or require less with --min-coverage."
    if loose and not report["by_group"]:
        return (
            "Calibrate again with --guarantee pac, which certifies coverage by construction; or "
            "require less with --min-coverage."
        )
    once = any(item["code"] == "clustered" for item in report["warnings"])
    return label_anew(report["certificate"], once=once) or TOO_CLOSE


def label_anew(certificate: Json, *, once: bool) -> str:
    """Say how many new answers of each class would settle an inconclusive verdict, and how.

    Another look at the same answers with some more would be a second chance; new ones alone, of as
    many as both together, are not. Where a group counts ``once``, so many groups are needed. Empty
    where no number would, or one that nobody labels.
    """
    needed, sides = certificate["needed"], {"hallucinated": "coverage", "faithful": "fpr"}
    if None in needed.values() or not any(needed.values()):
        return ""
    rates = {label: certificate[side] for label, side in sides.items()}
    if any(n > max(MOST_TIMES * rates[label]["n"], MOST_NEW) for label, n in needed.items()):
        return ""
    wanted = [count(rates[label]["n"] + n, f"{label} answer") for label, n in needed.items()]
    missed = rates["hallucinated"]["estimate"] < certificate["min_coverage"]
    alarms = rates["faithful"]["estimate"] > certificate["max_fpr"]
    verdict = "rejected" if missed or alarms else "certified"
    groups = ", each of a group of its own" if once else ""
    return (
        f"Certify on about {' and '.join(wanted)} that are new{groups}: at the rates seen that "
        f"settles it as {verdict}. (Looking at these again with some more is a second chance.)"
    )


def _refusable(report: Json) -> str:
    """Name the promises that may be refused because undefined scores are what they forbid."""
    if report["undefined"]["policy"] == "pass":
        return "misses"
    if report["three_way"] and report["undefined"]["policy"] == "flag":
        return "false alarms"
    return ""


def assumptions(report: Json) -> list[str]:
    """Return what the promise and the intervals rest on."""
    policy = report["undefined"]["policy"]
    released = "passed" if policy == "pass" else f"not released (policy: {policy})"
    lines = [
        "The hallucinations to be caught come from the same source as the hallucinated "
        f"calibration examples (n = {report['n_calibration']:,}), in exchangeable order. Another "
        "model, retriever, topic or language needs its own calibration.",
        "The labels are right, and examples of one class are independent of each other"
        f"{', but for those of one group' if report['promise']['clustered'] else ''}.",
        f"Intervals hold at the {percent(report['confidence'])} level each, not all together. "
        "The verdict rests on exact bounds (Clopper-Pearson): what it says is wrong with a "
        f"probability of at most {percent(1.0 - report['certificate']['confidence'])}.",
        f"An undefined score counts as {released}.",
    ]
    if refusable := _refusable(report):
        lines.append(
            f"The promise about {refusable} is an average over all calibrations, including those "
            "that end without a threshold because too many scores are undefined. Where undefined "
            "scores are nearly as frequent as the misses allowed, the thresholds that do come out "
            "break it more often."
        )
    if report["risks"]:
        lines.insert(
            1,
            "Faithful answers come from the same source, too, and in the same proportion to "
            "hallucinated ones: precision, accuracy and abstention depend on it.",
        )
    return lines
