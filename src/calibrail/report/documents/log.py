"""What does `calibrail log` say about the decisions of a service?"""

from collections.abc import Mapping
from typing import Final

from calibrail.phrases import count
from calibrail.report.blocks import Bullet, Bullets, Column, Facts, Json, Table, Text, numbers
from calibrail.report.document import Document
from calibrail.report.phrases import plain

_HEADLINES: Final = {
    "whole": "Whole",
    "beginning missing": "The beginning is missing",
    "broken": "Broken",
}

#: What is wrong, or to be known, by its code.
SENTENCES: Final[Mapping[str, str]] = {
    "changed": "was changed after it was written: its hash does not fit its content",
    "gap": "is number {seq} of its chain where {expected} should stand: lines are missing before "
    "it, or stand elsewhere",
    "again": "is number {seq} of its chain where {expected} should stand: it stands twice, or out "
    "of order",
    "previous": "does not follow from the line before it: one of the two was replaced",
    "opening": "is not the opening line that belongs there: the file was renamed, or lines of "
    "another one stand in it",
    "torn": "has no end",
    "empty": "is empty: even the line with which every file begins is gone",
    "after": "stands after the line that closed the chain",
    "file": "the file before it, number {number} of its chain, is missing",
    "first_files": "what its chain held before it is missing: {files}",
    "taken_files": "what its chain held before it is missing: {files}, written until {until}; they "
    "were not the oldest, since a file that is here ended at {oldest}",
    "chain": "this chain is missing with {lines}; {by} recorded it",
    "open_chain": "this chain is missing with at least {lines}; {by} recorded it before it was "
    "closed, so that nothing here tells where it ended",
    "unclosed": "its chain ends at {until} without a closing line, and {by} was opened or closed "
    "after that: its process still runs or was killed, or lines were cut off the end",
    "cut": "the end of the chain is missing: it holds lines up to {last}, and {by} recorded "
    "number {recorded}",
    "rewritten": "line number {seq} of the chain is not the one that {by} recorded",
    "noted": "no line has the hash {hash}, which was noted",
    "clock": "the clock went back, {times}; the order of lines is that of seq",
}

#: Why lines of a log take no part in what reads them, by the code of the reason.
SKIPPED: Final[Mapping[str, str]] = {
    "changed": "changed after being written",
    "torn": "torn at the end",
    "duplicate": "read before, or standing twice",
    "no_decision": "no decisions",
    "malformed": "without the fields of a decision",
    "outcome": "with an outcome that the guardrail does not give for the score",
    "threshold": "with a threshold that the guardrail does not have",
    "time": "without a readable time",
    "other_guardrail": "of other guardrails",
    "seen_before": "of answers that set the threshold",
}


def skipped(reason: str) -> str:
    """Return why lines take no part, in words."""
    return SKIPPED.get(reason, plain(reason.replace("_", " ")))


def document(check: Json) -> Document:
    """Return whether a log is whole, and what is wrong with it where.

    Parameters
    ----------
    check : mapping
        What ``calibrail log verify --json`` prints.
    """
    verdict, chains = check["verdict"], check["chains"]
    n_open = sum(not chain["closed"] for chain in chains)
    begins = min((chain["begins"] for chain in chains if chain["begins"]), default="-")
    ends = max((chain["ends"] for chain in chains if chain["ends"]), default="-")
    facts = [
        ("Decisions", f"{check['n_decisions']:,}"),
        ("Lines", f"{check['n_lines']:,} in {count(check['n_files'], 'file')}"),
        ("From", begins),
        ("Until", ends),
    ]
    return Document(
        "decision log",
        headline=_HEADLINES[verdict],
        summary=_summary(check),
        blocks=(
            Facts(facts),
            _findings("What is wrong", check["problems"], check["n_problems"]),
            _findings("Missing at the beginning", check["missing"], len(check["missing"])),
            _findings("To be known", check["notes"], check["n_notes"]),
            Text(_unclosed(n_open, len(chains))),
            Table(
                "Chains: note the last hash elsewhere, and a cut-off end is found, too",
                (Column("Chain"), *numbers("Decisions"), Column("Until"), Column("Last hash")),
                [
                    (
                        chain["name"],
                        f"{chain['n_decisions']:,}",
                        chain["ends"] or "-",
                        chain["hash"] or "-",
                    )
                    for chain in chains
                ],
                where="page",
            ),
        ),
        next_step=_next_step(check),
    )


def _summary(check: Json) -> str:
    match check["verdict"]:
        case "whole":
            return "Every line is as it was written, and none is missing between two others."
        case "broken":
            return f"{count(check['n_problems'], 'problem')}: lines were changed or are missing."
    return (
        "No line that is here was changed, and what is missing ended before every file that is "
        "here did, as where the oldest files were archived or deleted."
    )


def _findings(heading: str, findings: list[Json], n: int) -> Bullets | None:
    if not findings:
        return None
    items = [Bullet(sentence(finding)) for finding in findings]
    if n > len(findings):
        items.append(Bullet(f"and {n - len(findings):,} more"))
    return Bullets(heading, items)


def sentence(finding: Json) -> str:
    """Return one finding in words: its place, and what it is."""
    values = dict(finding["values"])
    nouns = {"times": "time", "lines": "line", "files": "file"}
    values |= {key: count(values.get("n", 0), noun) for key, noun in nouns.items()}
    said = SENTENCES[finding["code"]].format(**values)
    line = finding["line"]
    parts = finding["file"], "" if line is None else f"line {line:,}"
    place = ", ".join(filter(None, parts))
    return f"{place}: {said}" if place else said


def _unclosed(n: int, total: int) -> str:
    if not n:
        return ""
    return (
        f"{n:,} of {count(total, 'chain')} {'has' if n == 1 else 'have'} no closing line: the "
        "process still runs or was killed, or its last lines were cut off, which nothing else in "
        "the folder tells unless another chain recorded them, in a file's first line or as it "
        "closed."
    )


def _next_step(check: Json) -> str:
    if check["verdict"] == "beginning missing":
        return (
            "Verify the folder together with its archive, calibrail log verify ARCHIVE LOG, or "
            "say with --archived that the oldest files were taken away on purpose."
        )
    if check["verdict"] == "broken":
        return (
            "Compare the files named above with a copy of them, such as a backup; where they were "
            "archived, verify them together: calibrail log verify ARCHIVE LOG."
        )
    return ""
