"""Documents of a guardrail: representation, verification, explanation, decision log."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from calibrail.formatting import Scale, number
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report import document as parts
from calibrail.report.document import Document, EvidenceBlock, EvidenceItem, Facts, Json, Text
from calibrail.report.documents import calibrate_sections as messages
from calibrail.report.documents import measures
from calibrail.report.documents.next_steps import goals, would_fail
from calibrail.report.messages import facts, is_known, remarks, say, say_first, word
from calibrail.report.text import by_sentence, capital, clean, plain, short, tone


def guardrail_document(config: Json) -> Document:
    """Return what was frozen, and what was known of it then.

    Parameters
    ----------
    config : mapping
        The content of the guardrail's file.
    """
    chosen, trims = config["chosen"], by_sentence(config)
    headline = headline_of(config)
    threshold = config["calibration"]["threshold"] if chosen is None else chosen
    scale, rule = Scale.of(config["score"]), ""
    limit = f"{measures.unit_words(config)['acts']} everything"
    if threshold is not None:
        limit = scale.edge(threshold)
        if not (config["groups"] or config["upper"]):
            name = scale.column or scale.named(config["score"]["name"])
            rule = say("guardrail.rule", name=name, limit=limit, scale=scale, trims=trims)
    has_delta = config["promise"]["guarantee"] in OF_THIS_THRESHOLD
    lines = (measures.trim_rates if trims else measures.of_verdict)(headline, headline)
    area = {"estimate": headline["auroc"], "lower": None, "upper": None}
    return Document(
        "guardrail of",
        subject=scale.column or str(config["score"]["name"]),
        headline=messages.verdict_headline(headline),
        verdict=tone(headline),
        rule=rule,
        summary=f"When it was calibrated: {reason_or_cost(headline)}",
        tiles=(*measures.tiles(lines), measures.auroc_tile(area, f"AUROC{' by sentence' * trims}")),
        blocks=(Facts(facts("guardrail.facts", config, limit=limit, has_delta=has_delta)),),
        footer="Every number on this page is in the guardrail's file.",
    )


def headline_of(config: Json) -> Json:
    """Return a guardrail's headline with what was required: what is promised alone is not."""
    asked, about = config["requirement"], {name: config[name] for name in ("requirement", "data")}
    limits = {"min_kept": asked.get("min_kept"), "unit": config["promise"].get("unit")}
    headline = {**config["headline"], **about, **limits, "alpha": config["promise"]["alpha"]}
    # Earlier files do not know how many of those that do not pass were flagged.
    headline["three_way"] = headline.get("three_way") or (config["upper"] and config["promise"])
    required = {"min_coverage": asked.get("min_coverage")} if messages.is_unasked(headline) else {}
    return {**headline, **required}


def reason_or_cost(headline: Json) -> str:
    """Return why a guardrail has its verdict; of one that costs picked, what it costs."""
    said = measures.costs_in_words(headline.get("cost"), why := str(headline["reason"]))
    return said[0] if said and messages.is_unasked(headline) else " ".join((why, *said[:1]))


def export_document(
    content: Json, line: str, doubts: Sequence[str], keys: Sequence[str], report: Json
) -> Document:
    """Return what was frozen, what is doubtful about it, the keys made, and how to use it."""
    shown = "" if messages.is_unasked(report) else tone(report)
    about = {"shown": shown, "fails": would_fail(report), "goals": goals(report)}
    return Document(
        "export of",
        headline=line,
        blocks=[parts.Bullets("", keys)],
        warnings=[parts.Bullet(doubt) for doubt in doubts],
        next_step=say("command.check_with", content, about),
    )


def verify_document(content: Json) -> Document:
    """Return what is known of each file, those that are refused last, and how many are verified.

    Parameters
    ----------
    content : mapping
        What ``calibrail guardrail verify --json`` prints.
    """
    files = content.get("files") or [content]
    kept = [item for item in files if "refused" not in item]
    refused = [say("guardrail.refused", item) for item in files if "refused" in item]
    several = say("guardrail.verified", kept=kept, files=files) if files[1:] else ""
    said = [parts.Bullets(first, more) for first, *more in map(_lines, kept)]
    return Document(
        "verification of",
        headline=several,
        blocks=[*said, parts.Bullets("Refused", refused, "bad")],
    )


def _lines(content: Json) -> list[str]:
    """Return what is said of one file, a line each."""
    probes = content["probes"]
    # Of members, and of a guardrail of sentences, there are more scores than answers.
    answers = not probes.get("members") and probes.get("n") == 16
    code = f"guardrail.{probes['state']}"
    compared = remarks(code if is_known(code) else "guardrail.probes", probes, of_answers=answers)
    before, after = ("unchanged", "signature", "detector"), say("guardrail.verdict", content)
    return [*(say(f"guardrail.{name}", content) for name in before), *compared, after]


#: In which colour a decision is shown; all others as rejected.
_TONES: Final[Mapping[str, parts.Verdict]] = {"pass": "certified", "review": "inconclusive"}

#: Verdicts on a part of the answer that are no objection to it.
_NO_OBJECTION: Final = ("supported", "faithful")

#: Levels of evidence within evidence that are shown.
_DEEPEST: Final = 3


def document(
    decision: Json, score: str, most: int = 10_000, characters: int = 1_000_000
) -> Document:
    """Return a decision: outcome, reason, p-value in words, and the evidence item by item.

    Parameters
    ----------
    decision : mapping
        ``Decision.to_dict(evidence=True)``.
    score : str
        The detector's name.
    most, characters : int
        Items of the evidence, and characters of each text, to keep.
    """
    known, trims = decision["p_value"] is not None, decision.get("removed") is not None
    cases = {"guardrail.rare": known and not trims, "guardrail.rare_sentence": known}
    # A column's name stays as it is, at the beginning of a sentence, too.
    reason = decision["reason"] if decision.get("column") else capital(decision["reason"])
    told = decision.get("probability")
    likely = f" {say('guardrail.probability', told)}" if told else ""
    evidence = evidence_block(decision["evidence"], most=most, characters=characters)
    nothing = "" if evidence else "The detector says nothing about parts of the answer."
    left = _trimming(decision, most, characters) if trims else ()
    return Document(
        "decision of",
        subject=score,
        headline=decision["outcome"].capitalize(),
        verdict=_TONES.get(decision["outcome"], "rejected"),
        summary=f"{reason}.{likely}",
        blocks=(Text(say_first(cases, decision)), *left, evidence, Text(nothing)),
        next_step=say("guardrail.next", decision, trims=trims),
    )


def _trimming(decision: Json, most: int, characters: int) -> Iterator[parts.Block]:
    """Yield what may be shown of an answer, and the sentences that may not."""
    text, for_review = decision["text"], decision["outcome"] == "review"
    if text:
        left = parts.SentenceText([(clean(text), False)], verdict="may be shown", style="good")
        yield parts.Struck("What is left", [left])
    else:
        yield Text(say_first({"guardrail.not_shown": text is None, "guardrail.nothing_left": True}))
    items = [
        EvidenceItem(
            "removed",
            "bad",
            texts=[short(item["text"], characters)] if item.get("text") else (),
            remark=short(item["reason"], 400),
            place=f"characters {item['start']} to {item['end']}",
        )
        for item in decision["removed"][:most]
    ]
    if items:
        heading = "Sentences that would be removed" if for_review else "Removed sentences"
        yield EvidenceBlock(heading, items, more=max(0, len(decision["removed"]) - most))


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
        short(word("guardrail.evidence", kind, kind), 60),
        [_item(item, characters, deeper(item.get("evidence"))) for item in items[:most]],
        more=max(0, len(items) - most),
    )


def _item(item: Json, characters: int, nested: EvidenceBlock | None) -> EvidenceItem:
    def text(key: str, most: int = characters) -> str:
        value = item.get(key)
        return short(value, most) if isinstance(value, str) else ""

    measures = [
        f"{called} {number(amount)}"
        for name, called in facts("guardrail.measures")
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
    style: parts.Style = "warning" if verdict == "unsupported" else "bad"
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
        verdict, support = item.get("verdict"), _finite(item.get("support"))
        # In numbers of its own kind: a score is turned around.
        if "support" not in item and (score := _finite(item.get("value"))) is not None:
            support = -score
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


def _finite(value: object) -> float | None:
    """Return a number that can be shown, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else math.inf


def _place(value: object) -> int | None:
    """Return a position in a text, or None for what is none."""
    return value if type(value) is int and value >= 0 else None


def skipped(reason: str) -> str:
    """Return why lines of a log take no part, in words."""
    return word("log.skipped", reason, plain(reason.replace("_", " ")))


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
    rows = [
        (item["name"], f"{item['n_decisions']:,}", item["ends"] or "-", item["hash"] or "-")
        for item in chains
    ]
    title = "Chains: note the last hash elsewhere, and a cut-off end is also found"
    heads = "Chain", ">Decisions", "Until", "Last hash"
    return Document(
        "decision log",
        headline=word("log.headlines", verdict),
        summary=say(f"log.{verdict.replace(' ', '_')}", check),
        blocks=(
            Facts(facts("log.facts", check, begins=begins, ends=ends)),
            _findings("What is wrong", check["problems"], check["n_problems"]),
            _findings("Missing at the beginning", check["missing"], len(check["missing"])),
            _findings("To be known", check["notes"], check["n_notes"]),
            Text(say("log.not_closed", n=n_open, total=len(chains)) if n_open else ""),
            parts.table(title, heads, rows, where="page"),
        ),
        next_step=say_first(
            {
                "log.verify_with_archive": verdict == "beginning missing",
                "log.compare_with_copy": verdict == "broken",
            }
        ),
    )


def _findings(heading: str, findings: list[Json], n: int) -> parts.Bullets:
    more = [f"and {n - len(findings):,} more"] if findings and n > len(findings) else []
    return parts.Bullets(heading, [*map(sentence, findings), *more])


def sentence(finding: Json, *, of_watch: bool = False) -> str:
    """Return one finding in words: its place, and what it is.

    Parameters
    ----------
    finding : mapping
        Its ``code``, ``values``, ``file`` and ``line``.
    of_watch : bool
        Whether a watch found it, which has some codes of its own.
    """
    code = f"log.read_{finding['code']}"
    own = of_watch and is_known(code)
    values = {
        name: number(value) if isinstance(value, float) else plain(value)
        for name, value in finding["values"].items()
        if not isinstance(value, int)
    }
    text = say(code if own else f"log.{finding['code']}", finding["values"], values)
    line = "" if finding["line"] is None else f"line {finding['line']:,}"
    place = ", ".join(filter(None, (plain(finding["file"]), line)))
    return f"{place}: {text}" if place else capital(text) if own else text
