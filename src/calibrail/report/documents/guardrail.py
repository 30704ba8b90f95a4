"""Documents of a guardrail: representation, verification, explanation, decision log."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from calibrail.formatting import count, number
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report.document import (
    Block,
    Bullet,
    Bullets,
    Document,
    EvidenceBlock,
    EvidenceItem,
    Facts,
    Json,
    SentenceText,
    Struck,
    Style,
    Table,
    TableColumn,
    Text,
    Tile,
    Verdict,
    numbers,
)
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate_messages import by_sentence, unit_words
from calibrail.report.text import capital, clean, estimate, plain, short


def guardrail_document(config: Json) -> Document:
    """Return what was frozen, and what was known of it then.

    Parameters
    ----------
    config : mapping
        The content of the guardrail's file.
    """
    headline, calibration, data = (config[name] for name in ("headline", "calibration", "data"))
    promise, verdict = config["promise"], headline["verdict"]
    threshold = calibration["threshold"] if config["chosen"] is None else config["chosen"]
    delta = f", delta {promise['delta']:g}" if promise["guarantee"] in OF_THIS_THRESHOLD else ""
    facts = [
        ("Detector", str(config["score"]["name"])),
        ("Threshold", _limit(threshold, unit_words(config).acts)),
        ("Promise", f"alpha {promise['alpha']:g}, {promise['guarantee']}{delta}"),
        ("Calibrated on", f"{data['source']} ({count(data['n_examples'], 'answer')})"),
        ("Digest", str(config["digest"])),
    ]
    return Document(
        "guardrail of",
        subject=str(config["score"]["name"]),
        headline=verdict.capitalize(),
        verdict=verdict,
        summary=f"When it was calibrated: {headline['reason']}",
        tiles=tuple(_tiles(config)),
        blocks=(Facts(facts),),
        footer="Every number on this page is in the guardrail's file.",
    )


def _limit(threshold: float | None, acts: str) -> str:
    return f"{acts} everything" if threshold is None else number(threshold, 6)


def _tiles(config: Json) -> Iterator[Tile]:
    """Yield what was measured, beside what was asked."""
    headline = config["headline"]
    asked = {**headline, "min_kept": config["requirement"].get("min_kept")}
    rates = measures.trim_rates if by_sentence(config) else measures.rates
    yield from measures.tiles(rates(headline, asked))
    name = "AUROC by sentence" if by_sentence(config) else "AUROC"
    yield Tile(name, estimate({"estimate": headline["auroc"]}))


_NOT_COMPARED: Final = {
    "column": "no probes: the score stands in the data, and no machine computes it",
    "endpoint": "no probes compared: the detector asks an endpoint, which was not asked "
    "(--probe-endpoint)",
    "skipped": "no probes compared, and no detector built (--no-probe)",
}


def lines(content: Mapping[str, Any]) -> list[str]:
    """Return what is said, a line each.

    Parameters
    ----------
    content : mapping
        What ``calibrail verify --json`` prints.
    """
    if content["signature"] is not None:
        signed = f"signed by the key {content['signature']['keyid']}"
    elif content["signed"]:
        signed = "its signature was not verified: name the key that you trust (--key)"
    else:
        signed = "not signed"
    built = content["probes"]["state"] != "skipped"
    return [
        f"{content['guardrail']}: not a byte has changed; digest {content['digest']}",
        signed,
        f"detector {content['detector']}" + ": the one that was frozen" * built,
        *_probes(content["probes"]),
        f"{content['verdict']} when calibrated",
    ]


def of_several(content: Mapping[str, Any]) -> list[str]:
    """Return what is said of several files, those that are refused last.

    Parameters
    ----------
    content : mapping
        What ``calibrail verify --json`` prints of more than one file.
    """
    kept = [item for item in content["files"] if "refused" not in item]
    refused = [item for item in content["files"] if "refused" in item]
    said = []
    for item in kept:
        first, *more = lines(item)
        said += [first, *(f"  {text}" for text in more)]
    said += [f"REFUSED {item['guardrail']}: {item['refused']}" for item in refused]
    return [*said, f"{len(kept):,} of {count(len(content['files']), 'guardrail')} verified"]


def _probes(probes: Mapping[str, Any]) -> list[str]:
    state = probes["state"]
    if state in _NOT_COMPARED:
        return [_NOT_COMPARED[state]]
    if state == "unprobed":
        return [
            f"NOT PROBED: none of the {probes['n']} probe answers has a score ({probes['why']}); "
            "nothing shows that this machine computes what was certified"
        ]
    undefined = f", {probes['n_undefined']} of them undefined as then" * bool(probes["n_undefined"])
    of = f" of {', '.join(probes['members'])}" * bool(probes["members"])
    # Of members, and of a guardrail of sentences, there are more scores than answers.
    noun = "probe answer" if not of and probes["n"] == 16 else "probe score"
    said = [
        f"{count(probes['n'], noun)}{of}{undefined}: this "
        f"machine computes what was frozen (largest difference "
        f"{probes['largest_difference']:.1g}, tolerance {probes['tolerance']:g})"
    ]
    if state == "members":
        said.append(f"the rest: {_NOT_COMPARED['endpoint']}")
    if probes["differ"]:
        said.append(f"versions that differ, though the scores agree: {probes['differ']}")
    return said


#: In which colour a decision is shown.
_TONES: Final[Mapping[str, Verdict]] = {
    "pass": "certified",
    "flag": "rejected",
    "review": "inconclusive",
    "error": "rejected",
}

#: What each kind of evidence is about.
_HEADINGS: Final = {
    "sentences": "Sentences of the answer",
    "claims": "Claims of the answer",
    "samples": "Sentences of the answer, against the other answers",
    "spans": "What the model marks in the answer",
    "sources": "Sources",
    "stretch": "The heaviest stretch",
    "words": "Not found in question or context",
    "scores": "Scores that it combines",
    "angles": "Angles, in radians",
    "judge": "What the judge replied",
}

#: Numbers of an item, in the order in which they are shown.
_MEASURES: Final = (
    "support",
    "contradiction",
    "contradicted_by",
    "factuality",
    "relevance",
    "weight",
    "value",
    "rank",
    "probability",
    "to_question",
    "to_context",
)

#: Verdicts on a part of the answer that are no objection to it.
_NO_OBJECTION: Final = ("supported", "faithful")

#: Levels of evidence within evidence that are shown.
_DEEPEST: Final = 3


def document(decision: Json, score: str) -> Document:
    """Return a decision: outcome, reason, p-value in words, and the evidence item by item.

    Parameters
    ----------
    decision : mapping
        ``Decision.to_dict(evidence=True)``.
    score : str
        The detector's name.
    """
    rare, p_value, removed = "", decision["p_value"], decision.get("removed")
    if p_value is not None and removed is None:
        rare = (
            f"About {100.0 * p_value:.3g} in 100 hallucinated answers look as harmless as this "
            f"one, or more so (p-value {number(p_value)})."
        )
    elif p_value is not None:
        rare = (
            f"In about {100.0 * p_value:.3g} in 100 hallucinated answers an unsupported sentence "
            f"looks as harmless as the worst one here, or more so (p-value {number(p_value)})."
        )
    # A column's name stays as it is, at the beginning of a sentence, too.
    reason = decision["reason"] if decision.get("column") else capital(decision["reason"])
    evidence = evidence_block(decision["evidence"], most=10_000, characters=1_000_000)
    nothing = "" if evidence else "The detector says nothing about parts of the answer."
    return Document(
        "decision of",
        subject=score,
        headline=decision["outcome"].capitalize(),
        verdict=_TONES[decision["outcome"]],
        summary=f"{reason}.",
        blocks=(Text(rare), *_trimming(decision), evidence, Text(nothing)),
        footer="Everything on this page is in what --json prints.",
    )


def _trimming(decision: Json) -> Iterator[Block]:
    """Yield what may be shown of an answer, and the sentences that may not."""
    removed = decision.get("removed")
    if removed is None:
        return
    text, for_review = decision["text"], decision["outcome"] == "review"
    if text:
        left = SentenceText([(clean(text), False)], verdict="may be shown", style="good")
        yield Struck("What is left", [left])
    elif text is None:
        yield Text("Nothing of it may be shown as it is.")
    else:
        yield Text("Nothing is left of it.")
    if removed:
        heading = "Sentences that would be removed" if for_review else "Removed sentences"
        yield EvidenceBlock(heading, [_removed(item) for item in removed])


def _removed(item: Json) -> EvidenceItem:
    """Return a sentence that is removed, and why."""
    return EvidenceItem(
        "removed",
        "bad",
        texts=[short(item["text"], 1_000_000)] if item.get("text") else (),
        remark=short(item["reason"], 400),
        place=f"characters {item['start']} to {item['end']}",
    )


def evidence_block(
    evidence: object, *, most: int = 12, characters: int = 240, depth: int = 0
) -> EvidenceBlock | None:
    """Return evidence as a heading with items, nested where scores are combined.

    Parameters
    ----------
    evidence : mapping
        ``Decision.evidence``; nothing in it is trusted, not even that it is a mapping.
    most, characters : int
        Items, and characters of each text, to keep.
    depth : int
        Levels above this one.
    """
    items = _items(evidence)
    if not isinstance(evidence, Mapping) or not items or depth > _DEEPEST:
        return None
    kind = str(evidence.get("kind", "evidence"))
    deeper = partial(evidence_block, most=most, characters=characters, depth=depth + 1)
    return EvidenceBlock(
        short(_HEADINGS.get(kind, kind), 60),
        [_item(item, characters, deeper(item.get("evidence"))) for item in items[:most]],
        more=max(0, len(items) - most),
    )


def _item(item: Json, characters: int, nested: EvidenceBlock | None) -> EvidenceItem:
    def text(key: str, most: int = characters) -> str:
        value = item.get(key)
        return short(value, most) if isinstance(value, str) else ""

    measures = [
        f"{name.replace('_', ' ')} {number(amount)}"
        for name in _MEASURES
        if (amount := _finite(item.get(name))) is not None
        # What a member says stands beside its name.
        and not (name == "value" and "score" in item)
    ]
    chunk, start, end = chunk_place(item)
    source = "" if chunk is None else f"chunk {chunk + 1}"
    if source and start is not None and end is not None:
        source += f", characters {start} to {end}"
    verdict, value = text("verdict", 30), ""
    if combined := "score" in item:
        known = _finite(item.get("value"))
        value = f"undefined: {short(item.get('reason', ''))}" if known is None else number(known)
    style: Style = "warning" if verdict == "unsupported" else "bad"
    return EvidenceItem(
        verdict=verdict,
        style="good" if verdict in _NO_OBJECTION else style,
        name=short(item["score"], 60) if combined else "",
        value=value,
        texts=[passage for passage in (text("text"), text("reply")) if passage],
        remark="" if combined else text("reason"),
        measures=", ".join(measures),
        quote=text("quote"),
        place=source,
        nested=nested,
    )


def chunk_place(item: Json) -> list[int | None]:
    """Return the chunk that an item quotes, and where in it the quote starts and ends."""
    return [_place(item.get(key)) for key in ("chunk", "chunk_start", "chunk_end")]


def _items(evidence: object) -> list[Json]:
    """Return the items of evidence that are well formed."""
    items = evidence.get("items") if isinstance(evidence, Mapping) else None
    if not isinstance(items, list | tuple):
        return []
    return [item for item in items if isinstance(item, Mapping)]


def all_items(evidence: object, depth: int = 0) -> Iterator[Json]:
    """Yield the items of evidence, nested ones after the item that holds them."""
    for item in _items(evidence) if depth <= _DEEPEST else ():
        yield item
        yield from all_items(item.get("evidence"), depth + 1)


def objections(evidence: Json, length: int) -> Iterator[tuple[int, int]]:
    """Yield the places of an answer of ``length`` characters that the evidence objects to."""
    weakest: tuple[float, tuple[int, int]] | None = None
    for item in all_items(evidence):
        start, end = _place(item.get("start")), _place(item.get("end"))
        if start is None or end is None or not start < end <= length:
            continue
        if "value" in item and item["value"] is None:
            # A sentence in which the detector found nothing to judge.
            continue
        verdict, support = item.get("verdict"), _support(item)
        contradiction = _finite(item.get("contradiction"))
        if isinstance(verdict, str):
            objected = verdict not in _NO_OBJECTION
        elif contradiction is not None:
            objected = contradiction >= 0.5
        else:
            objected = support is None
            if support is not None and (weakest is None or support < weakest[0]):
                weakest = support, (start, end)
        if objected:
            yield start, end
    if weakest is not None:
        yield weakest[1]


def _support(item: Json) -> float | None:
    """Return how well a piece is supported, in numbers of its own kind: a score turned around."""
    if "support" not in item and (score := _finite(item.get("value"))) is not None:
        return -score
    return _finite(item.get("support"))


def _finite(value: object) -> float | None:
    """Return a number that can be shown, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else math.inf


def _place(value: object) -> int | None:
    """Return a position in a text, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


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


def log_document(check: Json) -> Document:
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
                (
                    TableColumn("Chain"),
                    *numbers("Decisions"),
                    TableColumn("Until"),
                    TableColumn("Last hash"),
                ),
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
