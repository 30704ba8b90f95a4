"""What does a watch say about the log and the labels that it read?"""

from collections.abc import Mapping
from typing import Final

from calibrail.phrases import count, number
from calibrail.report import blocks as parts
from calibrail.report.blocks import Bullet, Json
from calibrail.report.documents import log as log_document
from calibrail.report.documents import watch_words as words
from calibrail.report.phrases import capital, plain

#: What is found of a log beside what ``calibrail log verify`` finds, by its code.
FINDINGS: Final[Mapping[str, str]] = {
    "cut": "is shorter than it was when it was read: {read:,} bytes were read of it",
    "late": "came later than files of its chain that follow it, and is not read",
    "no_chain": "is no chain of a log: nothing tells whether lines were changed or stand twice",
    "clock_back": "its clock went back by {seconds:,} s",
    "time": "has a time that is none: {time}",
    "future": "was written in the future: {time}",
    "malformed": "is no decision: a field is missing, or is none",
    "threshold": "names no guardrail, and the one given does not have its threshold, {threshold}",
    "outcome": "says {outcome} of the score {score}, and the guardrail says {rule}",
}

#: Findings that are shown in a terminal; the page shows all that the file names.
_MOST: Final = 3


def log(found: Json) -> parts.Section:
    """Return what became of the log's lines."""
    facts = [
        ("Lines", f"{found['lines']:,} in {count(found['chains'], 'chain')}"),
        ("Used", f"{found['used']:,}"),
        *((capital(log_document.skipped(code)), f"{n:,}") for code, n in found["skipped"].items()),
        *([("Missing", f"{found['missing']:,}")] if found["missing"] else []),
        *(
            (f"Of {plain(digest)[:19]}...", f"{n:,}")
            for digest, n in found["other_guardrails"].items()
        ),
        *([("From", words.minute(found["from"]))] if found["from"] else []),
        *([("Until", words.minute(found["to"]))] if found["to"] else []),
    ]
    sentences = [Bullet(sentence(finding)) for finding in found["findings"]]
    title, n = "Found in the log", sum(found["found"].values())
    return parts.section(
        "What was read",
        parts.Facts(facts),
        _findings(title, sentences, n, "page"),
        _findings(title, sentences[:_MOST], n, "terminal"),
    )


def _findings(
    title: str, sentences: list[Bullet], n: int, where: parts.Where
) -> parts.Bullets | None:
    if not sentences:
        return None
    more = [Bullet(f"and {n - len(sentences):,} more")] if n > len(sentences) else []
    return parts.Bullets(title, [*sentences, *more], "warning", where)


def sentence(finding: Json) -> str:
    """Return one finding in words: its place, and what it is."""
    code, values = finding["code"], finding["values"]
    if code not in FINDINGS:
        return log_document.sentence(finding)
    known = {
        name: number(value) if isinstance(value, float) else plain(value)
        for name, value in values.items()
    }
    known |= {name: values[name] for name in ("read", "seconds") if name in values}
    said = FINDINGS[code].format(**known)
    line = "" if finding["line"] is None else f"line {finding['line']:,}"
    place = ", ".join(filter(None, (plain(finding["file"]), line)))
    return f"{place}: {said}" if place else capital(said)


def labels(status: Json) -> parts.Section | None:
    """Return what became of the answers that people were asked about."""
    found, promise = status["labels"], status["promise"]
    if not found:
        return None
    facts = [
        ("Drawn", f"{promise['n_drawn']:,}"),
        ("Labelled", f"{promise['n_labels']:,}"),
        ("Waiting for a label", f"{promise['n_pending']:,}"),
        ("Labelled unsure", f"{promise['n_unsure']:,}"),
        ("Disagreements open", _open(promise["n_disagreements"])),
    ]
    judge = found.get("judge")
    if judge is not None:
        facts.append(("Labels of the judge", f"{judge['n_labels']:,}"))
    title = "Labels that do not count"
    problems = [Bullet(plain(item)) for item in found["problems"]]
    refused, n_refused = _refused(judge)
    by_judge = "Labels of the judge that do not count"
    return parts.section(
        "Labels",
        parts.Facts(facts),
        _findings(title, problems, found["n_problems"], "page"),
        _findings(title, problems[:_MOST], found["n_problems"], "terminal"),
        _findings(by_judge, refused, n_refused, "page"),
        _findings(by_judge, refused[:_MOST], n_refused, "terminal"),
    )


def _open(n: int) -> str:
    return f"{n:,}" if not n else f"{n:,}; `calibrail label --settle` asks a further person"


def unread(status: Json) -> list[str]:
    """Return why labels could not be read, people's or a judge's; what was read before counts."""
    found = status["labels"] or {}
    judge = found.get("judge") or {}
    return [plain(item["trouble"]) for item in (found, judge) if item.get("trouble")]


def _refused(judge: Json | None) -> tuple[list[Bullet], int]:
    """Return which labels of a judge do not count, in words, and how many such sentences."""
    if judge is None:
        return [], 0
    elsewhere, n = [], judge["n_problems"]
    if missing := judge["n_not_in_log"]:
        name = "names" if missing == 1 else "name"
        elsewhere = [Bullet(f"{count(missing, 'label')} {name} no answer of this log")]
    return [*elsewhere, *(Bullet(plain(item)) for item in judge["problems"])], n + len(elsewhere)
