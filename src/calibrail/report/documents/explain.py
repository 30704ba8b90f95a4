"""What does `calibrail explain` say about one decision, and how does its evidence read?"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from calibrail.phrases import number
from calibrail.report.blocks import (
    Block,
    Evidence,
    EvidenceItem,
    Json,
    Stretch,
    Struck,
    Style,
    Text,
)
from calibrail.report.document import Document, Verdict
from calibrail.report.phrases import capital
from calibrail.report.sanitize import clean, short

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
        left = Stretch([(clean(text), False)], verdict="may be shown", style="good")
        yield Struck("What is left", [left])
    elif text is None:
        yield Text("Nothing of it may be shown as it is.")
    else:
        yield Text("Nothing is left of it.")
    if removed:
        heading = "Sentences that would be removed" if for_review else "Removed sentences"
        yield Evidence(heading, [_removed(item) for item in removed])


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
) -> Evidence | None:
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
    return Evidence(
        short(_HEADINGS.get(kind, kind), 60),
        [_item(item, characters, deeper(item.get("evidence"))) for item in items[:most]],
        more=max(0, len(items) - most),
    )


def _item(item: Json, characters: int, nested: Evidence | None) -> EvidenceItem:
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
